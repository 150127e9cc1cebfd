"""What several test modules build: detections and truths, patterns on grey, tiny training, files.

The pattern is one object on grey: whole, covered or cut. Training on tiny scenes takes a second.
"""

import json
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

import halfseen as hs
from halfseen.data.dataset import Dataset
from halfseen.data.scenes import render_scenes
from halfseen.detections import Detections, GroundTruth
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.learn.settings import TrainSettings
from halfseen.model.mask_head import MaskHead
from halfseen.model.mixture import Component, Method, Mixture

Header = dict[str, Any]
Tensors = dict[str, np.ndarray]

HEIGHT, WIDTH = 96, 144
ROWS, COLUMNS, CELL = 4, 6, 8


def pattern() -> np.ndarray:
    """An object of 48 x 32 pixels that no noise looks like."""
    coarse = np.random.default_rng(5).integers(0, 2, (8, 12)) * 200 + 25
    return np.repeat(np.kron(coarse, np.ones((4, 4)))[:, :, None], 3, axis=2).astype(np.uint8)


def make_model(method: Method = "VIS", label: str = "pattern", u_t: float = 0.0) -> Mixture:
    """A template of the pattern: the pattern itself scores about 1, and grey -1."""
    descriptor = Fhog(CELL)
    framed = np.pad(pattern(), ((CELL, CELL), (CELL, CELL), (0, 0)), constant_values=128)
    planes = np.ascontiguousarray(framed.transpose(2, 0, 1), dtype=np.float32)
    template = descriptor(planes)[1:-1, 1:-1]
    template = template - template.mean((0, 1))
    weights = (2 * template / (template**2).sum()).astype(np.float32)
    component = Component(weights, -1.0, -0.01, u_t, np.array([0.0, 0.0, COLUMNS, ROWS]))
    pyramid = PyramidSettings(1.2, 1.0)
    return Mixture(label, method, (component,), False, 0.01, descriptor, pyramid)


def make_image(name: str, places: list[tuple[int, int]], covered: bool = False) -> GroundTruth:
    """The pattern at each (x, y); `covered` hides the right half of the last with a flat patch."""
    pixels = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    owner = np.zeros((HEIGHT, WIDTH), int)
    for n, (x, y) in enumerate(places, start=1):
        high, wide = min(32, HEIGHT - y), min(48, WIDTH - x)
        pixels[y : y + high, x : x + wide] = pattern()[:high, :wide]
        owner[y : y + high, x : x + wide] = n
    occluded = [covered and n == len(places) for n in range(1, len(places) + 1)]
    if covered:
        x, y = places[-1]
        pixels[y : y + 32, x + 24 : x + 48] = 60
        owner[y : y + 32, x + 24 : x + 48] = 0
    boxes = [(x, y, min(x + 48, WIDTH), min(y + 32, HEIGHT)) for x, y in places]
    cut = [x + 48 > WIDTH or y + 32 > HEIGHT for x, y in places]
    return GroundTruth.make(
        name, pixels, (HEIGHT, WIDTH), ["pattern"] * len(places), boxes,
        truncated=cut, occluded=occluded, full=[(x, y, x + 48, y + 32) for x, y in places],
        visible_fraction=[0.5 if hidden else 1.0 for hidden in occluded],
        read_mask=lambda i: owner == i + 1,
    )  # fmt: skip


