"""Covering problems with too many pieces to cut: marginal gains by geometry, and a proven gap.

The gain of a candidate is computed from the few chosen ones that it touches. The bound takes from
each clique of conflicts, of which any set has one member at most, the member worth most.
"""

import heapq

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float64, Int64
from halfseen.suppression.candidates import Shapes
from halfseen.suppression.overlap_kernels import Graph, insert, make_grid, near
from halfseen.suppression.solver.decompose import join, parts_of
from halfseen.suppression.solver.tidy import fits

ROUNDS = 10
"""How often candidates that add nothing are dropped, and others tried in their place."""


@njit(cache=True, nogil=True)
def touching(s: Shapes) -> tuple[Int64, Int64]:
    """Components of regions whose boxes meet: (bounds, members), members ascending."""
    count = len(s.box)
    root, found = np.arange(count), np.empty(count, np.int64)
    grid = make_grid(s.box, root)
    for n in range(count):
        for j in range(near(grid, s.box[n], n, found)):
            if _meet(s.box[n], s.box[found[j]]):
                join(root, n, found[j])
        insert(grid, s.box[n], n)
    return parts_of(root)


@njit(cache=True, nogil=True)
def take_marginally(
    s: Shapes, value: Float64, conflict: Graph, price: float
) -> tuple[Bool, float, float, Float64]:
    """Takes the candidate that gains most, again and again: (chosen, energy, bound, marginal)."""
    count = len(value)
    grid, found = make_grid(s.box, np.arange(count)), np.empty(count, np.int64)
    chosen, listed = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    marginal, stamp = np.zeros(count), 0
    heap = [(-value[k] * s.area[k], k) for k in range(count)]
    heapq.heapify(heap)
    for _ in range(ROUNDS):
        while len(heap):
            before, k = heapq.heappop(heap)
            if chosen[k] or not fits(k, chosen, conflict):
                continue
            stamp += 1
            now = gain_among(s, value, k, chosen, found[: near(grid, s.box[k], stamp, found)])
            if now <= price:
                continue
            if now < -before:
                heapq.heappush(heap, (-now, k))
                continue
            chosen[k] = True
            if not listed[k]:
                listed[k] = True
                insert(grid, s.box[k], k)
        for k in range(count - 1, -1, -1):
            if chosen[k]:
                stamp += 1
                others = found[: near(grid, s.box[k], stamp, found)]
                marginal[k] = gain_among(s, value, k, chosen, others)
                if marginal[k] <= price:
                    chosen[k] = False
                    for i in range(conflict.start[k], conflict.start[k + 1]):
                        n = conflict.other[i]
                        heap.append((-value[n] * s.area[n], n))
        if len(heap) == 0:
            break
        heapq.heapify(heap)
    energy = 0.0
    taken = np.zeros(count, np.bool_)
    for k in range(count):  # by falling value: each adds what those before it leave
        if chosen[k]:
            stamp += 1
            others = found[: near(grid, s.box[k], stamp, found)]
            energy += gain_among(s, value, k, taken, others) - price
            taken[k] = True
        else:
            marginal[k] = 0.0
    return chosen, energy, max(energy, _clique_bound(s.area * value, conflict, price)), marginal


@njit(cache=True, nogil=True)
def _clique_bound(mass: Float64, conflict: Graph, price: float) -> float:
    """The sum over cliques, which hold each candidate once, of their largest mass less the price.

    A clique grows from its largest member by neighbours that exclude all members so far.
    """
    count, total = len(mass), 0.0
    used, members = np.zeros(count, np.bool_), np.empty(count, np.int64)
    for k in np.argsort(-mass):
        if used[k]:
            continue
        total += max(mass[k] - price, 0.0)
        used[k], members[0], size = True, k, 1
        for i in range(conflict.start[k], conflict.start[k + 1]):
            n = conflict.other[i]
            if used[n]:
                continue
            own = conflict.other[conflict.start[n] : conflict.start[n + 1]]
            all_ = True
            for j in range(1, size):
                place = np.searchsorted(own, members[j])
                if place == len(own) or own[place] != members[j]:
                    all_ = False
                    break
            if all_:
                used[n], members[size] = True, n
                size += 1
    return total


