"""Minimum cuts on grids of blocks: push-relabel in waves, with sets of blocks held as bits.

Blocks lie in a flat frame of (rows + 2) x (cols + 1), whose border has no edges. A set of blocks is
a row of 64-bit words with bit p for block p, and `margin` empty words on either side, so that the
blocks' neighbours on one side are the whole set shifted. Only pushes that move flow touch a block.

One function, with loops over the sides of a block: every function that another calls is compiled
once more with it, and a first detection waits for all of that.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from halfseen.arrays import Bool, Float32, Float64

RIGHT, LEFT, DOWN, UP = 0, 1, 2, 3  # side ^ 1 is the side seen from the neighbour


def _count_trailing_zeros(context: Any, word: Any) -> Any:
    """The index of the lowest set bit of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


_lowest_bit: Any = intrinsic(_count_trailing_zeros)


@njit(cache=True, nogil=True)
def solve_grids(
    responses: Float32,
    u: Float64,
    alpha: float,
    hidden: Bool,
    horizontal: Float32,
    vertical: Float32,
    scores: Float32,
    flags: Bool,
) -> None:
    """Fill scores (N,) and flags (N, rows, cols) with the maximum of Eqn 1 without b.

    The first six are the parts of a `Problem`. Each cut is a maximum flow: a wave finds the true
    residual distance of the blocks to the sink, then lets all excess run down once, farthest first.
    Excess that is stuck waits for the next wave, when its distance has grown; distances never fall,
    so the waves end. The cost grows with the number of blocks that have excess, so flow starts from
    the lighter side: mostly the few blocks that would rather be hidden.

    gain (frame,)         capacity from the source where positive, to the sink where negative
    capacity (4, frame)   residual capacity to the neighbour on each side
    excess, deficit       the blocks with gain above and below 0
    room (4, words)       the blocks with capacity left on each side
    levels (.., words)    the blocks at each distance from the sink
    trapped               the blocks that keep a positive gain
    """
    count, rows, cols = responses.shape
    stride = cols + 1
    frame = (rows + 2) * stride
    margin = stride // 64 + 1
    words = (frame + 63) // 64 + 2 * margin
    first, last = margin, words - margin
    none, one, six, all_low = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)
    gain = np.zeros(frame)
    capacity = np.zeros((4, frame))
    edge = np.zeros((2, frame))  # weights of the edges to the right and down
    room = np.zeros((4, words), np.uint64)
    levels = np.zeros((rows * cols + 2, words), np.uint64)
    sets = np.zeros((4, words), np.uint64)
    excess, deficit, trapped, reached = sets[0], sets[1], sets[2], sets[3]
    # The neighbour on a side lies `step` blocks on, and in a set `ahead` words and `low` bits on.
    step, ahead = np.empty(4, np.int64), np.empty(4, np.int64)
    low, high = np.empty(4, np.uint64), np.empty(4, np.uint64)
    for side in range(4):
        step[side] = (stride if side & 2 else 1) * (-1 if side & 1 else 1)
        ahead[side] = step[side] >> 6
        low[side] = np.uint64(step[side] & 63)
        high[side] = all_low - low[side]
    padded, contrast = len(hidden) > 0, len(horizontal) > 0
    plain = np.zeros((4, words), np.uint64)  # `room` of a window with all of its edges alike
    known = False

    for n in range(count):
        total = 0.0
        alike = not contrast and alpha > 0.0
        for r in range(rows):
            for c in range(cols):
                block = (r + 1) * stride + c
                right = down = value = 0.0
                if padded and hidden[n, r, c]:
                    alike = False
                if not (padded and hidden[n, r, c]):
                    value = responses[n, r, c] - u[n]
                    if c + 1 < cols and not (padded and hidden[n, r, c + 1]):
                        right = alpha * horizontal[n, r, c] if contrast else alpha
                    if r + 1 < rows and not (padded and hidden[n, r + 1, c]):
                        down = alpha * vertical[n, r, c] if contrast else alpha
                gain[block] = value
                total += value
                edge[0, block] = capacity[RIGHT, block] = capacity[LEFT, block + 1] = right
                edge[1, block] = capacity[DOWN, block] = capacity[UP, block + stride] = down
        from_hidden = total > 0.0
        for w in range(first, last):
            above = below = none
            for side in range(4):
                room[side, w] = plain[side, w] if alike else none
            for k in range(min(64, frame - 64 * (w - first))):
                block = 64 * (w - first) + k
                value = -gain[block] if from_hidden else gain[block]
                gain[block] = value
                bit = one << np.uint64(k)
                above |= bit if value > 0.0 else none
                below |= bit if value < 0.0 else none
            if not (alike and known):
                for k in range(min(64, frame - 64 * (w - first))):
                    block = 64 * (w - first) + k
                    bit = one << np.uint64(k)
                    for side in range(4):
                        room[side, w] |= bit if capacity[side, block] > 0.0 else none
                if alike:
                    for side in range(4):
                        plain[side, w] = room[side, w]
            excess[w], deficit[w], trapped[w] = above, below, none
        known |= alike

        while True:
            for w in range(first, last):
                levels[0, w] = reached[w] = deficit[w]
            top = farthest = 0
            while True:
                grown = active = beyond = none
                for w in range(first, last):
                    found = none
                    for side in range(4):
                        k = w + ahead[side]
                        found |= room[side, w] & (
                            (levels[top, k] >> low[side])
                            | ((levels[top, k + 1] << high[side]) << one)
                        )
                    found &= ~reached[w]
                    levels[top + 1, w] = found
                    reached[w] |= found
                    grown |= found
                    active |= found & excess[w]
                    beyond |= excess[w] & ~reached[w]
                top += 1
                if active != none:
                    farthest = top
                    if beyond == none:
                        break
                if grown == none:
                    # What cannot reach the sink now never will.
                    for w in range(first, last):
                        trapped[w] |= excess[w] & ~reached[w]
                        excess[w] &= reached[w]
                    break
            if farthest == 0:
                break
            for level in range(farthest, 0, -1):
                for w in range(first, last):
                    if levels[level, w] & excess[w] == none:
                        continue
                    base = np.uint64(64 * (w - first))
                    for side in range(4):
                        k = w + ahead[side]
                        pushing = levels[level, w] & excess[w] & room[side, w]
                        pushing &= (levels[level - 1, k] >> low[side]) | (
                            (levels[level - 1, k + 1] << high[side]) << one
                        )
                        while pushing != none:
                            bit = pushing & (~pushing + one)
                            pushing ^= bit
                            start = base + _lowest_bit(bit)
                            other = start + np.uint64(step[side])
                            there = np.uint64(first) + (other >> six)
                            other_bit = one << (other & all_low)
                            # No branches: whether a push empties or saturates cannot be predicted.
                            have, limit = gain[start], capacity[side, start]
                            flow = have if have < limit else limit
                            after = gain[other] + flow
                            gain[start] = have - flow
                            gain[other] = after
                            capacity[side, start] = limit - flow
                            capacity[side ^ 1, other] += flow
                            excess[w] &= ~(bit if have <= limit else none)
                            room[side, w] &= ~(bit if limit <= have else none)
                            room[side ^ 1, there] |= other_bit
                            deficit[there] &= ~(other_bit if after >= 0.0 else none)
                            excess[there] |= other_bit if after > 0.0 else none

        # `reached` is the smallest sink side. From the hidden blocks: the smallest source side, all
        # that trapped blocks still can push to.
        if from_hidden:
            for w in range(first, last):
                reached[w] = trapped[w]
            grown = one
            while grown != none:
                grown = none
                for w in range(first, last):
                    found = none
                    for side in range(4):
                        k = w + ahead[side ^ 1]
                        found |= ((reached[k] & room[side, k]) >> low[side ^ 1]) | (
                            ((reached[k + 1] & room[side, k + 1]) << high[side ^ 1]) << one
                        )
                    found &= ~reached[w]
                    reached[w] |= found
                    grown |= found
            # The margins stay empty.
        total = 0.0
        for r in range(rows):
            for c in range(cols):
                block = (r + 1) * stride + c
                bit = reached[margin + (block >> 6)] >> np.uint64(block & 63)
                visible = bit & one == none
                if padded and hidden[n, r, c]:
                    visible = False
                else:
                    total += np.float64(responses[n, r, c]) if visible else u[n]
                flags[n, r, c] = visible
        cut = 0.0
        for r in range(rows):
            for c in range(cols):
                block = (r + 1) * stride + c
                if c + 1 < cols and flags[n, r, c] != flags[n, r, c + 1]:
                    cut += edge[0, block]
                if r + 1 < rows and flags[n, r, c] != flags[n, r + 1, c]:
                    cut += edge[1, block]
        scores[n] = total - cut
