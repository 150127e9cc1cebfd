"""Boxes that follow the figure: on a disc, against loops, at the border, and in the mirror."""

from dataclasses import replace

import numpy as np
import pytest

import halfseen as hs
from halfseen.geometry import iou, mirror
from halfseen.infer.boxes import predicted_boxes
from halfseen.infer.mask_kernels import wide_extents
from halfseen.infer.masks import Verdict
from halfseen.infer.refine import correct, corrected_boxes, look, misfit
from test_figure import DISC, detections, disc_image, model_with_head, scene
from test_masks import headless, mirrored_pairs, random_head

TRUE = np.array([DISC[0] - DISC[2], DISC[1] - DISC[2], DISC[0] + DISC[2], DISC[1] + DISC[2]])


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_extents_against_loops(share: float) -> None:
    rng = np.random.default_rng(0)
    grids = rng.random((30, 6, 8)) < rng.random((30, 1, 1)) ** 2
    grids[0] = False
    found = wide_extents(grids, np.array([0.5, share]))[:, :, 1]
    assert np.isnan(found[0]).all()
    for grid, box in zip(grids[1:], found[1:], strict=True):
        if not grid.any():
            assert np.isnan(box).all()
            continue
        full = [j for j in range(8) if grid[:, j].sum() >= share * grid.sum(0).max()]
        full = [j for j in full if grid[:, j].any()]
        high = [i for i in range(6) if grid[i].sum() >= share * grid.sum(1).max()]
        high = [i for i in high if grid[i].any()]
        assert box.tolist() == [full[0], high[0], full[-1] + 1, high[-1] + 1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "off",
    [(-12, -12, 12, 12), (8, 8, -8, -8), (-14, 0, 0, 0), (0, 0, 0, 14), (8, -10, 8, -10)],
)
def test_boxes_come_closer_to_a_disc(seed: int, off: tuple[int, ...]) -> None:
    """Too large, too small, too far to one side: the figure tells which."""
    # Around the disc there is as much ground again.
    image = np.pad(disc_image(seed), ((60, 60), (60, 60), (0, 0)), mode="symmetric")
    true = TRUE + 60
    box = (true + off)[None]
    found = replace(detections(box, (np.ones((8, 9), bool),)), size=image.shape[:2])
    better = corrected_boxes(found, look(image, found).away)
    assert iou(true, better)[0] > iou(true, box)[0] + 0.03


def test_the_misfit_is_least_for_the_right_box() -> None:
    image = np.pad(disc_image(), ((60, 60), (60, 60), (0, 0)), mode="symmetric")
    offs = [(0, 0, 0, 0), (-12, -12, 12, 12), (8, 8, -8, -8), (-14, 0, 0, 0), (8, -10, 8, -10)]
    boxes = TRUE + 60 + np.array(offs)
    found = replace(detections(boxes, (np.ones((8, 9), bool),) * 5), size=image.shape[:2])
    values = misfit(look(image, found).away)
    assert (values[1:] > values[0]).all()


def test_the_misfit_by_hand() -> None:
    away = np.zeros((2, 4, 6))
    away[0, 0], away[0, 3, :2] = 0.1, [-0.3, 0.3]
    np.testing.assert_allclose(misfit(away), [0.1 + 0.6 / 6, 0])


def test_a_right_box_hardly_moves() -> None:
    found = detections(TRUE[None], (np.ones((8, 8), bool),))
    better = corrected_boxes(found, look(disc_image(), found).away)
    assert iou(TRUE, better)[0] > 0.9


def test_what_is_away_of_a_disc() -> None:
    """A box 12 pixels too wide on the left, and with its right third hidden."""
    flags = np.ones((8, 9), bool)
    flags[:, 6:] = False
    box = TRUE - np.array([14, 0, 0, 0])
    away = look(disc_image(), detections(box[None], (flags,))).away
    visible, filled, larger = away[0, :, ::2].T
    size = box[2] - box[0]
    # To a block.
    assert visible[0] == pytest.approx(14 / size, abs=1 / 9)
    assert larger[0] == pytest.approx(14 / size, abs=1 / 9)
    assert visible[2] == pytest.approx(1 / 3)
    assert filled[2] == pytest.approx(0)
    np.testing.assert_allclose(visible[[1, 3]], 0, atol=1 / 8)


@pytest.mark.parametrize("sure", [False, True])
def test_what_a_head_doubts_is_figure_and_what_it_is_sure_of_is_not(sure: bool) -> None:
    """The right third of a disc, and a column left of it, are hidden by its flags, and, or not, for
    sure."""
    flags = np.ones((8, 9), bool)
    flags[:, 6:], flags[:, 0] = False, False
    box = TRUE - np.array([14, 0, 0, 0])
    logits = np.where(flags, -5, 5 if sure else 1).astype(np.float32)
    verdict = Verdict(logits, np.zeros((8, 8), np.float32), np.zeros((7, 9), np.float32))
    seen = look(disc_image(), detections(box[None], (flags,)), judged=[verdict])
    figure, filled, _ = seen.away[0, :, ::2].T
    np.testing.assert_array_equal(seen.flags[0], flags)
    np.testing.assert_array_equal(seen.may_be[0], flags if sure else np.ones_like(flags))
    assert seen.figures[0][3:5, 6:].any() != sure
    assert figure[2] == pytest.approx(1 / 3 if sure else 0, abs=1e-9 if sure else 1 / 9)
    assert filled[2] == pytest.approx(0, abs=1e-9 if sure else 1 / 9)
    assert figure[0] > 0.1
    assert (filled[0] == pytest.approx(0)) == sure
    if not sure:  # nothing is filled
        np.testing.assert_array_equal(figure, filled)


