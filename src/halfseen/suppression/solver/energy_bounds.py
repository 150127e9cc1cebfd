"""Upper bounds of the covering energy at a node of the search: see `branch` for the notation."""

from typing import NamedTuple

import numpy as np
from numba import njit

from halfseen.arrays import Float64, Int64, UInt8
from halfseen.suppression.solver.problem import Problem

FREE, IN, OUT, FORCED = 0, 1, 2, 3
TOLERANCE = 1e-11
"""A bound this close to the incumbent, in parts of it, is rounding."""
PATIENCE = 5
"""Subgradient steps without progress after which the step is halved."""

State = UInt8


class Cliques(NamedTuple):
    """Cliques of conflicts: candidate k lies in those of[start[k]:start[k + 1]].

    scale  the mean weight of the members of each clique
    """

    start: Int64
    of: Int64
    scale: Float64


class Node(NamedTuple):
    """A node of the search: what is decided, and the values that bound what is not.

    state   (N,) of each candidate FREE, IN, OUT or, for a moment, FORCED
    cover   (A,) the best value that candidates IN give each atom
    top     (A,) the best that any IN or FREE gives it
    floor   (A,) and share (Q,): multipliers of atoms and cliques
    """

    state: State
    cover: Float64
    top: Float64
    floor: Float64
    share: Float64


@njit(cache=True, nogil=True)
def gain_of(k: int, p: Problem, floor: Float64) -> float:
    """sum_a w_a (v_k - floor_a)+ over the atoms of candidate k."""
    total = 0.0
    for i in range(p.start[k], p.start[k + 1]):
        above = p.value[k] - floor[p.atoms[i]]
        if above > 0:
            total += p.weight[p.atoms[i]] * above
    return total


@njit(cache=True, nogil=True)
def covering_bound(p: Problem, state: State, cover: Float64, top: Float64) -> float:
    """The paper's bound: every atom has the best value that any IN or FREE candidate gives it."""
    for a in range(len(p.weight)):
        top[a] = cover[a]
    for k in range(len(p.value)):
        if state[k] == FREE:
            for i in range(p.start[k], p.start[k + 1]):
                top[p.atoms[i]] = max(top[p.atoms[i]], p.value[k])
    total = 0.0
    for a in range(len(p.weight)):
        total += p.weight[a] * top[a]
    return total


@njit(cache=True, nogil=True)
def lagrangian_bound(
    p: Problem, cliques: Cliques, node: Node, energy: float, best: float, iterations: int
) -> tuple[float, bool]:
    """Lower an upper bound by subgradient steps; return it, and whether any candidate is FORCED.

    Over multipliers floor_a >= cover_a and share_q >= 0 the bound is

        energy + sum_a w_a (floor_a - cover_a) + sum_q share_q
               + sum_{k FREE} (sum_a w_a (v_k - floor_a)+ - price - sum_{q of k} share_q)+

    the dual of the linear relaxation with one constraint for each clique q of conflicts, by
    subgradient steps (Polyak's, towards the incumbent `best`) in the metric of blocks: w for floor,
    the mean weight of a clique's members (`scale`) for share. A FREE candidate is set OUT, or
    FORCED, where the bound proves that every better solution has it so.
    """
    state, cover, top, floor, share = node
    pieces, groups = len(p.weight), len(share)
    reduced = np.empty(len(p.value))
    use, members = np.empty(pieces), np.empty(groups)
    order = np.empty(len(p.value), np.int64)
    free = 0
    for k in range(len(p.value)):
        if state[k] == FREE:
            order[free] = k
            free += 1
    active = np.zeros(groups, np.bool_)
    for i in range(free):
        for j in range(cliques.start[order[i]], cliques.start[order[i] + 1]):
            active[cliques.of[j]] = True
    for q in range(groups):
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
            bound += p.weight[a] * (floor[a] - cover[a])
        for q in range(groups):
            members[q] = 1.0
            bound += share[q]
        for i in range(free):
            k = order[i]
            profit = gain_of(k, p, floor) - p.price
            for j in range(cliques.start[k], cliques.start[k + 1]):
                profit -= share[cliques.of[j]]
            reduced[k] = profit
            if profit > 0:
                bound += profit
                for j in range(p.start[k], p.start[k + 1]):
                    if p.value[k] > floor[p.atoms[j]]:
                        use[p.atoms[j]] -= 1.0
                for j in range(cliques.start[k], cliques.start[k + 1]):
                    members[cliques.of[j]] -= 1.0
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
            norm += p.weight[a] * use[a] * use[a]
        for q in range(groups):
            if not active[q] or (members[q] > 0 and share[q] <= 0):
                members[q] = 0.0
            norm += cliques.scale[q] * members[q] * members[q]
        if norm == 0:
            break
        step = theta * (bound - best) / norm
        for a in range(pieces):
            floor[a] = min(max(floor[a] - step * use[a], cover[a]), top[a])
        for q in range(groups):
            share[q] = max(share[q] - step * cliques.scale[q] * members[q], 0.0)
    return lowest, forced
