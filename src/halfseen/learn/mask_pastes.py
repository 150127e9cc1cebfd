"""Occluders with a known outline, pasted over a window of a whole object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.features.pyramid import resize
from halfseen.learn.mask_neighbours import Neighbours

Floats = NDArray[np.float32]
SHAPES = ("rectangle", "blob", "bars")
# How far an occluder reaches beyond the window, in its sides.
REACH = 0.15
# The least and the greatest share of the window that is covered.
SHARES = 0.1, 0.7
# How many of the occluders are objects.
OBJECTS = 0.5


@dataclass(frozen=True, eq=False)
class Occluders:
    """What is pasted: real texture in drawn outlines, and objects where neighbours stand.

    images      that textures are cut from
    neighbours  None if the class has none
    """

    images: tuple[NDArray[np.uint8], ...]
    neighbours: Neighbours | None = None

    @classmethod
    def draw(cls, dataset: Dataset, label: str, count: int, seed: int) -> Occluders:
        """Random images of a dataset, and the neighbours of a class in it."""
        chosen = np.random.default_rng([seed, 1]).permutation(len(dataset))[:count]
        neighbours = Neighbours.draw(dataset, label, SHARES, np.random.default_rng([seed, 2]))
        return cls(
            tuple(dataset.image(int(i)) for i in chosen), neighbours if len(neighbours) else None
        )

    def patch(self, shape: tuple[int, int], scale: float, rng: np.random.Generator) -> Floats:
        """(3, height, width) of a place in some image, seen at this scale.

        An image too small is continued by its mirror image.
        """
        image = self.images[int(rng.integers(len(self.images)))]
        size = np.array(image.shape[:2])
        length = np.maximum(np.rint(np.array(shape) / scale).astype(int), 2)
        start = rng.integers(np.maximum(size - length, 0) + 1)
        return resize(cut_out(image, start, start + length, "symmetric"), shape)


def cut_out(
    image: NDArray[np.uint8], low: NDArray[np.int64], high: NDArray[np.int64],
    mode: Literal["edge", "symmetric"],
) -> NDArray[np.uint8]:  # fmt: skip
    """(3, height, width): the pixels from low (y, x) to high, continued beyond the image."""
    for axis in (0, 1):
        size = image.shape[axis]
        place = np.arange(low[axis], high[axis])
        if place[0] >= 0 and place[-1] < size:
            inside = slice(low[axis], high[axis])
            image = image[inside] if axis == 0 else image[:, inside]
            continue
        if mode == "symmetric":
            place %= 2 * size
            place = np.minimum(place, 2 * size - 1 - place)
        image = image.take(np.clip(place, 0, size - 1), axis)
    return np.ascontiguousarray(image.transpose(2, 0, 1))


def paste(
    pixels: Floats,
    window: tuple[float, float, float, float],
    scale: float,
    occluders: Occluders,
    rng: np.random.Generator,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Pixels (3, height, width) of a level with an occluder, and the mask of what it covers.

    window   x1, y1, x2, y2 in these pixels, of which about a share within `SHARES` is covered
    scale    of the level, so that textures appear at the size of their surroundings
    """
    _, height, width = pixels.shape
    if occluders.neighbours is not None and rng.random() < OBJECTS:
        picture, covered = occluders.neighbours.cover(window, (height, width), rng)
        return np.where(covered, picture, pixels), covered
    x1, y1, x2, y2 = window
    y = (np.arange(height, dtype=np.float32) + 0.5 - y1) / (y2 - y1)
    x = (np.arange(width, dtype=np.float32) + 0.5 - x1) / (x2 - x1)
    field = _field(y[:, None], x[None, :], rng)
    level = np.quantile(field[np.ix_(_within(y, 0), _within(x, 0))], rng.uniform(*SHARES))
    covered = (field < level) & _within(y, REACH)[:, None] & _within(x, REACH)
    texture = occluders.patch((height, width), scale, rng)
    return np.where(covered, texture, pixels), covered


def _within(place: Floats, beyond: float) -> NDArray[np.bool_]:
    return (place >= -beyond) & (place < 1 + beyond)


def _field(y: Floats, x: Floats, rng: np.random.Generator) -> Floats:
    """A function of place whose level sets have the shape; the window is the unit square."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    if shape == "rectangle":
        centre_y, centre_x = rng.random(2)
        aspect = np.exp(rng.uniform(-0.7, 0.7))
        return np.maximum(np.abs(x - centre_x) * aspect, np.abs(y - centre_y) / aspect)
    if shape == "blob":
        centres, radii = rng.random((4, 2)), rng.uniform(0.5, 1.0, 4)
        parts = [np.hypot(x - c[0], y - c[1]) / r for c, r in zip(centres, radii, strict=True)]
        return np.minimum.reduce(parts)
    angle, period, phase = rng.normal(0, 0.3), rng.uniform(0.5, 1.2), rng.random()
    if rng.random() < 0.3:
        x, y = y, x
    along = (x * np.cos(angle) + y * np.sin(angle)) / period + phase
    return np.abs(along - np.floor(along) - 0.5)
