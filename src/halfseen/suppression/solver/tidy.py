"""The end of a search: nothing in the set that adds nothing, nothing left out that would."""

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float64
from halfseen.suppression.overlap_kernels import Graph
from halfseen.suppression.solver.problem import Cover


@njit(cache=True, nogil=True)
def tidy(chosen: Bool, c: Cover, conflict: Graph, price: float) -> tuple[float, Float64]:
    """Drops chosen candidates that add nothing and takes in any that still would, in order.

    So the kept set is the same however its energy was reached, and nothing too faint for the
    search's tolerance is lost. Returns the energy and what each chosen one adds to the others.
    """
    count = len(c.value)
    first, second = np.zeros(len(c.weight)), np.zeros(len(c.weight))
    marginal = np.zeros(count)
    while True:
        for a in range(len(c.weight)):
            first[a], second[a] = 0.0, 0.0
        for k in range(count):
            if chosen[k]:
                for i in range(c.start[k], c.start[k + 1]):
                    a = c.atoms[i]
                    if c.value[k] > first[a]:
                        second[a], first[a] = first[a], c.value[k]
                    elif c.value[k] > second[a]:
                        second[a] = c.value[k]
        changed = False
        for k in range(count - 1, -1, -1):
            marginal[k] = 0.0
            if chosen[k]:
                for i in range(c.start[k], c.start[k + 1]):
                    a = c.atoms[i]
                    if c.value[k] == first[a]:
                        marginal[k] += c.weight[a] * (c.value[k] - second[a])
                if marginal[k] <= price:
                    chosen[k] = False
                    changed = True
                    break
        if changed:
            continue
        second[:] = first
        for k in range(count):
            if not chosen[k] and fits(k, chosen, conflict) and _gain(k, c, second) > price:
                chosen[k] = True
                changed = True
                for i in range(c.start[k], c.start[k + 1]):
                    second[c.atoms[i]] = max(second[c.atoms[i]], c.value[k])
        if not changed:
            energy = 0.0
            for a in range(len(c.weight)):
                energy += c.weight[a] * first[a]
            for k in range(count):
                if chosen[k]:
                    energy -= price
            return energy, marginal


@njit(cache=True, nogil=True)
def fits(k: int, chosen: Bool, conflict: Graph) -> bool:
    """Whether k is free: no chosen candidate excludes it."""
    for i in range(conflict.start[k], conflict.start[k + 1]):
        if chosen[conflict.other[i]]:
            return False
    return True


@njit(cache=True, nogil=True)
def _gain(k: int, c: Cover, cover: Float64) -> float:
    total = 0.0
    for i in range(c.start[k], c.start[k + 1]):
        above = c.value[k] - cover[c.atoms[i]]
        if above > 0:
            total += c.weight[c.atoms[i]] * above
    return total
