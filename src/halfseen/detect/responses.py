"""Responses of a template's blocks at one level, and the windows that stand out, by rows.

A row of windows asks for every row of the template at one row of the level; each of these responses
is asked for once, so they are made when they are needed and stay in the caches. Not a convolution
by FFT: the maximum over each block's flag needs the blocks apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from halfseen.arrays import Float32, Int64
from halfseen.detect.tiles import ABREAST, ROWS, multiply_narrow, multiply_tile
from halfseen.detect.view import LANES, Plane

# Windows that are handed over together, unless a row has more.
HELD = 2048
# Sums in any order, but a NaN stays one: `Search` raises for it.
LOOSE = {"reassoc", "nsz", "contract"}
# Side by side.
WIDE = ABREAST * LANES


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


def find_level(weights: Float32, level: Plane, rule: Rule, number: int = 0) -> Iterator[Reached]:
    """Find the windows of a component and its mirror image that may reach enough, row by row.

    weights  the component's, as `pack_weights` makes them
    level    the features, and
    number   which level it is
    """
    (height, width), (sides, rows, cols) = level.size, rule[:3]
    channels, _, lanes = level.channels.shape
    most = max(HELD, sides * (width + 1))
    places = np.empty((most, 4), np.int64)
    value = np.empty(most, np.float32)
    blocks = np.empty((most if rule.visibility else 0, rows * cols), np.float32)
    sizes = (number, height, width, lanes, sides, rows, cols, level.even, channels)
    # Only where blocks may be hidden, there is a window without any.
    positive = rule.visibility and not rule.blank
    numbers = (rule.bias, rule.u, rule.u_t, rule.alpha, rule.enough, rule.visibility, positive)
    features = level.channels.reshape(-1)
    y = 0
    while y <= height:
        y, found = find_rows(weights, features, sizes, numbers, y, (places, value, blocks))
        if found:
            yield Reached(places[:found].copy(), value[:found].copy(), blocks[:found].copy())


def pack_weights(even: Float32, odd: Float32, shape: tuple[int, int]) -> Float32:
    """The weights (rows cols, n) and (rows cols, m) of a template as `multiply_tile` reads them.

    Flat (rows, groups, channels, ROWS): by groups of ROWS columns, with 0 for columns too many.
    """
    rows, cols = shape
    groups = -(-cols // ROWS)
    both = np.concatenate([even, odd], axis=1)
    whole = np.zeros((rows, groups * ROWS, both.shape[1]), np.float32)
    whole[:, :cols] = both.reshape(rows, cols, -1)
    parts = whole.reshape(rows, groups, ROWS, -1).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(parts).reshape(-1)


@njit(cache=True, nogil=True, fastmath=LOOSE)
def find_rows(
    weights: Float32,
    features: Float32,
    sizes: tuple[int, ...],
    rule: tuple[float, float, float, float, float, bool, bool],
    first: int,
    out: tuple[Int64, Float32, Float32],
) -> tuple[int, int]:
    """Write the windows of place rows from `first` on that may reach enough.

    Returns the row to go on from, when the arrays cannot hold another row's, and how many there
    are.

    With visibility their value is an upper bound of the score: the first pass of the chain bound of
    `bounds.py`. A chain's optimum is carried as how much better it is if its last block is visible;
    over an edge it shrinks to the edge's weight, and what exceeds the weight is won for certain.
    Rows and columns carry the same, as a block gives half of all it knows to each. A block outside
    the level knows nothing and has edges of no weight: what reaches it is won or lost there.

    weights   see `pack_weights`
    features  (channels, height, lanes) flat, 0 beyond the width: see `Plane`
    sizes     number, height, width and lanes of the level; sides, rows and columns of the template;
              how many of the channels are even, and how many there are
    rule      bias, u, u_t, alpha, enough; whether blocks may be hidden, and whether windows count
              only above u for every block
    out       places (.., 4) side, number of the level, y and x of each; value (..); and blocks
              (.., rows cols) responses, if blocks may be hidden
    """
    number, height, width, lanes, sides, rows, cols, even, channels = sizes
    bias, u, u_t, alpha, enough, visibility, positive = rule
    places, value, blocks = out
    numbers = (even, channels - even, height * lanes)
    groups = (cols + ROWS - 1) // ROWS
    spare = groups * ROWS - cols
    left = (cols + 1) // 2
    wide = (width + LANES) // LANES * LANES  # of the places 0 to width
    long = max(left + lanes, wide + cols)
    most = rows * sides * groups * ROWS * long
    # One array for all: each that is made takes a while to compile.
    room = np.zeros(most + 2 * long + (3 + cols) * wide, np.float32)
    # What each block gains where it is visible: block j of the window at place x is at x + j. A
    # mirror image's come last to first, after those that fill up the last group.
    gains = room[:most]
    edge, less = room[most : most + long], room[most + long : most + 2 * long]
    after = room[most + 2 * long :]
    row, sums, inside = after[:wide], after[wide : 2 * wide], after[2 * wide : 3 * wide]
    carried = after[3 * wide :]  # from above by each column
    half, zero = np.float32(0.5), np.float32(0)
    for x in range(width):
        edge[left + x] = 2 * alpha
        less[x] = u if visibility else 0.0
    for x in range(width + 1):
        inside[x] = min(x - left + cols, width) - max(x - left, 0)
    per_block = (u if visibility else 0.0) - u_t
    found = 0
    for y in range(first, height + 1):
        if found + sides * (width + 1) > len(places):
            return y, found
        top = y - (rows + 1) // 2
        begin, end = max(0, -top), min(rows, height - top)
        for i in range(begin, end):
            start = i * sides * groups * ROWS * long + left
            for group in range(groups):
                weight = (i * groups + group) * ROWS * channels
                here = start + group * ROWS * long
                back = start + ((sides * groups - group) * ROWS - 1) * long
                step = -long if sides == 2 else 0
                for x in range(0, lanes - WIDE + 1, WIDE):
                    place = (weight, (top + i) * lanes + x, x, here + x, long, back + x, step)
                    multiply_tile(weights, features, less, gains, numbers, place)
                for x in range(lanes // WIDE * WIDE, lanes, LANES):
                    place = (weight, (top + i) * lanes + x, x, here + x, long, back + x, step)
                    multiply_narrow(weights, features, less, gains, numbers, place)
        share = per_block * (end - begin)
        # Whether one of a row may reach it, up to rounding: of most rows none may.
        rounding = 1e-5 * (abs(enough) + abs(bias) + (abs(u_t * rows) + abs(share)) * wide)
        for side in range(sides):
            skip = spare if side else 0
            for x in range(wide):
                sums[x] = zero
            for k in range(len(carried)):
                carried[k] = zero
            for i in range(begin, end):
                for x in range(wide):
                    row[x] = zero
                for j in range(cols):
                    start = ((i * sides + side) * groups * ROWS + skip + j) * long + j
                    gain = gains[start : start + wide]
                    if not visibility:
                        for x in range(wide):
                            sums[x] += gain[x]
                        continue
                    column, limit = carried[j * wide : (j + 1) * wide], edge[j : j + wide]
                    for x in range(wide):
                        w = limit[x]
                        total = gain[x] + half * (row[x] + column[x])
                        kept = w if total > w else total
                        sums[x] += total - kept
                        row[x] = column[x] = -w if kept < -w else kept
                for x in range(wide):
                    sums[x] += half * row[x] if row[x] > zero else zero
            for j in range(cols):
                column = carried[j * wide : (j + 1) * wide]
                for x in range(wide):
                    sums[x] += half * column[x] if column[x] > zero else zero
            base = bias + u_t * rows * cols
            low = np.float32(enough - base - rounding)
            may = 0
            for x in range(wide):
                may += not sums[x] + np.float32(share) * inside[x] < low
            if may == 0:
                continue
            for x in range(width + 1):
                score = np.float32(base + share * inside[x] + sums[x])
                if score < enough or (positive and sums[x] <= zero):
                    continue
                places[found, 0], places[found, 1] = side, number
                places[found, 2], places[found, 3] = y, x
                value[found] = score
                if visibility:
                    for i in range(rows):
                        for j in range(cols):
                            k = x + j  # of the block, `left` on
                            known = begin <= i < end and left <= k < left + width
                            start = ((i * sides + side) * groups * ROWS + skip + j) * long
                            response = gains[start + k] + np.float32(u)
                            blocks[found, i * cols + j] = response if known else zero
                found += 1
    return height + 1, found
