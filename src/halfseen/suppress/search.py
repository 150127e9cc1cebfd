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

from halfseen.suppress.kernels import Bits, Floats, Ints, get_bit, set_bit

FREE, IN, OUT, FORCED = 0, 1, 2, 3
TOLERANCE = 1e-11
"""A bound this close to the incumbent, in parts of it, is rounding."""
PATIENCE = 5
"""Subgradient steps without progress after which the step is halved."""

State = NDArray[np.uint8]


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
        best = -1
        for k in range(len(value)):
            if state[k] == FREE and (best < 0 or gain[k] > gain[best]):
                best = k
        if best < 0:
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
