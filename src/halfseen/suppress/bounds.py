"""Upper bounds of the covering energy at a node of the search: see `search` for the notation."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.suppress.kernels import Floats, Ints

FREE, IN, OUT, FORCED = 0, 1, 2, 3
TOLERANCE = 1e-11
"""A bound this close to the incumbent, in parts of it, is rounding."""
PATIENCE = 5
"""Subgradient steps without progress after which the step is halved."""

State = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def gain_of(
    k: int, value: Floats, weight: Floats, start: Ints, atoms: Ints, floor: Floats
) -> float:
    """sum_a w_a (v_k - floor_a)+ over the atoms of candidate k."""
    total = 0.0
    for i in range(start[k], start[k + 1]):
        above = value[k] - floor[atoms[i]]
        if above > 0:
            total += weight[atoms[i]] * above
    return total


@njit(cache=True, nogil=True)
def covering_bound(
    value: Floats,
    start: Ints,
    atoms: Ints,
    weight: Floats,
    state: State,
    cover: Floats,
    top: Floats,
) -> float:
    """The paper's bound: every atom has the best value that any IN or FREE candidate gives it."""
    for a in range(len(weight)):
        top[a] = cover[a]
    for k in range(len(value)):
        if state[k] == FREE:
            for i in range(start[k], start[k + 1]):
                top[atoms[i]] = max(top[atoms[i]], value[k])
    total = 0.0
    for a in range(len(weight)):
        total += weight[a] * top[a]
    return total


@njit(cache=True, nogil=True)
def lagrangian_bound(
    value: Floats, weight: Floats, start: Ints, atoms: Ints, price: float,
    own_start: Ints, own_cliques: Ints, scale: Floats, state: State, cover: Floats, top: Floats,
    floor: Floats, share: Floats, energy: float, best: float, iterations: int,
) -> tuple[float, bool]:  # fmt: skip
    """Lowers, over multipliers floor_a >= cover_a and share_q >= 0, the upper bound

        energy + sum_a w_a (floor_a - cover_a) + sum_q share_q
               + sum_{k FREE} (sum_a w_a (v_k - floor_a)+ - price - sum_{q of k} share_q)+

    the dual of the linear relaxation with one constraint for each clique q of conflicts, by
    subgradient steps (Polyak's, towards the incumbent `best`) in the metric of blocks: w for floor,
    the mean weight of a clique's members (`scale`) for share. A FREE candidate is set OUT, or
    FORCED, where the bound proves that every better solution has it so. Returns the bound, and
    whether any is FORCED.
    """
    pieces, cliques = len(weight), len(share)
    reduced = np.empty(len(value))
    use, members = np.empty(pieces), np.empty(cliques)
    order = np.empty(len(value), np.int64)
    free = 0
    for k in range(len(value)):
        if state[k] == FREE:
            order[free] = k
            free += 1
    active = np.zeros(cliques, np.bool_)
    for i in range(free):
        for j in range(own_start[order[i]], own_start[order[i] + 1]):
            active[own_cliques[j]] = True
    for q in range(cliques):
        if not active[q]:
            share[q] = 0.0
    for a in range(pieces):
        floor[a] = min(max(floor[a], cover[a]), top[a])
    target = best * (1 + TOLERANCE)
    lowest, theta, stale, forced = np.inf, 1.0, 0, False
    for _ in range(iterations):
        bound = energy
        for a in range(pieces):
            use[a] = 1.0
            bound += weight[a] * (floor[a] - cover[a])
        for q in range(cliques):
            members[q] = 1.0
            bound += share[q]
        for i in range(free):
            k = order[i]
            profit = gain_of(k, value, weight, start, atoms, floor) - price
            for j in range(own_start[k], own_start[k + 1]):
                profit -= share[own_cliques[j]]
            reduced[k] = profit
            if profit > 0:
                bound += profit
                for j in range(start[k], start[k + 1]):
                    if value[k] > floor[atoms[j]]:
                        use[atoms[j]] -= 1.0
                for j in range(own_start[k], own_start[k + 1]):
                    members[own_cliques[j]] -= 1.0
        stale = stale + 1 if bound > lowest - 1e-4 * (lowest - best) else 0
        if stale == PATIENCE:
            theta, stale = theta / 2, 0
        lowest = min(lowest, bound)
        if lowest <= target:
            break
        left = 0
        for i in range(free):
            k = order[i]
            if reduced[k] < 0 and bound + reduced[k] <= target:
                state[k] = OUT
            elif reduced[k] > 0 and bound - reduced[k] <= target:
                state[k] = FORCED
                forced = True
            else:
                order[left] = k
                left += 1
        free = left
        if forced:
            break
        norm = 0.0
        for a in range(pieces):
            if (use[a] > 0 and floor[a] <= cover[a]) or (use[a] < 0 and floor[a] >= top[a]):
                use[a] = 0.0
            norm += weight[a] * use[a] * use[a]
        for q in range(cliques):
            if not active[q] or (members[q] > 0 and share[q] <= 0):
                members[q] = 0.0
            norm += scale[q] * members[q] * members[q]
        if norm == 0:
            break
        step = theta * (bound - best) / norm
        for a in range(pieces):
            floor[a] = min(max(floor[a] - step * use[a], cover[a]), top[a])
        for q in range(cliques):
            share[q] = max(share[q] - step * scale[q] * members[q], 0.0)
    return lowest, forced
