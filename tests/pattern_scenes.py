"""A small world in which everything is known: one pattern on grey, whole, covered or cut."""

from dataclasses import replace

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.detections import Detections, GroundTruth
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.component import Component
from halfseen.model.mixture import Method, Mixture

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


def make_detections(boxes: list[tuple[float, ...]], scores: list[float]) -> Detections:
    """Wholly visible detections of the pattern in an image of the usual size."""
    found = Detections.empty((HEIGHT, WIDTH))
    array, count = np.array(boxes, float).reshape(-1, 4), len(boxes)
    return replace(
        found, score=np.array(scores), label=np.full(count, "pattern"),
        component=np.zeros(count, int), mirrored=np.zeros(count, bool), window=array, full=array,
        visible=array, visibility=(np.ones((ROWS, COLUMNS), bool),) * count,
    )  # fmt: skip
