"""Pictures of detections: what is drawn where, judged by the pixels."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from halfseen.detections import Block, Detections, GroundTruth
from halfseen.report.draw import DIM, TINT, beside, draw_detections
from halfseen.report.palette import CYCLE, colour, hexadecimal, ink
from halfseen.report.sketch import Sketch
from halfseen.studies.demo import contact_sheet

GROUND = 120


def picture(height: int = 375, width: int = 500) -> np.ndarray:
    return np.full((height, width, 3), GROUND, np.uint8)


def one(
    box: tuple[float, ...] = (100, 100, 300, 260),
    score: float = 1.0,
    size: tuple[int, int] = (375, 500),
) -> Detections:
    """A detection of 4 x 5 blocks of which the right two columns are hidden."""
    grid = np.ones((4, 5), bool)
    grid[:, 3:] = False
    full = np.array([box], float)
    seen = full.copy()
    seen[:, 2] = full[:, 0] + 0.6 * (full[:, 2] - full[:, 0])
    return Detections(
        np.array([score]), np.array(["car"]), np.array([0]), np.array([False]), full, full, seen,
        (grid,), size,
    )  # fmt: skip


def test_visible_blocks_are_tinted_and_hidden_ones_dimmed_and_hatched() -> None:
    image = picture()
    drawn = draw_detections(image, one())
    assert (image == GROUND).all()
    assert drawn.shape == image.shape
    assert drawn.dtype == np.uint8
    expected = GROUND + TINT * (np.array(colour(0)) - GROUND)
    assert np.abs(drawn[150:240, 120:200] - expected).max() <= 1
    hidden = drawn[110:250, 230:290].reshape(-1, 3).astype(float)
    assert np.abs(hidden.min(0)[:2] - (1 - DIM) * GROUND).max() <= 1
    assert hidden.max(0)[0] > 150  # the hatching
    assert (drawn[300:] == GROUND).all()
    assert (drawn[:, 320:] == GROUND).all()


def test_visible_ground_is_left_as_it_is() -> None:
    blocks = one().blocks[0].copy()
    blocks[2:, :3] = Block.GROUND
    drawn = draw_detections(picture(), replace(one(), blocks=(blocks,)))
    plain = draw_detections(picture(), one())
    assert (drawn[190:250, 110:210] == GROUND).all()
    for same in (np.s_[:180], np.s_[:, 230:]):  # the object, and what is hidden
        assert (drawn[same] == plain[same]).all()


def test_nothing_is_hatched_beyond_the_window() -> None:
    """The box of an object may reach beyond its window."""
    wide = replace(one(), full=np.array([[60.0, 60, 360, 300]]))
    drawn, plain = (draw_detections(picture(), found) for found in (wide, one()))
    for beyond in (np.s_[270:290, 70:350], np.s_[110:290, 310:350], np.s_[110:290, 70:90]):
        assert (drawn[beyond] == GROUND).all()
    assert (drawn[140:220, 235:285] == plain[140:220, 235:285]).all()


def test_the_visible_box_is_solid_and_the_whole_one_dashed() -> None:
    drawn = draw_detections(picture(), one()).astype(int)
    tone = np.array(colour(0))
    solid = np.abs(drawn[261:259:-1, 130:190] - tone).sum(2).min(0)
    assert (solid < 40).all()
    on_the_dashed_side = np.abs(drawn[110:250, 299:301] - tone).sum(2).min(1)
    assert 0.3 < (on_the_dashed_side < 60).mean() < 0.7


def test_weak_detections_are_hairlines() -> None:
    drawn = draw_detections(picture(), one(score=-0.5), strong=0)
    assert (drawn[110:250, 110:210] == GROUND).all()
    assert (drawn != GROUND).any()


def test_weak_detections_may_be_left_out() -> None:
    both = Detections.concatenate([one(score=-0.5), one((340, 200, 440, 300))])
    drawn = draw_detections(picture(), both, strong=None, weak=False)
    assert (drawn[:190, :330] == GROUND).all()
    expected = GROUND + TINT * (np.array(colour(0), float) - GROUND)  # the first colour is used
    assert np.abs(drawn[210:290, 345:390] - expected).max() <= 1


def test_a_probability_decides_what_is_strong() -> None:
    found = replace(one(score=-0.5), probability=np.array([0.9]))
    assert (draw_detections(picture(), found, strong=None) != GROUND)[150:240, 120:200].all()
    unsure = replace(one(score=2.0), probability=np.array([0.1]))
    assert (draw_detections(picture(), unsure, strong=None, weak=False) == GROUND).all()


def test_no_label_lies_over_an_object_where_there_is_room() -> None:
    """Three objects side by side, one at the upper border: above, below or beside them is room."""
    boxes = np.array([[20.0, 0, 150, 120], [160, 100, 300, 260], [310, 200, 480, 340]])
    sketch = Sketch((375, 500))
    sketch.keep_clear(boxes)
    for k, box in enumerate(boxes):
        sketch.label(box, "motorbike 87%, 53% seen", colour(k))
    assert intersection_area(sketch._taken, boxes) == 0
    assert sketch._taken.min() >= 0
    full = Sketch((375, 500))
    full.keep_clear(np.array([[0.0, 0, 500, 375]]))
    full.label(np.array([0.0, 0, 500, 375]), "bus 50%, 100% seen", colour(0))
    assert len(full._taken) == 1  # nowhere else


def intersection_area(some: np.ndarray, others: np.ndarray) -> float:
    low = np.maximum(some[:, None, :2], others[None, :, :2])
    high = np.minimum(some[:, None, 2:], others[None, :, 2:])
    return float(np.maximum(high - low, 0).prod(2).sum())


@pytest.mark.parametrize(("size", "axis"), [((300, 400), 1), ((100, 400), 0)])
def test_a_photograph_is_put_beside_what_is_seen(size: tuple[int, int], axis: int) -> None:
    image = picture(*size)
    drawn = np.zeros_like(image)
    both = beside(image, drawn)
    assert both.shape[1 - axis] == image.shape[1 - axis]
    assert both.shape[axis] > 2 * image.shape[axis]
    side = image.shape[axis]
    assert (both.take(range(side), axis) == GROUND).all()
    assert (both.take(range(-side, 0), axis) == 0).all()


def test_the_best_lies_on_top() -> None:
    both = Detections.concatenate([one(score=2.0), one(score=1.0)])
    drawn = draw_detections(picture(), both)
    expected = GROUND + TINT * (np.array(colour(0)) - GROUND)
    assert np.abs(drawn[150:240, 120:200] - expected).max() <= 1


def test_no_pixel_is_coloured_twice_and_what_hides_an_object_stays_bright() -> None:
    """Ten detections of one thing leave as much of the photograph as one does."""
    found = one()
    ten = found[[0] * 10]
    alone, together = (draw_detections(picture(), each) for each in (found, ten))
    inside = np.s_[120:240, 110:210]
    assert (alone[inside] == together[inside]).all()
    front = replace(one((230, 110, 380, 250)), blocks=(np.full((4, 5), Block.OBJECT, np.uint8),))
    drawn = draw_detections(picture(), Detections.concatenate([found, front]))
    assert alone[150:240, 240:290, 0].min() <= (1 - DIM) * GROUND + 1
    assert drawn[150:240, 240:290, 0].min() > 0.8 * GROUND
    assert not (drawn[150:240, 240:290] == drawn[150:240, 310:360]).all()  # still hatched


def test_suppressed_detections_point_to_the_one_that_excluded_them() -> None:
    both = Detections.concatenate([one(), one((340, 200, 440, 300))])
    choice = SimpleNamespace(
        indices=np.array([0]), rank=np.array([1.0]), excluder=np.array([-1, 0])
    )
    drawn = draw_detections(picture(), both, explain=choice).astype(int)
    assert np.abs(drawn[249:252, 389:392] - 170).max() < 12  # the dot at its middle
    between = drawn[195:250, 305:388]  # the line crosses every column
    assert (between > GROUND + 20).all(2).any(0).all()
    assert (drawn[290:298, 430:438] == GROUND).all()  # not shaded


def test_true_boxes_are_white() -> None:
    truth = GroundTruth.make("a", "a.png", (375, 500), ["car"], [[50, 50, 90, 90]])
    drawn = draw_detections(picture(), Detections.empty((375, 500)), truth)
    assert drawn[49:51, 60:80].max(0).min() > 150
    assert (drawn[55:85, 55:85] == GROUND).all()


@pytest.mark.parametrize("size", [(1, 1), (8, 500), (40, 30), (375, 500), (1700, 2400)])
def test_any_size_and_any_box(size: tuple[int, int]) -> None:
    height, width = size
    boxes = [
        (-0.5 * width, -0.5 * height, 1.5 * width, 1.5 * height), (-100, -100, -50, -50),
        (0, 0, width, height), (0.9 * width, 0.9 * height, 2 * width, 2 * height),
    ]  # fmt: skip
    parts = []
    for box in boxes:
        found = one(box, size=size)
        visible = np.clip(found.visible, 0, [width, height, width, height])
        parts.append(Detections(**{**vars(found), "visible": visible}))
    drawn = draw_detections(picture(height, width), Detections.concatenate(parts))
    assert drawn.shape == (height, width, 3)


def test_a_picture_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="375, 500"):
        draw_detections(picture(10, 10), one())


def test_labels_keep_clear_of_each_other_and_of_the_border() -> None:
    sketch = Sketch((375, 500))
    for k in range(6):
        sketch.label(np.array([3.0, 3 + k, 60, 60 + k]), f"car {k}", colour(k))
    taken = sketch._taken
    assert taken.min() >= 0
    for a in range(6):
        for b in range(a):
            low = np.maximum(taken[a, :2], taken[b, :2])
            high = np.minimum(taken[a, 2:], taken[b, 2:])
            assert (high <= low).any()


def test_palette() -> None:
    assert len(set(CYCLE)) == len(CYCLE)
    assert colour(0) == colour(len(CYCLE))
    assert hexadecimal((230, 159, 0)) == "#e69f00"
    assert ink((255, 255, 255)) == (0, 0, 0)
    assert ink((0, 0, 0)) == (255, 255, 255)


def test_contact_sheet_holds_every_picture() -> None:
    pictures = [np.full((20, 30, 3), value, np.uint8) for value in (10, 20, 30)]
    sheet = contact_sheet(pictures)
    for value in (10, 20, 30):
        assert (sheet == value).all(2).sum() == 600
