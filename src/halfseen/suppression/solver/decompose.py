"""Kernels that take the covering problem apart before the search."""

import numpy as np
from numba import njit

from halfseen.arrays import Int64
from halfseen.suppression.overlap_kernels import Graph
from halfseen.suppression.solver.energy_bounds import Cliques
from halfseen.suppression.solver.problem import Cover, Problem, get_bit

CLIQUE_WORK = 1e8
"""Steps after which no further cliques are sought: fewer cliques loosen the bound, no more."""


@njit(cache=True, nogil=True)
def connected(cover: Cover, conflict: Graph) -> tuple[Int64, Int64]:
    """Components by shared atoms and conflicts: (bounds, members), members ascending."""
    count, pieces = len(cover.value), len(cover.weight)
    root = np.empty(count, np.int64)
    for k in range(count):
        root[k] = k
    first = np.empty(pieces, np.int64)
    for a in range(pieces):
        first[a] = -1
    for k in range(count):
        for i in range(cover.start[k], cover.start[k + 1]):
            if first[cover.atoms[i]] < 0:
                first[cover.atoms[i]] = k
            else:
                join(root, k, first[cover.atoms[i]])
        for i in range(conflict.start[k], conflict.start[k + 1]):
            join(root, k, conflict.other[i])
    return parts_of(root)


@njit(cache=True, nogil=True)
def parts_of(root: Int64) -> tuple[Int64, Int64]:
    """The trees that `join` made: (bounds, members), members ascending."""
    count = len(root)
    # A root is the least member, so it comes before the others.
    name = np.empty(count, np.int64)
    bounds = np.zeros(count + 1, np.int64)
    parts = 0
    for k in range(count):
        if _root(root, k) == k:
            name[k] = parts
            parts += 1
        bounds[name[root[k]] + 1] += 1
    for part in range(parts):
        bounds[part + 1] += bounds[part]
    fill = bounds[: parts + 1].copy()
    members = np.empty(count, np.int64)
    for k in range(count):
        part = name[root[k]]
        members[fill[part]] = k
        fill[part] += 1
    return bounds[: parts + 1], members


@njit(cache=True, nogil=True)
def _root(root: Int64, k: int) -> int:
    """The least member of k's tree, which k then points at."""
    top: int = root[k]
    while root[top] != top:
        top = root[top]
    root[k] = top
    return top


@njit(cache=True, nogil=True)
def join(root: Int64, k: int, n: int) -> None:
    """Makes one tree of those of k and n."""
    a, b = _root(root, k), _root(root, n)
    root[max(a, b)] = min(a, b)


@njit(cache=True, nogil=True)
def undominated(p: Problem) -> Int64:
    """The candidates that are left when dominated ones are removed one after another.

    l dominates k if v_l >= v_k, C_k lies in C_l, and every neighbour of l is k or a neighbour of k.
    Then some best set lacks k. Let S be a best set with k. If l is in S, k adds nothing, since l
    gives at least v_k to every atom of C_k: S - k is as good. If not, S - k + l is allowed, since
    the neighbours of l in S are among k and the neighbours of k, of which S has none; and l gives
    every atom of C_k at least v_k. The price is the same for all, so it changes neither case.
    """
    count = len(p.value)
    alive = np.ones(count, np.bool_)
    inside = np.zeros(len(p.weight), np.bool_)
    for n in range(count):
        if not alive[n]:
            continue
        for i in range(p.start[n], p.start[n + 1]):
            inside[p.atoms[i]] = True
        for k in range(count):
            if k == n or not alive[k] or p.value[k] > p.value[n]:
                continue
            dominated = True
            for i in range(p.start[k], p.start[k + 1]):
                if not inside[p.atoms[i]]:
                    dominated = False
                    break
            for word in range(p.conflict.shape[1]):
                if not dominated:
                    break
                more = p.conflict[n, word] & ~p.conflict[k, word]
                if more:
                    for other in range(word * 64, min(word * 64 + 64, count)):
                        if other != k and alive[other] and get_bit(p.conflict[n], other):
                            dominated &= get_bit(p.conflict[k], other)
            if dominated:
                alive[k] = False
        for i in range(p.start[n], p.start[n + 1]):
            inside[p.atoms[i]] = False
    return np.flatnonzero(alive)


@njit(cache=True, nogil=True)
def cover_by_cliques(p: Problem) -> Cliques:
    """Cliques of the conflict graph that cover its edges.

    Each grows from an uncovered edge, by the common neighbour with the most uncovered edges to it.
    """
    count = len(p.value)
    edge = np.zeros((count, count), np.bool_)
    for k in range(count):
        for n in range(count):
            edge[k, n] = get_bit(p.conflict[k], n)
    open_edge = edge.copy()
    mass = np.zeros(count)
    for k in range(count):
        for i in range(p.start[k], p.start[k + 1]):
            mass[k] += p.weight[p.atoms[i]]
    who, which, scale = [0], [0], [0.0]  # one entry to tell the compiler the types
    common, fresh = np.empty(count, np.bool_), np.empty(count, np.int64)
    cliques, work = 0, 0.0
    for k in range(count):
        for first in range(k + 1, count):
            if not open_edge[k, first] or work > CLIQUE_WORK:
                continue
            for other in range(count):
                common[other], fresh[other] = edge[k, other], open_edge[k, other]
            begin = len(who)
            who.append(k)
            which.append(cliques)
            n = first
            while n >= 0:
                who.append(n)
                which.append(cliques)
                best = -1
                for other in range(count):
                    common[other] &= edge[n, other]
                    fresh[other] += open_edge[n, other]
                    if common[other] and (best < 0 or fresh[other] > fresh[best]):
                        best = other
                work += count
                n = best
            total = 0.0
            for i in range(begin, len(who)):
                total += mass[who[i]]
                for j in range(begin, len(who)):
                    open_edge[who[i], who[j]] = False
            scale.append(total / (len(who) - begin))
            cliques += 1
    own_start = np.zeros(count + 1, np.int64)
    for i in range(1, len(who)):
        own_start[who[i] + 1] += 1
    for k in range(count):
        own_start[k + 1] += own_start[k]
    fill = own_start[:count].copy()
    own_cliques = np.empty(len(who) - 1, np.int64)
    for i in range(1, len(who)):
        own_cliques[fill[who[i]]] = which[i]
        fill[who[i]] += 1
    return Cliques(own_start, own_cliques, np.array(scale[1:]))
