"""Compiled loops over the windows of a level: their sums or bounds, and what the best are made of.

A template of (rows, cols) stands at place (y, x) of a level of H x W blocks when its first block
is `(y - (rows + 1) // 2, x - (cols + 1) // 2)`. Places run over 0..H and 0..W: every window that
has at least half of itself inside on each axis, and the same places for every template, so that the
best of several templates at a place (Eqn 4) is a maximum over equal maps.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
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
def room(width: int) -> int:
    """Places 0..width, rounded up: loops of whole vectors, however many lanes they have."""
    return (width + LANES) // LANES * LANES


@njit(cache=True, nogil=True)
def search_levels(
    even_weights: Floats, odd_weights: Floats | None, even: Floats, odd: Floats | None,
    levels: NDArray[np.int64], rows: int, cols: int, bias: float, u: float, u_t: float,
    alpha: float, visibility: bool, blank: bool, enough: float,
    first: int, start: int, most: int,
) -> tuple[int, int, NDArray[np.int64], Floats, Floats]:  # fmt: skip
    """Windows of a component and, with `odd`, of its mirror image that may reach a threshold.

    weights   (rows cols, channels) of the blocks, for the features `even` and `odd` of levels; see
              `planes.py`: responses are even + odd, the mirror image's even - odd
    levels    (L, 3): of each level to look at how many blocks lie before it, height, width
    enough    the sum, or with visibility its bound, that a window must reach
    first     the level to begin with, and the place row `start` in it; after the row in which the
              `most`th window is found the search stops, to be taken up again
    Returns where to go on, (L, 0) if it is done; whether it is the mirror image, level, y and x of
    the windows (N, 4); their sums or bounds; and with visibility their blocks' responses
    (N, rows cols), 0 outside the level.
    """
    found = np.empty((16, 4), np.int64)
    value = np.empty(16, np.float32)
    taken = np.zeros((16, rows * cols if visibility else 0), np.float32)
    count = 0
    for n in range(first, len(levels)):
        height = levels[n, 1]
        own_even = _level(even, even_weights.shape[1], levels[n])
        own_odd = None
        if odd is not None and odd_weights is not None:
            own_odd = _level(odd, odd_weights.shape[1], levels[n])
        start, count, found, value, taken = _search_level(
            even_weights, odd_weights, own_even, own_odd, rows, cols, bias, u, u_t, alpha,
            visibility, blank, enough, n, start, most, count, found, value, taken,
        )  # fmt: skip
        if start <= height:
            return n, start, found[:count], value[:count], taken[:count]
        start = 0
    return len(levels), 0, found[:count], value[:count], taken[:count]


@njit(cache=True, nogil=True)
def _level(planes: Floats, channels: int, level: NDArray[np.int64]) -> Floats:
    """(height, channels, width): one of the levels that lie one after another."""
    before, height, width = level
    part = planes[before * channels : (before + height * width) * channels]
    return part.reshape(height, channels, width)


@njit(cache=True, nogil=True)
def _search_level(
    even_weights: Floats, odd_weights: Floats | None, even: Floats, odd: Floats | None,
    rows: int, cols: int, bias: float, u: float, u_t: float, alpha: float,
    visibility: bool, blank: bool, enough: float, level: int, start: int, most: int,
    count: int, found: NDArray[np.int64], value: Floats, taken: Floats,
) -> tuple[int, int, NDArray[np.int64], Floats, Floats]:  # fmt: skip
    """Adds the windows of one level, planes (H, channels, W), from the place row `start` on.

    Returns the row to go on with, H + 1 if it is done, and how many windows there are, in arrays
    that may have grown.

    One product for each block row of the level. Every response has its place in one row of windows
    only, so a ring of as many rows as the template has holds all that is needed. Not a convolution
    by FFT: the maximum over each block's flag needs the blocks apart.
    """
    height, _, width = even.shape
    blocks, sides = rows * cols, 1 if odd is None else 2
    places = room(width)
    ring = np.empty((2, rows, blocks, width), np.float32)
    if odd is None:
        ring[1] = np.float32(0)
    gains = np.zeros((sides, cols, places + cols), np.float32)
    scratch = np.zeros((sides, cols + 1, places), np.float32)
    total = np.zeros((sides, places), np.float32)
    weight = np.zeros(places + cols, np.float32)
    weight[(cols + 1) // 2 : (cols + 1) // 2 + width] = 2 * alpha
    columns = np.zeros(places, np.float32)  # of each place's window, inside the level
    for x in range(width + 1):
        columns[x] = inside(x, cols, width)
    known = max(corner(start, rows), 0)  # block rows whose responses were made
    y = start
    while y <= height and count < most:
        while known < min(corner(y, rows) + rows, height):
            np.dot(even_weights, even[known], ring[0, known % rows])
            if odd_weights is not None and odd is not None:
                np.dot(odd_weights, odd[known], ring[1, known % rows])
            known += 1
        total[:] = np.float32(0)
        scratch[:] = np.float32(0)
        for i in range(max(0, -corner(y, rows)), min(rows, height - corner(y, rows))):
            _spread(ring, i, (corner(y, rows) + i) % rows, u if visibility else 0.0, gains)
            if visibility:
                _bound_row(gains, weight, np.float32(2 * alpha), scratch, total)
            else:
                _sum_row(gains, total)
        if visibility:
            _end_columns(scratch, total)
        seen = inside(y, rows, height)
        per_column = seen * ((u if visibility else 0.0) - u_t)
        for side in range(sides):
            if not _any_reaches(total[side], columns, bias + u_t * blocks, per_column, enough):
                continue
            for x in range(width + 1):
                gain = total[side, x]
                score = np.float32(bias + u_t * blocks + per_column * columns[x] + gain)
                # What is no number goes on, to be told of.
                if score < enough or (visibility and not blank and gain <= 0):
                    continue
                if count == len(value):
                    found, value, taken = _grown(found), _grown(value), _grown(taken)
                found[count] = (side, level, y, x)
                value[count] = score
                if visibility:
                    _take(ring, side, y, x, rows, cols, height, taken[count])
                count += 1
        y += 1
    return y, count, found, value, taken


@njit(cache=True, nogil=True)
def _any_reaches(
    total: Floats, columns: Floats, constant: float, per_column: float, enough: float
) -> bool:
    """Whether one of a row of windows may reach `enough`, up to rounding; of most rows none may."""
    rounding = 1e-5 * (abs(enough) + abs(constant) + abs(per_column) * len(columns))
    low, factor = np.float32(enough - constant - rounding), np.float32(per_column)
    count = 0
    for x in range(len(total)):
        count += not total[x] + factor * columns[x] < low
    return count > 0


@njit(cache=True, nogil=True)
def _grown(array: NDArray[Any]) -> NDArray[Any]:
    """A copy with twice the room."""
    more = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    more[: len(array)] = array
    return more


@njit(cache=True, nogil=True, fastmath=True)
def _spread(ring: Floats, i: int, slot: int, hidden: float, gains: Floats) -> None:
    """Responses, less `hidden`, of template row i to a block row, where places 0..W find them.

    Place x finds what block j has to say in `gains[0, j, x + j]`, and what the mirror image's has
    in `gains[1, j, x + j]`: `gains` holds 0 for all that is outside the level, and is wide enough
    that no place needs to ask.
    """
    sides, cols, width = gains.shape[0], gains.shape[1], ring.shape[3]
    left = np.uintp((cols + 1) // 2)  # unsigned: an index that cannot be negative vectorises
    less = np.float32(hidden)
    for j in range(cols):
        k = i * cols + j
        if sides == 1:
            for x in range(width):
                gains[0, j, left + np.uintp(x)] = ring[0, slot, k, x] - less
        else:
            for x in range(width):
                gains[0, j, left + np.uintp(x)] = ring[0, slot, k, x] - less + ring[1, slot, k, x]
            for x in range(width):
                gains[1, cols - 1 - j, left + np.uintp(x)] = (
                    ring[0, slot, k, x] - less - ring[1, slot, k, x]
                )


@njit(cache=True, nogil=True, fastmath=True)
def _sum_row(gains: Floats, total: Floats) -> None:
    """Adds one row of blocks to the sums of a row of windows."""
    sides, cols = gains.shape[:2]
    for side in range(sides):
        for j in range(cols):
            for x in range(total.shape[1]):
                total[side, x] += gains[side, j, x + j]


@njit(cache=True, nogil=True, fastmath=True)
def _bound_row(
    gains: Floats, weight: Floats, edge: np.float32, carried: Floats, total: Floats
) -> None:
    """Adds one row of blocks to upper bounds of the scores of a row of windows, twice above u.

    The first pass of the chain bound of `bounds.py`. A chain's optimum is carried as how much
    better it is if its last block is visible: over an edge it shrinks to the edge's weight, and
    what exceeds the weight is won for certain. Rows and columns carry the same, as a block gives
    half of all it knows to each. Rows end where the level does: the edges from there on weigh
    nothing. carried (sides, cols + 1, places): what each column carries, and last the row. Accurate
    to the rounding of a sum in single precision.
    """
    sides, cols = gains.shape[:2]
    half, zero = np.float32(0.5), np.float32(0)
    places = total.shape[1]
    for side in range(sides):
        for x in range(places):
            carried[side, cols, x] = zero
        for j in range(cols):
            for x in range(places):
                w, a, b = weight[x + j], carried[side, cols, x], carried[side, j, x]
                most_a, most_b = min(a, w), min(b, edge)
                total[side, x] += half * ((a - most_a) + (b - most_b))
                kept = max(most_a, -w) + max(most_b, -edge)
                ahead = gains[side, j, x + j] + half * kept
                carried[side, cols, x] = ahead
                carried[side, j, x] = ahead
        for x in range(places):
            total[side, x] += half * max(carried[side, cols, x], zero)


@njit(cache=True, nogil=True, fastmath=True)
def _end_columns(carried: Floats, total: Floats) -> None:
    """Adds what the columns still carry to the bounds."""
    for side in range(len(total)):
        for j in range(carried.shape[1] - 1):
            for x in range(total.shape[1]):
                total[side, x] += np.float32(0.5) * max(carried[side, j, x], np.float32(0))


@njit(cache=True, nogil=True)
def _take(
    ring: Floats, side: int, y: int, x: int, rows: int, cols: int, height: int, out: Floats
) -> None:
    """The responses of the blocks of the window at a place, 0 outside the level."""
    width = ring.shape[3]
    up, left = corner(y, rows), corner(x, cols)
    sign = np.float32(-1 if side else 1)
    for i in range(max(0, -up), min(rows, height - up)):
        slot = (up + i) % rows
        for j in range(max(0, -left), min(cols, width - left)):
            k = i * cols + (cols - 1 - j if side else j)
            out[i * cols + j] = ring[0, slot, k, left + j] + sign * ring[1, slot, k, left + j]


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
