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
NEVER = np.float32(-1e30)  # below any score
# As many floats as the widest vectors hold.
LANES = 16


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
def block(i: int, j: int, cols: int, sign: int) -> int:
    """Which of a component's blocks stands at (i, j): its own, or with sign -1 its mirror image's.

    The response is `even + sign odd`, see `planes.MirrorBasis`; without a mirror, odd is None.
    """
    return i * cols + (j if sign > 0 else cols - 1 - j)


@njit(cache=True, nogil=True, fastmath=True)
def spread(
    even: Floats, odd: Floats | None, sign: int, i: int, row: int, hidden: float, gains: Floats
) -> None:
    """Responses, less `hidden`, of template row i to a block row, where places 0..W find them.

    Place x finds what block j has to say in `gains[j, x + j]`: `gains` (cols, ...) holds 0 for all
    that is outside the level, and is wide enough that no place needs to ask.
    """
    cols, width = gains.shape[0], even.shape[2]
    left = np.uintp((cols + 1) // 2)  # unsigned: an index that cannot be negative vectorises
    less = np.float32(hidden)
    turn = np.float32(sign)
    for j in range(cols):
        k = block(i, j, cols, sign)
        for x in range(width):
            if odd is None:
                gains[j, left + np.uintp(x)] = even[k, row, x] - less
            else:
                gains[j, left + np.uintp(x)] = (even[k, row, x] - less) + turn * odd[k, row, x]


@njit(cache=True, nogil=True, inline="always")
def room(width: int) -> int:
    """Places 0..width, rounded up: loops of whole vectors, however many lanes they have."""
    return (width + LANES) // LANES * LANES


@njit(cache=True, nogil=True, fastmath=True)
def sum_windows(
    even: Floats, odd: Floats | None, sign: int, rows: int, cols: int, top: int, height: int,
    first: int, last: int, bias: float, u_t: float,
) -> Floats:  # fmt: skip
    """(last - first, W + 1): b + sum of responses inside + u_t for each block outside.

    `even` and `odd` (rows cols, R, W) hold the level's block rows top..top + R of `height` in all;
    the places asked for are first..last.
    """
    width = even.shape[2]
    places = room(width)
    out = np.empty((last - first, width + 1), np.float32)
    gains = np.zeros((cols, places + cols), np.float32)
    total = np.empty(places, np.float32)
    for y in range(first, last):
        total[:] = 0
        for i in range(max(0, -corner(y, rows)), min(rows, height - corner(y, rows))):
            spread(even, odd, sign, i, corner(y, rows) + i - top, 0.0, gains)
            for j in range(cols):
                for x in range(places):
                    total[x] += gains[j, x + j]
        seen = inside(y, rows, height)
        for x in range(width + 1):
            known = seen * inside(x, cols, width)
            out[y - first, x] = total[x] + (bias + u_t * (rows * cols - known))
    return out


@njit(cache=True, nogil=True, fastmath=True)
def bound_windows(
    even: Floats, odd: Floats | None, sign: int, rows: int, cols: int, top: int, height: int,
    first: int, last: int, bias: float, u: float, u_t: float, alpha: float, blank: bool,
) -> Floats:  # fmt: skip
    """Like `sum_windows`: an upper bound of each window's score with visibility, g(x) of Eqn 1.

    Without `blank`, windows in which no block is worth seeing get NEVER.

    The chain bound of `bounds.py`, its first pass, for all windows at once. A chain's optimum is
    carried as how much better it is if its last block is visible: over an edge it shrinks to the
    edge's weight, and what exceeds the weight is won for certain. Rows and columns carry the same,
    as a block gives half of all it knows to each. Rows end where the level
    does: the edges from there on weigh nothing. Accurate to the rounding of a sum in single
    precision.
    """
    width = even.shape[2]
    places = room(width)
    out = np.empty((last - first, width + 1), np.float32)
    edge, half, zero = np.float32(2 * alpha), np.float32(0.5), np.float32(0)
    gains = np.zeros((cols, places + cols), np.float32)
    across = np.empty(places, np.float32)
    down = np.empty((cols, places), np.float32)
    won = np.empty(places, np.float32)
    weight = np.zeros(places + cols, np.float32)
    weight[(cols + 1) // 2 : (cols + 1) // 2 + width] = edge
    for y in range(first, last):
        won[:] = zero
        down[:] = zero
        for i in range(max(0, -corner(y, rows)), min(rows, height - corner(y, rows))):
            spread(even, odd, sign, i, corner(y, rows) + i - top, u, gains)
            across[:] = zero
            for j in range(cols):
                for x in range(places):
                    w, a, b = weight[x + j], across[x], down[j, x]
                    most_a, most_b = min(a, w), min(b, edge)
                    won[x] += (a - most_a) + (b - most_b)
                    ahead = gains[j, x + j] + half * (max(most_a, -w) + max(most_b, -edge))
                    across[x] = ahead
                    down[j, x] = ahead
            for x in range(places):
                won[x] += max(across[x], zero)
        for j in range(cols):
            for x in range(places):
                won[x] += max(down[j, x], zero)
        seen = inside(y, rows, height)
        for x in range(width + 1):
            known = seen * inside(x, cols, width)
            out[y - first, x] = 0.5 * won[x] + (bias + u * known + u_t * (rows * cols - known))
            if not blank and won[x] <= zero:
                out[y - first, x] = NEVER
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
    even: Floats, odd: Floats | None, sign: int, rows: int, cols: int, top: int, height: int,
    ys: NDArray[np.int64], xs: NDArray[np.int64],
) -> Floats:  # fmt: skip
    """Block responses (N, rows, cols) of the windows at these places, 0 outside the level."""
    width = even.shape[2]
    blocks = np.zeros((len(ys), rows, cols), np.float32)
    for n in range(len(ys)):
        up, left = corner(ys[n], rows), corner(xs[n], cols)
        for i in range(max(0, -up), min(rows, height - up)):
            for j in range(max(0, -left), min(cols, width - left)):
                k, row = block(i, j, cols, sign), up + i - top
                value = even[k, row, left + j]
                if odd is not None:
                    value += sign * odd[k, row, left + j]
                blocks[n, i, j] = value
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
