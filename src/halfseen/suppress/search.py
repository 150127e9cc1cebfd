"""Branch and bound for covering suppression: kernels over one component of the problem.

    maximise  F(S) = sum_a w_a max_{k in S, a in C_k} v_k - price |S|   over independent sets S

Candidates are sorted by falling value v; C_k, the atoms that candidate k covers, is
atoms[start[k]:start[k + 1]]. The search goes depth first. A node says of every candidate whether it
is FREE, IN or OUT; its children take the branching candidate, the one that gains most, IN and then
OUT, so no set is met twice. Only IN goes deeper: OUT goes on at the same depth.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.suppress.bounds import (
    FORCED,
    FREE,
    IN,
    OUT,
    TOLERANCE,
    State,
    covering_bound,
    gain_of,
    lagrangian_bound,
)
from halfseen.suppress.kernels import Bits, Floats, Ints, get_bit, set_bit


@njit(cache=True, nogil=True)
def include(
    k: int, value: Floats, start: Ints, atoms: Ints, conflict: Bits, state: State, cover: Floats
) -> bool:
    """Takes k IN, its FREE neighbours OUT, and raises `cover`; False if it clashes with one IN."""
    fits = True
    state[k] = IN
    for i in range(start[k], start[k + 1]):
        cover[atoms[i]] = max(cover[atoms[i]], value[k])
    for word in range(conflict.shape[1]):
        if conflict[k, word]:
            for n in range(word * 64, min(word * 64 + 64, len(state))):
                if get_bit(conflict[k], n):
                    if state[n] == IN:
                        fits = False
                    elif state[n] == FREE:
                        state[n] = OUT
    return fits


@njit(cache=True, nogil=True)
def marginal_greedy(
    value: Floats, weight: Floats, start: Ints, atoms: Ints, conflict: Bits, price: float,
    state: State, cover: Floats,
) -> float:  # fmt: skip
    """Takes the FREE candidate of largest gain until none gains its price; the energy gained.

    Gains only fall as `cover` rises, so an earlier gain is a bound, and most are never redone.
    """
    energy = 0.0
    gain = np.empty(len(value))
    for k in range(len(value)):
        gain[k] = gain_of(k, value, weight, start, atoms, cover)
    while True:
        best = len(value)
        for k in range(len(value)):
            if state[k] == FREE and (best == len(value) or gain[k] > gain[best]):
                best = k
        if best == len(value):
            return energy
        now = gain_of(best, value, weight, start, atoms, cover)
        if now <= price:
            state[best] = OUT
        elif now < gain[best]:
            gain[best] = now
        else:
            energy += now - price
            include(best, value, start, atoms, conflict, state, cover)


@njit(cache=True, nogil=True)
def reduce_node(
    value: Floats, weight: Floats, start: Ints, atoms: Ints, conflict: Bits, price: float,
    state: State, cover: Floats, gain: Floats, free: Bits,
) -> int:  # fmt: skip
    """Settles what needs no search; the FREE candidate of largest gain, or -1 if all are settled.

    A candidate that gains no more than its price goes OUT: gains only fall as others come in. With
    no price, one without FREE neighbours goes IN: it excludes nothing, and F never falls by it.
    """
    while True:
        branch = -1
        for word in range(len(free)):
            free[word] = np.uint64(0)
        for k in range(len(value)):
            if state[k] == FREE:
                gain[k] = gain_of(k, value, weight, start, atoms, cover)
                if gain[k] <= price:
                    state[k] = OUT
                else:
                    set_bit(free, k)
                    if branch < 0 or gain[k] > gain[branch]:
                        branch = k
        if branch < 0 or price > 0:
            return branch
        changed = False
        for k in range(len(value)):
            if state[k] == FREE:
                alone = True
                for word in range(len(free)):
                    if conflict[k, word] & free[word]:
                        alone = False
                        break
                if alone:
                    include(k, value, start, atoms, conflict, state, cover)
                    changed = True
        if not changed:
            return branch


@njit(cache=True, nogil=True)
def search(
    value: Floats, weight: Floats, start: Ints, atoms: Ints, conflict: Bits, price: float,
    own_start: Ints, own_cliques: Ints, scale: Floats, iterations: int,
    states: NDArray[np.uint8], covers: Floats, floors: Floats, shares: Floats, bounds: Floats,
    branches: Ints, cursor: Ints, incumbent: State, best: Floats, max_nodes: int,
) -> bool:  # fmt: skip
    """Goes on with the search from where its arrays stand, for max_nodes nodes; True if it is done.

    states, covers, floors, shares, bounds, branches: one row for each depth. bounds[0] bounds all
    that is not yet searched. cursor: (depth, whether the node there is new, nodes so far).
    incumbent and best[0]: the best set so far and its energy. iterations: of the Lagrangian bound
    at each node, ten times as many at the first; 0 for the paper's bound alone.
    """
    gain, top = np.empty(len(value)), np.empty(len(weight))
    free = np.empty(conflict.shape[1], np.uint64)
    spent = 0
    while cursor[0] >= 0:
        depth = cursor[0]
        state, cover = states[depth], covers[depth]
        if cursor[1] == 0:
            state[branches[depth]] = OUT
            cursor[1] = 1
        if bounds[depth] <= best[0] * (1 + TOLERANCE):
            cursor[0], cursor[1] = depth - 1, 0
            continue
        if spent >= max_nodes or depth + 1 == len(bounds):
            return False
        spent += 1
        cursor[2] += 1
        fits = True
        while True:
            branch = reduce_node(
                value, weight, start, atoms, conflict, price, state, cover, gain, free
            )
            cost, energy = 0.0, 0.0
            for k in range(len(value)):
                if state[k] == IN:
                    cost += price
            for a in range(len(weight)):
                energy += weight[a] * cover[a]
            energy -= cost
            if energy > best[0]:
                best[0] = energy
                for k in range(len(value)):
                    incumbent[k] = state[k] == IN
            bound = covering_bound(value, start, atoms, weight, state, cover, top) - cost
            if branch < 0 or iterations == 0 or bound <= best[0] * (1 + TOLERANCE):
                break
            dual, forced = lagrangian_bound(
                value, weight, start, atoms, price, own_start, own_cliques, scale, state, cover,
                top, floors[depth], shares[depth], energy, best[0],
                iterations if cursor[2] > 1 else 10 * iterations,
            )  # fmt: skip
            bound = min(bound, dual)
            for k in range(len(value)):
                if state[k] == FORCED:
                    fits &= include(k, value, start, atoms, conflict, state, cover)
            if not fits or not forced:
                break
        if branch >= 0 and state[branch] != FREE:
            branch = -1
            for k in range(len(value)):
                if state[k] == FREE and (branch < 0 or gain[k] > gain[branch]):
                    branch = k
        # Two FORCED candidates that clash: nothing better than the incumbent lies below.
        bounds[depth] = min(bounds[depth], bound) if fits and branch >= 0 else best[0]
        if bounds[depth] <= best[0] * (1 + TOLERANCE):
            cursor[0], cursor[1] = depth - 1, 0
            continue
        branches[depth] = branch
        for k in range(len(value)):
            states[depth + 1, k] = state[k]
        for a in range(len(weight)):
            covers[depth + 1, a] = cover[a]
        for a in range(floors.shape[1]):
            floors[depth + 1, a] = floors[depth, a]
        for q in range(shares.shape[1]):
            shares[depth + 1, q] = shares[depth, q]
        bounds[depth + 1] = bounds[depth]
        include(branch, value, start, atoms, conflict, states[depth + 1], covers[depth + 1])
        cursor[0], cursor[1] = depth + 1, 1
    return True
