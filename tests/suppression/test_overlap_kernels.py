"""Overlaps of regions, pair by pair, against pixels, direct formulas and pycocotools."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pycocotools import mask as oracle

from halfseen.data.rle import encode, mask_runs, read_runs
from halfseen.suppression import ranked
from halfseen.suppression.candidates import Shapes, of_boxes
from halfseen.suppression.mask_shapes import shapes_of_grids, shapes_of_masks
from halfseen.suppression.overlap_kernels import (
    IOU,
    LOWER,
    SMALLER,
    choose_greedily,
    find_pairs,
    first_above,
    overlap_of,
    shared,
    strongest,
)

Matrix = NDArray[np.float64]
Masks = NDArray[np.bool_]


def random_boxes(rng: np.random.Generator, count: int, span: float = 60) -> Matrix:
    """Boxes of very different sizes, some empty, some beside each other."""
    corner = rng.integers(-20, int(span), (count, 2)).astype(float)
    side = rng.integers(0, 30, (count, 2)) * rng.choice([0.2, 1, 1, 5], (count, 1))
    return np.hstack([corner, corner + side])


def random_masks(rng: np.random.Generator, count: int) -> Masks:
    masks = np.zeros((count, 23, 31), bool)
    for mask in masks:
        y, x = rng.integers(0, 23), rng.integers(0, 31)
        mask[y : y + rng.integers(1, 23), x : x + rng.integers(1, 31)] = True
        mask &= rng.random(mask.shape) < rng.choice([0.0, 0.4, 1.0])
    return masks


def all_overlaps(both: Matrix, area: Matrix, measure: int) -> Matrix:
    """(N, N) overlaps of rows with columns, which are ranked lower."""
    if measure == IOU:
        below = area[:, None] + area - both
    else:
        below = (
            np.minimum(area[:, None], area) if measure == SMALLER else np.tile(area, (len(area), 1))
        )
    return np.divide(both, below, out=np.zeros_like(both), where=both > 0)


def shared_boxes(boxes: Matrix) -> Matrix:
    side = np.minimum(boxes[:, None, 2:], boxes[:, 2:]) - np.maximum(
        boxes[:, None, :2], boxes[:, :2]
    )
    return np.asarray(np.maximum(side, 0).prod(axis=2))


def cases(seed: int, count: int) -> list[tuple[Shapes, Matrix]]:
    """Regions of each kind and the areas that they share by a direct formula."""
    rng = np.random.default_rng(seed)
    boxes, masks = random_boxes(rng, count), random_masks(rng, count)
    flat = masks.reshape(count, -1).astype(float)
    return [
        (of_boxes(boxes), shared_boxes(boxes)),
        (shapes_of_masks(masks, np.zeros(count, np.int64)), flat @ flat.T),
    ]


@pytest.mark.parametrize("measure", [IOU, SMALLER, LOWER])
def test_kernels_agree_with_all_pairs(measure: int) -> None:
    for seed in range(20):
        for shapes, both in cases(seed, 40):
            area, everyone = shapes.area, np.arange(40)
            exact = all_overlaps(both, area, measure)
            for k in (0, 7):
                found = [overlap_of(shapes, measure, k, n) for n in range(40)]
                np.testing.assert_allclose(found, exact[k], rtol=1e-12)
            for limit in (0, 0.25, 0.5):
                if measure != LOWER:
                    start, other = find_pairs(shapes, measure, limit)
                    for k in range(40):
                        expected = np.flatnonzero((exact[k] > limit) & (everyone != k))
                        np.testing.assert_array_equal(other[start[k] : start[k + 1]], expected)
                kept, excluder, overlap = choose_greedily(shapes, everyone, measure, limit)
                slow: list[int] = []
                for n in range(40):
                    by = [k for k in slow if exact[k, n] > limit]
                    assert excluder[n] == (by[0] if by else -1)
                    assert overlap[n] == pytest.approx(exact[by[0], n] if by else 0)
                    if not by:
                        slow.append(n)
                assert kept.tolist() == slow
                fast = ranked.choose_greedily(shapes, everyone, measure, limit)
                for ours, theirs in zip(fast, (kept, excluder, overlap), strict=True):
                    np.testing.assert_array_equal(ours, theirs)
                first = first_above(shapes, kept, everyone, measure, limit)
                others = ranked.first_above(shapes, kept, everyone, measure, limit)
                np.testing.assert_array_equal(others, first)
                for n in range(40):
                    by = [k for k in slow if exact[k, n] > limit]
                    assert first[n] == (by[0] if by else -1)
            who, most = strongest(shapes, kept, measure)
            np.testing.assert_allclose(most, exact[kept].max(axis=0), rtol=1e-12)
            assert (who[most > 0] == exact[kept].argmax(axis=0)[most > 0]).all()
            assert (who[most == 0] == -1).all()


def test_grids_share_what_their_blocks_share() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        corner, side = rng.integers(0, 30, (2, 2)), rng.integers(1, 5, (2, 2))
        grids = [rng.random(tuple(s)) < 0.6 for s in side]
        block = rng.integers(1, 6, (2, 2))
        windows = [
            [x, y, x + columns * w, y + rows * h]
            for (x, y), (rows, columns), (w, h) in zip(corner, side, block, strict=True)
        ]
        pixels = np.zeros((2, 60, 60), bool)
        for mask, grid, (x, y), (w, h) in zip(pixels, grids, corner, block, strict=True):
            large = np.kron(grid, np.ones((h, w), bool))
            mask[y : y + large.shape[0], x : x + large.shape[1]] = large
        shapes = shapes_of_grids(grids, np.array(windows, dtype=float))
        np.testing.assert_allclose(shapes.area, pixels.sum(axis=(1, 2)), atol=1e-9)
        assert shared(shapes, 0, 1) == pytest.approx((pixels[0] & pixels[1]).sum(), abs=1e-9)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_run_lengths_equal_pycocotools() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        masks = random_masks(rng, 12)
        packed = [encode(mask) for mask in masks]
        shapes = shapes_of_masks(packed, np.zeros(12, np.int64))
        theirs = oracle.iou(packed, packed, [0] * 12)
        ours = [[overlap_of(shapes, IOU, i, j) for j in range(12)] for i in range(12)]
        empty = shapes.area == 0
        theirs[empty | empty[:, None]] = 0
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        for mask, runs in zip(masks, packed, strict=True):
            for read in (mask_runs(mask), read_runs(runs, None)):
                ys, xs = np.nonzero(mask)
                box = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1] if len(xs) else [0] * 4
                # Runs of a whole column join those of the next, and then reach from top to bottom.
                assert read.box[0] == box[0]
                assert read.box[2] == box[2]
                assert read.box[1] <= box[1] <= box[3] <= read.box[3]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_some_of_the_regions(data: Any) -> None:
    for shapes, both in cases(data.draw(st.integers(0, 5)), 12):
        chosen = np.array(data.draw(st.lists(st.integers(0, 11), max_size=8)), dtype=np.int64)
        part = shapes.take(chosen)
        np.testing.assert_array_equal(part.area, shapes.area[chosen])
        for i, k in enumerate(chosen):
            for j, n in enumerate(chosen):
                assert shared(part, i, j) == both[k, n]
