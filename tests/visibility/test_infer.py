"""Exact visibility against brute force and PyMaxflow; bounds against the exact value."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import maxflow
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfseen.errors import SettingsError
from halfseen.visibility.bounds import block_bounds
from halfseen.visibility.infer import chain_bound, infer_visibility

Edges = tuple[NDArray[np.float32], NDArray[np.float32]]
Block = tuple[int, int]
Grid = NDArray[np.float64]
SMALL = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 7),
    (6, 1),
    (2, 2),
    (2, 3),
    (3, 2),
    (3, 3),
    (2, 5),
    (4, 3),
    (4, 4),
]
LARGE = [(1, 40), (40, 1), (12, 8), (8, 12), (7, 13), (12, 12), (20, 20), (3, 70), (66, 2)]


def energy(
    responses: NDArray[np.float32],
    flags: NDArray[np.bool_],
    u: Any,
    alpha: float,
    hidden: NDArray[np.bool_],
    edges: Edges,
) -> NDArray[np.float64]:
    """Eqn 1 without b, of given flags, in float64."""
    value = np.where(flags, responses.astype(np.float64), np.reshape(u, (-1, 1, 1)))
    total = np.where(hidden, 0, value).sum((1, 2))
    for axis, weight in ((2, edges[0]), (1, edges[1])):
        known = ~np.delete(hidden, 0, axis) & ~np.delete(hidden, -1, axis)
        cut = np.delete(flags, 0, axis) != np.delete(flags, -1, axis)
        total -= alpha * (weight.astype(np.float64) * (cut & known)).sum((1, 2))
    return np.asarray(total)


def every_flags(rows: int, cols: int) -> NDArray[np.bool_]:
    """All flags of a grid, (2^n, rows, cols)."""
    states = np.arange(2 ** (rows * cols))[:, None] >> np.arange(rows * cols)
    return (states & 1).astype(bool).reshape(-1, rows, cols)


def minimum_cut(
    responses: NDArray[np.float32], u: Any, alpha: float, hidden: NDArray[np.bool_], edges: Edges
) -> NDArray[np.bool_]:
    """PyMaxflow's flags."""
    graph = maxflow.GraphFloat()
    nodes = graph.add_grid_nodes(responses.shape)
    for axis, weight in ((2, edges[0]), (1, edges[1])):
        known = ~np.delete(hidden, 0, axis) & ~np.delete(hidden, -1, axis)
        capacity = (alpha * weight.astype(np.float64) * known).ravel()
        graph.add_edges(
            np.delete(nodes, -1, axis).ravel(),
            np.delete(nodes, 0, axis).ravel(),
            capacity,
            capacity,
        )
    gain = np.where(hidden, 0, responses.astype(np.float64) - np.reshape(u, (-1, 1, 1)))
    graph.add_grid_tedges(nodes, np.maximum(gain, 0), np.maximum(-gain, 0))
    graph.maxflow()
    return np.asarray(~graph.get_grid_segments(nodes) & ~hidden)


def ones(count: int, rows: int, cols: int) -> Edges:
    return np.ones((count, rows, cols - 1), np.float32), np.ones(
        (count, rows - 1, cols), np.float32
    )


def check_brute_force(
    grids: NDArray[np.float32],
    u: float,
    alpha: float,
    hidden: NDArray[np.bool_] | None = None,
    edges: Edges | None = None,
) -> None:
    """The score is the maximum over all flags, and the flags are the largest that reach it."""
    count, rows, cols = grids.shape
    weights = ones(*grids.shape) if edges is None else edges
    padded = np.zeros(grids.shape, bool) if hidden is None else hidden
    scores, flags = infer_visibility(grids, u, alpha, hidden, edges)
    states = every_flags(rows, cols)
    for n in range(count):
        lift = np.broadcast_to
        allowed = states[~(states & padded[n]).any((1, 2))]
        one = (slice(n, n + 1),)
        values = energy(
            lift(grids[n], allowed.shape), allowed, u, alpha, lift(padded[n], allowed.shape),
            (weights[0][one], weights[1][one]),
        )  # fmt: skip
        best = values.max()
        assert scores[n] == pytest.approx(best, abs=1e-5, rel=1e-6)
        ties = allowed[values >= best - 1e-9 * (1 + abs(best))]
        np.testing.assert_array_equal(flags[n], ties.any(0))


