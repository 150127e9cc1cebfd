"""Upper bounds on a window's score with visibility, cheap enough for every window of an image.

Arguments and units are those of `solve_grids`: no bound is below the score that it returns.
"""

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float32, Float64

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


@njit(cache=True, nogil=True, fastmath=LOOSE)
def chain_bounds(
    responses: Float32,
    u: Float64,
    alpha: float,
    hidden: Bool,
    horizontal: Float32,
    vertical: Float32,
    above: float,
    passes: int,
) -> Float32:
    """(N,): each unary is split between the chains of its row and of its column, solved exactly.

    The two may disagree about a block, so their sum is at least the score. Sequential
    tree-reweighted message passing (Kolmogorov, 2006) finds the split: every pass gives a bound,
    none looser than the one before, and they approach the score. Windows whose bound is below
    `above` need no other pass; `passes` limits the rest. The first six are the parts of a
    `Problem`.

    Windows are taken side by side, `lanes` at once, and all arrays have a row for each block.

    gain      response - u, 0 for padded blocks
    weight    *twice* the weights of the edges to the block on the left and to the one above: 0 in
              the first column and row, and in the last `cols` rows, which are no blocks, but where
              the last ones' edges to the right and below would be
    messages  of the same edges: to a block from the left, and from it to the left; to it from
              above, and from it to above. Each is how much better its chain is if the block it
              comes from is visible, within the edge's weight

    A pass goes over the blocks from the first to the last, or back. A block adds its gain and the
    messages of its four neighbours, gives half of the sum to each of its two chains, and sends over
    each edge the sum without the message from there, cut to the edge's weight; the excess is
    `certain`. The value of all chains, above u for every block, is raised by more than its
    rounding.
    """
    count, rows, cols = responses.shape
    lanes = min(LANES, (count + VECTOR - 1) // VECTOR * VECTOR)
    blocks = rows * cols
    padded, contrast = len(hidden) > 0, len(horizontal) > 0
    bounds = np.empty(count, np.float32)
    gain = np.zeros((blocks, lanes), np.float32)
    weight = np.zeros((2, blocks + cols, lanes), np.float32)
    messages = np.empty((2, 2, blocks + cols, lanes), np.float32)
    known = np.empty(lanes, np.int64)
    sums = np.empty((4, lanes), np.float32)
    total, size, certain, best = sums[0], sums[1], sums[2], sums[3]
    half, zero = np.float32(0.5), np.float32(0.0)
    # The sums nest by rows; a block's own rounding is that of a few terms.
    nested, single = np.float32((rows + cols) * 6e-8), np.float32(16 * 6e-8)
    for start in range(0, count, max(lanes, 1)):
        some = min(lanes, count - start)
        # Of windows without padding or contrast, all but the gains is as in those before.
        weighed = start > 0 and not (padded or contrast)
        for k in range(some):
            n = start + k
            if weighed:
                for r in range(rows):
                    for c in range(cols):
                        gain[r * cols + c, k] = responses[n, r, c] - u[n]
                continue
            known[k] = 0
            for r in range(rows):
                for c in range(cols):
                    i = r * cols + c
                    value = left = up = 0.0
                    if not (padded and hidden[n, r, c]):
                        value = responses[n, r, c] - u[n]
                        known[k] += 1
                        if c > 0 and not (padded and hidden[n, r, c - 1]):
                            left = 2.0 * alpha * (horizontal[n, r, c - 1] if contrast else 1.0)
                        if r > 0 and not (padded and hidden[n, r - 1, c]):
                            up = 2.0 * alpha * (vertical[n, r - 1, c] if contrast else 1.0)
                    gain[i, k], weight[0, i, k], weight[1, i, k] = value, left, up
        messages[:] = zero
        for number in range(passes):
            back = number % 2
            sums[:] = zero
            for m in range(blocks):
                i = np.uintp(blocks - 1 - m if back else m)
                if m % cols == 0:
                    for k in range(lanes):
                        best[k] += certain[k]
                        certain[k] = zero
                right, under = i + np.uintp(1), i + np.uintp(cols)
                # Loops over few arrays, which the compiler can tell apart, become vectors.
                for k in range(lanes):
                    total[k] = (
                        gain[i, k]
                        + half * (messages[0, 0, i, k] + messages[0, 1, right, k])
                        + half * (messages[1, 0, i, k] + messages[1, 1, under, k])
                    )
                    size[k] += abs(total[k])
                for axis in range(2):
                    edge = i if back else (under if axis else right)
                    for k in range(lanes):
                        w = weight[axis, edge, k]
                        ahead = total[k] - messages[axis, 1 - back, edge, k]
                        kept = w if ahead > w else ahead
                        certain[k] += ahead - kept
                        messages[axis, back, edge, k] = -w if kept < -w else kept
            undecided = False
            for k in range(some):
                value = half * (best[k] + certain[k])
                value += nested * value + single * size[k]
                bounds[start + k] = value + u[start + k] * known[k]
                undecided |= bounds[start + k] >= above
            if not undecided:
                break
    return bounds
