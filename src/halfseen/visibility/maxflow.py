"""Minimum cut on a grid of blocks: push-relabel in waves, with sets of blocks held as bits.

Blocks lie in a flat frame of (rows + 2) x (cols + 1), whose border has no edges. A set of blocks is
a row of 64-bit words with bit p for block p, and `margin` empty words on either side, so that the
blocks' neighbours on one side are the whole set shifted. Only pushes that move flow touch a block.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from halfseen.arrays import Float64

RIGHT, LEFT, DOWN, UP = 0, 1, 2, 3  # side ^ 1 is the side seen from the neighbour


def _count_trailing_zeros(context: Any, word: Any) -> Any:
    """The index of the lowest set bit of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


_lowest_bit: Any = intrinsic(_count_trailing_zeros)


@njit(cache=True, nogil=True)
def margin_words(stride: int) -> int:
    """Empty words that a set needs on either side."""
    return stride // 64 + 1


@njit(cache=True, nogil=True)
def _with_neighbour(blocks: NDArray[np.uint64], w: int, side: int, stride: int) -> np.uint64:
    """Word w of the set of all blocks whose neighbour on this side is in `blocks`."""
    shift = stride if side & 2 else 1
    skip = shift >> 6
    low = np.uint64(shift & 63)
    high = np.uint64(63) - low
    one = np.uint64(1)
    if side & 1:
        moved: np.uint64 = (blocks[w - skip] << low) | ((blocks[w - skip - 1] >> high) >> one)
        return moved
    moved = (blocks[w + skip] >> low) | ((blocks[w + skip + 1] << high) << one)
    return moved


@njit(cache=True, nogil=True)
def cut_grid(
    gain: Float64,
    capacity: Float64,
    stride: int,
    excess: NDArray[np.uint64],
    deficit: NDArray[np.uint64],
    room: NDArray[np.uint64],
    levels: NDArray[np.uint64],
    trapped: NDArray[np.uint64],
    reached: NDArray[np.uint64],
) -> NDArray[np.uint64]:
    """Maximum flow; leaves in `reached` the smallest sink side of a minimum cut.

    gain (frame,)         capacity from the source where positive, to the sink where negative
    capacity (4, frame)   residual capacity to the neighbour on each side
    excess, deficit       the blocks with gain above and below 0
    room (4, words)       the blocks with capacity left on each side
    levels (any, words)   scratch; returned, longer if it had to grow
    trapped               on return the blocks that keep a positive gain: see `source_side`

    Each wave finds the true residual distance of the blocks to the sink, then lets all excess run
    down once, farthest first. Excess that is stuck waits for the next wave, when its distance has
    grown; distances never fall, so the waves end. The cost grows with the number of blocks that
    have excess: make the lighter side the source. All arrays are consumed.
    """
    margin = margin_words(stride)
    first, last = margin, len(reached) - margin
    none = np.uint64(0)
    for w in range(first, last):
        trapped[w] = none
    while True:
        for w in range(first, last):
            levels[0, w] = deficit[w]
            reached[w] = deficit[w]
        top = 0
        farthest = 0
        while True:
            if top + 1 == len(levels):
                levels = _longer(levels)
            here, there = levels[top], levels[top + 1]
            grown = active = beyond = none
            for w in range(first, last):
                found = room[RIGHT, w] & _with_neighbour(here, w, RIGHT, stride)
                found |= room[LEFT, w] & _with_neighbour(here, w, LEFT, stride)
                found |= room[DOWN, w] & _with_neighbour(here, w, DOWN, stride)
                found |= room[UP, w] & _with_neighbour(here, w, UP, stride)
                found &= ~reached[w]
                there[w] = found
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
            return levels
        for level in range(farthest, 0, -1):
            here, below = levels[level], levels[level - 1]
            for w in range(first, last):
                if here[w] & excess[w] != none:
                    _push(
                        RIGHT, here, below, w, first, gain, capacity, stride, excess, deficit, room
                    )
                    _push(
                        LEFT, here, below, w, first, gain, capacity, stride, excess, deficit, room
                    )
                    _push(
                        DOWN, here, below, w, first, gain, capacity, stride, excess, deficit, room
                    )
                    _push(UP, here, below, w, first, gain, capacity, stride, excess, deficit, room)


@njit(cache=True, nogil=True)
def _push(
    side: int,
    here: NDArray[np.uint64],
    below: NDArray[np.uint64],
    w: int,
    first: int,
    gain: Float64,
    capacity: Float64,
    stride: int,
    excess: NDArray[np.uint64],
    deficit: NDArray[np.uint64],
    room: NDArray[np.uint64],
) -> None:
    """Pushes excess of the blocks in word w of one level to their neighbours in the level below."""
    none, one = np.uint64(0), np.uint64(1)
    step = np.uint64((1 - 2 * (side & 1)) * (stride if side & 2 else 1))
    base, offset = np.uint64((w - first) * 64), np.uint64(first)
    six, low = np.uint64(6), np.uint64(63)
    pushing = here[w] & excess[w] & room[side, w] & _with_neighbour(below, w, side, stride)
    while pushing != none:
        bit = pushing & (~pushing + one)
        pushing ^= bit
        block = base + _lowest_bit(bit)
        other = block + step
        other_word, other_bit = offset + (other >> six), one << (other & low)
        # No branches: whether a push empties or saturates cannot be predicted.
        have, limit = gain[block], capacity[side, block]
        flow = have if have < limit else limit
        total = gain[other] + flow
        gain[block] = have - flow
        gain[other] = total
        capacity[side, block] = limit - flow
        capacity[side ^ 1, other] += flow
        excess[w] &= ~(bit if have <= limit else none)
        room[side, w] &= ~(bit if limit <= have else none)
        room[side ^ 1, other_word] |= other_bit
        deficit[other_word] &= ~(other_bit if total >= 0.0 else none)
        excess[other_word] |= other_bit if total > 0.0 else none


@njit(cache=True, nogil=True)
def _longer(levels: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A copy with room for twice as many levels."""
    count, words = levels.shape
    longer = np.zeros((2 * count, words), np.uint64)
    for level in range(count):
        for w in range(words):
            longer[level, w] = levels[level, w]
    return longer


@njit(cache=True, nogil=True)
def source_side(
    trapped: NDArray[np.uint64],
    room: NDArray[np.uint64],
    stride: int,
    open_sides: NDArray[np.uint64],
    reached: NDArray[np.uint64],
) -> None:
    """After `cut_grid`: the smallest source side, all that `trapped` blocks still can push to.

    open_sides (at least 4, words) is scratch.
    """
    margin = margin_words(stride)
    first, last = margin, len(reached) - margin
    none = np.uint64(0)
    for w in range(first, last):
        reached[w] = trapped[w]
    grown = True
    while grown:
        for side in range(4):
            for w in range(first, last):
                open_sides[side, w] = reached[w] & room[side, w]
        news = none
        for w in range(first, last):
            found = _with_neighbour(open_sides[RIGHT], w, LEFT, stride)
            found |= _with_neighbour(open_sides[LEFT], w, RIGHT, stride)
            found |= _with_neighbour(open_sides[DOWN], w, UP, stride)
            found |= _with_neighbour(open_sides[UP], w, DOWN, stride)
            found &= ~reached[w]
            reached[w] |= found
            news |= found
        grown = news != none
