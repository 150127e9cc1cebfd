"""A descriptor of your own: colours instead of gradients, registered, modelled and detected with.

Run it:  python examples/own_descriptor.py

Everything a descriptor must offer stands in `halfseen.features.descriptor.Descriptor`. The object
is a traffic light, which gradients hardly tell from a window frame. Its template is made from a
single picture, so no training is needed; then it is found again elsewhere, half behind a post.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import halfseen as hs
from halfseen.features.descriptor import register
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.mixture import Component


@dataclass(frozen=True)
class ColourCells:
    """How much of each cell is near each corner of the colour cube: black, blue, ..., white."""

    cell: int = 8

    @property
    def name(self) -> str:
        return "colour-cells"

    @property
    def channels(self) -> int:
        return 8

    @property
    def offset(self) -> float:
        return 0.0  # block (r, c) describes the cell that starts at pixel (r, c) * cell

    @property
    def mirror(self) -> NDArray[np.intp]:
        return np.arange(self.channels)  # a colour stays what it is in a mirror

    def grid(self, height: int, width: int) -> tuple[int, int]:
        return height // self.cell, width // self.cell

    def __call__(self, level: NDArray[np.float32]) -> NDArray[np.float32]:
        rows, cols = self.grid(*level.shape[1:])
        colour = np.broadcast_to(level, (3, *level.shape[1:])) / 255  # grey levels have one plane
        colour = colour[:, : rows * self.cell, : cols * self.cell]
        corners = [
            np.prod([c if k >> i & 1 else 1 - c for i, c in enumerate(colour)], axis=0)
            for k in range(self.channels)
        ]
        cells = np.stack(corners, axis=-1).reshape(rows, self.cell, cols, self.cell, -1)
        return np.asarray(cells.mean((1, 3), dtype=np.float32))

    def options(self) -> dict[str, Any]:
        return {"cell": self.cell}


# A model file names its descriptor; from here on it can be loaded.
register("colour-cells", ColourCells)


def street(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    """A grey and brown wall of noisy bricks."""
    rng = np.random.default_rng(seed)
    bricks = rng.normal((125, 110, 100), 12, (height // 8 + 1, width // 16 + 1, 3))
    wall = bricks.repeat(8, 0).repeat(16, 1)[:height, :width]
    return np.clip(wall + rng.normal(0, 6, wall.shape), 0, 255).astype(np.uint8)


def draw_light(image: NDArray[np.uint8], x: int, y: int) -> None:
    """A traffic light of 40 x 96 pixels with its corner at (x, y)."""
    image[y : y + 96, x : x + 40] = (25, 25, 30)
    down, right = np.mgrid[:96, :40]
    for k, colour in enumerate([(230, 30, 20), (240, 200, 20), (20, 200, 60)]):
        disc = (down - 16 - 32 * k) ** 2 + (right - 20) ** 2 < 14**2
        image[y : y + 96, x : x + 40][disc] = colour


def make_model(descriptor: ColourCells) -> hs.Mixture:
    """A template from one picture: what the light has more of than the wall around it.

    It is scaled so that a whole light scores 1 and a hidden block costs half of what a visible one
    gains: a light that is half hidden may still score 0.5, and a wall scores about 0.
    """
    image = street(192, 160, seed=0)
    draw_light(image, 56, 48)
    features = descriptor(np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32))
    light = features[6:18, 7:12]
    wall = features[:6].mean((0, 1))
    weights = light - wall
    weights *= 2 / (weights * light).sum()
    u = 1 / weights[..., 0].size
    component = Component(weights, bias=-1.0, u=u, u_t=u, box=np.array([0.0, 0.0, 5.0, 12.0]))
    return hs.Mixture(
        "traffic light", "VIS", (component,), mirrored=False, alpha=0.01,
        descriptor=descriptor, pyramid=PyramidSettings(factor=1.2, largest=1.0),
    )  # fmt: skip


def main() -> hs.Detections:
    """Makes the model, sends it through a file, and finds two lights, one behind a post."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "light.safetensors"
        hs.save(make_model(ColourCells()), path)
        model = hs.load(path)
    image = street(240, 320, seed=1)
    draw_light(image, 40, 60)
    draw_light(image, 200, 90)
    image[:, 220:240] = (150, 140, 120)  # the post
    # Voting is for trained models, whose background scores about -1; here it scores about 0.
    found = hs.Detector(model).detect(image, threshold=0.2, method="greedy")
    for i in range(len(found)):
        x1, y1, x2, y2 = found.full[i].round().astype(int)
        print(f"{found.label[i]}: score {found.score[i]:.2f}, box ({x1}, {y1})-({x2}, {y2})")
        for row in found.visibility[i]:
            print("   ", "".join("#" if seen else "." for seen in row))
    return found


if __name__ == "__main__":
    main()