@pytest.mark.parametrize("shape", SMALL)
@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.1, 1e4])
def test_brute_force(shape: tuple[int, int], alpha: float) -> None:
    rng = np.random.default_rng([*shape, int(1e4 * alpha)])
    count = 3 if shape == (4, 4) else 12
    grids = rng.normal(0, 0.1, (count, *shape)).astype(np.float32)
    for u in (-0.05, 0.0, 0.08):
        check_brute_force(grids, u, alpha)
    hidden = rng.random(grids.shape) < 0.3
    check_brute_force(grids, -0.02, alpha, hidden)
    edges = tuple(rng.gamma(1, 1, e.shape).astype(np.float32) for e in ones(*grids.shape))
    check_brute_force(grids, -0.02, alpha, hidden, (edges[0], edges[1]))


@pytest.mark.parametrize("shape", SMALL)
def test_ties_give_the_most_visible_blocks(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    grids = rng.integers(-2, 3, (5, *shape)).astype(np.float32)
    for alpha in (0.0, 0.5, 1.0):
        check_brute_force(grids, 0.0, alpha)
    check_brute_force(np.zeros((1, *shape), np.float32), 0.0, 1.0)


@pytest.mark.parametrize("shape", LARGE)
def test_pymaxflow(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    count = 300 if shape == (12, 8) else 60
    for alpha, spread, u in itertools.product((0.02, 0.05, 0.3), (0.03, 0.1), (-0.03, 0.02)):
        grids = rng.normal(0, spread, (count, *shape)).astype(np.float32)
        grids[::2] += (rng.random((len(grids[::2]), 1, shape[1])) < 0.3) * np.float32(-spread)
        biases = u + rng.normal(0, 0.01, count)
        weights = ones(*grids.shape)
        contrast = tuple(rng.gamma(1, 1, e.shape).astype(np.float32) for e in weights)
        none = np.zeros(grids.shape, bool)
        padded = none.copy()
        padded[:, : shape[0] // 3] = True
        padded[1::2] |= rng.random(padded[1::2].shape) < 0.2
        for hidden, edges in itertools.product(
            (none, padded), (weights, (contrast[0], contrast[1]))
        ):
            scores, flags = infer_visibility(
                grids, biases, alpha,
                None if hidden is none else hidden, None if edges is weights else edges,
            )  # fmt: skip
            ours = energy(grids, flags, biases, alpha, hidden, edges)
            cut = minimum_cut(grids, biases, alpha, hidden, edges)
            peer = energy(grids, cut, biases, alpha, hidden, edges)
            np.testing.assert_allclose(ours, peer, atol=1e-5, rtol=0)
            np.testing.assert_allclose(scores, ours, atol=1e-5, rtol=0)
            assert not (flags & hidden).any()


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 3), (12, 8), (8, 12), (20, 20)])
@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.05, 10.0])
def test_bounds_are_never_below_the_score(shape: tuple[int, int], alpha: float) -> None:
    rng = np.random.default_rng(5)
    count = 101  # not a multiple of the lanes
    grids = rng.normal(0, 0.1, (count, *shape)).astype(np.float32)
    grids[0] = np.abs(grids[0])  # all visible: the bounds are tight
    u = rng.normal(-0.02, 0.02, count)
    contrast = tuple(rng.gamma(1, 1, e.shape).astype(np.float32) for e in ones(*grids.shape))
    padded = rng.random(grids.shape) < 0.2
    blocks = np.empty(count, np.float32)
    for hidden, edges in itertools.product((None, padded), (None, (contrast[0], contrast[1]))):
        scores, _ = infer_visibility(grids, u, alpha, hidden, edges)
        mask = padded[:0] if hidden is None else hidden
        block_bounds(grids, u, mask, blocks)
        chains = chain_bound(grids, u, alpha, hidden, edges)
        assert (chains >= scores).all()
        assert (blocks >= scores).all()
        assert (chains <= blocks + 1e-3).all()
        if alpha == 0.0 or shape == (1, 1):
            np.testing.assert_allclose(chains, scores, atol=1e-3)
            np.testing.assert_allclose(blocks, scores, atol=1e-5)


