"""Kernels over the overlaps of regions: see `Shapes`. Only regions whose boxes meet are compared.

A grid over the picture lists, for each of its cells, the regions whose boxes touch it.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from halfseen.arrays import Float64, Int64
from halfseen.suppression.candidates import Shapes

IOU, SMALLER, LOWER = 0, 1, 2
"""Places in `MEASURES`."""
CELLS = 512
"""Most cells along a side of the grid."""
TOUCHED = 16
"""Most cells, on average, that a region may touch."""
MOST_PAIRS = 5_000_000
"""Of regions that overlap: more take hundreds of megabytes, and no set of them is found in time."""
TINY = np.finfo(np.float64).tiny


class Graph(NamedTuple):
    """Pairs of candidates: k is paired with other[start[k]:start[k + 1]], ascending."""

    start: Int64
    other: Int64


class Grid(NamedTuple):
    """Lists of regions by cell; `head` and `following` are linked lists of entries of `item`."""

    origin: Float64
    scale: Float64
    sides: Int64
    head: Int64
    following: Int64
    item: Int64
    used: Int64
    stamp: Int64


@njit(cache=True, nogil=True)
def shared(s: Shapes, k: int, n: int) -> float:
    """The area that two regions share."""
    wide = min(s.box[k, 2], s.box[n, 2]) - max(s.box[k, 0], s.box[n, 0])
    high = min(s.box[k, 3], s.box[n, 3]) - max(s.box[k, 1], s.box[n, 1])
    if wide <= 0 or high <= 0:
        return 0.0
    if s.runs:
        return _shared_runs(s, k, n)
    if s.start[k + 1] - s.start[k] == 1 and s.start[n + 1] - s.start[n] == 1:
        return float(wide * high)
    total = 0.0
    for i in range(s.start[k], s.start[k + 1]):
        for j in range(s.start[n], s.start[n + 1]):
            wide = min(s.rect[i, 2], s.rect[j, 2]) - max(s.rect[i, 0], s.rect[j, 0])
            high = min(s.rect[i, 3], s.rect[j, 3]) - max(s.rect[i, 1], s.rect[j, 1])
            if wide > 0 and high > 0:
                total += wide * high
    return total


@njit(cache=True, nogil=True)
def _shared_runs(s: Shapes, k: int, n: int) -> float:
    i, j = s.start[k], s.start[n]
    stop, end = s.start[k + 1], s.start[n + 1]
    if i == stop or j == end:
        return 0.0
    i = _skip(s.last, i, stop, s.first[j])
    if i == stop:
        return 0.0
    j = _skip(s.last, j, end, s.first[i])
    total = 0
    while i < stop and j < end:
        low, high = max(s.first[i], s.first[j]), min(s.last[i], s.last[j])
        if high > low:
            total += high - low
        if s.last[i] < s.last[j]:
            i += 1
        else:
            j += 1
    return float(total)


@njit(cache=True, nogil=True)
def _skip(last: Int64, i: int, stop: int, begin: int) -> int:
    """The first run from i on that ends after `begin`."""
    while i < stop:
        middle = (i + stop) // 2
        if last[middle] <= begin:
            i = middle + 1
        else:
            stop = middle
    return i


@njit(cache=True, nogil=True)
def overlap_of(s: Shapes, measure: int, k: int, n: int) -> float:
    """The overlap of regions k and n, of which n is ranked lower."""
    both = shared(s, k, n)
    if both <= 0:
        return 0.0
    if measure == IOU:
        below = s.area[k] + s.area[n] - both
    elif measure == SMALLER:
        below = min(s.area[k], s.area[n])
    else:
        below = max(s.area[n], TINY)
    return float(both / below)


@njit(cache=True, nogil=True)
def _may_exceed(s: Shapes, measure: int, k: int, n: int, limit: float) -> bool:
    """Whether boxes and areas leave it possible that the overlap is above the limit."""
    wide = min(s.box[k, 2], s.box[n, 2]) - max(s.box[k, 0], s.box[n, 0])
    high = min(s.box[k, 3], s.box[n, 3]) - max(s.box[k, 1], s.box[n, 1])
    if wide <= 0 or high <= 0:
        return False
    most = min(wide * high, s.area[k], s.area[n])
    if measure == IOU:
        below = s.area[k] + s.area[n] - most
    elif measure == SMALLER:
        below = min(s.area[k], s.area[n])
    else:
        below = s.area[n]
    return bool(most > limit * below * (1 - 1e-12))


@njit(cache=True, nogil=True)
def overlaps_with(s: Shapes, measure: int, k: int, others: Int64) -> Float64:
    """The overlap of k with each of the others, which are ranked lower."""
    result = np.empty(len(others))
    for i in range(len(others)):
        result[i] = overlap_of(s, measure, k, others[i])
    return result


@njit(cache=True, nogil=True)
def make_grid(box: Float64, members: Int64) -> Grid:
    """An empty grid for regions with these boxes: cells about as large as they are on average."""
    count = len(members)
    low, high = np.full(2, np.inf if count else 0.0), np.full(2, -np.inf)
    mean = np.zeros(2)
    for k in members:
        for d in range(2):
            low[d], high[d] = min(low[d], box[k, d]), max(high[d], box[k, d + 2])
            mean[d] += max(box[k, d + 2] - box[k, d], 0.0) / count
    sides, scale = np.ones(2, np.int64), np.zeros(2)
    for d in range(2):
        if count and mean[d] > 0 and high[d] - low[d] > mean[d]:
            sides[d] = int(min((high[d] - low[d]) / mean[d], CELLS, 4.0 * np.sqrt(count) + 1))
    while True:
        for d in range(2):
            scale[d] = sides[d] / (high[d] - low[d]) if high[d] > low[d] else 0.0
        touched = 0.0
        for k in members:
            cells = 1.0
            for d in range(2):
                first = _cell(box[k, d], low[d], scale[d], sides[d])
                cells *= _cell(box[k, d + 2], low[d], scale[d], sides[d]) - first + 1
            touched += cells
        if touched <= TOUCHED * count or sides[0] * sides[1] == 1:
            break
        for d in range(2):
            sides[d] = max(sides[d] // 2, 1)
    head = np.full(sides[0] * sides[1], -1)
    entries = int(touched)
    return Grid(
        low, scale, sides, head, np.empty(entries, np.int64), np.empty(entries, np.int64),
        np.zeros(1, np.int64), np.full(count, -1),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _cell(at: float, low: float, scale: float, side: int) -> int:
    return int(min(max((at - low) * scale, 0.0), side - 1.0))


@njit(cache=True, nogil=True)
def insert(grid: Grid, box: Float64, item: int) -> None:
    """Lists `item` in every cell that its box touches."""
    x1, x2 = _cells(grid, box, 0)
    y1, y2 = _cells(grid, box, 1)
    for y in range(y1, y2 + 1):
        for x in range(x1, x2 + 1):
            cell, entry = y * grid.sides[0] + x, grid.used[0]
            grid.item[entry], grid.following[entry] = item, grid.head[cell]
            grid.head[cell] = entry
            grid.used[0] += 1


@njit(cache=True, nogil=True)
def _cells(grid: Grid, box: Float64, d: int) -> tuple[int, int]:
    low, scale, side = grid.origin[d], grid.scale[d], grid.sides[d]
    return _cell(box[d], low, scale, side), _cell(box[d + 2], low, scale, side)


@njit(cache=True, nogil=True)
def near(grid: Grid, box: Float64, stamp: int, found: Int64) -> int:
    """Writes the items in the cells that a box touches to `found`, each once; their number.

    stamp: another number at every call.
    """
    count = 0
    x1, x2 = _cells(grid, box, 0)
    y1, y2 = _cells(grid, box, 1)
    for y in range(y1, y2 + 1):
        for x in range(x1, x2 + 1):
            entry = grid.head[y * grid.sides[0] + x]
            while entry >= 0:
                item = grid.item[entry]
                if grid.stamp[item] != stamp:
                    grid.stamp[item] = stamp
                    found[count] = item
                    count += 1
                entry = grid.following[entry]
    return count


@njit(cache=True, nogil=True)
def choose_greedily(
    s: Shapes, order: Int64, measure: int, limit: float
) -> tuple[Int64, Int64, Float64]:
    """Takes regions in order, unless one taken before overlaps them by more than `limit`.

    The taken ones, in order; for each of `order` the first that excludes it, or -1; the overlap.
    """
    grid = make_grid(s.box, order)
    kept, found = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    excluder, overlap = np.full(len(order), -1), np.zeros(len(order))
    count = 0
    for i in range(len(order)):
        n = order[i]
        first, overlap[i] = _first_above(s, grid, kept[:count], n, measure, limit, i, found)
        if first < count:
            excluder[i] = kept[first]
        else:
            insert(grid, s.box[n], count)
            kept[count] = n
            count += 1
    return kept[:count], excluder, overlap


@njit(cache=True, nogil=True)
def first_above(s: Shapes, kept: Int64, others: Int64, measure: int, limit: float) -> Int64:
    """For each of `others` the first of `kept` that overlaps it by more than `limit`, or -1."""
    grid = make_grid(s.box, kept)
    found, result = np.empty(len(kept), np.int64), np.full(len(others), -1)
    for i in range(len(kept)):
        insert(grid, s.box[kept[i]], i)
    for i in range(len(others)):
        first, _ = _first_above(s, grid, kept, others[i], measure, limit, i, found)
        if first < len(kept):
            result[i] = kept[first]
    return result


@njit(cache=True, nogil=True)
def _first_above(
    s: Shapes, grid: Grid, kept: Int64, n: int, measure: int, limit: float, stamp: int, found: Int64
) -> tuple[int, float]:
    """The place in `kept` of the first that overlaps n by more than `limit`, or its length."""
    first, overlap = len(kept), 0.0
    for j in range(near(grid, s.box[n], stamp, found)):
        if found[j] < first and _may_exceed(s, measure, kept[found[j]], n, limit):
            now = overlap_of(s, measure, kept[found[j]], n)
            if now > limit:
                first, overlap = found[j], now
    return first, overlap


@njit(cache=True, nogil=True)
def strongest(s: Shapes, kept: Int64, measure: int) -> tuple[Int64, Float64]:
    """For every region the place in `kept` of the one that it overlaps most, and how much.

    The first of equals; -1 where nothing is shared.
    """
    count = len(s.box)
    grid = make_grid(s.box, kept)
    found, who, most = np.empty(len(kept), np.int64), np.full(count, -1), np.zeros(count)
    for i in range(len(kept)):
        insert(grid, s.box[kept[i]], i)
    for n in range(count):
        for j in range(near(grid, s.box[n], n, found)):
            overlap = overlap_of(s, measure, kept[found[j]], n)
            if overlap > most[n] or (overlap == most[n] and 0 <= found[j] < who[n]):
                who[n], most[n] = found[j], overlap
    return who, most


@njit(cache=True, nogil=True)
def find_pairs(s: Shapes, measure: int, limit: float) -> tuple[Int64, Int64]:
    """The `Graph` of regions that overlap by more than `limit`; regions are sorted, best first.

    Of more than MOST_PAIRS pairs it returns an empty `start`.
    """
    count = len(s.box)
    everyone = np.arange(count)
    grid = make_grid(s.box, everyone)
    found, degree = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    first, second, pairs = np.empty(max(count, 1), np.int64), np.empty(max(count, 1), np.int64), 0
    for n in range(count):
        for j in range(near(grid, s.box[n], n, found)):
            k = found[j]
            if _may_exceed(s, measure, k, n, limit) and overlap_of(s, measure, k, n) > limit:
                if pairs == MOST_PAIRS:
                    return np.zeros(0, np.int64), np.zeros(0, np.int64)
                if pairs == len(first):
                    first, second = doubled(first), doubled(second)
                first[pairs], second[pairs] = k, n
                pairs += 1
                degree[k + 1] += 1
                degree[n + 1] += 1
        insert(grid, s.box[n], n)
    start = np.cumsum(degree)
    fill, other = start[:-1].copy(), np.empty(2 * pairs, np.int64)
    for i in range(pairs):  # ascending n: the smaller neighbours of each come first
        k, n = first[i], second[i]
        other[fill[n]] = k
        fill[n] += 1
    for i in range(pairs):
        k, n = first[i], second[i]
        other[fill[k]] = n
        fill[k] += 1
    for k in range(count):
        other[start[k] : start[k + 1]].sort()
    return start, other


@njit(cache=True, nogil=True)
def doubled(array: Int64) -> Int64:
    """A copy with room for twice as many."""
    wider = np.empty(2 * len(array), np.int64)
    for i in range(len(array)):
        wider[i] = array[i]
    return wider
