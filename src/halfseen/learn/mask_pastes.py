"""Occluders with a known outline: real texture pasted over a window of a whole object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.features.pyramid import resize

Floats = NDArray[np.float32]
SHAPES = ("rectangle", "half plane", "blob", "disc", "bars")


@dataclass(frozen=True, eq=False)
class Textures:
    """Where occluders are cut from: images, each with the boxes of what is in it."""

    images: tuple[NDArray[np.uint8], ...]
    boxes: tuple[NDArray[np.float64], ...]

    @classmethod
    def draw(cls, dataset: Dataset, count: int, rng: np.random.Generator) -> Textures:
        """Random images of a dataset."""
        chosen = rng.permutation(len(dataset))[:count]
        return cls(
            tuple(dataset.image(int(i)) for i in chosen),
            tuple(np.asarray(dataset[int(i)].box) for i in chosen),
        )

    def patch(self, shape: tuple[int, int], scale: float, rng: np.random.Generator) -> Floats:
        """(3, height, width) of a place in some image, seen at about this scale.

        Half of the places are centred on an object: what hides a thing is mostly another thing.
        """
        k = int(rng.integers(len(self.images)))
        image, boxes = self.images[k], self.boxes[k]
        scale = float(np.clip(scale * np.exp(rng.uniform(-0.5, 0.7)), 0.15, 2.0))
        indices = []
        centre = rng.random(2) * image.shape[:2]
        if len(boxes) and rng.random() < 0.5:
            x1, y1, x2, y2 = boxes[int(rng.integers(len(boxes)))]
            centre = np.array([rng.uniform(y1, y2), rng.uniform(x1, x2)])
        for middle, size, wanted in zip(centre, image.shape[:2], shape, strict=True):
            length = max(round(wanted / scale), 2)
            start = int(np.clip(middle - length / 2, 0, max(size - length, 0)))
            place = np.arange(start, start + length) % (2 * size)
            indices.append(np.where(place < size, place, 2 * size - 1 - place))
        part = image[np.ix_(*indices)]
        if rng.random() < 0.5:
            part = part[:, ::-1]
        return resize(np.ascontiguousarray(part.transpose(2, 0, 1)), shape)


def paste(
    pixels: Floats,
    window: tuple[float, float, float, float],
    scale: float,
    textures: Textures,
    rng: np.random.Generator,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Pixels (3, height, width) of a level with an occluder, and the mask of what it covers.

    window   x1, y1, x2, y2 in these pixels; 5 to 85% of it are covered
    scale    of the level, so that textures appear at the size of their surroundings

    The seam must teach nothing: its width is random, and half of the textures take on the mean
    colour of what they cover.
    """
    _, height, width = pixels.shape
    x1, y1, x2, y2 = window
    y = (np.arange(height, dtype=np.float32) + 0.5 - y1) / (y2 - y1)
    x = (np.arange(width, dtype=np.float32) + 0.5 - x1) / (x2 - x1)
    field = _field(y[:, None], x[None, :], rng)
    inner = field[(y >= 0) & (y < 1)][:, (x >= 0) & (x < 1)]
    share = rng.uniform(0.05, 0.85)
    level = float(np.partition(inner.ravel(), int(share * inner.size))[int(share * inner.size)])
    covered = field < level
    texture = textures.patch((height, width), scale, rng)
    if rng.random() < 0.5:
        texture += (pixels.mean((1, 2)) - texture.mean((1, 2)))[:, None, None] * rng.random()
    opacity = _soften(covered.astype(np.float32), int(rng.integers(0, 4)))
    pasted = np.clip(opacity * texture + (1 - opacity) * pixels, 0, 255)
    return pasted.astype(np.float32), covered


def _field(y: Floats, x: Floats, rng: np.random.Generator) -> Floats:
    """A function of place whose level sets have the shape; the window is the unit square."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    if shape == "rectangle":
        centre_y, centre_x = rng.uniform(-0.1, 1.1, 2)
        aspect = np.exp(rng.uniform(-1, 1))
        return np.maximum(np.abs(x - centre_x) * aspect, np.abs(y - centre_y) / aspect)
    if shape == "half plane":
        angle = rng.uniform(0, 2 * np.pi)
        return np.asarray(x * np.cos(angle) + y * np.sin(angle))
    if shape == "disc":
        centre_y, centre_x = rng.uniform(-0.2, 1.2, 2)
        return np.hypot(x - centre_x, y - centre_y)
    if shape == "blob":
        centres, radii = rng.uniform(-0.1, 1.1, (3, 2)), rng.uniform(0.5, 1.0, 3)
        parts = [np.hypot(x - c[0], y - c[1]) / r for c, r in zip(centres, radii, strict=True)]
        wave = 0.08 * np.sin(x * rng.uniform(5, 25) + rng.uniform(0, 6))
        return np.minimum.reduce(parts) + wave * np.cos(y * rng.uniform(5, 25))
    angle, period, phase = rng.normal(0, 0.3), rng.uniform(0.4, 1.5), rng.random()
    if rng.random() < 0.3:
        x, y = y, x
    along = (x * np.cos(angle) + y * np.sin(angle)) / period + phase
    return np.abs(along - np.floor(along) - 0.5)


def _soften(mask: Floats, radius: int) -> Floats:
    """The mask averaged over squares of 2 radius + 1 pixels."""
    for axis in (0, 1):
        if radius:
            padded = np.pad(
                mask, [(radius, radius) if a == axis else (0, 0) for a in (0, 1)], "edge"
            )
            total = np.cumsum(padded, axis, dtype=np.float64)
            total = np.concatenate([np.zeros_like(total.take([0], axis)), total], axis)
            size = mask.shape[axis]
            reach = 2 * radius + 1
            low = np.arange(size)
            mask = ((total.take(low + reach, axis) - total.take(low, axis)) / reach).astype(
                np.float32
            )
    return mask
