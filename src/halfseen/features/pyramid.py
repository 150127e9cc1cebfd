"""The scale pyramid: levels of an image, each a fixed factor smaller than the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32, UInt8
from halfseen.settings import Checked, number

# No image is enlarged to more pixels: features take eighteen bytes for each, and small objects are
# what images of few pixels hold.
ENLARGED = 100_000_000
# Pixels of an image that becomes floats as a whole.
FLOATS = 1 << 21
# Bytes of the floats that rows of others become at once: few enough for the caches.
STRIP_BYTES = 1 << 19
# Pixels that a new one is made of along an axis: a level is never half its source or less.
TAPS = 3
Taps = tuple[NDArray[np.uintp], Float32]


@dataclass(frozen=True)
class PyramidSettings(Checked):
    """Which scales are looked at.

    factor    ratio of one level to the next, above 1 (paper: 1.2)
    largest   scale of the first level, at most 2; above 1 makes small objects reachable (paper: 1)
    """

    about = "a pyramid's "

    factor: float = number(1.2, 1.01, 4)
    largest: float = number(2.0, 0.1, 2)

    def find(self, other: PyramidSettings) -> int | None:
        """Which level of this pyramid is the first of another whose levels are all among these.

        Levels are found by their scales, which must be equal to the last bit; so are their pixels
        then, whichever level was made first.
        """
        level, scale = 0, self.largest
        while scale > other.largest:
            level, scale = level + 1, scale / self.factor
        return level if scale == other.largest and self.factor == other.factor else None

    def left_out(self, size: tuple[int, int]) -> int:
        """How many levels an image of this (height, width) is too large to be enlarged to."""
        return self._first(size)[0]

    def _first(self, size: tuple[int, int]) -> tuple[int, float]:
        """Number and scale of the first level that is looked at."""
        level, scale = 0, self.largest
        while scale > 1 and round(size[0] * scale) * round(size[1] * scale) > ENLARGED:
            level, scale = level + 1, scale / self.factor
        return level, scale

    def sizes(self, size: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """(height, width) of every level, largest first, down to one pixel."""
        _, scale = self._first(size)
        while min(rounded := (round(size[0] * scale), round(size[1] * scale))) >= 1:
            yield rounded
            scale /= self.factor


@dataclass(frozen=True, eq=False)
class Level:
    """One scale: `pixels` (channels, height, width) float32, and its exact scale on each axis."""

    pixels: Float32
    scale_x: float
    scale_y: float


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """A level before it is made: what it is resized from, its (height, width), and its scale."""

    source: UInt8 | Float32
    size: tuple[int, int]
    scale_x: float
    scale_y: float

    def make(self) -> Level:
        return Level(resize(self.source, self.size), self.scale_x, self.scale_y)


def plan_levels(image: UInt8, settings: PyramidSettings) -> Iterator[LevelPlan]:
    """The levels of an image (height, width, channels) uint8, largest first, down to one pixel.

    Each is resized from the image halved as often as it can be, so that it costs what its own size
    costs.
    """
    height, width = image.shape[:2]
    # Of a large image bytes, for the sake of memory.
    source: UInt8 | Float32 = np.ascontiguousarray(image.transpose(2, 0, 1))
    if height * width <= FLOATS:
        source = source.astype(np.float32)
    for rows, cols in settings.sizes((height, width)):
        while 2 * rows <= source.shape[1] and 2 * cols <= source.shape[2]:
            source = resize(source, ((source.shape[1] + 1) // 2, (source.shape[2] + 1) // 2))
        yield LevelPlan(source, (rows, cols), cols / width, rows / height)


def resize(planar: UInt8 | Float32, size: tuple[int, int]) -> Float32:
    """(channels, height, width) uint8 or float32 to another (height, width), float32.

    Each axis that shrinks is averaged over the area that a new pixel covers; each that grows is
    interpolated linearly. Anything cheaper aliases, and gradients see it.
    """
    from halfseen.features.kernels import resample

    if planar.shape[1:] == size:
        return planar.astype(np.float32, copy=False)
    down, across = _taps(planar.shape[1], size[0]), _taps(planar.shape[2], size[1])
    if planar.shape[0] != 3 or not len(down[1]) == len(across[1]) == TAPS:
        return _resize_any(planar, down, across)
    out = np.empty((3, *size), np.float32)
    if planar.dtype == np.float32:
        resample(planar.astype(np.float32, copy=False), (0, 0, size[0]), *down, *across, out)
        return out
    # Bytes become floats some rows at a time.
    some = max(STRIP_BYTES * size[0] // (12 * planar.shape[1] * planar.shape[2]), 1)
    for top in range(0, size[0], some):
        bottom = min(top + some, size[0])
        first, last = int(down[0][top]), int(down[0][bottom - 1]) + TAPS
        strip = planar[:, first:last].astype(np.float32)
        resample(strip, (first, top, bottom), *down, *across, out)
    return out


def _resize_any(planar: UInt8 | Float32, down: Taps, across: Taps) -> Float32:
    """`resize` for any number of channels and taps: for parts of images, and very small ones."""
    start, weight = down
    rows = sum(
        weight[i][:, None] * planar[:, start + np.uintp(i)].astype(np.float32)
        for i in range(len(weight))
    )
    start, weight = across
    columns = sum(
        weight[j] * np.asarray(rows)[:, :, start + np.uintp(j)] for j in range(len(weight))
    )
    return np.ascontiguousarray(columns, np.float32)


@lru_cache(maxsize=256)
def _taps(old: int, new: int) -> Taps:
    """For each new pixel the first old one and the weights (taps, new) of it and its followers.

    There are at least TAPS, some of weight 0, where there are as many pixels.
    """
    taps = min(max(int(np.ceil(old / new)) + 1, TAPS), old)
    if new >= old:
        centre = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        start = np.minimum(np.floor(centre).astype(np.int64), old - taps)
        pixel = start[:, None] + np.arange(taps)
        weights = np.maximum(1 - np.abs(centre[:, None] - pixel), 0)
    else:
        edges = np.arange(new + 1) * (old / new)
        low, high = edges[:-1, None], edges[1:, None]
        start = np.minimum(np.floor(edges[:-1]).astype(np.int64), old - taps)
        pixel = start[:, None] + np.arange(taps)
        weights = np.clip(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0, 1)
        weights /= weights.sum(1, keepdims=True)
    return start.astype(np.uintp), np.ascontiguousarray(weights.T, dtype=np.float32)
