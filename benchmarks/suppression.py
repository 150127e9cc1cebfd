"""Exact covering suppression: how often it is proved, how fast, and against HiGHS.

1. Candidate sets of real detections (benchmarks/candidates/*.npz): the whole call, with the default
   and with the paper's energy, within one second an image.
2. Synthetic clusters of 50 to 400 candidates around four objects that stand side by side, with the
   paper's and the default energy, eta 0.3 and 0.5: ours; the same search with the paper's bound
   alone; and, up to 100 candidates, HiGHS on the same problem with the same merged blocks.

All in CPU time, which other work on the machine disturbs least. Prints one line of JSON last.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from halfseen.data.candidates import read_candidates
from halfseen.detections import Detections
from halfseen.suppression import suppress
from halfseen.suppression.candidates import Shapes
from halfseen.suppression.covering import Covering
from halfseen.suppression.overlap_kernels import IOU, Graph, find_pairs
from halfseen.suppression.scene import blocks_of
from halfseen.suppression.solver.branch import search_briefly
from halfseen.suppression.solver.decompose import connected
from halfseen.suppression.solver.problem import Cover, cut, merge_atoms
from halfseen.suppression.solver.solve import SearchLimits, maximise

FOLDER = Path(__file__).parent / "candidates"
HIGHS_SECONDS = 20.0
HIGHS_CASES = {50: 8, 100: 4}
SYNTHETIC_CASES = 16
PAPER_WORK = 400_000_000
"""Steps of the search with the paper's bound alone: about half a second."""

Problem = tuple[NDArray[np.float64], Shapes, Graph]


def cluster(seed: int, count: int) -> Detections:
    """Candidates as a detector gives them: better the nearer to an object, some partly hidden."""
    rng = np.random.default_rng(seed)
    centre = np.column_stack([rng.uniform(150, 350, 4), rng.uniform(130, 240, 4)])
    size, quality = rng.uniform(80, 160, 4), rng.normal(0.3, 0.4, 4)
    own = rng.integers(4, size=count)
    off = rng.normal(0, [0.18, 0.15], (count, 2))
    stretch = rng.normal(0, 0.2, count)
    middle = centre[own] + off * size[own, None]
    wide = size[own] * np.exp(stretch)
    half = np.column_stack([wide, 0.6 * wide * np.exp(rng.normal(0, 0.1, count))]) / 2
    window = np.hstack([middle - half, middle + half])
    score = quality[own] - 2 * np.hypot(*off.T) - np.abs(stretch) + rng.normal(0, 0.15, count)
    flags = []
    for _ in range(count):
        grid = np.ones((6, 10), bool)
        if rng.random() < 0.3:
            hidden = rng.integers(1, 6)
            grid[:, :hidden] = rng.random() < 0.5
            grid[:, -hidden:] &= ~grid[:, :hidden].any()
        flags.append(grid if grid.any() else ~grid)
    none = np.zeros(count, np.int64)
    return Detections(
        np.maximum(score, -0.999), np.full(count, "car"), none, none.astype(bool), window, window,
        window, tuple(flags), (375, 500),
    )  # fmt: skip


def problem_of(found: Detections, settings: Covering) -> Problem:
    scene = blocks_of(found, settings.block, whole=settings.blocks == "all")
    visible = scene.visible.take(scene.order)
    cover = visible if settings.blocks == "visible" else scene.whole.take(scene.order)
    conflict = Graph(*find_pairs(visible, IOU, settings.overlap))
    return settings.values(found.score[scene.order]), cover, conflict


def by_paper(problem: Problem) -> bool:
    """Whether the search ends with the paper's bound alone."""
    value, cover, conflict = problem
    atoms = Cover(value, *merge_atoms(*cut(cover)))
    parts = connected(atoms, conflict)
    return bool(search_briefly(parts, atoms, conflict, 0.0, (PAPER_WORK, PAPER_WORK))[3].all())


