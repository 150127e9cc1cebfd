"""Exact visibility of a batch of windows: the maximum of Eqn 1 as a minimum cut.

All windows go to one solver. A dynamic programme over the frontier of the short side, with windows
reduced by persistency first, was measured too: at 12x8 blocks it takes four times as long, and no
shape was found where it wins by much. Arithmetic is float64 on float32 responses, so the maximum
found is the true one up to the last bits of a double.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.visibility.maxflow import DOWN, LEFT, RIGHT, UP, cut_grid, margin_words, source_side
from halfseen.visibility.problem import Problem


@njit(cache=True, nogil=True)
def solve_grids(problem: Problem, scores: NDArray[np.float32], flags: NDArray[np.bool_]) -> None:
    """Fill scores (N,) and flags (N, rows, cols) with the maximum of Eqn 1 without b."""
    responses, u, alpha, hidden, horizontal, vertical = problem
    count, rows, cols = responses.shape
    stride = cols + 1
    frame = (rows + 2) * stride
    margin = margin_words(stride)
    words = (frame + 63) // 64 + 2 * margin
    gain = np.zeros(frame)
    weight = np.zeros((4, frame))
    capacity = np.empty((4, frame))
    edges = np.zeros((4, words), np.uint64)
    room = np.zeros((4, words), np.uint64)
    excess = np.zeros(words, np.uint64)
    deficit = np.zeros(words, np.uint64)
    trapped = np.zeros(words, np.uint64)
    reached = np.zeros(words, np.uint64)
    levels = np.zeros((4 * (rows + cols), words), np.uint64)
    alike = len(hidden) == 0 and len(horizontal) == 0

    for n in range(count):
        if n == 0 or not alike:
            _weigh(n, alpha, hidden, horizontal, vertical, weight)
            for side in range(4):
                _pack_signs(weight[side], margin, edges[side], reached)
        for side in range(4):
            for block in range(frame):
                capacity[side, block] = weight[side, block]
            for w in range(words):
                room[side, w] = edges[side, w]
        # Flow starts from the lighter side: mostly the few blocks that would rather be hidden.
        from_hidden = _load(n, responses, u, hidden, gain)
        _pack_signs(gain, margin, excess, deficit)
        levels = cut_grid(gain, capacity, stride, excess, deficit, room, levels, trapped, reached)
        if from_hidden:
            source_side(trapped, room, stride, levels, reached)
        for r in range(rows):
            for c in range(cols):
                block = (r + 1) * stride + c
                bit = reached[margin + (block >> 6)] >> np.uint64(block & 63)
                flags[n, r, c] = bit & np.uint64(1) == np.uint64(0)
        scores[n] = _energy(n, responses, u, hidden, weight, flags)


@njit(cache=True, nogil=True)
def _load(
    n: int,
    responses: NDArray[np.float32],
    u: NDArray[np.float64],
    hidden: NDArray[np.bool_],
    gain: NDArray[np.float64],
) -> bool:
    """Fill gain (frame,) and return whether it speaks for hidden.

    It is what each block wins by being visible or, if that is mostly above 0, by being hidden.
    """
    _, rows, cols = responses.shape
    stride = cols + 1
    total = 0.0
    for r in range(rows):
        for c in range(cols):
            padded = len(hidden) > 0 and hidden[n, r, c]
            value = 0.0 if padded else responses[n, r, c] - u[n]
            gain[(r + 1) * stride + c] = value
            total += value
    if total > 0.0:
        for block in range(len(gain)):
            gain[block] = -gain[block]
    return total > 0.0


@njit(cache=True, nogil=True)
def _weigh(
    n: int,
    alpha: float,
    hidden: NDArray[np.bool_],
    horizontal: NDArray[np.float32],
    vertical: NDArray[np.float32],
    weight: NDArray[np.float64],
) -> None:
    """weight (4, frame): of every block's edges in window n. Padded blocks have none."""
    _, rows, cols = hidden.shape
    stride = cols + 1
    for r in range(rows):
        for c in range(cols):
            block = (r + 1) * stride + c
            if c > 0:
                value = alpha * horizontal[n, r, c - 1] if len(horizontal) else alpha
                if len(hidden) and (hidden[n, r, c] or hidden[n, r, c - 1]):
                    value = 0.0
                weight[LEFT, block] = value
                weight[RIGHT, block - 1] = value
            if r > 0:
                value = alpha * vertical[n, r - 1, c] if len(vertical) else alpha
                if len(hidden) and (hidden[n, r, c] or hidden[n, r - 1, c]):
                    value = 0.0
                weight[UP, block] = value
                weight[DOWN, block - stride] = value


@njit(cache=True, nogil=True)
def _pack_signs(
    values: NDArray[np.float64],
    margin: int,
    above: NDArray[np.uint64],
    below: NDArray[np.uint64],
) -> None:
    """The sets of blocks with a value above and below 0."""
    for w in range((len(values) + 63) // 64):
        positive = negative = np.uint64(0)
        for k in range(min(64, len(values) - 64 * w)):
            value = values[64 * w + k]
            positive |= np.uint64(value > 0.0) << np.uint64(k)
            negative |= np.uint64(value < 0.0) << np.uint64(k)
        above[margin + w] = positive
        below[margin + w] = negative


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _energy(
    n: int,
    responses: NDArray[np.float32],
    u: NDArray[np.float64],
    hidden: NDArray[np.bool_],
    weight: NDArray[np.float64],
    flags: NDArray[np.bool_],
) -> float:
    """Eqn 1 without b, of window n. Takes padded blocks out of its flags."""
    _, rows, cols = flags.shape
    stride = cols + 1
    total = cut = 0.0
    for r in range(rows):
        for c in range(cols):
            if len(hidden) > 0 and hidden[n, r, c]:
                flags[n, r, c] = False
            else:
                total += np.float64(responses[n, r, c]) if flags[n, r, c] else u[n]
    for r in range(rows):
        for c in range(cols - 1):
            value = weight[RIGHT, (r + 1) * stride + c]
            cut += value if flags[n, r, c] != flags[n, r, c + 1] else 0.0
    for r in range(rows - 1):
        for c in range(cols):
            value = weight[DOWN, (r + 1) * stride + c]
            cut += value if flags[n, r, c] != flags[n, r + 1, c] else 0.0
    return total - cut
