"""Upper bounds on a window's score with visibility, cheap enough for every window of an image.

Arguments and units are those of `solve_grids`: no bound is below the score that it returns.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

LANES = 16  # windows that the chains are solved for at once


@njit(cache=True, nogil=True)
def block_bounds(
    responses: NDArray[np.float32],
    u: NDArray[np.float64],
    hidden: NDArray[np.bool_],
    bounds: NDArray[np.float32],
) -> None:
    """Eqn 3 without b: every block takes the better of its response and u, with no Ising prior."""
    count, rows, cols = responses.shape
    slack = 4.0 * rows * cols * np.finfo(np.float64).eps
    for n in range(count):
        total = size = 0.0
        for r in range(rows):
            for c in range(cols):
                if len(hidden) == 0 or not hidden[n, r, c]:
                    best = max(np.float64(responses[n, r, c]), u[n])
                    total += best
                    size += abs(best)
        bounds[n] = total + slack * size


@njit(cache=True, nogil=True)
def chain_bounds(
    responses: NDArray[np.float32],
    u: NDArray[np.float64],
    alpha: float,
    hidden: NDArray[np.bool_],
    horizontal: NDArray[np.float32],
    vertical: NDArray[np.float32],
    bounds: NDArray[np.float32],
) -> None:
    """Half of each unary on the row chains, half on the column chains, each chain solved exactly.

    The two halves may disagree about a block, so their sum is at least the score.
    """
    count, rows, cols = responses.shape
    blocks = rows * cols
    gain = np.zeros((blocks, LANES), np.float32)
    left = np.full((blocks, LANES), np.float32(2.0 * alpha))
    up = np.full((blocks, LANES), np.float32(2.0 * alpha))
    known = np.full(LANES, blocks)
    best = np.empty(LANES, np.float32)
    flat = responses.reshape(count, blocks)
    for start in range(0, count, LANES):
        lanes = min(LANES, count - start)
        for k in range(lanes):
            for i in range(blocks):
                gain[i, k] = flat[start + k, i] - u[start + k]
        if len(horizontal) > 0:
            for k in range(lanes):
                for r in range(rows):
                    for c in range(1, cols):
                        left[r * cols + c, k] = 2.0 * alpha * horizontal[start + k, r, c - 1]
                for r in range(1, rows):
                    for c in range(cols):
                        up[r * cols + c, k] = 2.0 * alpha * vertical[start + k, r - 1, c]
        if len(hidden) > 0:
            if len(horizontal) == 0:
                left[:] = 2.0 * alpha
                up[:] = 2.0 * alpha
            for k in range(lanes):
                known[k] = blocks - _remove_padded(hidden[start + k], k, gain, left, up)
        bound_tile(gain, left, up, cols, best)
        for k in range(lanes):
            bounds[start + k] = np.float64(best[k]) + u[start + k] * known[k]


@njit(cache=True, nogil=True)
def bound_tile(
    gain: NDArray[np.float32],
    left: NDArray[np.float32],
    up: NDArray[np.float32],
    cols: int,
    best: NDArray[np.float32],
) -> None:
    """The chain bound of LANES windows whose blocks lie in rows of (blocks, LANES).

    gain is response - u, 0 for padded blocks; left and up are *twice* the weights of the edges to
    the block on the left and above (those of the first column and row are not read). best (LANES,)
    is the bound above u for every block, raised by more than its rounding.

    A chain's optimum is carried as `ahead`, how much better it is if its last block is visible.
    Over an edge of weight w it shrinks to [-w, w], and what exceeds w is won for certain.
    """
    blocks = len(gain)
    row = np.empty(LANES, np.float32)
    certain = np.empty(LANES, np.float32)
    columns = np.zeros((cols, LANES), np.float32)
    size = np.zeros(LANES, np.float32)
    best[:] = np.float32(0.0)
    zero = np.float32(0.0)
    for i in range(blocks):
        c = i % cols
        column = columns[c]
        if c == 0:
            for k in range(LANES):
                row[k] = zero
                certain[k] = zero
        for k in range(LANES):
            value = gain[i, k]
            size[k] += abs(value)
            w = left[i, k]
            if c == 0:
                w = zero
            ahead = row[k]
            over = ahead - w
            won = over if over > zero else zero
            kept = ahead if ahead < w else w
            row[k] = value + (kept if kept > -w else -w)
            w = up[i, k]
            ahead = column[k]
            over = ahead - w
            won += over if over > zero else zero
            kept = ahead if ahead < w else w
            column[k] = value + (kept if kept > -w else -w)
            certain[k] += won
        if c == cols - 1:
            for k in range(LANES):
                best[k] += certain[k] + (row[k] if row[k] > zero else zero)
    for c in range(cols):
        for k in range(LANES):
            best[k] += columns[c, k] if columns[c, k] > zero else zero
    slack = np.float32(4 * (blocks // cols + cols) * 6e-8)  # sums nest by rows
    half = np.float32(0.5)
    for k in range(LANES):
        best[k] = half * best[k] + slack * size[k]


@njit(cache=True, nogil=True)
def _remove_padded(
    hidden: NDArray[np.bool_],
    k: int,
    gain: NDArray[np.float32],
    left: NDArray[np.float32],
    up: NDArray[np.float32],
) -> int:
    """Takes a window's padded blocks out of its chains; returns how many there are."""
    rows, cols = hidden.shape
    removed = 0
    for r in range(rows):
        for c in range(cols):
            if hidden[r, c]:
                i = r * cols + c
                removed += 1
                gain[i, k] = 0.0
                left[i, k] = 0.0
                up[i, k] = 0.0
                if c + 1 < cols:
                    left[i + 1, k] = 0.0
                if r + 1 < rows:
                    up[i + cols, k] = 0.0
    return removed
