"""Occluders with a known outline: real texture pasted over a window of a whole object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.features.pyramid import resize

Floats = NDArray[np.float32]
SHAPES = ("rectangle", "blob", "bars")
# How far an occluder reaches beyond the window, in its sides.
REACH = 0.15
# The least and the greatest share of the window that is covered.
SHARES = 0.1, 0.7


@dataclass(frozen=True, eq=False)
class Textures:
    """The images that occluders are cut from."""

    images: tuple[NDArray[np.uint8], ...]

    @classmethod
    def draw(cls, dataset: Dataset, count: int, rng: np.random.Generator) -> Textures:
        """Random images of a dataset."""
        chosen = rng.permutation(len(dataset))[:count]
        return cls(tuple(dataset.image(int(i)) for i in chosen))

    def patch(self, shape: tuple[int, int], scale: float, rng: np.random.Generator) -> Floats:
        """(3, height, width) of a place in some image, seen at this scale.

        An image too small is continued by its mirror image.
        """
        image = self.images[int(rng.integers(len(self.images)))]
        indices = []
        for size, wanted in zip(image.shape[:2], shape, strict=True):
            length = max(round(wanted / scale), 2)
            place = rng.integers(max(size - length, 0) + 1) + np.arange(length)
            place %= 2 * size
            indices.append(np.where(place < size, place, 2 * size - 1 - place))
        part = image[np.ix_(*indices)].transpose(2, 0, 1)
        return resize(np.ascontiguousarray(part), shape)


def paste(
    pixels: Floats,
    window: tuple[float, float, float, float],
    scale: float,
    textures: Textures,
    rng: np.random.Generator,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Pixels (3, height, width) of a level with an occluder, and the mask of what it covers.

    window   x1, y1, x2, y2 in these pixels, of which a share within `SHARES` is covered
    scale    of the level, so that textures appear at the size of their surroundings
    """
    _, height, width = pixels.shape
    x1, y1, x2, y2 = window
    y = (np.arange(height, dtype=np.float32) + 0.5 - y1) / (y2 - y1)
    x = (np.arange(width, dtype=np.float32) + 0.5 - x1) / (x2 - x1)
    field = _field(y[:, None], x[None, :], rng)
    level = np.quantile(field[np.ix_(_within(y, 0), _within(x, 0))], rng.uniform(*SHARES))
    covered = (field < level) & _within(y, REACH)[:, None] & _within(x, REACH)
    texture = textures.patch((height, width), scale, rng)
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
