"""The exact maximum of the covering energy, with a certificate.

Candidates in, a set out: this module knows neither images nor detections. Components of the problem
are searched apart: first briefly with the paper's bound, which settles most; then what is left,
without its dominated candidates and with a Lagrangian bound, until it is done or at a limit.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float64, Int64
from halfseen.suppression.candidates import Shapes, of_runs
from halfseen.suppression.overlap_kernels import Graph
from halfseen.suppression.solver.branch import make_stack, search, search_briefly
from halfseen.suppression.solver.decompose import connected, cover_by_cliques, undominated
from halfseen.suppression.solver.energy_bounds import IN, State
from halfseen.suppression.solver.large import take_marginally, touching
from halfseen.suppression.solver.problem import (
    Cover,
    Problem,
    among,
    count_pieces,
    cut,
    extract,
    graph_of,
    merge_atoms,
)
from halfseen.suppression.solver.tidy import tidy

Atoms = tuple[Float64, Int64, Int64]
Parts = tuple[Int64, Int64]
Brief = tuple[Bool, Float64, Float64, Bool]

MOST_PIECES = 4_000_000
"""Of all candidates of a component, counted for each: more take too long to cut."""
BRIEF_NODES = 1000
BRIEF_WORK = 30_000_000
ITERATIONS = 10
SLICE_WORK = 20_000_000
"""Steps between looks at the clock: about 20 ms."""
STEPS = 1_000_000_000
"""Of the long searches by default: about a second."""
SEARCHED = 5_000
"""Most candidates of a component that is searched long: the search holds their pairs twice."""
STACKED = 10_000_000
"""Numbers of all depths together: deeper nodes stay open, as those below DEEPEST do."""
DEEPEST = 256
"""Most candidates taken in by branching; deeper nodes stay open, which costs the proof alone."""


@dataclass(frozen=True)
class SearchLimits:
    """When a search stops: after `nodes` nodes or `work` steps of the long searches, or at a time.

    exact  False: no search, the set of marginal gains
    work   of one node: what its bounds visit, so that a limit stops at the same node everywhere
    until  by time.perf_counter: two runs may then differ
    """

    exact: bool = True
    nodes: int = 100_000
    work: int = STEPS
    until: float = np.inf

    @classmethod
    def of(cls, exact: bool, nodes: int, seconds: float, work: int = STEPS) -> SearchLimits:
        """Limits that count from now on; compiling does not count."""
        _compile()
        return cls(exact, nodes if exact else 0, work, time.perf_counter() + seconds)

    def left(self, nodes: int, work: int) -> SearchLimits:
        """The limits after so many nodes and steps."""
        return replace(self, nodes=max(self.nodes - nodes, 0), work=max(self.work - work, 0))

    def reached(self) -> bool:
        """Whether no search may begin."""
        return self.nodes <= 0 or self.work <= 0 or time.perf_counter() >= self.until


@dataclass(frozen=True, eq=False)
class Solution:
    """The best set that was found.

    chosen    (N,) bool
    energy    of the set, and
    bound     a proven upper bound of that of any set
    optimal   whether they are equal
    marginal  (N,) what each chosen candidate adds to the others
    nodes     of the long searches, and
    work      their steps
    """

    chosen: Bool
    energy: float
    bound: float
    optimal: bool
    marginal: Float64
    nodes: int
    work: int


def maximise(
    value: Float64, covered: Shapes, conflict: Graph, limits: SearchLimits, price: float = 0.0
) -> Solution:
    """The set without conflicts of largest sum over its area of its best value, less the price.

    value     (N,) positive and falling: the order breaks ties
    covered   the regions that get the value
    conflict  the pairs that exclude each other
    price     of each chosen candidate

    A limit stops the search early; components of more than MOST_PIECES pieces are not searched, and
    those of more than SEARCHED candidates only briefly: then optimal is False and bound is still
    proven.
    """
    if _few_pieces(covered):
        return _maximise(value, covered, conflict, limits, price)
    chosen, marginal = np.zeros(len(value), bool), np.zeros(len(value))
    energy, bound, optimal, nodes, work = 0.0, 0.0, True, 0, 0
    bounds, members = touching(covered)
    for first, last in itertools.pairwise(bounds):
        own = members[first:last]
        left = limits.left(nodes, work)
        part = _solve_part(own, value, covered, conflict, left, price)
        chosen[own], marginal[own] = part.chosen, part.marginal
        energy, bound = energy + part.energy, bound + part.bound
        optimal, nodes, work = optimal and part.optimal, nodes + part.nodes, work + part.work
    return Solution(chosen, energy, bound, optimal, marginal, nodes, work)


def _few_pieces(shapes: Shapes) -> bool:
    """Whether there are no more than MOST_PIECES: of runs at most one for each position."""
    few = shapes.runs and shapes.area.sum() <= MOST_PIECES
    return bool(few or count_pieces(shapes) <= MOST_PIECES)


def _solve_part(
    own: Int64, value: Float64, covered: Shapes, conflict: Graph, limits: SearchLimits, price: float
) -> Solution:
    """The best set of one component."""
    shapes, pairs = covered.take(own), Graph(*among(own, conflict))
    if _few_pieces(shapes):
        return _maximise(value[own], shapes, pairs, limits, price)
    chosen, energy, bound, marginal = take_marginally(shapes, value[own], pairs, price)
    return Solution(chosen, energy, bound, energy == bound, marginal, 0, 0)


def _maximise(
    value: Float64, covered: Shapes, conflict: Graph, limits: SearchLimits, price: float
) -> Solution:
    """The same by cutting all regions into pieces."""
    brief = (BRIEF_NODES if limits.exact else 0, BRIEF_WORK)
    atoms, parts, (chosen, energy, bound, done) = _begin(value, covered, conflict, price, brief)
    cover = Cover(value, *atoms)
    nodes, work, number = 0, 0, np.zeros(len(cover.weight), np.int64)
    for part in np.flatnonzero(~done):
        left = limits.left(nodes, work)
        if left.reached():
            break
        own = parts[1][parts[0][part] : parts[0][part + 1]]
        if len(own) > SEARCHED:
            continue
        state = chosen[own].astype(np.uint8)
        problem = extract(own, cover, conflict, price, number)
        bound[part], done[part], *spent = _search_long(
            problem, state, energy[part : part + 1], bound[part], left
        )
        chosen[own] = state == IN
        nodes, work = nodes + spent[0], work + spent[1]
    total, marginal = tidy(chosen, cover, conflict, price)
    optimal = bool(done.all())
    most = total if optimal else max(total, float(bound.sum()))
    return Solution(chosen, total, most, optimal, marginal, nodes, work)


@njit(cache=True, nogil=True)
def _begin(
    value: Float64, covered: Shapes, conflict: Graph, price: float, limits: tuple[int, int]
) -> tuple[Atoms, Parts, Brief]:
    """The atoms of the problem, its components, and what a brief search makes of them."""
    weight, start, pieces = merge_atoms(*cut(covered))
    cover = Cover(value, weight, start, pieces)
    parts = connected(cover, conflict)
    return (weight, start, pieces), parts, search_briefly(parts, cover, conflict, price, limits)


@cache
def _compile() -> None:
    """Runs every kernel once, so that compiling does not count against a limit of time.

    Two candidates share a block and exclude each other: the paper's bound alone cannot settle that.
    """
    box, area = np.array([[0.0, 0, 3, 1]] * 2), np.full(2, 2.0)
    runs = box, np.array([0, 1]), np.array([2, 3]), np.arange(3), area
    conflict = Graph(np.arange(3), np.array([1, 0]))
    maximise(np.ones(2), of_runs(*runs), conflict, SearchLimits(exact=False, nodes=1))
    take_marginally(of_runs(*runs), np.ones(2), conflict, 0.0)


def _search_long(
    problem: Problem, state: State, best: Float64, known: float, limits: SearchLimits
) -> tuple[float, bool, int, int]:
    """Improves state and best in place; (bound, whether it is proven, nodes, work)."""
    alive = undominated(problem)
    number = np.zeros(len(problem.weight), np.int64)
    p = extract(alive, Cover(*problem[:4]), graph_of(problem), problem.price, number)
    cliques = cover_by_cliques(p)
    deep = min(len(alive), DEEPEST, STACKED // max(len(p.weight), 1)) + 2
    stack = make_stack(p, len(cliques.scale), deep, known, best)
    reached = best[0]
    work = max(len(p.atoms) + len(cliques.of), 1)
    iterations = max(min(ITERATIONS, SLICE_WORK // work), 1)
    work *= iterations  # of one node
    max_nodes = min(limits.nodes, max(limits.work // work, 1))
    done, nodes = False, -1
    while not done and nodes < stack.cursor[2] < max_nodes and time.perf_counter() < limits.until:
        nodes = int(stack.cursor[2])
        slice_ = min(max(SLICE_WORK // work, 1), max_nodes - nodes)
        done = search(p, cliques, iterations, stack, slice_)
    if best[0] > reached:
        state[:] = 0
        state[alive[stack.incumbent == IN]] = IN
    nodes = int(stack.cursor[2])
    return (best[0] if done else max(best[0], stack.bounds[0])), done, nodes, nodes * work
