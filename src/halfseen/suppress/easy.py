"""Kernels around the search: the easy components at its start, the tidy answer at its end."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.suppress.bounds import IN, covering_bound, gain_of
from halfseen.suppress.components import extract
from halfseen.suppress.kernels import Bits, Floats, Ints
from halfseen.suppress.search import include, marginal_greedy, search


@njit(cache=True, nogil=True)
def _total(value: Floats, weight: Floats, start: Ints, atoms: Ints) -> float:
    """What all candidates together would give: the paper's bound of the whole."""
    top = np.zeros(len(weight))
    nothing = np.zeros(len(value), np.uint8)
    return covering_bound(value, start, atoms, weight, nothing, top.copy(), top)


@njit(cache=True, nogil=True)
def solve_easy(
    bounds: Ints, members: Ints, value: Floats, weight: Floats, start: Ints, atoms: Ints,
    conflict: Bits, price: float, max_nodes: int, max_work: int,
) -> tuple[NDArray[np.bool_], Floats, Floats, NDArray[np.bool_]]:  # fmt: skip
    """A short search of every component with the paper's bound: (chosen, energy, bound, done).

    Most components of real images end here. max_nodes 0 leaves the marginal-gain greedy set.
    """
    parts = len(bounds) - 1
    chosen = np.zeros(len(value), np.bool_)
    energy, bound = np.zeros(parts), np.zeros(parts)
    done = np.zeros(parts, np.bool_)
    none = np.zeros(0, np.int64)
    cursor, best = np.zeros(3, np.int64), np.zeros(1)
    for part in range(parts):
        own = members[bounds[part] : bounds[part + 1]]
        count = len(own)
        v, w, s, a, c = extract(own, value, weight, start, atoms, conflict)
        state, cover = np.zeros(count, np.uint8), np.zeros(len(w))
        best[0] = marginal_greedy(v, w, s, a, c, price, state, cover)
        for k in range(count):
            state[k] = state[k] == IN
        nodes = min(max_nodes, max_work // max(len(a), 1))
        deep = min(count, nodes) + 2
        top = np.zeros(deep)
        top[0] = _total(v, w, s, a)
        cursor[0], cursor[1], cursor[2] = 0, 1, 0
        done[part] = search(
            v, w, s, a, c, price, np.zeros(count + 1, np.int64), none, np.zeros(0), 0,
            np.zeros((deep, count), np.uint8), np.zeros((deep, len(w))), np.empty((deep, 0)),
            np.empty((deep, 0)), top, np.zeros(deep, np.int64), cursor, state, best,
            nodes,
        )  # fmt: skip
        energy[part] = best[0]
        bound[part] = best[0] if done[part] else top[0]
        for k in range(count):
            chosen[own[k]] = state[k] == IN
    return chosen, energy, bound, done


@njit(cache=True, nogil=True)
def tidy(
    chosen: NDArray[np.bool_], value: Floats, weight: Floats, start: Ints, atoms: Ints,
    conflict: Bits, price: float,
) -> tuple[float, Floats]:  # fmt: skip
    """Drops chosen candidates that add nothing and takes in any that still would, in order.

    So the kept set is the same however its energy was reached, and nothing too faint for the
    search's tolerance is lost. Returns the energy and what each chosen one adds to the others.
    """
    count = len(value)
    first, second = np.zeros(len(weight)), np.zeros(len(weight))
    marginal = np.zeros(count)
    while True:
        for a in range(len(weight)):
            first[a], second[a] = 0.0, 0.0
        for k in range(count):
            if chosen[k]:
                for i in range(start[k], start[k + 1]):
                    a = atoms[i]
                    if value[k] > first[a]:
                        second[a], first[a] = first[a], value[k]
                    elif value[k] > second[a]:
                        second[a] = value[k]
        changed = False
        for k in range(count - 1, -1, -1):
            marginal[k] = 0.0
            if chosen[k]:
                for i in range(start[k], start[k + 1]):
                    if value[k] == first[atoms[i]]:
                        marginal[k] += weight[atoms[i]] * (value[k] - second[atoms[i]])
                if marginal[k] <= price:
                    chosen[k] = False
                    changed = True
                    break
        if changed:
            continue
        state = np.zeros(count, np.uint8)
        cover = np.zeros(len(weight))
        for k in range(count):
            if chosen[k]:
                include(k, value, start, atoms, conflict, state, cover)
        for k in range(count):
            if state[k] == 0 and gain_of(k, value, weight, start, atoms, cover) > price:
                chosen[k] = True
                changed = True
                include(k, value, start, atoms, conflict, state, cover)
        if not changed:
            energy = 0.0
            for a in range(len(weight)):
                energy += weight[a] * first[a]
            for k in range(count):
                if chosen[k]:
                    energy -= price
            return energy, marginal
