"""Compiled loops over the windows of a level: sums of block responses, and some windows' blocks.

A template of (rows, cols) stands at place (y, x) of a level of H x W blocks when its first block
is `(y - (rows + 1) // 2, x - (cols + 1) // 2)`. Places run over 0..H and 0..W: every window that
has at least half of itself inside on each axis, and the same places for every template, so that the
best of several templates at a place (Eqn 4) is a maximum over equal maps.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@njit(cache=True, nogil=True, inline="always")
def corner(place: int, blocks: int) -> int:
    """First block of a window along one axis."""
    return place - (blocks + 1) // 2


@njit(cache=True, nogil=True)
def inside(place: int, blocks: int, length: int) -> int:
    """How many of a window's blocks along one axis lie within the level."""
    first = corner(place, blocks)
    return min(first + blocks, length) - max(first, 0)


@njit(cache=True, nogil=True, fastmath=True)
def sum_windows(
    responses: Floats, rows: int, cols: int, top: int, height: int, first: int, last: int,
    bias: float, floor: float, u_t: float,
) -> Floats:  # fmt: skip
    """(last - first, W + 1): b + sum of max(response, floor) inside + u_t for each block outside.

    `responses` (rows cols, R, W) hold the level's block rows top..top + R of `height` in all; the
    places asked for are first..last. With floor = u this is the paper's upper bound (Eqn 3); with
    floor = -inf it is the score of a template that sees everything.
    """
    width = responses.shape[2]
    out = np.empty((last - first, width + 1), np.float32)
    for y in range(first, last):
        line = out[y - first]
        seen = inside(y, rows, height)
        for x in range(width + 1):
            line[x] = bias + u_t * (rows * cols - seen * inside(x, cols, width))
        for i in range(rows):
            row = corner(y, rows) + i
            if row < 0 or row >= height:
                continue
            for j in range(cols):
                # Block column c of the level serves the place x = c - shift.
                shift = corner(0, cols) + j
                low, high = max(0, -shift), min(width + 1, width - shift)
                source = responses[i * cols + j, row - top, low + shift : high + shift]
                target = line[low:high]
                for x in range(len(target)):
                    target[x] += max(source[x], floor)
    return out


@njit(cache=True, nogil=True)
def gather_windows(
    responses: Floats, rows: int, cols: int, top: int, height: int,
    ys: NDArray[np.int64], xs: NDArray[np.int64],
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """Responses (N, rows, cols) of the windows at these places, and which blocks are outside."""
    _, _, width = responses.shape
    blocks = np.zeros((len(ys), rows, cols), np.float32)
    outside = np.ones((len(ys), rows, cols), np.bool_)
    for n in range(len(ys)):
        for i in range(rows):
            row = corner(ys[n], rows) + i
            if row < 0 or row >= height:
                continue
            for j in range(cols):
                col = corner(xs[n], cols) + j
                if 0 <= col < width:
                    blocks[n, i, j] = responses[i * cols + j, row - top, col]
                    outside[n, i, j] = False
    return blocks, outside


@njit(cache=True, nogil=True)
def gather_features(
    features: Floats, rows: int, cols: int, ys: NDArray[np.int64], xs: NDArray[np.int64],
    top: int, left: int, height: int, width: int,
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """Features (N, rows, cols, q) of the windows at these places, 0 outside, and which are outside.

    `features` may be a part of a level of height x width blocks that starts at block (top, left),
    as long as it holds all that the windows have of the level.
    """
    channels = features.shape[2]
    blocks = np.zeros((len(ys), rows, cols, channels), np.float32)
    outside = np.ones((len(ys), rows, cols), np.bool_)
    for n in range(len(ys)):
        for i in range(rows):
            row = corner(ys[n], rows) + i
            if row < 0 or row >= height:
                continue
            for j in range(cols):
                col = corner(xs[n], cols) + j
                if 0 <= col < width:
                    blocks[n, i, j] = features[row - top, col - left]
                    outside[n, i, j] = False
    return blocks, outside
