"""supervision itself, both ways, and what is refused."""

from typing import Any

import numpy as np
import pytest
import supervision as sv

import halfseen as hs
from halfseen.errors import SettingsError
from halfseen.suppression.adapters import from_numpy, suppress_supervision, to_supervision
from tests.builders import make_found


def crowd(seed: int, *, masks: bool) -> Any:
    """Boxes around a few places, of two classes, with elliptic masks."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(30, 90, (6, 2))[rng.integers(6, size=60)] + rng.normal(0, 4, (60, 2))
    half = rng.uniform(8, 25, (60, 2))
    box = np.clip(np.hstack([middle - half, middle + half]).round(), 0, 120)
    y, x = np.mgrid[:120, :640] + 0.5  # of a side that supervision does not reduce
    far = ((x - middle[:, 0, None, None]) / half[:, 0, None, None]) ** 2
    far = far + ((y - middle[:, 1, None, None]) / half[:, 1, None, None]) ** 2
    return sv.Detections(
        xyxy=box.astype(np.float32),
        mask=far < 1 if masks else None,
        confidence=rng.permutation(60).astype(np.float32) / 60,
        class_id=rng.integers(2, size=60),
        data={"name": np.array([f"number {i}" for i in range(60)])},
    )


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("masks", [False, True])
def test_greedy_by_iou_is_supervisions_own(masks: bool, agnostic: bool) -> None:
    for seed in range(10):
        given = crowd(seed, masks=masks)
        theirs = given.with_nms(threshold=0.4321, class_agnostic=agnostic)
        groups = "all" if agnostic else "class"
        ours = suppress_supervision(given, method="greedy", overlap=0.4321, groups=groups)
        assert isinstance(ours, sv.Detections)
        assert set(ours.data["name"]) == set(theirs.data["name"])
        assert (np.diff(np.asarray(ours.confidence)) <= 0).all()


def test_covering_takes_masks_and_boxes() -> None:
    given = crowd(3, masks=True)
    kept = hs.suppress_masks(given.mask, given.confidence, labels=given.class_id)
    chosen = suppress_supervision(given)
    np.testing.assert_array_equal(chosen.xyxy, given.xyxy[kept.indices])
    assert len(chosen.mask) == len(chosen)
    empty = suppress_supervision(sv.Detections.empty())
    assert len(empty) == 0


def test_our_detections_become_theirs() -> None:
    found = make_found(
        [[0, 0, 10, 12], [90, 5, 200, 30]], [0.5, 0.25], ["car", "bus"], size=(40, 100)
    )
    theirs = to_supervision(found, masks=True)
    np.testing.assert_array_equal(theirs.xyxy, [[0, 0, 10, 12], [90, 5, 100, 30]])
    assert list(theirs.data["class_name"]) == ["car", "bus"]
    np.testing.assert_array_equal(theirs.confidence, found.score)
    assert theirs.mask.shape == (2, 40, 100)
    np.testing.assert_array_equal(theirs.mask[1], found.mask(1))
    assert to_supervision(found).mask is None
    assert len(to_supervision(found[:0], masks=True)) == 0
    again = suppress_supervision(theirs)
    assert set(again.data["class_name"]) == {"car", "bus"}


@pytest.mark.parametrize("wrong", [None, 3, "detections", np.zeros((2, 6)), {"xyxy": []}])
def test_other_things_are_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="expected supervision's Detections, found") as caught:
        suppress_supervision(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("columns", [5, 6, 8])
def test_rows_of_more_than_a_box_are_refused(columns: int) -> None:
    rows = np.arange(4.0 * columns).reshape(4, columns)
    with pytest.raises(SettingsError, match=rf"shape \(N, 4\), found \(4, {columns}\); of rows"):
        from_numpy(rows, np.ones(4))
    with pytest.raises(SettingsError, match=rf"found \(4, {columns}\); pass rows\[:, :4\]"):
        hs.suppress_boxes(rows, np.ones(4))
    with pytest.raises(SettingsError, match="must be numbers"):
        from_numpy([["a", "b", "c", "d"]], [1])