def split_by_messages(
    gain: Grid, weight: dict[tuple[Block, Block], float], passes: int
) -> tuple[Grid, Grid]:
    """What of each gain goes to its row's chain and to its column's, after so many passes."""
    said: dict[tuple[Block, Block], float] = {}
    rows, columns = np.zeros(gain.shape), np.zeros(gain.shape)
    blocks = list(np.ndindex(*gain.shape))
    for number in range(passes):
        step = 1 if number % 2 == 0 else -1
        for r, c in blocks[::step]:
            sides, ends = [(r, c - 1), (r, c + 1)], [(r - 1, c), (r + 1, c)]
            heard = {other: said.get((other, (r, c)), 0.0) for other in sides + ends}
            half = (gain[r, c] + sum(heard.values())) / 2
            rows[r, c] = half - sum(heard[other] for other in sides)
            columns[r, c] = half - sum(heard[other] for other in ends)
            for other in (sides[::step][1], ends[::step][1]):
                w = weight.get(((r, c), other), 0.0)
                said[(r, c), other] = float(np.clip(half - heard[other], -w, w))
    return rows, columns


@pytest.mark.parametrize("passes", [1, 2, 3, 6])
def test_chain_bound_against_its_definition(passes: int) -> None:
    rng = np.random.default_rng(6)
    grids = rng.normal(0, 0.1, (20, 4, 5)).astype(np.float32)
    hidden = rng.random(grids.shape) < 0.15
    u, alpha = -0.02, 0.04
    chains = chain_bound(grids, u, alpha, hidden, passes=passes)
    expected = u * (~hidden).sum((1, 2)).astype(float)
    for n, grid in enumerate(grids):
        inside = [(int(r), int(c)) for r, c in np.argwhere(~hidden[n])]
        weight = {
            (a, b): alpha
            for a in inside
            for b in inside
            if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1
        }
        rows, columns = split_by_messages(np.where(hidden[n], 0, grid - u), weight, passes)
        np.testing.assert_allclose((rows + columns)[~hidden[n]], (grid - u)[~hidden[n]], atol=1e-6)
        expected[n] += infer_visibility(rows[:, None], 0, alpha, hidden[n][:, None])[0].sum()
        across = columns.T[:, None]
        expected[n] += infer_visibility(across, 0, alpha, hidden[n].T[:, None])[0].sum()
    np.testing.assert_allclose(chains, expected, atol=1e-4)


def test_passes_of_the_chain_bound_approach_the_score() -> None:
    rng = np.random.default_rng(16)
    grids = rng.normal(0, 0.1, (200, 12, 8)).astype(np.float32)
    hidden = rng.random(grids.shape) < 0.1
    scores, _ = infer_visibility(grids, -0.01, 0.04, hidden)
    gaps = [
        (chain_bound(grids, -0.01, 0.04, hidden, passes=passes) - scores)
        for passes in (1, 2, 3, 4, 8, 100)
    ]
    for looser, tighter in itertools.pairwise(gaps):
        assert (tighter <= looser + 1e-5).all()
        assert (tighter >= 0).all()
    assert gaps[0].mean() > 0.1
    assert gaps[3].mean() < 0.03
    assert gaps[-1].mean() < 1e-3


def test_a_chain_bound_below_what_is_asked_for_is_not_tightened() -> None:
    rng = np.random.default_rng(17)
    grids = rng.normal(0, 0.1, (150, 6, 7)).astype(np.float32)
    grids[64:] += 0.2  # many are solved at once, and go on together
    loose, tight = (chain_bound(grids, -0.01, 0.04, passes=passes) for passes in (1, 9))
    above = float(loose[:64].max() + loose[64:].min()) / 2
    assert loose[:64].max() < above < tight[64:].min()
    some = chain_bound(grids, -0.01, 0.04, passes=9, above=above)
    np.testing.assert_array_equal(some[:64], loose[:64])
    np.testing.assert_array_equal(some[64:], tight[64:])
    assert (tight[:64] < loose[:64] - 1e-3).any()
    np.testing.assert_array_equal(chain_bound(grids, -0.01, 0.04, passes=9, above=99.0), loose)
    with pytest.raises(SettingsError, match="passes"):
        chain_bound(grids, -0.01, 0.04, passes=0)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 14), st.integers(1, 14), st.integers(0, 2**32 - 1),
    st.floats(0, 0.5), st.floats(-0.2, 0.2), st.floats(0, 0.6),
)  # fmt: skip
def test_symmetry_and_optimality(
    rows: int, cols: int, seed: int, alpha: float, u: float, share: float
) -> None:
    """Turning a grid turns its flags; no single flip of a flag gains anything."""
    rng = np.random.default_rng(seed)
    grids = rng.normal(0, 0.1, (4, rows, cols)).astype(np.float32)
    hidden = rng.random(grids.shape) < share
    scores, flags = infer_visibility(grids, u, alpha, hidden)
    turns: list[Callable[[NDArray[Any]], NDArray[Any]]] = [
        lambda g: g.transpose(0, 2, 1), lambda g: g[:, ::-1], lambda g: g[:, :, ::-1],
    ]  # fmt: skip
    for turn in turns:
        turned, turned_flags = infer_visibility(turn(grids), u, alpha, turn(hidden))
        np.testing.assert_allclose(turned, scores, atol=1e-5)
        np.testing.assert_array_equal(turned_flags, turn(flags))
    best = energy(grids, flags, u, alpha, hidden, ones(*grids.shape))
    block = (slice(None), rng.integers(rows), rng.integers(cols))
    flipped = flags.copy()
    flipped[block] ^= ~hidden[block]
    other = energy(grids, flipped, u, alpha, hidden, ones(*grids.shape))
    assert (other <= best + 1e-9).all()


