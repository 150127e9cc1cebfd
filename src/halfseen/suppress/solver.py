"""The exact maximum of the covering energy, with a certificate.

Candidates in, a set out: this module knows neither images nor detections. Components of the problem
are searched apart: first briefly with the paper's bound, which settles most; then what is left,
without its dominated candidates and with a Lagrangian bound, until it is done or at a limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from halfseen.suppress.bounds import IN, State
from halfseen.suppress.components import Part, connected, cover_by_cliques, extract, undominated
from halfseen.suppress.easy import solve_easy, tidy
from halfseen.suppress.kernels import Bits, Bools, Floats, merge_atoms
from halfseen.suppress.search import search

EASY_NODES = 1000
EASY_WORK = 30_000_000
ITERATIONS = 10
SLICE_WORK = 20_000_000
"""Steps between looks at the clock: about 20 ms."""
DEEPEST = 256
"""Most candidates taken in by branching; deeper nodes stay open, which costs the proof alone."""


@dataclass(frozen=True, eq=False)
class Solution:
    """chosen (N,) bool; energy; a proven upper bound; whether they are equal; what each chosen
    candidate adds to the others (N,); how many nodes the long searches took."""

    chosen: Bools
    energy: float
    bound: float
    optimal: bool
    marginal: Floats
    nodes: int


def maximise(
    value: Floats,
    covered: Bits,
    conflict: Bits,
    *,
    price: float = 0.0,
    exact: bool = True,
    max_nodes: int = 100_000,
    max_seconds: float = 1.0,
) -> Solution:
    """The set without conflicts of largest sum over blocks of its best value, less price for each.

    value     (N,) positive and falling: the order breaks ties
    covered   (N, L) bits: the blocks that get the value
    conflict  (N, (N + 63) // 64) bits, symmetric, no candidate with itself
    exact     False: marginal-gain greedy, with the paper's bound

    Both limits stop the search early; then optimal is False and bound is still proven.
    """
    _compile()
    until = time.perf_counter() + max_seconds
    easy = EASY_NODES if exact else 0
    return _maximise(value, covered, conflict, price, easy, max_nodes if exact else 0, until)


@cache
def _compile() -> None:
    """Runs every kernel once, so that compiling does not count against a limit of time.

    Two candidates share a block and exclude each other: the paper's bound alone cannot settle that.
    """
    covered, conflict = np.array([[3], [6]], np.uint64), np.array([[2], [1]], np.uint64)
    _maximise(np.ones(2), covered, conflict, 0.0, 0, 1, np.inf)


def _maximise(
    value: Floats,
    covered: Bits,
    conflict: Bits,
    price: float,
    easy_nodes: int,
    max_nodes: int,
    until: float,
) -> Solution:
    weight, start, atoms = merge_atoms(covered)
    bounds, members = connected(start, atoms, conflict, len(weight))
    chosen, energy, bound, done = solve_easy(
        bounds, members, value, weight, start, atoms, conflict, price,
        easy_nodes, EASY_WORK,
    )  # fmt: skip
    nodes = 0
    for part in np.flatnonzero(~done):
        if nodes >= max_nodes or time.perf_counter() >= until:
            break
        own = members[bounds[part] : bounds[part + 1]]
        state = chosen[own].astype(np.uint8)
        bound[part], done[part], spent = _search_long(
            extract(own, value, weight, start, atoms, conflict), price, state,
            energy[part : part + 1], bound[part], max_nodes - nodes, until,
        )  # fmt: skip
        chosen[own] = state == IN
        nodes += spent
    total, marginal = tidy(chosen, value, weight, start, atoms, conflict, price)
    optimal = bool(done.all())
    return Solution(
        chosen,
        total,
        total if optimal else max(total, float(bound.sum())),
        optimal,
        marginal,
        nodes,
    )


def _search_long(
    problem: Part,
    price: float,
    state: State,
    best: Floats,
    known: float,
    max_nodes: int,
    until: float,
) -> tuple[float, bool, int]:
    """Improves state and best in place; (bound, whether it is proven, nodes)."""
    value, weight, start, atoms, conflict = problem
    alive = undominated(value, start, atoms, conflict, len(weight))
    value, weight, start, atoms, conflict = extract(alive, value, weight, start, atoms, conflict)
    own_start, own_cliques, scale = cover_by_cliques(conflict, start, atoms, weight)
    count, pieces, cliques = len(value), len(weight), len(scale)
    deep = min(count, DEEPEST) + 2
    bounds = np.full(deep, known)
    cursor = np.array([0, 1, 0])
    incumbent = np.zeros(count, np.uint8)
    reached = best[0]
    work = max(len(atoms) + len(own_cliques), 1)
    iterations = max(min(ITERATIONS, SLICE_WORK // work), 1)
    arrays = (
        np.zeros((deep, count), np.uint8), np.zeros((deep, pieces)), np.zeros((deep, pieces)),
        np.zeros((deep, cliques)), bounds, np.zeros(deep, np.int64), cursor, incumbent, best,
    )  # fmt: skip
    done, nodes = False, -1
    while not done and nodes < cursor[2] < max_nodes and time.perf_counter() < until:
        nodes = int(cursor[2])
        done = search(
            value, weight, start, atoms, conflict, price, own_start, own_cliques, scale, iterations,
            *arrays, min(max(SLICE_WORK // (work * iterations), 1), max_nodes - nodes),
        )  # fmt: skip
    if best[0] > reached:
        state[:] = 0
        state[alive[incumbent == IN]] = IN
    return (best[0] if done else max(best[0], bounds[0])), done, int(cursor[2])
