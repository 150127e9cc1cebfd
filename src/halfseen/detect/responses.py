"""Responses of a template's blocks at one level, and the windows that stand out, by rows.

Every response has its place in one row of windows only, so a ring of rows holds all that is needed.
Not a convolution by FFT: the maximum over each block's flag needs the blocks apart.

Each kernel stands alone: what one calls is compiled once more with it, and the first detection
waits for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from halfseen.arrays import Float32, Int64
from halfseen.detect.view import Split

# As many floats as the widest vectors hold.
LANES = 16
# Responses that are held at once: few enough for the caches, so many that threads seldom wait for
# the interpreter, and some rows at the least.
HELD_BYTES, LEAST_ROWS = 2 << 20, 4


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
    """Windows that reach the threshold.

    places  (N, 4): whether it is the mirror image, level, y and x
    value   (N,) sums or bounds
    blocks  (N, rows cols): with visibility the blocks' responses, 0 outside the level; else empty
    """

    places: Int64
    value: Float32
    blocks: Float32


def find_level(
    weights: Split, features: Split, size: tuple[int, int], rule: Rule, number: int = 0
) -> Iterator[Reached]:
    """Find the windows of a component and its mirror image that may reach enough, row by row.

    size    (height, width) of the level, and
    number  which it is
    """
    (height, width), (sides, rows, cols) = size, rule[:3]
    blocks, split = rows * cols, weights.odd.shape[1] > 0
    parts = 2 if split else 1
    most = max(HELD_BYTES // (4 * parts * blocks * width) - rows, LEAST_ROWS)
    most = min(most, height + 1)  # rows of windows at once
    held = min(most + rows, height)  # rows of blocks
    ring = np.empty((parts, blocks, held, width), np.float32)
    even, odd = ring[0], ring[-1] if split else ring[0, :0]
    flat = ring.reshape(parts, blocks, held * width)
    total = np.empty((most, sides, (width + LANES) // LANES * LANES), np.float32)
    places = np.empty((most * sides * (width + 1), 4), np.int64)
    value = np.empty(len(places), np.float32)
    hidden = rule.u if rule.visibility else 0.0
    known = 0  # block rows whose responses were made
    for first in range(0, height + 1, most):
        sums = total[: height + 1 - first]
        last = min(first + len(sums) - 1 - (rows + 1) // 2 + rows, height)
        while known < last:
            slot = known % held
            some = min(last - known, held - slot)
            of = slice(known * width, (known + some) * width)
            at = slice(slot * width, (slot + some) * width)
            np.matmul(weights.even, features.even[:, of], out=flat[0, :, at])
            if split:
                np.matmul(weights.odd, features.odd[:, of], out=flat[1, :, at])
            known += some
        if rule.visibility:
            bound_rows(even, odd, (rows, cols), height, first, hidden, rule.alpha, sums)
        else:
            sum_rows(even, odd, (rows, cols), height, first, sums)
        count = find_reached(
            sums,
            (number, height, width, rows, cols),
            first,
            (rule.bias + rule.u_t * blocks, hidden - rule.u_t, rule.enough),
            rule.visibility and not rule.blank,
            places,
            value,
        )
        if count:
            taken = np.empty((count, blocks if rule.visibility else 0), np.float32)
            if rule.visibility:
                take_blocks(even, odd, (rows, cols), height, places[:count], taken)
            yield Reached(places[:count].copy(), value[:count].copy(), taken)


@njit(cache=True, nogil=True, fastmath=True)
def bound_rows(
    even: Float32,
    odd: Float32,
    shape: tuple[int, int],
    height: int,
    first: int,
    u: float,
    alpha: float,
    total: Float32,
) -> None:
    """Fill `total` (count, sides, lanes) with bounds of windows of place rows from `first` on.

    Upper bounds of the scores above u for every block, without biases. The first pass of the chain
    bound of `bounds.py`: a chain's optimum is carried as how much better it is if its last block is
    visible; over an edge it shrinks to the edge's weight, and what exceeds the weight is won for
    certain. Rows and columns carry the same, as a block gives half of all it knows to each. Rows
    end where the level does: the edges from there on weigh nothing. Accurate to the rounding of a
    sum in single precision.

    even, odd  (blocks, rows held, width): responses of block rows, row y of the level in row y
               modulo the rows held; see `Split`. `odd` has no blocks where it has no channels
    shape      (rows, cols) of the template
    height     of the level, in blocks
    total      with two sides the second is of the mirror image
    """
    rows, cols = shape
    held, width = even.shape[1], even.shape[2]
    count, sides, lanes = total.shape
    split = len(odd) > 0
    left = np.uintp((cols + 1) // 2)  # unsigned: an index that cannot be negative vectorises
    # What each place finds of block j of a row, at place + j: 0 for what is outside the level, and
    # wide enough that no place needs to ask.
    gains = np.zeros((sides, cols, lanes + cols), np.float32)
    weight = np.zeros(lanes + cols, np.float32)
    carried = np.empty((sides, cols + 1, lanes), np.float32)  # by each column, and last the row
    half, zero, less = np.float32(0.5), np.float32(0), np.float32(u)
    edge = np.float32(2 * alpha)
    for x in range(width):
        weight[left + np.uintp(x)] = edge
    for y in range(first, first + count):
        top = y - (rows + 1) // 2
        sums = total[y - first]
        sums[:] = zero
        carried[:] = zero
        for i in range(max(0, -top), min(rows, height - top)):
            slot = (top + i) % held
            # All of them first: what was just written is read slowly from another place.
            for j in range(cols):
                one = even[i * cols + j, slot]
                two = odd[i * cols + j, slot] if split else one
                for side in range(sides):
                    gain = gains[side, cols - 1 - j if side else j]
                    sign = np.float32((-1 if side else 1) if split else 0)
                    for x in range(width):
                        gain[left + np.uintp(x)] = one[x] - less + sign * two[x]
            for side in range(sides):
                row, above = carried[side, cols], sums[side]
                for x in range(lanes):
                    row[x] = zero
                for j in range(cols):
                    column, gain = carried[side, j], gains[side, j]
                    for x in range(lanes):
                        w, a, b = weight[x + j], row[x], column[x]
                        most_a, most_b = min(a, w), min(b, edge)
                        above[x] += half * ((a - most_a) + (b - most_b))
                        kept = max(most_a, -w) + max(most_b, -edge)
                        ahead = gain[x + j] + half * kept
                        row[x] = ahead
                        column[x] = ahead
                for x in range(lanes):
                    above[x] += half * max(row[x], zero)
        for side in range(sides):
            for j in range(cols):
                for x in range(lanes):
                    sums[side, x] += half * max(carried[side, j, x], zero)


@njit(cache=True, nogil=True, fastmath=True)
def sum_rows(
    even: Float32, odd: Float32, shape: tuple[int, int], height: int, first: int, total: Float32
) -> None:
    """Fill `total` with the sums of whole windows' responses: arguments as of `bound_rows`."""
    rows, cols = shape
    held, width = even.shape[1], even.shape[2]
    count, sides, _ = total.shape
    split = len(odd) > 0
    for y in range(first, first + count):
        top = y - (rows + 1) // 2
        sums = total[y - first]
        sums[:] = np.float32(0)
        for i in range(max(0, -top), min(rows, height - top)):
            slot = (top + i) % held
            for j in range(cols):
                one = even[i * cols + j, slot]
                two = odd[i * cols + j, slot] if split else one
                for side in range(sides):
                    # Block j of a window lies at place - left + j; a mirror image's are turned.
                    shift = (cols + 1) // 2 - (cols - 1 - j if side else j)
                    sign = np.float32((-1 if side else 1) if split else 0)
                    begin = np.uintp(max(0, -shift))
                    end = min(width, width + 1 - shift)
                    ahead = sums[side, np.uintp(max(0, shift)) :]
                    a, b = one[begin:end], two[begin:end]
                    for x in range(len(a)):
                        ahead[x] += a[x] + sign * b[x]


