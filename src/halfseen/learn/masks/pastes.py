"""Occluders with a known outline, pasted over a window of a whole object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfseen.arrays import Bool, Float32, UInt8
from halfseen.data.dataset import Dataset
from halfseen.data.occluders import REACH, cut_out, draw_shape
from halfseen.features.pyramid import resize
from halfseen.learn.masks.neighbours import Neighbours
from halfseen.learn.settings import MaskSettings


@dataclass(frozen=True, eq=False)
class Occluders:
    """What is pasted: real texture in drawn outlines, and objects where neighbours stand.

    images      that textures are cut from
    neighbours  None if the class has none
    """

    images: tuple[UInt8, ...]
    settings: MaskSettings
    neighbours: Neighbours | None = None

    @classmethod
    def draw(cls, dataset: Dataset, label: str, settings: MaskSettings, seed: int) -> Occluders:
        """Random images of a dataset, and the neighbours of a class in it."""
        order = np.random.default_rng([seed, 1]).permutation(len(dataset))
        images = tuple(dataset.image(int(i)) for i in order[: settings.textures])
        neighbours = Neighbours.draw(dataset, label, settings, np.random.default_rng([seed, 2]))
        return cls(images, settings, neighbours if len(neighbours) else None)

    def patch(self, shape: tuple[int, int], scale: float, rng: np.random.Generator) -> Float32:
        """(3, height, width) of a random place in a random image, resized by this scale.

        An image too small is continued by its mirror image.
        """
        image = self.images[int(rng.integers(len(self.images)))]
        size = np.array(image.shape[:2])
        length = np.maximum(np.rint(np.array(shape) / scale).astype(int), 2)
        start = rng.integers(np.maximum(size - length, 0) + 1)
        return resize(as_planes(cut_out(image, start, start + length, "symmetric")), shape)


def as_planes(pixels: UInt8) -> UInt8:
    """(3, height, width) of pixels (height, width, 3), contiguous, as resizing takes them."""
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def paste(
    pixels: Float32,
    window: tuple[float, float, float, float],
    scale: float,
    occluders: Occluders,
    rng: np.random.Generator,
) -> tuple[Float32, Bool]:
    """Pixels (3, height, width) of a level with an occluder, and the mask of what it covers.

    window   x1, y1, x2, y2 in these pixels; a share of it within the settings' is covered
    scale    of the level, so that textures appear at the size of their surroundings
    """
    _, height, width = pixels.shape
    if occluders.neighbours is not None and rng.random() < occluders.settings.neighbours:
        picture, covered = occluders.neighbours.cover(window, (height, width), rng)
        return np.where(covered, picture, pixels), covered
    x1, y1, x2, y2 = window
    y = (np.arange(height, dtype=np.float32) + 0.5 - y1) / (y2 - y1)
    x = (np.arange(width, dtype=np.float32) + 0.5 - x1) / (x2 - x1)
    field = draw_shape(y[:, None], x[None, :], rng, rows_first=True)
    inner = field[np.ix_(_within(y, 0), _within(x, 0))]
    level = np.quantile(inner, rng.uniform(*occluders.settings.shares))
    covered = (field < level) & _within(y, REACH)[:, None] & _within(x, REACH)
    texture = occluders.patch((height, width), scale, rng)
    return np.where(covered, texture, pixels), covered


def _within(place: Float32, beyond: float) -> Bool:
    return (place >= -beyond) & (place < 1 + beyond)
