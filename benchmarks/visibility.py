"""Exact visibility against PyMaxflow, on grids like those of a trained detector.

Both run in one thread on the same grids, in turn, and are timed in CPU time, which other work on
the machine disturbs least. The peer is PyMaxflow's faster way: one graph that holds all grids, or
one graph for each.

    python benchmarks/visibility.py
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import maxflow
import numpy as np
from numpy.typing import NDArray

from halfseen.visibility.infer import chain_bound, infer_visibility

Grids = NDArray[np.float32]
U = -0.02
ALPHAS = (0.02, 0.05)
REPEATS = 9
COUNTS = {(12, 8): 1000, (12, 12): 600, (20, 20): 200}


def make_grids(count: int, shape: tuple[int, int], spread: float, smooth: bool, seed: int) -> Grids:
    """Responses of this standard deviation: white, or correlated between neighbours."""
    noise = np.random.default_rng(seed).standard_normal((count, *shape))
    if smooth:
        for axis in (1, 2):
            noise += 0.5 * (np.roll(noise, 1, axis) + np.roll(noise, -1, axis))
    return np.asarray(noise * (spread / noise.std()), np.float32)


def pymaxflow_batched(grids: Grids, alpha: float) -> NDArray[np.bool_]:
    graph = maxflow.GraphFloat(grids.size, 2 * grids.size)
    nodes = graph.add_grid_nodes(grids.shape)
    structure = np.zeros((3, 3, 3))
    structure[1, 1, 2] = structure[1, 2, 1] = 1
    graph.add_grid_edges(nodes, weights=alpha, structure=structure, symmetric=True)
    graph.add_grid_tedges(nodes, grids, np.full(grids.shape, U))
    graph.maxflow()
    return np.asarray(~graph.get_grid_segments(nodes))


def pymaxflow_looped(grids: Grids, alpha: float) -> NDArray[np.bool_]:
    structure = np.zeros((3, 3))
    structure[1, 2] = structure[2, 1] = 1
    hidden = np.full(grids.shape[1:], U)
    flags = np.empty(grids.shape, bool)
    for n, grid in enumerate(grids):
        graph = maxflow.GraphFloat(grid.size, 2 * grid.size)
        nodes = graph.add_grid_nodes(grid.shape)
        graph.add_grid_edges(nodes, weights=alpha, structure=structure, symmetric=True)
        graph.add_grid_tedges(nodes, grid, hidden)
        graph.maxflow()
        flags[n] = ~graph.get_grid_segments(nodes)
    return flags


def energy(grids: Grids, flags: NDArray[np.bool_], alpha: float) -> NDArray[np.float64]:
    cut = (flags[:, 1:] != flags[:, :-1]).sum((1, 2)) + (flags[:, :, 1:] != flags[:, :, :-1]).sum(
        (1, 2)
    )
    return np.asarray(np.where(flags, grids.astype(np.float64), U).sum((1, 2)) - alpha * cut)


def cpu_seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = time.thread_time()
    function(*arguments)
    return time.thread_time() - start


def ours(grids: Grids, alpha: float) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    return infer_visibility(grids, U, alpha)


def main() -> None:
    result: dict[str, Any] = {}
    gap = 0.0
    for shape, count in COUNTS.items():
        name = f"{shape[0]}x{shape[1]}"
        solvers = (ours, pymaxflow_batched, pymaxflow_looped)
        # One repeat is all conditions; its ratio is of total times.
        seconds = np.zeros((REPEATS, len(solvers)))
        for spread, smooth, alpha in itertools.product((0.05, 0.1), (False, True), ALPHAS):
            grids = make_grids(count, shape, spread, smooth, seed=1)
            scores, flags = ours(grids, alpha)
            peer = energy(grids, pymaxflow_batched(grids, alpha), alpha)
            gaps = np.abs(energy(grids, flags, alpha) - peer), np.abs(scores - peer)
            gap = max(gap, *(float(g.max()) for g in gaps))
            times = np.array([[cpu_seconds(s, grids, alpha) for s in solvers] for _ in seconds])
            seconds += times
            each = np.median(times, axis=0) / count * 1e6
            print(
                f"{name} spread {spread} {'smooth' if smooth else 'white '} alpha {alpha}: "
                f"ours {each[0]:.2f} us, PyMaxflow batched {each[1]:.1f}, looped {each[2]:.1f}, "
                f"visible {flags.mean():.2f}"
            )
        peer_seconds = seconds[:, 1:][:, np.argmin(np.median(seconds[:, 1:], axis=0))]
        result[f"pymaxflow_over_ours_{name}"] = round(
            float(np.median(peer_seconds / seconds[:, 0])), 2
        )
    grids = make_grids(2000, (12, 8), 0.07, True, seed=2)
    chain_bound(grids, U, 0.05)
    for alpha in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2):
        ours_times = [cpu_seconds(ours, grids, alpha) for _ in range(REPEATS)]
        result[f"microseconds_12x8_alpha_{alpha}"] = round(
            float(np.median(ours_times)) / 2000 * 1e6, 2
        )
    bound_times = [cpu_seconds(chain_bound, grids, U, 0.05) for _ in range(REPEATS)]
    result["microseconds_chain_bound_12x8"] = round(float(np.median(bound_times)) / 2000 * 1e6, 3)
    result["max_energy_gap"] = gap
    print(json.dumps(result))


if __name__ == "__main__":
    main()
