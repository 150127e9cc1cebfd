"""One class for one object: by probability, and only where both show the same."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from halfseen.detections import Block, Detections
from halfseen.suppression.candidates import Candidates, of_boxes
from halfseen.suppression.classes import one_class
from tests.builders import make_found

SIZE = (100, 100)


def found(boxes: ArrayLike, labels: list[str], probability: list[float] | None) -> Detections:
    known = None if probability is None else np.array(probability)
    return replace(make_found(boxes, label=labels, size=SIZE), probability=known)


def test_the_more_probable_class_answers_for_an_object() -> None:
    boxes = [[10, 10, 60, 60], [12, 10, 62, 60], [10, 12, 60, 62], [70, 70, 95, 95]]
    by, overlap = one_class(found(boxes, ["bus", "train", "car", "bus"], [0.4, 0.9, 0.6, 0.1]))
    assert by.tolist() == [1, -1, 1, -1]
    assert overlap[1] == overlap[3] == 0
    assert overlap[0] == pytest.approx(48 / 52, abs=0.05)


def test_detections_of_one_class_are_the_business_of_suppression() -> None:
    boxes = [[10, 10, 60, 60], [12, 10, 62, 60], [80, 80, 90, 90]]
    by, _ = one_class(found(boxes, ["bus", "bus", "car"], [0.4, 0.9, 0.5]))
    assert by.tolist() == [-1, -1, -1]


def test_what_was_replaced_replaces_nothing() -> None:
    """The second is the third's neighbour, but gives way to the first, which is not."""
    boxes = [[0, 0, 40, 40], [12, 0, 52, 40], [24, 0, 64, 40]]
    by, _ = one_class(found(boxes, ["bus", "train", "car"], [0.9, 0.8, 0.7]))
    assert by.tolist() == [-1, 0, -1]


@pytest.mark.parametrize("probability", [None, [np.nan, 0.9], [0.9, np.nan], [np.nan, np.nan]])
def test_scores_of_different_models_are_not_compared(probability: list[float] | None) -> None:
    by, overlap = one_class(found([[10, 10, 60, 60]] * 2, ["bus", "train"], probability))
    assert by.tolist() == [-1, -1]
    assert not overlap.any()


def test_what_is_hidden_or_ground_is_not_shared() -> None:
    """A rider and a horse in one box, each with blocks of its own."""
    both = found([[0, 0, 80, 80]] * 2, ["person", "horse"], [0.9, 0.8])
    upper, lower = np.full((4, 4), Block.GROUND, np.uint8), np.full((4, 4), Block.HIDDEN, np.uint8)
    upper[:2] = lower[2:] = Block.OBJECT
    assert one_class(both)[0].tolist() == [-1, 0]
    assert one_class(replace(both, blocks=(upper, lower)))[0].tolist() == [-1, -1]


def test_nothing_is_found() -> None:
    empty = replace(Detections.empty(SIZE), probability=np.zeros(0))
    assert len(one_class(empty)[0]) == 0


def by_pixels(some: Detections, share: float) -> list[int]:
    """The same rule, by full-size masks and plain loops."""
    assert some.probability is not None
    kept: list[int] = []
    by = [-1] * len(some)
    for i in sorted(range(len(some)), key=lambda i: -some.probability[i]):  # type: ignore[index]
        best = share
        for k in kept:
            if some.label[k] != some.label[i]:
                either = (some.mask(i) | some.mask(k)).sum()
                iou = (some.mask(i) & some.mask(k)).sum() / max(either, 1)
                if iou > best:
                    best, by[i] = iou, k
        if by[i] < 0:
            kept.append(i)
    return by


def test_it_is_what_masks_of_pixels_say() -> None:
    """On a grid of 100 x 100 blocks, which are the pixels of an image of that size."""
    rng = np.random.default_rng(3)
    replaced = 0
    for _ in range(30):
        corner = rng.integers(0, 3, (8, 2)) * 10
        boxes = np.hstack([corner, corner + rng.integers(4, 6, (8, 2)) * 10])
        some = found(boxes.tolist(), rng.choice(["a", "b", "c"], 8).tolist(), list(rng.random(8)))
        grids = tuple(rng.choice([1, 3, 3, 3], (2, 2)).astype(np.uint8) for _ in range(8))
        some = replace(some, blocks=grids)
        assert one_class(some)[0].tolist() == by_pixels(some, 0.5)
        replaced += int((one_class(some)[0] >= 0).sum())
    assert replaced > 20


def test_candidates_go_label_by_label_in_their_order() -> None:
    """The oracle: one label after another, of all candidates."""
    rng = np.random.default_rng(2)
    for count, labels in ((0, 1), (1, 1), (40, 1), (200, 30)):
        boxes = rng.uniform(0, 50, (count, 2))
        shapes = of_boxes(np.hstack([boxes, boxes + 5]))
        candidates = Candidates(
            np.zeros(count), rng.integers(0, labels, count), shapes.box, shapes, shapes,
            shapes.box, shapes.box,
        )  # fmt: skip
        order = rng.permutation(count)[: count - count // 4]
        expected = [
            order[candidates.label[order] == label] for label in np.unique(candidates.label[order])
        ]
        found = list(candidates.by_label(order))
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
