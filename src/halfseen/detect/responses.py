"""Responses of a template's blocks at one level, and the windows that stand out, by rows.

Every response has its place in one row of windows only, so a ring of rows holds all that is needed.
Not a convolution by FFT: the maximum over each block's flag needs the blocks apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Float32, Int64
from halfseen.detect.search_kernels import LANES, bound_rows, find_reached, sum_rows, take_blocks
from halfseen.detect.view import Split

# Responses that are held at once: few enough for the caches, but some rows at the least.
HELD_BYTES, LEAST_ROWS = 1 << 20, 4


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