def test_corrections_by_hand() -> None:
    box = np.array([[20.0, 10.0, 60.0, 30.0]])
    found = detections(box, (np.ones((2, 4), bool),))
    away = np.zeros((1, 4, 6))
    away[0, :, 0] = [0.1, 0.2, 0.1, -0.2]
    weights = np.zeros((4, 7))
    weights[:, 0], weights[:, 6] = 0.5, [0, 0, 0.1, 0]
    np.testing.assert_allclose(correct(found, away, weights), [[22, 12, 54, 32]])
    # No more than is left of the box.
    np.testing.assert_allclose(correct(found, 100 * away, weights), [[36, 18, 44, 38]])


def test_sides_beyond_the_image_stay_there() -> None:
    box = np.array([[-10.0, 10.0, 60.0, 130.0]])
    found = detections(box, (np.ones((4, 4), bool),))
    moved = correct(found, np.full((1, 4, 6), 0.1), np.ones((4, 7)))
    assert moved[0, 0] == -10
    assert moved[0, 3] == 130
    assert moved[0, 1] > 10
    assert moved[0, 2] < 60
    # All of the window is beyond, or nothing of it is visible.
    far = detections(
        np.array([[300.0, 10, 340, 60], [20, 20, 40, 40]]), (~np.eye(4, dtype=bool),) * 2
    )
    far = replace(far, visibility=(far.visibility[0], np.zeros((4, 4), bool)))
    boxes = corrected_boxes(far, look(disc_image(), far).away)
    assert np.isfinite(boxes).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    np.testing.assert_array_equal(boxes[0, [0, 2]], [300, 340])
    np.testing.assert_array_equal(boxes[1], [20, 20, 40, 40])
    # By a hair.
    wide = detections(
        np.array([[0.0, 10, 120, 60], [-1e-12, 10, 120 + 1e-12, 60]]), found.visibility * 2
    )
    same = correct(wide, np.full((2, 4, 6), 0.1), np.ones((4, 7)))
    np.testing.assert_allclose(same[0], same[1])
    assert same[0, 0] > 1


def test_a_figure_that_is_not_believed_says_nothing() -> None:
    """One visible block in the corner of a plain picture; and a picture all of which is box."""
    flags = np.zeros((8, 8), bool)
    flags[0, 0] = True
    plain = np.full((100, 120, 3), 90, np.uint8)
    away = look(plain, detections(np.array([[20.0, 20, 60, 60]]), (flags,))).away
    assert not away[0, :, :2].any()
    away = look(plain, detections(np.array([[0.0, 0, 120, 100]]), (~flags,))).away
    assert not away.any()


def test_mirrored_pictures_have_mirrored_boxes() -> None:
    compared = 0
    for here, there in mirrored_pairs(random_head(headless())):
        np.testing.assert_allclose(here.full, mirror(there.full, here.size[1]), atol=1e-6)
        compared += 1
    assert compared >= 1


def test_detections_by_a_mask_head_have_such_boxes() -> None:
    model, image = model_with_head(), scene()
    detector = hs.Detector(model)
    choice = detector.choose(image, -1)
    kept, before = choice.kept, choice.candidates[choice.suppression.indices]
    np.testing.assert_allclose(predicted_boxes(model, kept), before.full, atol=1e-6)
    assert np.abs(kept.full - before.full).max() > 2
    assert np.abs(kept.visible - before.visible).max() > 2
    # Looked at again, boxes are corrected once, not twice.
    again = detector.look_again(image, kept)
    np.testing.assert_allclose(again.full, kept.full, atol=1e-6)
    # The calibration learns from the same boxes.
    (known,) = detector.known_by_model(image)
    greedy = detector.detect(image, -1, "greedy")
    np.testing.assert_allclose(known.kept.full, greedy.full, atol=1e-6)
    for plain in (hs.Detector(model, "paper"), hs.Detector(replace(model, head=None))):
        found = plain.detect(image, -1)
        np.testing.assert_allclose(predicted_boxes(model, found), found.full, atol=1e-6)


def test_of_two_models_only_those_with_a_head_move_boxes() -> None:
    model, image = model_with_head(), scene()
    both = hs.Detector([model, replace(model, head=None, label="cab")]).detect(image, -1)
    plain = both[both.label == "cab"]
    np.testing.assert_allclose(predicted_boxes(model, plain), plain.full, atol=1e-6)
    moved = both[both.label == "car"]
    assert np.abs(predicted_boxes(model, moved) - moved.full).max() > 2
