"""What stands before what: worked by hand, against a loop over pixels, and in the mirror."""

from dataclasses import replace

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.scenes import render_scenes
from halfseen.detections import Bools, Detections
from halfseen.geometry import mirror
from halfseen.infer.boxes import predicted_boxes
from halfseen.infer.figure import find_figures
from halfseen.infer.masks import Masker
from halfseen.infer.order import hide_behind
from halfseen.infer.refine import look
from halfseen.view.catalogue import model_file
from test_masks import headless, random_head


def two(
    first: list[float], second: list[float], scores: tuple[float, float] = (0.5, 1.0),
    labels: tuple[str, str] = ("car", "car"),
) -> Detections:  # fmt: skip
    """Two boxes, each of 4 x 6 blocks, all of which are visible and figure."""
    boxes = np.array([first, second], np.float64)
    flags = tuple(np.ones((2, 4, 6), bool))
    return Detections(
        np.array(scores), np.array(labels), np.zeros(2, np.int64), np.zeros(2, bool), boxes, boxes,
        boxes, flags, (100, 200), figure=flags,
    )  # fmt: skip


FAR, NEAR = [10.0, 10, 70, 50], [40.0, 20, 100, 60]


def test_the_nearer_of_two_hides_the_other() -> None:
    far, near = hide_behind(two(FAR, NEAR), [0, 1])
    expected = np.ones((4, 6), bool)
    expected[1:, 3:] = False
    np.testing.assert_array_equal(far, expected)
    assert near.all()


@pytest.mark.parametrize(
    ("found", "judged"),
    [
        (two(FAR, NEAR, scores=(1.0, 1.0)), [0, 1]),
        (two(FAR, NEAR, scores=(1.0, 0.5)), [0, 1]),
        (two(FAR, NEAR, scores=(-0.5, -0.1)), [0, 1]),
        (two(FAR, [40.0, 10, 100, 50]), [0, 1]),
        (two(FAR, NEAR, labels=("car", "bus")), [0, 1]),
        (two(FAR, [80.0, 20, 140, 60]), [0, 1]),
        (two(FAR, [5.0, 10, 75, 60]), [0, 1]),  # it covers all of the other
        (two(FAR, NEAR), [0]),
        (two(FAR, NEAR), [1]),
        (two(FAR, NEAR), []),
    ],
)
def test_nothing_else_does(found: Detections, judged: list[int]) -> None:
    assert all(grid.all() for grid in hide_behind(found, judged))


def test_only_the_figure_of_the_nearer_one_hides() -> None:
    """Whatever its flags are; without figures, what they hold for visible."""
    found = two(FAR, NEAR)
    seen, figure = np.ones((2, 4, 6), bool), np.ones((2, 4, 6), bool)
    seen[1, :, 1:], figure[1, :, 0], figure[1, 0] = False, False, False
    told = replace(found, visibility=tuple(seen), figure=tuple(figure))
    expected = np.ones((4, 6), bool)
    expected[2:, 4:] = False
    np.testing.assert_array_equal(hide_behind(told, [0, 1])[0], expected)
    expected[1:, 3:] = True
    expected[1:, 3] = False
    told = replace(found, visibility=tuple(seen), figure=None)
    np.testing.assert_array_equal(hide_behind(told, [0, 1])[0], expected)


def test_something_stays_visible() -> None:
    found = two(FAR, NEAR)
    corner = np.zeros((4, 6), bool)
    corner[2:, 4:] = True
    told = replace(found, visibility=(corner, found.visibility[1]))
    np.testing.assert_array_equal(hide_behind(told, [0, 1])[0], corner)


def some(seed: int) -> Detections:
    rng = np.random.default_rng(seed)
    corner = rng.uniform(-20, 120, (6, 2)) * [1, 0.5]
    boxes = np.concatenate([corner, corner + rng.uniform(30, 70, (6, 2))], axis=1)
    flags, figure = (tuple(rng.random((6, 4, 5)) < 0.7) for _ in range(2))
    return Detections(
        rng.uniform(-1, 1, 6), np.full(6, "car"), np.zeros(6, np.int64), np.zeros(6, bool), boxes,
        boxes, boxes, flags, (100, 200), figure=figure,
    )  # fmt: skip


def test_against_a_loop_over_blocks() -> None:
    hidden = 0
    for found in map(some, range(8)):
        for a, flags in enumerate(hide_behind(found, list(range(6)))):
            expected = found.visibility[a].copy()
            for b in (b for b in range(6) if stands_before(found, b, a)):
                for i, j in np.ndindex(*expected.shape):
                    expected[i, j] &= not shown(found, b, block_centre(found, a, i, j))
            expected = expected if expected.any() else found.visibility[a]
            np.testing.assert_array_equal(flags, expected)
            hidden += int((found.visibility[a] & ~flags).sum())
    assert hidden > 20