def test_long_detours_need_more_levels_than_reserved() -> None:
    """Flow through a snake of edges, far longer than the grid is wide."""
    rows, cols = 21, 15
    horizontal = np.ones((1, rows, cols - 1), np.float32)
    vertical = np.zeros((1, rows - 1, cols), np.float32)
    vertical[0, 0::4, -1] = vertical[0, 1::4, -1] = 1
    vertical[0, 2::4, 0] = vertical[0, 3::4, 0] = 1
    horizontal[0, 1::2] = 0
    grids = np.zeros((1, rows, cols), np.float32)
    grids[0, 0, 0], grids[0, -1, -1] = 0.5, -0.6
    scores, flags = infer_visibility(grids, 0.0, 1.0, edges=(horizontal, vertical))
    assert scores[0] == 0.0
    snake = np.zeros((rows, cols), bool)
    snake[0::2] = True
    snake[1::4, -1] = snake[3::4, 0] = True
    np.testing.assert_array_equal(flags[0], ~snake)


def test_known_case() -> None:
    """Ising smoothing: a lone bad block stays visible, a bad half of the window is hidden."""
    grid = np.full((2, 6, 4), 0.1, np.float32)
    grid[0, 2, 2] = -0.15
    grid[1, 3:] = -0.15
    scores, flags = infer_visibility(grid, 0.0, 0.05)
    assert flags[0].all()
    np.testing.assert_array_equal(flags[1], np.repeat([True, False], 3)[:, None].repeat(4, 1))
    np.testing.assert_allclose(scores, [23 * 0.1 - 0.15, 12 * 0.1 - 4 * 0.05], atol=1e-6)


def test_no_windows() -> None:
    scores, flags = infer_visibility(np.zeros((0, 3, 4)), 0.0, 0.1)
    assert scores.shape == (0,)
    assert flags.shape == (0, 3, 4)


NAN = np.full((2, 3, 4), np.nan)
GRID = np.zeros((2, 3, 4))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((GRID[0], 0.0, 0.1), "responses"),
        ((NAN, 0.0, 0.1), "responses"),
        ((NAN, 0.0, 0.1, None, (GRID[:, :, 1:], GRID[:, 1:])), "responses"),
        ((-np.inf * np.ones((1, 2, 2)) * [1, -1], 0.0, 0.1), "responses"),
        ((GRID.astype(str), 0.0, 0.1), "responses"),
        ((GRID[:, :0], 0.0, 0.1), "responses"),
        ((GRID, [0.0], 0.1), "u must have shape"),
        ((GRID, np.inf, 0.1), "u must be finite"),
        ((GRID, 0.0, -0.1), "alpha"),
        ((GRID, 0.0, np.nan), "alpha"),
        ((GRID, 0.0, 0.1, GRID[:1] > 0), "hidden must have shape"),
        ((GRID, 0.0, 0.1, GRID), "hidden must hold bool"),
        ((GRID, 0.0, 0.1, None, (GRID, GRID)), r"edges\[0\]"),
        ((GRID, 0.0, 0.1, None, (GRID[:, :, 1:] - 1, GRID[:, 1:])), "edges"),
    ],
)
def test_bad_arguments(arguments: Any, text: str) -> None:
    for function in (infer_visibility, chain_bound):
        with pytest.raises(SettingsError, match=text):
            function(*arguments)
