"""Kernels of matching. Their `boxes` and `rules` are the named tuples of `pool`."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64

TRUE, FALSE, NEITHER = 1, 0, -1


@njit(cache=True, nogil=True)
def _overlap(a: Float64, b: Float64) -> tuple[float, float]:
    """Intersection over union, and over the area of `a`."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0, 0.0
    shared = width * height
    own = (a[2] - a[0]) * (a[3] - a[1])
    return shared / (own + (b[2] - b[0]) * (b[3] - b[1]) - shared), shared / own


@njit(cache=True, nogil=True)
def match_free(boxes: Any, rules: Any, least: Float64) -> NDArray[np.int8]:
    """Match each detection with the free object that it overlaps most, the last of equals.

    Objects that count go before ignored ones. Returns the outcomes (S, T, D) for each subset and
    each of the T overlaps that are needed.
    """
    subsets, overlaps, count = len(rules.unused), len(least), len(boxes.found)
    outcome = np.zeros((subsets, overlaps, count), np.int8)
    room = 0
    for k in range(len(boxes.first_true) - 1):
        room = max(room, boxes.first_true[k + 1] - boxes.first_true[k])
    union, share = np.zeros(room), np.zeros(room)
    taken = np.zeros((subsets, overlaps, len(boxes.true)), np.bool_)
    for k in range(len(boxes.first_true) - 1):
        start, end = boxes.first_true[k], boxes.first_true[k + 1]
        for i in range(boxes.first_found[k], boxes.first_found[k + 1]):
            if rules.unused[:, i].all():
                outcome[:, :, i] = NEITHER
                continue
            most = 0.0
            for j in range(start, end):
                union[j - start], share[j - start] = _overlap(boxes.found[i], boxes.true[j])
                most = max(most, share[j - start], union[j - start])
            for s in range(subsets):
                if rules.unused[s, i]:
                    outcome[s, :, i] = NEITHER
                    continue
                for t in range(overlaps):
                    if most < least[t]:
                        continue
                    best, chosen, counts = least[t], -1, False
                    for j in range(start, end):
                        if taken[s, t, j] or (counts and rules.ignored[s, j]):
                            continue
                        region = rules.region[s, j]
                        value = share[j - start] if region else union[j - start]
                        better = value >= best
                        first = not rules.ignored[s, j] and not counts and value >= least[t]
                        if better or first:
                            best, chosen = value, j
                            counts = not rules.ignored[s, j]
                    if chosen >= 0:
                        outcome[s, t, i] = TRUE if counts else NEITHER
                        taken[s, t, chosen] = not rules.region[s, chosen]
    return outcome


@njit(cache=True, nogil=True)
def _augment(i: int, edges: Bool, owner: Int64, visited: Bool) -> bool:
    """Give detection i an object, moving others to other objects where that frees one."""
    for j in range(len(owner)):
        if edges[i, j] and owner[j] < 0:
            owner[j] = i
            return True
    for j in range(len(owner)):
        if edges[i, j] and not visited[j]:
            visited[j] = True
            if _augment(owner[j], edges, owner, visited):
                owner[j] = i
                return True
    return False


@njit(cache=True, nogil=True)
def count_pairs(boxes: Any, region: Bool, least: float) -> NDArray[np.int8]:
    """Add detections, best first, to the largest one-to-one matching of each image.

    Returns for each detection whether the matching grew by it (TRUE), it was left over (FALSE), or
    left over inside a region (NEITHER): more than `least` of its own area. A detection that is
    matched stays so as others come, so sums over the best of them are sizes of largest matchings.
    Objects that are regions are not matched. All objects visited by a search in vain are taken,
    and so are all that lead on from there: later searches need not look at them again.
    """
    outcome = np.zeros(len(boxes.found), np.int8)
    for k in range(len(boxes.first_true) - 1):
        start, end = boxes.first_true[k], boxes.first_true[k + 1]
        low, high = boxes.first_found[k], boxes.first_found[k + 1]
        edges = np.zeros((high - low, end - start), np.bool_)
        owner, closed = np.full(end - start, -1, np.int64), np.zeros(end - start, np.bool_)
        for i in range(high - low):
            inside = False
            for j in range(end - start):
                union, share = _overlap(boxes.found[low + i], boxes.true[start + j])
                edges[i, j] = union >= least and not region[start + j]
                inside = inside or (region[start + j] and share > least)
            visited = closed.copy()
            if _augment(i, edges, owner, visited):
                outcome[low + i] = TRUE
                continue
            closed = visited
            if inside:
                outcome[low + i] = NEITHER
    return outcome