def stands_before(found: Detections, b: int, a: int) -> bool:
    first, second = found.clipped[a], found.clipped[b]
    width = max(min(first[2], second[2]) - max(first[0], second[0]), 0)
    height = max(min(first[3], second[3]) - max(first[1], second[1]), 0)
    share = width * height / ((first[2] - first[0]) * (first[3] - first[1]))
    better = found.score[b] > found.score[a] and found.score[b] > 0
    return bool(0 < share <= 0.7 and second[3] > first[3] and better)


def block_centre(found: Detections, n: int, i: int, j: int) -> tuple[float, float]:
    x1, y1, x2, y2 = found.window[n]
    rows, cols = found.visibility[n].shape
    return x1 + (j + 0.5) * (x2 - x1) / cols, y1 + (i + 0.5) * (y2 - y1) / rows


def shown(found: Detections, n: int, point: tuple[float, float]) -> bool:
    assert found.figure is not None
    grid: Bools = found.figure[n]
    x1, y1, x2, y2 = found.window[n]
    x, y = (point[0] - x1) / (x2 - x1), (point[1] - y1) / (y2 - y1)
    if not (0 <= x < 1 and 0 <= y < 1):
        return False
    return bool(grid[int(y * grid.shape[0]), int(x * grid.shape[1])])


@pytest.mark.parametrize("seed", range(4))
def test_mirrored_detections_hide_the_mirrored_blocks(seed: int) -> None:
    found = some(seed)
    assert found.figure is not None
    boxes = mirror(found.window, 200)
    flip = [tuple(grid[:, ::-1] for grid in grids) for grids in (found.visibility, found.figure)]
    there = replace(
        found, window=boxes, full=boxes, visible=boxes, visibility=flip[0], figure=flip[1]
    )
    order = list(range(6))
    for ours, theirs in zip(hide_behind(found, order), hide_behind(there, order), strict=True):
        np.testing.assert_array_equal(ours, theirs[:, ::-1])


def test_what_stands_behind_another_does_not_show_its_figure() -> None:
    """Figures of what stands behind are looked for anew, in what may be visible beside the other;
    whatever its flags are."""
    model = hs.load(model_file("VIS"))
    detector, masker = hs.Detector(model), Masker(model)
    compared = changed = 0
    for image in map(render_scenes(12, seed=5, classes=["car"]).image, range(12)):
        kept = detector.detect(image, -1.2, "greedy")
        masks = detector.masks_of(image, replace(kept, full=predicted_boxes(model, kept)))
        pairs = zip(kept.component.tolist(), kept.mirrored.tolist(), strict=True)
        typical = [masker.typical_figure(*pair) for pair in pairs]
        verdicts = [verdict for verdict in masks.judged if verdict is not None]
        first = look(image, masks.found, typical, verdicts)
        found = replace(masks.found, visibility=first.may_be, figure=first.figures)
        left = hide_behind(found, list(range(len(found))))
        behind = [n for n in range(len(found)) if (left[n] != first.may_be[n]).any()]
        again = find_figures(
            image, replace(found, visibility=left)[behind], [typical[n] for n in behind]
        )
        expected = list(first.figures)
        for n, grid in zip(behind, again, strict=True):
            expected[n] = grid
            changed += bool((grid != first.figures[n]).any())
        assert kept.figure is not None
        for ours, theirs in zip(kept.figure, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for n in behind:
            assert not (kept.figure[n] & ~left[n]).any()
            compared += bool((first.may_be[n] & ~first.flags[n]).any())
    assert changed > 3
    assert compared > 3


def test_a_detector_knows_what_stands_before_what() -> None:
    """Masks of what is kept are those of its candidates, less what others hide."""
    detector = hs.Detector(random_head(headless()))
    hidden = 0
    for i in range(6):
        image = render_scenes(6, seed=5, classes=["car"]).image(i)
        candidates, kept = detector.candidates(image, -2), detector.detect(image, -2)
        for n in range(len(kept)):
            same = (candidates.window == kept.window[n]).all(1)
            same &= candidates.mirrored == kept.mirrored[n]
            (alone,) = (candidates.visibility[k] for k in np.flatnonzero(same))
            assert not (kept.visibility[n] & ~alone).any()
            hidden += int((alone & ~kept.visibility[n]).sum())
    assert hidden > 0
