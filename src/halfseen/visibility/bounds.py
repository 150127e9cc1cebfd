"""Upper bounds on a window's score with visibility, cheap enough for every window of an image.

Arguments and units are those of `solve_grids`: no bound is below the score that it returns.
"""

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float32, Float64, Int64
from halfseen.visibility.problem import Problem

# Sums in any order, but a NaN stays one.
LOOSE = {"reassoc", "nsz", "contract"}
# Windows that the chains are solved for at once: vectors of 16 at the least, few enough for the
# caches at the most.
VECTOR, LANES = 16, 64


@njit(cache=True, nogil=True)
def block_bounds(
    responses: Float32,
    u: Float64,
    hidden: Bool,
    bounds: Float32,
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
def chain_bounds(problem: Problem, above: float, passes: int, bounds: Float32) -> None:
    """Each unary is split between the chain of its row and that of its column, solved exactly.

    The two may disagree about a block, so their sum is at least the score. Sequential
    tree-reweighted message passing (Kolmogorov, 2006) finds the split: every pass gives a bound,
    none looser than the one before, and they approach the score. Windows whose bound is below
    `above` need no other pass; `passes` limits the rest.
    """
    responses, u = problem.responses, problem.u
    count, rows, cols = responses.shape
    lanes = min(LANES, (count + VECTOR - 1) // VECTOR * VECTOR)
    tile = _empty_tile(rows, cols, lanes)
    known = np.full(lanes, rows * cols)
    best = np.empty(lanes, np.float32)
    messages = np.empty((4, rows * cols + cols, lanes), np.float32)
    for start in range(0, count, max(lanes, 1)):
        _load_tile(start, problem, tile, known)
        messages[:] = np.float32(0.0)
        for number in range(passes):
            pass_tile(tile, messages, number % 2 == 0, cols, best)
            undecided = False
            for k in range(min(lanes, count - start)):
                bound = best[k] + u[start + k] * known[k]
                bounds[start + k] = bound
                undecided |= bound >= above
            if not undecided:
                break


@njit(cache=True, nogil=True)
def _empty_tile(rows: int, cols: int, lanes: int) -> tuple[Float32, Float32, Float32]:
    """gain, left and up of some windows, (blocks + cols, lanes) each.

    gain is response - u, 0 for padded blocks. left and up are *twice* the weights of the edges to
    the block on the left and above: 0 in the first column and row, and in the last `cols` rows,
    which are no blocks, but where the last ones' edges to the right and below would be.
    """
    shape = (rows * cols + cols, lanes)
    return np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.float32)


@njit(cache=True, nogil=True)
def _load_tile(
    start: int, problem: Problem, tile: tuple[Float32, Float32, Float32], known: Int64
) -> None:
    """Fill the tile with the windows from `start` on; `known` (lanes,) is their blocks inside."""
    responses, u, alpha, hidden, horizontal, vertical = problem
    gain, left, up = tile
    count, rows, cols = responses.shape
    for k in range(min(len(known), count - start)):
        for r in range(rows):
            for c in range(cols):
                gain[r * cols + c, k] = responses[start + k, r, c] - u[start + k]
        if start == 0 or len(hidden) > 0 or len(horizontal) > 0:
            for r in range(rows):
                for c in range(1, cols):
                    weight = horizontal[start + k, r, c - 1] if len(horizontal) > 0 else 1.0
                    left[r * cols + c, k] = 2.0 * alpha * weight
            for r in range(1, rows):
                for c in range(cols):
                    weight = vertical[start + k, r - 1, c] if len(vertical) > 0 else 1.0
                    up[r * cols + c, k] = 2.0 * alpha * weight
        if len(hidden) > 0:
            known[k] = rows * cols - _remove_padded(hidden[start + k], k, gain, left, up)


@njit(cache=True, nogil=True, fastmath=LOOSE, inline="always")
def _pass_on(
    total: Float32,
    edge: np.uintp,
    received: Float32,
    weight: Float32,
    sent: Float32,
    certain: Float32,
) -> None:
    """Send a message over an edge, cut to its weight; the excess is added to `certain`."""
    for k in range(len(total)):
        w = weight[edge, k]
        ahead = total[k] - received[edge, k]
        kept = w if ahead > w else ahead
        certain[k] += ahead - kept
        sent[edge, k] = -w if kept < -w else kept


@njit(cache=True, nogil=True, fastmath=LOOSE)
def pass_tile(
    tile: tuple[Float32, Float32, Float32],
    messages: Float32,
    forward: bool,
    cols: int,
    best: Float32,
) -> None:
    """One pass over the blocks of a tile, from the first to the last or back.

    messages (4, blocks + cols, lanes) pass over the edges to the left of and above each block: to
    it from the left, from it to the left, to it from above, from it to above; each is how much
    better its chain is if the block it comes from is visible, within the edge's weight. A block
    adds its gain and the messages of its four neighbours, gives half of the sum to each of its two
    chains, and sends over each edge the sum without the message from there.
    best (lanes,) is the value of all chains so split, above u for every block, raised by more than
    its rounding.
    """
    gain, left, up = tile
    going, coming, falling, rising = messages[0], messages[1], messages[2], messages[3]
    blocks = len(gain) - cols
    half, zero = np.float32(0.5), np.float32(0.0)
    total = np.empty(len(best), np.float32)
    size = np.zeros(len(best), np.float32)
    certain = np.zeros(len(best), np.float32)
    best[:] = zero
    # The sums nest by rows; a block's own rounding is that of a few terms.
    nested, single = np.float32((blocks // cols + cols) * 6e-8), np.float32(16 * 6e-8)
    for n in range(blocks):
        i = np.uintp(n if forward else blocks - 1 - n)
        if n % cols == 0:
            for k in range(gain.shape[1]):
                best[k] += certain[k]
                certain[k] = zero
        # Loops over few arrays, which the compiler can tell apart, become vectors.
        right, under = i + np.uintp(1), i + np.uintp(cols)
        for k in range(gain.shape[1]):
            total[k] = (
                gain[i, k]
                + half * (going[i, k] + coming[right, k])
                + half * (falling[i, k] + rising[under, k])
            )
            size[k] += abs(total[k])
        if forward:
            _pass_on(total, right, coming, left, going, certain)
            _pass_on(total, under, rising, up, falling, certain)
        else:
            _pass_on(total, i, going, left, coming, certain)
            _pass_on(total, i, falling, up, rising, certain)
    for k in range(gain.shape[1]):
        value = half * (best[k] + certain[k])
        best[k] = value + nested * value + single * size[k]


@njit(cache=True, nogil=True)
def _remove_padded(
    hidden: Bool,
    k: int,
    gain: Float32,
    left: Float32,
    up: Float32,
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
