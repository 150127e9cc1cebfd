"""Which regions overlap better ones by more than a limit: greedy suppression's only question.

Of a few boxes every pair is asked, by a kernel that compiles in an instant; everything else goes to
`overlap_kernels`, which finds the same.
"""

import numpy as np
from numba import njit

from halfseen.arrays import Float64, Int64
from halfseen.suppression.candidates import Shapes, of_boxes

MOST = 1000
"""Boxes that are best compared one by one; of more, a grid finds those that meet."""
TINY = np.finfo(np.float64).tiny


def choose_greedily(
    shapes: Shapes, order: Int64, measure: int, limit: float
) -> tuple[Int64, Int64, Float64]:
    """Take regions in order, unless one taken before overlaps them by more than `limit`.

    The taken ones, in order; for each of `order` the first that excludes it, or -1; the overlap.
    """
    if not _few_boxes(shapes, order):
        from halfseen.suppression import overlap_kernels

        return overlap_kernels.choose_greedily(shapes, order, measure, limit)
    kept = np.empty(len(order), np.int64)
    count, excluder, overlap = _first_boxes(
        shapes.box, shapes.area, kept, 0, order, measure, limit, True
    )
    return kept[:count], excluder, overlap


def first_above(shapes: Shapes, kept: Int64, others: Int64, measure: int, limit: float) -> Int64:
    """Find for each of `others` the first of `kept` that overlaps it more than `limit`, or -1."""
    if not _few_boxes(shapes, kept):
        from halfseen.suppression import overlap_kernels

        return overlap_kernels.first_above(shapes, kept, others, measure, limit)
    return _first_boxes(shapes.box, shapes.area, kept, len(kept), others, measure, limit, False)[1]


def compile_kernels() -> None:
    """Compile what a picture's boxes need, or load it."""
    first = np.zeros(1, np.int64)
    choose_greedily(of_boxes(np.zeros((1, 4))), first, 0, 0.5)


def _few_boxes(shapes: Shapes, compared: Int64) -> bool:
    """Whether every region is one box, and no more of them than MOST are compared."""
    return len(compared) <= MOST and not shapes.runs and bool((np.diff(shapes.start) == 1).all())


@njit(cache=True, nogil=True)
def _first_boxes(
    box: Float64,
    area: Float64,
    kept: Int64,
    count: int,
    others: Int64,
    measure: int,
    limit: float,
    grow: bool,
) -> tuple[int, Int64, Float64]:
    """For each of `others` the first of the `count` kept boxes that overlaps it, or -1; how much.

    With `grow` a box that none overlaps is then kept as well. First comes how many are kept.
    """
    first, overlap = np.empty(len(others), np.int64), np.empty(len(others), np.float64)
    for i in range(len(others)):
        n = others[i]
        first[i], overlap[i] = -1, 0.0
        for j in range(count):
            k = kept[j]
            wide = min(box[k, 2], box[n, 2]) - max(box[k, 0], box[n, 0])
            high = min(box[k, 3], box[n, 3]) - max(box[k, 1], box[n, 1])
            if wide <= 0 or high <= 0:
                continue
            both = wide * high
            below = area[n]
            if measure == 0:  # see `MEASURES`
                below = area[k] + area[n] - both
            elif measure == 1:
                below = min(area[k], area[n])
            share = both / max(below, TINY)
            if share > limit:
                first[i], overlap[i] = k, share
                break
        if grow and first[i] < 0:
            kept[count] = n
            count += 1
    return count, first, overlap
