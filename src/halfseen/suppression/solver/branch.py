"""Branch and bound for covering suppression: kernels over one component of the problem.

The search goes depth first. A node marks every candidate as FREE, IN or OUT; its
children take the branching candidate, the one that gains most, IN and then OUT, so no set is met
twice. Only IN goes deeper: OUT goes on at the same depth.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float64, Int64, UInt8
from halfseen.suppression.overlap_kernels import Graph
from halfseen.suppression.solver.energy_bounds import (
    FORCED,
    FREE,
    IN,
    OUT,
    TOLERANCE,
    Cliques,
    Node,
    State,
    covering_bound,
    gain_of,
    lagrangian_bound,
)
from halfseen.suppression.solver.problem import Bits, Cover, Problem, extract, get_bit, set_bit


class Stack(NamedTuple):
    """Where a search stands: one row for each depth of the first six, then what it knows.

    states, covers, floors, shares, branches   of the nodes on the way to the present one
    bounds     bounds[0] bounds all that is not yet searched
    cursor     depth, whether the node there is new, nodes so far
    incumbent  the best set so far, and best[0] its energy
    """

    states: UInt8
    covers: Float64
    floors: Float64
    shares: Float64
    bounds: Float64
    branches: Int64
    cursor: Int64
    incumbent: State
    best: Float64


@njit(cache=True, nogil=True)
def make_stack(p: Problem, cliques: int, deep: int, bound: float, best: Float64) -> Stack:
    """A search that has not begun, of at most `deep` depths; no cliques: no multipliers."""
    count, atoms = len(p.value), len(p.weight)
    bounds = np.full(deep, bound)
    return Stack(
        np.zeros((deep, count), np.uint8), np.zeros((deep, atoms)),
        np.zeros((deep, atoms if cliques >= 0 else 0)), np.zeros((deep, max(cliques, 0))), bounds,
        np.zeros(deep, np.int64), np.array([0, 1, 0]), np.zeros(count, np.uint8), best,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def include(k: int, p: Problem, state: State, cover: Float64) -> bool:
    """Takes k IN, its FREE neighbours OUT, and raises `cover`; False if it clashes with one IN."""
    fits = True
    state[k] = IN
    for i in range(p.start[k], p.start[k + 1]):
        cover[p.atoms[i]] = max(cover[p.atoms[i]], p.value[k])
    for word in range(p.conflict.shape[1]):
        if p.conflict[k, word]:
            for n in range(word * 64, min(word * 64 + 64, len(state))):
                if get_bit(p.conflict[k], n):
                    if state[n] == IN:
                        fits = False
                    elif state[n] == FREE:
                        state[n] = OUT
    return fits


@njit(cache=True, nogil=True)
def marginal_greedy(p: Problem, state: State, cover: Float64) -> float:
    """Takes the FREE candidate of largest gain until none gains its price; the energy gained.

    Gains only fall as `cover` rises, so an earlier gain is a bound, and most are never redone.
    """
    energy = 0.0
    gain = np.empty(len(p.value))
    for k in range(len(p.value)):
        gain[k] = gain_of(k, p, cover)
    while True:
        best = len(p.value)
        for k in range(len(p.value)):
            if state[k] == FREE and (best == len(p.value) or gain[k] > gain[best]):
                best = k
        if best == len(p.value):
            return energy
        now = gain_of(best, p, cover)
        if now <= p.price:
            state[best] = OUT
        elif now < gain[best]:
            gain[best] = now
        else:
            energy += now - p.price
            include(best, p, state, cover)


@njit(cache=True, nogil=True)
def reduce_node(p: Problem, state: State, cover: Float64, gain: Float64, free: Bits) -> int:
    """Settles what needs no search; the FREE candidate of largest gain, or -1 if all are settled.

    A candidate that gains no more than its price goes OUT: gains only fall as others come in. With
    no price, one without FREE neighbours goes IN: it excludes nothing, and F never falls by it.
    """
    while True:
        branch = -1
        for word in range(len(free)):
            free[word] = np.uint64(0)
        for k in range(len(p.value)):
            if state[k] == FREE:
                gain[k] = gain_of(k, p, cover)
                if gain[k] <= p.price:
                    state[k] = OUT
                else:
                    set_bit(free, k)
                    if branch < 0 or gain[k] > gain[branch]:
                        branch = k
        if branch < 0 or p.price > 0:
            return branch
        changed = False
        for k in range(len(p.value)):
            if state[k] == FREE:
                alone = True
                for word in range(len(free)):
                    if p.conflict[k, word] & free[word]:
                        alone = False
                        break
                if alone:
                    include(k, p, state, cover)
                    changed = True
        if not changed:
            return branch


@njit(cache=True, nogil=True)
def search(p: Problem, cliques: Cliques, iterations: int, stack: Stack, max_nodes: int) -> bool:
    """Goes on with a search from where it stands, for max_nodes nodes; True if it is done.

    iterations: of the Lagrangian bound at each node, ten times as many at the first; 0 for the
    paper's bound alone.
    """
    gain, top = np.empty(len(p.value)), np.empty(len(p.weight))
    free = np.empty(p.conflict.shape[1], np.uint64)
    cursor, bounds, best = stack.cursor, stack.bounds, stack.best
    spent = 0
    while cursor[0] >= 0:
        depth = cursor[0]
        state, cover = stack.states[depth], stack.covers[depth]
        if cursor[1] == 0:
            state[stack.branches[depth]] = OUT
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
            branch = reduce_node(p, state, cover, gain, free)
            cost, energy = 0.0, 0.0
            for k in range(len(p.value)):
                if state[k] == IN:
                    cost += p.price
            for a in range(len(p.weight)):
                energy += p.weight[a] * cover[a]
            energy -= cost
            if energy > best[0]:
                best[0] = energy
                for k in range(len(p.value)):
                    stack.incumbent[k] = state[k] == IN
            bound = covering_bound(p, state, cover, top) - cost
            if branch < 0 or iterations == 0 or bound <= best[0] * (1 + TOLERANCE):
                break
            node = Node(state, cover, top, stack.floors[depth], stack.shares[depth])
            dual, forced = lagrangian_bound(
                p, cliques, node, energy, best[0], iterations if cursor[2] > 1 else 10 * iterations
            )
            bound = min(bound, dual)
            for k in range(len(p.value)):
                if state[k] == FORCED:
                    fits &= include(k, p, state, cover)
            if not fits or not forced:
                break
        if branch >= 0 and state[branch] != FREE:
            branch = -1
            for k in range(len(p.value)):
                if state[k] == FREE and (branch < 0 or gain[k] > gain[branch]):
                    branch = k
        # Two FORCED candidates that clash: nothing better than the incumbent lies below.
        bounds[depth] = min(bounds[depth], bound) if fits and branch >= 0 else best[0]
        if bounds[depth] <= best[0] * (1 + TOLERANCE):
            cursor[0], cursor[1] = depth - 1, 0
            continue
        stack.branches[depth] = branch
        stack.states[depth + 1] = state
        stack.covers[depth + 1] = cover
        stack.floors[depth + 1] = stack.floors[depth]
        stack.shares[depth + 1] = stack.shares[depth]
        bounds[depth + 1] = bounds[depth]
        include(branch, p, stack.states[depth + 1], stack.covers[depth + 1])
        cursor[0], cursor[1] = depth + 1, 1
    return True


@njit(cache=True, nogil=True)
def search_briefly(
    parts: tuple[Int64, Int64], cover: Cover, conflict: Graph, price: float, limits: tuple[int, int]
) -> tuple[Bool, Float64, Float64, Bool]:
    """A short search of every component with the paper's bound: (chosen, energy, bound, done).

    Most components of real images end here. limits: of nodes, and of the work at all nodes of a
    component. No nodes leave the marginal-gain greedy set.
    """
    bounds, members = parts
    chosen = np.zeros(len(cover.value), np.bool_)
    energy, bound = np.zeros(len(bounds) - 1), np.zeros(len(bounds) - 1)
    done = np.zeros(len(bounds) - 1, np.bool_)
    none = Cliques(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    number = np.zeros(len(cover.weight), np.int64)
    for part in range(len(bounds) - 1):
        own = members[bounds[part] : bounds[part + 1]]
        p = extract(own, cover, conflict, price, number)
        state, covered = np.zeros(len(own), np.uint8), np.zeros(len(p.weight))
        best = np.array([marginal_greedy(p, state, covered)])
        nodes = min(limits[0], limits[1] // max(len(p.atoms), 1))
        top = np.zeros(len(p.weight))
        total = covering_bound(p, np.zeros(len(own), np.uint8), top.copy(), top)
        stack = make_stack(p, -1, min(len(own), nodes) + 2, total, best)
        for k in range(len(own)):
            stack.incumbent[k] = state[k] == IN
        done[part] = search(p, none, 0, stack, nodes)
        energy[part] = best[0]
        bound[part] = best[0] if done[part] else stack.bounds[0]
        for k in range(len(own)):
            chosen[own[k]] = stack.incumbent[k] == IN
    return chosen, energy, bound, done
