"""Where windows lie: their places, their blocks within the level and beyond it, their features.

A template of (rows, cols) stands at place (y, x) of a level of H x W blocks when its first block
is `(y - (rows + 1) // 2, x - (cols + 1) // 2)`. Places run over 0..H and 0..W: every window that
has at least half of itself inside on each axis, and the same places for every template, so that the
best of several templates at a place (Eqn 4) is a maximum over equal maps.
"""

from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from halfseen.arrays import Bool, Float32, Int64
from halfseen.features.descriptor import Descriptor
from halfseen.geometry import Boxes

Index = TypeVar("Index", int, Int64)


def first_block(place: Index, blocks: int) -> Index:
    """The first block, along one axis, of a window of so many blocks at a place."""
    return place - (blocks + 1) // 2


def place_of(first: Index, blocks: int) -> Index:
    """The place, along one axis, of a window of so many blocks: see `first_block`."""
    return first + (blocks + 1) // 2


_first_block: Any = njit(nogil=True, inline="always")(first_block)


def find_outside(ys: Int64, xs: Int64, sizes: Int64, rows: int, cols: int) -> Bool:
    """(N, rows, cols): which blocks of windows lie outside their levels of (N, 2) block sizes."""
    y = first_block(ys, rows)[:, None] + np.arange(rows)
    x = first_block(xs, cols)[:, None] + np.arange(cols)
    below = (y < 0) | (y >= sizes[:, :1])
    beside = (x < 0) | (x >= sizes[:, 1:])
    return np.asarray(below[:, :, None] | beside[:, None, :])


@njit(cache=True, nogil=True)
def gather_features(
    features: Float32, rows: int, cols: int, ys: Int64, xs: Int64,
    top: int, left: int, height: int, width: int,
) -> tuple[Float32, Bool]:  # fmt: skip
    """Features (N, rows, cols, q) of the windows at these places, 0 outside, and which are outside.

    `features` may be a part of a level of height x width blocks that starts at block (top, left),
    as long as it holds all that the windows have of the level.
    """
    channels = features.shape[2]
    blocks = np.zeros((len(ys), rows, cols, channels), np.float32)
    outside = np.ones((len(ys), rows, cols), np.bool_)
    for n in range(len(ys)):
        for i in range(rows):
            row = _first_block(ys[n], rows) + i
            if row < 0 or row >= height:
                continue
            for j in range(cols):
                col = _first_block(xs[n], cols) + j
                if 0 <= col < width:
                    blocks[n, i, j] = features[row - top, col - left]
                    outside[n, i, j] = False
    return blocks, outside


def place_boxes(
    y: Int64,
    x: Int64,
    shape: tuple[int, int],
    blocks: ArrayLike,
    descriptor: Descriptor,
    scale: ArrayLike,
) -> Boxes:
    """Pixels (..., N, 4) of boxes given in blocks from the corner of N windows.

    y, x    (N,) the places of the windows (see `windows.py`)
    shape   (rows, cols) of the template
    blocks  (4,) or (..., N, 4)
    scale   (x, y) of the level, or (N, 2) of each window's
    """
    top, left = first_block(y, shape[0])[:, None], first_block(x, shape[1])[:, None]
    corner = np.concatenate([left, top, left, top], axis=1)
    pixels = descriptor.offset + descriptor.cell * (corner + np.asarray(blocks, np.float64))
    return np.asarray(pixels / np.concatenate([scale, scale], axis=-1))