@njit(cache=True, nogil=True)
def _meet(first: Float64, second: Float64) -> bool:
    return bool(
        min(first[2], second[2]) > max(first[0], second[0])
        and min(first[3], second[3]) > max(first[1], second[1])
    )


@njit(cache=True, nogil=True)
def gain_among(s: Shapes, value: Float64, k: int, chosen: Bool, others: Int64) -> float:
    """What k adds to the chosen ones of `others`: v_k, less the best of theirs, over its area."""
    rivals = np.empty(len(others), np.int64)
    count = 0
    for n in others:
        if n != k and chosen[n] and _meet(s.box[k], s.box[n]):
            rivals[count] = n
            count += 1
    if count == 0:
        return float(value[k] * s.area[k])
    if s.runs:
        return _gain_of_runs(s, value, k, rivals[:count])
    total = 0.0
    for i in range(s.start[k], s.start[k + 1]):
        total += _gain_of_rect(s, value, value[k], s.rect[i], rivals[:count])
    return total


@njit(cache=True, nogil=True)
def _gain_of_runs(s: Shapes, value: Float64, k: int, rivals: Int64) -> float:
    best = np.zeros(int(s.area[k]))
    for n in rivals:
        i, j, offset = s.start[k], s.start[n], 0
        while i < s.start[k + 1] and j < s.start[n + 1]:
            low, high = max(s.first[i], s.first[j]), min(s.last[i], s.last[j])
            for at in range(offset + low - s.first[i], offset + high - s.first[i]):
                best[at] = max(best[at], value[n])
            if s.last[i] < s.last[j]:
                offset += s.last[i] - s.first[i]
                i += 1
            else:
                j += 1
    total = 0.0
    for at in range(len(best)):
        total += max(value[k] - best[at], 0.0)
    return total


@njit(cache=True, nogil=True)
def _gain_of_rect(s: Shapes, value: Float64, own: float, rect: Float64, rivals: Int64) -> float:
    """The same over one rectangle, strip by strip between the edges of the rivals' rectangles."""
    met, found = np.empty((8, 5)), 0
    for n in rivals:
        for i in range(s.start[n], s.start[n + 1]):
            if _meet(rect, s.rect[i]):
                if found == len(met):
                    wider = np.empty((2 * found, 5))
                    wider[:found] = met
                    met = wider
                for d in range(2):
                    met[found, d] = max(rect[d], s.rect[i, d])
                    met[found, d + 2] = min(rect[d + 2], s.rect[i, d + 2])
                met[found, 4] = min(value[n], own)
                found += 1
    met = met[:found]
    total = own * (rect[2] - rect[0]) * (rect[3] - rect[1])
    ys, xs = np.empty(2 * found), np.empty(2 * found)
    for i in range(found):
        ys[2 * i], ys[2 * i + 1] = met[i, 1], met[i, 3]
    ys.sort()
    for row in range(2 * found - 1):
        if ys[row + 1] <= ys[row]:
            continue
        edges = 0
        for i in range(found):
            if met[i, 1] <= ys[row] and met[i, 3] >= ys[row + 1]:
                xs[edges], xs[edges + 1] = met[i, 0], met[i, 2]
                edges += 2
        xs[:edges].sort()
        lost = 0.0
        for column in range(edges - 1):
            if xs[column + 1] > xs[column]:
                best = 0.0
                for i in range(found):
                    if (
                        met[i, 1] <= ys[row]
                        and met[i, 3] >= ys[row + 1]
                        and met[i, 0] <= xs[column]
                        and met[i, 2] >= xs[column + 1]
                    ):
                        best = max(best, met[i, 4])
                lost += best * (xs[column + 1] - xs[column])
        total -= lost * (ys[row + 1] - ys[row])
    return float(max(total, 0.0))