@njit(cache=True, nogil=True)
def find_reached(
    total: Float32,
    sizes: tuple[int, int, int, int, int],
    first: int,
    rule: tuple[float, float, float],
    positive: bool,
    places: Int64,
    value: Float32,
) -> int:
    """Write the windows that may reach enough to places (.., 4) and value; return how many.

    total     (count, sides, lanes) of place rows from `first` on: see `bound_rows`
    sizes     number, height and width of the level, rows and columns of the template
    rule      bias, what each block in the level adds, and what total and these must reach
    positive  whether windows count only if their total is above 0
    places    of each: side, number of the level, y and x
    """
    number, height, width, rows, cols = sizes
    bias, per_block, enough = rule
    columns = np.zeros(total.shape[2], np.float32)  # of each place's window, inside the level
    for x in range(width + 1):
        start = x - (cols + 1) // 2
        columns[x] = min(start + cols, width) - max(start, 0)
    found = 0
    for y in range(first, first + total.shape[0]):
        start = y - (rows + 1) // 2
        factor = per_block * (min(start + rows, height) - max(start, 0))
        # Whether one of a row may reach it, up to rounding: of most rows none may.
        rounding = 1e-5 * (abs(enough) + abs(bias) + abs(factor) * len(columns))
        low, share = np.float32(enough - bias - rounding), np.float32(factor)
        for side in range(total.shape[1]):
            sums = total[y - first, side]
            may = 0
            for x in range(len(columns)):
                may += not sums[x] + share * columns[x] < low
            if may == 0:
                continue
            for x in range(width + 1):
                gain = sums[x]
                score = np.float32(bias + factor * columns[x] + gain)
                # Let NaN through: `Search` raises for it.
                if score < enough or (positive and gain <= 0):
                    continue
                places[found, 0], places[found, 1] = side, number
                places[found, 2], places[found, 3] = y, x
                value[found] = score
                found += 1
    return found


@njit(cache=True, nogil=True)
def take_blocks(
    even: Float32, odd: Float32, shape: tuple[int, int], height: int, places: Int64, out: Float32
) -> None:
    """Fill out (N, rows cols) with the responses of the blocks of windows, 0 outside the level.

    Arguments as of `bound_rows` and `find_reached`.
    """
    rows, cols = shape
    held, width = even.shape[1], even.shape[2]
    for n in range(len(places)):
        side, y, x = places[n, 0], places[n, 2], places[n, 3]
        up, left = y - (rows + 1) // 2, x - (cols + 1) // 2
        for i in range(rows):
            for j in range(cols):
                value = np.float32(0)
                if 0 <= up + i < height and 0 <= left + j < width:
                    k = i * cols + (cols - 1 - j if side else j)
                    slot = (up + i) % held
                    value = even[k, slot, left + j]
                    if len(odd) > 0:
                        other = odd[k, slot, left + j]
                        value = value - other if side else value + other
                out[n, i * cols + j] = value
