"""Compiled loops over the windows of a level: sums or bounds, and what the best are made of."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Float32, Int64
from halfseen.detect.windows import corner, inside

# As many floats as the widest vectors hold.
LANES = 16


@njit(cache=True, nogil=True, inline="always")
def room(width: int) -> int:
    """Places 0..width, rounded up: loops of whole vectors, however many lanes they have."""
    return (width + LANES) // LANES * LANES


class Split(NamedTuple):
    """Weights (rows cols, channels) of a template, or features of levels, split by a mirror.

    Without a mirror `even` is all there is, and `odd` has no channels. See `view.MirrorBasis`:
    responses are even + odd, those of the mirror image even - odd.
    """

    even: Float32
    odd: Float32


class Rule(NamedTuple):
    """How a window's score is made of its blocks' responses, and what it must reach.

    sides       2 if the mirror image is searched for as well, else 1
    rows, cols  of the template, and its biases
    visibility  whether blocks may be hidden; the sum is then an upper bound
    blank       whether windows of which nothing is visible count
    enough      the sum or bound that a window must reach
    """

    sides: int
    rows: int
    cols: int
    bias: float
    u: float
    u_t: float
    alpha: float
    visibility: bool
    blank: bool
    enough: float


class Reached(NamedTuple):
    """Windows that reach the threshold, the first `number` rows.

    places  (N, 4): whether it is the mirror image, level, y and x
    value   (N,) sums or bounds
    blocks  (N, rows cols): with visibility the blocks' responses, 0 outside the level
    """

    places: Int64
    value: Float32
    blocks: Float32
    number: int


@njit(cache=True, nogil=True)
def search_levels(
    weights: Split,
    features: Split,
    levels: Int64,
    rule: Rule,
    first: int,
    start: int,
    most: int,
) -> tuple[int, int, Reached]:
    """Find the windows of a component and of its mirror image that may reach enough.

    levels   (L, 3): of each level to search how many blocks lie before it, height, width
    first    the level to begin with, and the place row `start` in it; after the row in which the
             `most`th window is found the search stops, to be taken up again
    Returns where to go on, (L, 0) if it is done, and the windows.
    """
    found = Reached(
        np.empty((16, 4), np.int64),
        np.empty(16, np.float32),
        np.zeros((16, rule.rows * rule.cols if rule.visibility else 0), np.float32),
        0,
    )
    for n in range(first, len(levels)):
        even = _level(features.even, weights.even.shape[1], levels[n])
        odd = _level(features.odd, weights.odd.shape[1], levels[n])
        start, found = _search_level(weights, Split(even, odd), rule, n, start, most, found)
        if start <= levels[n, 1]:
            return n, start, _trimmed(found)
        start = 0
    return len(levels), 0, _trimmed(found)


@njit(cache=True, nogil=True)
def _trimmed(found: Reached) -> Reached:
    """Without the room for more."""
    n = found.number
    return Reached(found.places[:n], found.value[:n], found.blocks[:n], n)


@njit(cache=True, nogil=True)
def _level(planes: Float32, channels: int, level: Int64) -> Float32:
    """(height, channels, width): one of the levels that lie one after another."""
    before, height, width = level
    part = planes[before * channels : (before + height * width) * channels]
    return part.reshape(height, channels, width)


@njit(cache=True, nogil=True)
def _search_level(
    weights: Split, level: Split, rule: Rule, number: int, start: int, most: int, found: Reached
) -> tuple[int, Reached]:
    """Add the windows of one level, planes (H, channels, W), from the place row `start` on.

    Returns the row to go on with, H + 1 if it is done, and the windows, in arrays that may have
    grown.

    One product for each block row of the level. Every response has its place in one row of windows
    only, so a ring of as many rows as the template has holds all that is needed. Not a convolution
    by FFT: the maximum over each block's flag needs the blocks apart.
    """
    sides, rows, cols, bias, u, u_t, alpha, visibility, blank, enough = rule
    places, value, taken, count = found
    height, _, width = level.even.shape
    blocks, split = rows * cols, weights.odd.shape[1] > 0
    lanes = room(width)
    ring = np.empty((2, rows, blocks, width), np.float32)
    if not split:
        ring[1] = np.float32(0)
    gains = np.zeros((sides, cols, lanes + cols), np.float32)
    scratch = np.zeros((sides, cols + 1, lanes), np.float32)
    total = np.zeros((sides, lanes), np.float32)
    weight = np.zeros(lanes + cols, np.float32)
    for x in range((cols + 1) // 2, (cols + 1) // 2 + width):
        weight[x] = 2 * alpha
    columns = np.zeros(lanes, np.float32)  # of each place's window, inside the level
    for x in range(width + 1):
        columns[x] = inside(x, cols, width)
    known = max(corner(start, rows), 0)  # block rows whose responses were made
    y = start
    while y <= height and count < most:
        while known < min(corner(y, rows) + rows, height):
            np.dot(weights.even, level.even[known], ring[0, known % rows])
            if split:
                np.dot(weights.odd, level.odd[known], ring[1, known % rows])
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
        within = inside(y, rows, height)
        per_column = within * ((u if visibility else 0.0) - u_t)
        for side in range(sides):
            if not _any_reaches(total[side], columns, bias + u_t * blocks, per_column, enough):
                continue
            for x in range(width + 1):
                gain = total[side, x]
                score = np.float32(bias + u_t * blocks + per_column * columns[x] + gain)
                # Let NaN through: `Search` raises for it.
                if score < enough or (visibility and not blank and gain <= 0):
                    continue
                if count == len(value):
                    places, value, taken = _grown(places), _grown(value), _grown(taken)
                places[count] = (side, number, y, x)
                value[count] = score
                if visibility:
                    _take(ring, side, y, x, rows, cols, height, taken[count])
                count += 1
        y += 1
    return y, Reached(places, value, taken, count)


@njit(cache=True, nogil=True)
def _any_reaches(
    total: Float32, columns: Float32, constant: float, per_column: float, enough: float
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
    # One by one: an assignment of slices takes seconds to compile.
    before, after = array.reshape(-1), more.reshape(-1)
    for i in range(len(before)):
        after[i] = before[i]
    return more


@njit(cache=True, nogil=True, fastmath=True)
def _spread(ring: Float32, i: int, slot: int, hidden: float, gains: Float32) -> None:
    """Responses, less `hidden`, of template row i to a block row, where places 0..W find them.

    Place x finds the gain of block j in `gains[0, j, x + j]`, and that of the mirror image's
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
def _sum_row(gains: Float32, total: Float32) -> None:
    """Adds one row of blocks to the sums of a row of windows."""
    sides, cols = gains.shape[:2]
    for side in range(sides):
        for j in range(cols):
            for x in range(total.shape[1]):
                total[side, x] += gains[side, j, x + j]


@njit(cache=True, nogil=True, fastmath=True)
def _bound_row(
    gains: Float32, weight: Float32, edge: np.float32, carried: Float32, total: Float32
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
def _end_columns(carried: Float32, total: Float32) -> None:
    """Adds what the columns still carry to the bounds."""
    for side in range(len(total)):
        for j in range(carried.shape[1] - 1):
            for x in range(total.shape[1]):
                total[side, x] += np.float32(0.5) * max(carried[side, j, x], np.float32(0))


@njit(cache=True, nogil=True)
def _take(
    ring: Float32, side: int, y: int, x: int, rows: int, cols: int, height: int, out: Float32
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
