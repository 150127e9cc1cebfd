"""Problems too large to cut: gains against pixels, sets and bounds against the optimum."""

import numpy as np
import pytest

from halfseen.arrays import Bool, Float64
from halfseen.suppression.candidates import Shapes, of_boxes
from halfseen.suppression.mask_shapes import shapes_of_grids, shapes_of_masks
from halfseen.suppression.overlap_kernels import IOU, Graph, find_pairs
from halfseen.suppression.solver import solve as solver
from halfseen.suppression.solver.large import gain_among, take_marginally, touching
from halfseen.suppression.solver.solve import SearchLimits, Solution, maximise

Masks = Bool


def regions(rng: np.random.Generator, count: int) -> tuple[Masks, list[Shapes]]:
    """Boxes of whole pixels; the same as boxes and as runs, and with holes as grids and as runs."""
    corner, side = rng.integers(0, 20, (count, 2)), rng.integers(3, 14, (count, 2))
    masks = np.zeros((count, 34, 34), bool)
    for mask, (x, y), (wide, high) in zip(masks, corner, side, strict=True):
        mask[y : y + high, x : x + wide] = True
    boxes = np.hstack([corner, corner + side]).astype(float)
    return masks, [of_boxes(boxes), shapes_of_masks(masks, np.zeros(count, np.int64))]


def pieces(rng: np.random.Generator, count: int) -> tuple[Masks, list[Shapes]]:
    masks, (boxes, _) = regions(rng, count)
    masks &= rng.random(masks.shape) < 0.7
    grids = [
        mask[int(y1) : int(y2), int(x1) : int(x2)]
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.box, strict=True)
    ]
    runs = shapes_of_masks(masks, np.zeros(count, np.int64))
    return masks, [shapes_of_grids(grids, boxes.box), runs]


def energy(masks: Masks, value: Float64, price: float = 0.0) -> float:
    if not len(masks):
        return 0.0
    return float((masks * value[:, None, None]).max(axis=0).sum() - price * len(masks))


@pytest.mark.parametrize("make", [regions, pieces])
def test_gains_are_those_of_pixels(make) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    for _ in range(40):
        masks, kinds = make(rng, 12)
        value = rng.uniform(0.1, 3, 12)
        chosen = rng.random(12) < 0.5
        others = np.arange(1, 12)
        without = masks[1:][chosen[1:]], value[1:][chosen[1:]]
        expected = energy(np.r_[masks[:1], without[0]], np.r_[value[0], without[1]])
        expected -= energy(*without)
        for shapes in kinds:
            assert gain_among(shapes, value, 0, chosen, others) == pytest.approx(expected, abs=1e-9)


def check(solved: Solution, masks: Masks, value: Float64, conflict: Graph, price: float) -> None:
    first = np.repeat(np.arange(len(value)), np.diff(conflict.start))
    chosen = solved.chosen
    assert not (chosen[first] & chosen[conflict.other]).any()
    assert solved.energy == pytest.approx(energy(masks[chosen], value[chosen], price))
    for k in np.flatnonzero(chosen):
        rest = chosen.copy()
        rest[k] = False
        gain = energy(masks[chosen], value[chosen]) - energy(masks[rest], value[rest])
        assert solved.marginal[k] == pytest.approx(gain, abs=1e-6)
        assert gain > price - 1e-9


@pytest.mark.parametrize("make", [regions, pieces])
def test_the_optimum_lies_between_energy_and_bound(make) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    for n in range(30):
        masks, kinds = make(rng, 40)
        value, price = np.sort(rng.uniform(0.1, 3, 40))[::-1].copy(), float(n % 2) * 5
        for shapes in kinds:
            conflict = Graph(*find_pairs(shapes, IOU, 0.3))
            best = maximise(value, shapes, conflict, SearchLimits.of(True, 100_000, 60), price)
            chosen, total, bound, marginal = take_marginally(shapes, value, conflict, price)
            found = Solution(chosen, total, bound, False, marginal, 0, 0)
            check(found, masks, value, conflict, price)
            assert found.energy <= best.energy * (1 + 1e-9) <= bound * (1 + 2e-9)
            assert found.energy >= 0.7 * best.energy


def test_components_are_solved_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small components exactly, large ones by marginal gains, with one certificate for all."""
    rng = np.random.default_rng(2)
    boxes = regions(rng, 30)[1][0]
    far = boxes.box + np.repeat(np.arange(3) * 100.0, 10)[:, None] * [1, 0, 1, 0]
    shapes = of_boxes(far)
    assert len(touching(shapes)[0]) >= 4
    value = np.sort(rng.uniform(0.1, 3, 30))[::-1].copy()
    conflict = Graph(*find_pairs(shapes, IOU, 0.3))
    whole = maximise(value, shapes, conflict, SearchLimits.of(True, 100_000, 60))
    assert whole.optimal
    monkeypatch.setattr(solver, "MOST_PIECES", 2000)
    parts = maximise(value, shapes, conflict, SearchLimits.of(True, 100_000, 60))
    assert parts.optimal
    np.testing.assert_array_equal(parts.chosen, whole.chosen)
    assert parts.energy == pytest.approx(whole.energy)
    np.testing.assert_allclose(parts.marginal, whole.marginal, atol=1e-9)
    monkeypatch.setattr(solver, "MOST_PIECES", 1)
    rough = maximise(value, shapes, conflict, SearchLimits.of(True, 100_000, 60))
    assert rough.energy <= whole.energy * (1 + 1e-9) <= rough.bound * (1 + 2e-9)