def by_highs(problem: Problem) -> tuple[float, bool]:
    """(energy, whether proved): x_k chooses a candidate, y_ka <= x_k gives it the atom a."""
    value, cover, conflict = problem
    weight, start, atoms = merge_atoms(*cut(cover))
    count, pairs, pieces = len(value), len(atoms), len(weight)
    owner, number = np.repeat(np.arange(count), np.diff(start)), np.arange(pairs)
    linked = sparse.hstack(
        [sparse.csr_array((-np.ones(pairs), (number, owner)), (pairs, count)), sparse.eye(pairs)]
    )
    once = sparse.hstack(
        [
            sparse.csr_array((pieces, count)),
            sparse.csr_array((np.ones(pairs), (atoms, number)), (pieces, pairs)),
        ]
    )
    first = np.repeat(np.arange(count), np.diff(conflict.start))
    ends = np.column_stack([first, conflict.other])[first < conflict.other]
    rows = np.repeat(np.arange(len(ends)), 2)
    edges = sparse.csr_array((np.ones(ends.size), (rows, ends.ravel())), (len(ends), count + pairs))
    result = milp(
        np.r_[np.zeros(count), -weight[atoms] * value[owner]],
        constraints=[
            LinearConstraint(linked, -np.inf, 0),
            LinearConstraint(once, -np.inf, 1),
            LinearConstraint(edges, -np.inf, 1),
        ],
        integrality=np.r_[np.ones(count), np.zeros(pairs)],
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-9, "time_limit": HIGHS_SECONDS},
    )
    return (-float(result.fun) if result.fun is not None else 0.0), result.status == 0


def timed(call: Any, *arguments: Any, **options: Any) -> tuple[Any, float]:
    """A result and its milliseconds of CPU."""
    began = time.process_time()
    result = call(*arguments, **options)
    return result, 1e3 * (time.process_time() - began)


def real_sets() -> dict[str, Any]:
    """Part 1. The keys without a prefix are of the default energy."""
    figures: dict[str, Any] = {"images": 0}
    for energy, prefix in (("odds", ""), ("paper", "paper_energy_")):
        everything: list[tuple[bool, float]] = []
        for file in sorted(FOLDER.glob("*.npz")):
            images = read_candidates(file)
            runs = [timed(suppress, found, energy=energy, max_seconds=1.0) for found in images]
            own = [(bool(kept.optimal), ms) for kept, ms in runs]
            everything += own
            figures[f"{prefix}{file.stem}"] = summary(own)
        if everything:
            figures |= {f"{prefix}{key}": value for key, value in summary(everything).items()}
    return figures


def summary(runs: list[tuple[bool, float]]) -> dict[str, float]:
    proved, ms = np.array(runs, dtype=float).T
    return {
        "images": len(runs),
        "proved_share": round(float(proved.mean()), 4),
        "median_ms": round(float(np.median(ms)), 3),
        "p99_ms": round(float(np.quantile(ms, 0.99)), 2),
        "max_ms": round(float(ms.max()), 2),
    }


def synthetic() -> dict[str, Any]:
    """Part 2."""
    figures: dict[str, Any] = {}
    for count in (50, 100, 200, 400):
        ours, paper, ratio = [], [], []
        proofs = 0
        for seed in range(SYNTHETIC_CASES):
            energy, overlap = ("paper", "odds")[seed % 2], (0.3, 0.5)[seed // 2 % 2]
            settings = Covering.make({"energy": energy, "overlap": overlap})
            problem = problem_of(cluster(seed, count), settings)
            solved, ms = timed(maximise, *problem, SearchLimits.of(True, 100_000, 10.0))
            ours.append((solved.optimal, ms))
            paper.append(timed(by_paper, problem))
            if seed < HIGHS_CASES.get(count, 0):
                (reached, proved), highs_ms = timed(by_highs, problem)
                ratio.append(highs_ms / ms)
                proofs += proved
                assert reached <= solved.bound * (1 + 1e-6), (count, seed, reached, solved)
                assert not proved or np.isclose(reached, solved.energy, rtol=1e-6), (count, seed)
        figures[f"clusters_{count}"] = summary(ours)
        figures[f"clusters_{count}_paper_bound"] = summary(paper)
        if ratio:
            figures[f"highs_over_ours_{count}"] = round(float(np.median(ratio)), 1)
            figures[f"highs_over_ours_{count}_least"] = round(min(ratio), 1)
            figures[f"highs_proved_share_{count}"] = round(proofs / len(ratio), 3)
        print(count, {k: v for k, v in figures.items() if str(count) in k}, flush=True)
    return figures


def main() -> None:
    for energy in ("paper", "odds"):  # compile, or read the compiled kernels
        settings = Covering.make({"energy": energy, "overlap": 0.3})
        found = cluster(0, 120)
        maximise(*problem_of(found, settings), SearchLimits.of(True, 100_000, 1.0))
        suppress(found, energy=energy)
    print(json.dumps(real_sets() | synthetic()))


if __name__ == "__main__":
    main()
