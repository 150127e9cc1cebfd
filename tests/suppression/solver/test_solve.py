"""The exact solver of covering suppression against all subsets, HiGHS and cases made to be hard."""

import itertools
import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from halfseen.suppression.candidates import Shapes, of_runs
from halfseen.suppression.overlap_kernels import Graph
from halfseen.suppression.solver import solve as solver
from halfseen.suppression.solver.decompose import undominated
from halfseen.suppression.solver.problem import Cover, count_pieces, cut, extract, merge_atoms
from halfseen.suppression.solver.solve import SearchLimits, Solution, maximise

Matrix = NDArray[np.bool_]


def runs(rows: Matrix) -> Shapes:
    """Sets of positions, one a row."""
    edges = np.diff(np.pad(rows, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    first, last = (np.nonzero(edges == sign)[1] for sign in (1, -1))
    count = (edges == 1).sum(axis=1)
    box = np.tile([0.0, 0, rows.shape[1], 1], (len(rows), 1))
    return of_runs(box, first, last, np.r_[0, np.cumsum(count)], rows.sum(axis=1).astype(float))


def graph(conflict: Matrix) -> Graph:
    return Graph(np.r_[0, np.cumsum(conflict.sum(axis=1))], np.nonzero(conflict)[1])


def solve(
    value: NDArray[np.float64], cover: Matrix, conflict: Matrix, price: float = 0.0,
    limits: SearchLimits | None = None,
) -> Solution:  # fmt: skip
    limits = limits or SearchLimits.of(True, 100_000, 60)
    return maximise(value, runs(cover), graph(conflict), limits, price)


def overlaps(sets: Matrix) -> NDArray[np.float64]:
    """Shared over either, pair by pair."""
    count = len(sets)
    return np.array(
        [
            [(a & b).sum() / max((a | b).sum(), 1) if i != j else 0.0 for j, b in enumerate(sets)]
            for i, a in enumerate(sets)
        ]
    ).reshape(count, count)


def energy_of(chosen: Matrix, value: NDArray[np.float64], cover: Matrix, price: float) -> float:
    if not chosen.any():
        return 0.0
    best = (value[chosen, None] * cover[chosen]).max(axis=0)
    return float(best.sum() - price * chosen.sum())


def brute_force(value: NDArray[np.float64], cover: Matrix, conflict: Matrix, price: float) -> float:
    """The largest energy of all 2^N subsets."""
    count = len(value)
    best = np.zeros((1, cover.shape[1]))
    allowed, size = np.ones(1, bool), np.zeros(1)
    for k in range(count):
        members = np.arange(2**k)[:, None] >> np.arange(k) & 1
        clash = (members.astype(bool) & conflict[k, :k]).any(axis=1)
        best = np.concatenate([best, np.maximum(best, value[k] * cover[k])])
        allowed = np.concatenate([allowed, allowed & ~clash])
        size = np.concatenate([size, size + 1])
    return float((best.sum(axis=1) - price * size)[allowed].max())


def random_case(
    rng: np.random.Generator, count: int
) -> tuple[NDArray[np.float64], Matrix, Matrix, float]:
    """Intervals, rectangles or scattered sets, with values that often tie."""
    side = int(rng.integers(3, 9))
    kind = rng.integers(3)
    sets = np.zeros((count, side, side), bool)
    for k in range(count):
        if kind == 0:
            sets[k] = rng.random((side, side)) < rng.uniform(0.1, 0.8)
        else:
            y, x = rng.integers(0, side, 2)
            high, wide = (side, 2) if kind == 1 else rng.integers(1, side, 2)
            sets[k, 0 if kind == 1 else y : y + high, x : x + wide] = True
    value = np.sort(rng.integers(1, 4, count) if rng.random() < 0.5 else rng.exponential(1, count))
    cover = sets.reshape(count, -1)
    seen = cover & (rng.random(cover.shape) < 0.8) if rng.random() < 0.5 else cover
    eta = float(rng.choice([0, 0.2, 0.5, 0.8, 1]))
    price = float(rng.choice([0, 0, rng.uniform(0, 5)]))
    return value[::-1].astype(float), cover, overlaps(seen) > eta, price


def check(
    solved: Solution, value: NDArray[np.float64], cover: Matrix, conflict: Matrix, price: float
) -> None:
    chosen = solved.chosen
    assert not conflict[np.ix_(chosen, chosen)].any()
    assert solved.energy == pytest.approx(energy_of(chosen, value, cover, price), rel=1e-9)
    assert solved.bound >= solved.energy
    for k in np.flatnonzero(chosen):
        rest = chosen.copy()
        rest[k] = False
        gain = energy_of(chosen, value, cover, 0) - energy_of(rest, value, cover, 0)
        assert solved.marginal[k] == pytest.approx(gain, rel=1e-9, abs=1e-9)
        assert solved.marginal[k] > price


@pytest.mark.parametrize("easy", [300, 0], ids=["short search", "long search"])
@pytest.mark.parametrize(("cases", "least", "most"), [(1200, 1, 9), (25, 12, 15)])
def test_all_subsets(
    monkeypatch: pytest.MonkeyPatch, easy: int, cases: int, least: int, most: int
) -> None:
    monkeypatch.setattr(solver, "BRIEF_NODES", easy)
    rng = np.random.default_rng(most)
    for _ in range(cases):
        value, cover, conflict, price = random_case(rng, int(rng.integers(least, most + 1)))
        solved = solve(value, cover, conflict, price)
        assert solved.optimal
        assert solved.energy == pytest.approx(brute_force(value, cover, conflict, price), rel=1e-9)
        check(solved, value, cover, conflict, price)


def cycle(count: int) -> tuple[NDArray[np.float64], Matrix, Matrix, float]:
    """An odd cycle of conflicts, where the linear relaxation is half-integral."""
    conflict = np.zeros((count, count), bool)
    for k in range(count):
        conflict[k, (k + 1) % count] = conflict[(k + 1) % count, k] = True
    return np.ones(count), np.eye(count, dtype=bool), conflict, 0.0


def nested(count: int) -> tuple[NDArray[np.float64], Matrix, Matrix, float]:
    """Sets inside each other: the smaller, the more a block is worth."""
    cover = np.tri(count, dtype=bool)
    return np.linspace(2, 1, count), cover, overlaps(cover) > 0.5, 0.0


def alike(count: int) -> tuple[NDArray[np.float64], Matrix, Matrix, float]:
    """The same candidate again and again."""
    cover = np.ones((count, 7), bool)
    return np.ones(count), cover, overlaps(cover) > 0.5, 0.0


def star(count: int) -> tuple[NDArray[np.float64], Matrix, Matrix, float]:
    """One strong candidate against many weak ones that together are worth a little more."""
    cover = np.vstack([np.ones(count - 1, bool), np.eye(count - 1, dtype=bool)])
    conflict = np.zeros((count, count), bool)
    conflict[0, 1:] = conflict[1:, 0] = True
    return np.r_[1.0, np.full(count - 1, 1.0 - 1e-6)], cover, conflict, 0.0


@pytest.mark.parametrize("easy", [300, 0], ids=["short search", "long search"])
@pytest.mark.parametrize("make", [cycle, nested, alike, star])
@pytest.mark.parametrize("count", [2, 5, 9, 13])
def test_hard_structures(monkeypatch: pytest.MonkeyPatch, easy: int, make, count: int) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(solver, "BRIEF_NODES", easy)
    value, cover, conflict, price = make(count)
    solved = solve(value, cover, conflict, price)
    assert solved.optimal
    assert solved.energy == pytest.approx(brute_force(value, cover, conflict, price), rel=1e-9)
    check(solved, value, cover, conflict, price)


def cluster(
    rng: np.random.Generator, count: int, eta: float
) -> tuple[NDArray[np.float64], Matrix, Matrix, float]:
    """Boxes around three objects, with odds or scores as values."""
    centre, size = rng.uniform(6, 14, (3, 2)), rng.uniform(5, 9, 3)
    own = rng.integers(3, size=count)
    middle = centre[own] + rng.normal(0, 1.5, (count, 2))
    half = size[own, None] / 2 * np.exp(rng.normal(0, 0.2, (count, 2)))
    y, x = np.mgrid[:20, :20] + 0.5
    inside = (np.abs(y - middle[:, 0, None, None]) < half[:, 0, None, None]) & (
        np.abs(x - middle[:, 1, None, None]) < half[:, 1, None, None]
    )
    cover = inside.reshape(count, -1)
    score = np.sort(rng.uniform(0, 1, count))[::-1]
    value = np.exp(4 * score) if rng.random() < 0.5 else score + 1
    return value, cover, overlaps(cover) > eta, 0.0


def highs(value: NDArray[np.float64], cover: Matrix, conflict: Matrix, price: float) -> float:
    """The same maximum as an integer programme: which candidate each block belongs to."""
    count, blocks = cover.shape
    owner, block = np.nonzero(cover)
    pairs = len(owner)
    number = np.arange(pairs)
    linked = sparse.hstack(
        [sparse.csr_array((-np.ones(pairs), (number, owner)), (pairs, count)), sparse.eye(pairs)]
    )
    once = sparse.hstack(
        [
            sparse.csr_array((blocks, count)),
            sparse.csr_array((np.ones(pairs), (block, number)), (blocks, pairs)),
        ]
    )
    first, second = np.nonzero(np.triu(conflict))
    edges = sparse.csr_array(
        (np.ones(2 * len(first)), (np.tile(np.arange(len(first)), 2), np.r_[first, second])),
        (len(first), count + pairs),
    )
    result = milp(
        np.r_[np.full(count, price), -value[owner]],
        constraints=[
            LinearConstraint(linked, -np.inf, 0),
            LinearConstraint(once, -np.inf, 1),
            LinearConstraint(edges, -np.inf, 1),
        ],
        integrality=np.r_[np.ones(count), np.zeros(pairs)],
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-9},
    )
    assert result.status == 0
    return -float(result.fun)


@pytest.mark.parametrize("seed", range(6))
def test_highs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = cluster(rng, 30 + 4 * seed, float(rng.choice([0.3, 0.5])))
    value, cover, conflict, _ = case
    solved = solve(value, cover, conflict)
    assert solved.optimal
    assert solved.energy == pytest.approx(highs(*case), rel=1e-7)
    check(solved, *case)


def test_a_limit_leaves_a_proven_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    stopped = 0
    for _ in range(10):
        value, cover, conflict, price = cluster(rng, 120, 0.3)
        best = solve(value, cover, conflict)
        assert best.optimal
        greedy = solve(value, cover, conflict, limits=SearchLimits.of(False, 0, 60))
        check(greedy, value, cover, conflict, price)
        assert greedy.energy <= best.energy <= greedy.bound * (1 + 1e-12)
        for nodes, easy in ((0, 0), (0, 5), (2, 5)):
            monkeypatch.setattr(solver, "BRIEF_NODES", easy)
            limited = solve(value, cover, conflict, limits=SearchLimits.of(True, nodes, 60))
            monkeypatch.undo()
            check(limited, value, cover, conflict, price)
            assert greedy.energy * (1 - 1e-12) <= limited.energy <= best.energy * (1 + 1e-12)
            assert best.energy <= limited.bound * (1 + 1e-9)
            stopped += not limited.optimal
            assert limited.optimal or limited.nodes <= nodes
    assert stopped >= 10


def test_a_limit_of_work_stops_at_the_same_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock says: it jumps, and the answer stays."""
    monkeypatch.setattr(solver, "BRIEF_NODES", 5)
    problem = cluster(np.random.default_rng(6), 200, 0.3)[:3]
    whole = solve(*problem)
    assert whole.work > 0
    for part in (2, 5, 20):
        limits = SearchLimits(work=whole.work // part)
        first = solve(*problem, limits=limits)
        clock = itertools.count(0, 1e6)
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda clock=clock: next(clock))
            again = solve(*problem, limits=limits)
        assert again.chosen.tolist() == first.chosen.tolist()
        assert (again.bound, again.nodes, again.work) == (first.bound, first.nodes, first.work)
        assert first.work <= limits.work
        assert first.nodes < whole.nodes
        assert not first.optimal


def test_large_components_are_searched_briefly_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "BRIEF_NODES", 5)
    value, cover, conflict, price = cluster(np.random.default_rng(5), 200, 0.3)
    best = solve(value, cover, conflict)
    monkeypatch.setattr(solver, "SEARCHED", 100)
    limited = solve(value, cover, conflict)
    check(limited, value, cover, conflict, price)
    assert limited.nodes == 0
    assert limited.energy <= best.energy < limited.bound
    assert not limited.optimal


def test_depth_is_bounded_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "BRIEF_NODES", 5)
    monkeypatch.setattr(solver, "STACKED", 0)
    value, cover, conflict, price = cluster(np.random.default_rng(5), 200, 0.3)
    check(solve(value, cover, conflict), value, cover, conflict, price)


def test_no_time_still_gives_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "BRIEF_NODES", 5)
    value, cover, conflict, price = cluster(np.random.default_rng(5), 200, 0.3)
    limited = solve(value, cover, conflict, limits=SearchLimits.of(True, 100_000, 0))
    check(limited, value, cover, conflict, price)
    assert not limited.optimal
    assert limited.bound > limited.energy


def test_compiling_does_not_count_as_time() -> None:
    """The first call runs every kernel of the long search before the clock starts."""
    solver._compile.cache_clear()
    entered: list[str] = []
    long_search = solver._search_long

    def watched(*arguments: Any) -> Any:
        entered.append("long search")
        return long_search(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_search_long", watched)
        solver._compile()
    assert entered


def test_dominated_candidates_are_not_missed() -> None:
    rng = np.random.default_rng(4)
    removed = 0
    for _ in range(300):
        value, cover, conflict, price = random_case(rng, 7)
        atoms = Cover(value, *merge_atoms(*cut(runs(cover))))
        number = np.zeros(len(atoms.weight), np.int64)
        left = undominated(extract(np.arange(7), atoms, graph(conflict), price, number))
        removed += 7 - len(left)
        part = value[left], cover[left], conflict[np.ix_(left, left)], price
        assert brute_force(*part) == pytest.approx(brute_force(value, cover, conflict, price))
    assert removed > 100


def test_atoms_are_the_distinct_columns() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        sets = rng.random((rng.integers(1, 9), rng.integers(1, 200))) < rng.random()
        shapes = runs(sets)
        weight, start, pieces = cut(shapes)
        assert len(pieces) == count_pieces(shapes)
        weight, start, atoms = merge_atoms(weight, start, pieces)
        found = np.zeros((len(sets), len(weight)), bool)
        for k in range(len(sets)):
            found[k, atoms[start[k] : start[k + 1]]] = True
        expected, count = np.unique(sets[:, sets.any(axis=0)], axis=1, return_counts=True)
        assert sorted(zip(map(tuple, found.T), weight, strict=True)) == sorted(
            zip(map(tuple, expected.T), count, strict=True)
        )
