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


@njit(cache=True, nogil=True, inline="always")
def columns(shift: int, width: int) -> tuple[int, int]:
    """The places x, from and to, for which block column x + shift lies within a level; 0..width.

    None, if a template is so much wider than the level that this block is never within it.
    """
    high = max(0, min(width + 1, width - shift))
    return min(max(0, -shift), high), high


@njit(cache=True, nogil=True, fastmath=True)
def sum_windows(
    responses: Floats, rows: int, cols: int, top: int, height: int, first: int, last: int,
    bias: float, u_t: float,
) -> Floats:  # fmt: skip
    """(last - first, W + 1): b + sum of responses inside + u_t for each block outside.

    `responses` (rows cols, R, W) hold the level's block rows top..top + R of `height` in all; the
    places asked for are first..last.
    """
    width = responses.shape[2]
    out = np.empty((last - first, width + 1), np.float32)
    for y in range(first, last):
        line = out[y - first]
        seen = inside(y, rows, height)
        for x in range(width + 1):
            line[x] = bias + u_t * (rows * cols - seen * inside(x, cols, width))
        for i in range(max(0, -corner(y, rows)), min(rows, height - corner(y, rows))):
            row = corner(y, rows) + i - top
            for j in range(cols):
                # Block column c of the level serves the place x = c - shift.
                shift = corner(0, cols) + j
                low, high = columns(shift, width)
                source = responses[i * cols + j, row, low + shift : high + shift]
                target = line[low:high]
                for x in range(len(target)):
                    target[x] += source[x]
    return out


@njit(cache=True, nogil=True, fastmath=True)
def bound_windows(
    responses: Floats, rows: int, cols: int, top: int, height: int, first: int, last: int,
    bias: float, u: float, u_t: float, alpha: float,
) -> Floats:  # fmt: skip
    """Like `sum_windows`: an upper bound of each window's score with visibility, g(x) of Eqn 1.

    The chain bound of `bounds.py`, for all windows at once: half of each unary on the row chains,
    half on the column chains, each chain solved exactly. A chain's optimum is carried as how much
    better it is if its last block is visible: over an edge it shrinks to the edge's weight, and
    what exceeds the weight is won for certain. Where a block is outside, its chains begin after it
    or end before it. Accurate to the rounding of a sum in single precision.
    """
    width = responses.shape[2]
    out = np.empty((last - first, width + 1), np.float32)
    edge, hidden = np.float32(2 * alpha), np.float32(u)
    zero = np.float32(0)
    across = np.empty(width + 1, np.float32)
    down = np.empty((cols, width + 1), np.float32)
    for y in range(first, last):
        won = out[y - first]
        won[:] = zero
        down[:] = zero
        for i in range(max(0, -corner(y, rows)), min(rows, height - corner(y, rows))):
            row = corner(y, rows) + i - top
            across[:] = zero
            for j in range(cols):
                shift = corner(0, cols) + j
                low, high = columns(shift, width)
                source = responses[i * cols + j, row, low + shift : high + shift]
                left, above, total = across[low:high], down[j, low:high], won[low:high]
                for x in range(len(source)):
                    gain = source[x] - hidden
                    a, b = left[x], above[x]
                    total[x] += max(a - edge, zero) + max(b - edge, zero)
                    left[x] = gain + max(min(a, edge), -edge)
                    above[x] = gain + max(min(b, edge), -edge)
            for x in range(width + 1):
                won[x] += max(across[x], zero)
        for j in range(cols):
            for x in range(width + 1):
                won[x] += max(down[j, x], zero)
        seen = inside(y, rows, height)
        for x in range(width + 1):
            known = seen * inside(x, cols, width)
            won[x] = 0.5 * won[x] + (bias + u * known + u_t * (rows * cols - known))
    return out


@njit(cache=True, nogil=True)
def select_places(
    sums: Floats, threshold: float, first: int, rows: int, cols: int, height: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, int]:
    """Places y and x of the sums that reach the threshold, those sums, and how many lie inside.

    Row 0 of `sums` (R, W + 1) is place `first` of a level of `height` block rows. Windows that lie
    wholly inside the level come first.
    """
    count = 0
    for y in range(sums.shape[0]):
        for x in range(sums.shape[1]):
            count += sums[y, x] >= threshold
    ys, xs = np.empty(count, np.int64), np.empty(count, np.int64)
    chosen = np.empty(count, np.float32)
    whole, partial = 0, count
    for y in range(sums.shape[0]):
        deep = inside(y + first, rows, height) == rows
        for x in range(sums.shape[1]):
            if sums[y, x] >= threshold:
                if deep and inside(x, cols, sums.shape[1] - 1) == cols:
                    n = whole
                    whole += 1
                else:
                    partial -= 1
                    n = partial
                ys[n], xs[n], chosen[n] = y + first, x, sums[y, x]
    return ys, xs, chosen, whole


@njit(cache=True, nogil=True)
def gather_windows(
    responses: Floats, rows: int, cols: int, top: int, height: int,
    ys: NDArray[np.int64], xs: NDArray[np.int64],
) -> Floats:  # fmt: skip
    """Block responses (N, rows, cols) of the windows at these places, 0 outside the level."""
    _, _, width = responses.shape
    blocks = np.zeros((len(ys), rows, cols), np.float32)
    for n in range(len(ys)):
        up, left = corner(ys[n], rows), corner(xs[n], cols)
        for i in range(max(0, -up), min(rows, height - up)):
            for j in range(max(0, -left), min(cols, width - left)):
                blocks[n, i, j] = responses[i * cols + j, up + i - top, left + j]
    return blocks


@njit(cache=True, nogil=True)
def find_outside(
    ys: NDArray[np.int64], xs: NDArray[np.int64], sizes: NDArray[np.int64], rows: int, cols: int
) -> NDArray[np.bool_]:
    """(N, rows, cols): which blocks of windows lie outside their levels of (N, 2) block sizes."""
    outside = np.ones((len(ys), rows, cols), np.bool_)
    for n in range(len(ys)):
        height, width = sizes[n]
        up, left = corner(ys[n], rows), corner(xs[n], cols)
        for i in range(max(0, -up), min(rows, height - up)):
            for j in range(max(0, -left), min(cols, width - left)):
                outside[n, i, j] = False
    return outside


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