def make_noise(name: str, seed: int) -> GroundTruth:
    """An image with a disc, which is not the pattern, on noise."""
    pixels = np.random.default_rng(seed).integers(0, 255, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    return GroundTruth.make(name, pixels, (HEIGHT, WIDTH), ["disc"], [(10, 10, 50, 50)])


def make_dataset() -> Dataset:
    """Eight images: four whole patterns, a covered, a cut and two close ones; two of noise."""
    truths = (
        make_image("whole-1", [(16, 16)]),
        make_image("whole-2", [(64, 40)]),
        make_image("covered", [(40, 24)], covered=True),
        make_image("cut", [(108, 32)]),
        make_image("close", [(16, 32), (32, 40)]),
        make_image("two", [(8, 8), (80, 56)]),
        make_noise("noise-1", 1),
        make_noise("noise-2", 2),
    )
    return Dataset("patterns", ("disc", "pattern"), truths)


def make_found(
    boxes: ArrayLike,
    scores: ArrayLike | None = None,
    label: str | ArrayLike = "car",
    *,
    size: tuple[int, int],
    visible: ArrayLike | None = None,
    window: ArrayLike | None = None,
    flags: Sequence[NDArray[np.bool_]] | None = None,
) -> Detections:
    """Detections with these full boxes in an image of (height, width).

    Without more, scores fall by one from the first to the last, the window and the visible box are
    the full box, and all of 2 x 2 blocks are visible.
    """
    full = as_boxes(boxes)
    count = len(full)
    return Detections(
        score=np.arange(count, 0.0, -1) if scores is None else np.array(scores, float),
        label=np.broadcast_to(np.asarray(label), count).astype(np.str_),
        component=np.zeros(count, np.int64),
        mirrored=np.zeros(count, bool),
        window=full if window is None else as_boxes(window),
        full=full,
        visible=full if visible is None else as_boxes(visible),
        blocks=(np.ones((2, 2), bool),) * count if flags is None else tuple(flags),
        size=size,
    )


def as_boxes(boxes: ArrayLike) -> NDArray[np.float64]:
    """(N, 4) float64, also of an empty list."""
    return np.array(boxes, float).reshape(-1, 4)


def make_truth(
    boxes: Sequence[Sequence[float]] | NDArray[np.float64],
    image: str = "a",
    label: str | Sequence[str] = "car",
    *,
    size: tuple[int, int],
    **flags: Any,
) -> GroundTruth:
    """The true boxes of an image that nobody reads."""
    labels = [label] * len(boxes) if isinstance(label, str) else label
    return GroundTruth.make(image, "", size, labels, boxes, **flags)


def make_detections(boxes: list[tuple[float, ...]], scores: list[float]) -> Detections:
    """Wholly visible detections of the pattern in an image of patterns."""
    flags = (np.ones((ROWS, COLUMNS), bool),) * len(boxes)
    return make_found(boxes, scores, "pattern", size=(HEIGHT, WIDTH), flags=flags)


def random_detections(rng: np.random.Generator, count: int) -> Detections:
    """Cars and buses of 120 x 160 pixels' image, with equal scores among them."""
    corner = rng.uniform(-20, 100, (count, 2))
    boxes = np.hstack([corner, corner + rng.uniform(10, 60, (count, 2))])
    scores, labels = rng.integers(0, 8, count) / 4, rng.choice(["car", "bus"], count)
    return make_found(boxes, scores, labels, size=(120, 160))


def greedy_by_loop(found: Detections, overlap: float) -> list[int]:
    """Felzenszwalb's rule, pair by pair."""
    boxes = found.clipped
    order = sorted(range(len(found)), key=lambda i: (-found.score[i], *boxes[i]))
    kept: list[int] = []
    for i in order:
        x1, y1, x2, y2 = boxes[i]
        own = max((x2 - x1) * (y2 - y1), 1e-300)
        worst = 0.0
        for k in kept:
            if found.label[k] == found.label[i]:
                wide = min(x2, boxes[k, 2]) - max(x1, boxes[k, 0])
                high = min(y2, boxes[k, 3]) - max(y1, boxes[k, 1])
                worst = max(worst, max(wide, 0) * max(high, 0) / own)
        if worst <= overlap:
            kept.append(i)
    return kept


@cache
def tiny_scenes() -> Dataset:
    """Small scenes with cars."""
    return render_scenes(14, seed=5, classes=["car"], size=(160, 214))


def tiny_settings(**changes: Any) -> TrainSettings:
    """Few blocks, few windows, every stage."""
    values: dict[str, Any] = {
        "blocks": 24, "updates": 2, "rounds": 2, "mining_images": 6, "stop": 0, "per_image": 30,
        "iterations": 8, "store_bytes": 4 << 20, "doubling": 0.0,
    }  # fmt: skip
    return TrainSettings(**(values | changes))


def boxed(boxes: Sequence[Sequence[float]], label: str = "car", **flags: Any) -> GroundTruth:
    """One image of noise of 120 x 90 pixels with these boxes."""
    pixels = np.random.default_rng(0).integers(0, 255, (90, 120, 3)).astype(np.uint8)
    return GroundTruth.make("noise", pixels, (90, 120), [label] * len(boxes), boxes, **flags)


def dataset(*truths: GroundTruth, classes: tuple[str, ...] = ("car",)) -> Dataset:
    return Dataset("noise", classes, truths)


def png_header(width: int, height: int, content: bytes, *, whole: bool = True) -> bytes:
    """A PNG file that announces width x height pixels over other content; `whole`: with its end."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(content)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts[: 3 if whole else 2])


def rewrite(path: Path, change: Callable[[Header, Tensors], Any]) -> None:
    """Change the header or the tensors of a model file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["halfseen"])
    tensors = decode(content)
    change(header, tensors)
    path.write_bytes(encode(tensors, {"halfseen": json.dumps(header)}))


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; fail after two minutes."""
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited two minutes in vain")


SHIPPED = Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors"


@cache
def headless() -> Mixture:
    """The shipped model of cars in scenes, without its mask head."""
    return replace(hs.load(SHIPPED), head=None)


def random_head(model: Mixture, seed: int = 0) -> Mixture:
    """The model with a mask head of random numbers."""
    rng = np.random.default_rng(seed)
    weights, bias, figure = [], [], []
    for component in model.components:
        rows, cols, channels = component.weights.shape
        weights.append(rng.normal(size=(rows, cols, 3, 3, channels)).astype(np.float16))
        bias.append(rng.normal(size=(rows, cols)).astype(np.float32))
        figure.append(rng.uniform(0.1, 0.9, size=(rows, cols)).astype(np.float32))
    looks = [rng.normal(size=c.weights.shape[2] + 1).astype(np.float32) for c in model.components]
    head = MaskHead(tuple(weights), tuple(bias), 0.5, figure=tuple(figure), looks=tuple(looks))
    return replace(model, head=head)


def mirrored_pairs(model: Mixture) -> Iterator[tuple[Detections, Detections]]:
    """Detections of a picture, and the same ones in its mirror image.

    Every level is a whole number of cells wide, so that a mirrored window is a window.
    """
    detector = hs.Detector(replace(model, pyramid=PyramidSettings(2.0, 2.0)))
    image = render_scenes(1, seed=5, classes=["car"], size=(384, 512)).image(0)
    here, there = detector.detect(image, -2), detector.detect(image[:, ::-1].copy(), -2)
    for i in range(len(here)):
        box = here.window[i][[2, 1, 0, 3]] * [-1, 1, -1, 1] + [512, 0, 512, 0]
        for j in np.flatnonzero(np.abs(there.window - box).max(1) < 1e-6):
            if there.mirrored[j] != here.mirrored[i] and there.component[j] == here.component[i]:
                yield here[i], there[int(j)]
