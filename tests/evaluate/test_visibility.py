"""Measures by visible fraction, and of boxes and masks."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.visibility import (
    ap_by_subset,
    best_recall,
    box_quality,
    mask_iou,
    mask_quality,
    restrict,
    subsets,
    whole,
)
from halfseen.evaluate.voc_ap import average_precision, match
from tests import builders

SIZE = (40, 60)
make_found = partial(builders.make_found, size=SIZE)
TRUTH = GroundTruth.make(
    "a", "", SIZE, ["car"] * 4, [(0, 0, 10, 10), (20, 0, 30, 10), (40, 0, 50, 10), (0, 20, 10, 30)],
    truncated=[0, 1, 0, 0], occluded=[0, 0, 1, 0], difficult=[0, 0, 0, 1],
    visible_fraction=[1.0, 0.5, 0.25, np.nan],
)  # fmt: skip


def test_whole_objects() -> None:
    assert whole(TRUTH).tolist() == [True, False, False, False]


def test_bins_hold_their_lower_edge_and_the_last_its_end() -> None:
    named = subsets([TRUTH])
    members = {name: np.flatnonzero(keep[0]).tolist() for name, keep in named.items()}
    assert members == {
        "all": [0, 1, 2, 3], "whole": [0], "truncated": [1], "occluded": [2],
        "0-25% visible": [], "25-50% visible": [2], "50-75% visible": [1], "75-100% visible": [0],
    }  # fmt: skip


def test_no_bins_where_no_fraction_is_known() -> None:
    truth = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 10, 10)])
    assert set(subsets([truth])) == {"all", "whole", "truncated", "occluded"}


def test_edges_must_rise() -> None:
    with pytest.raises(SettingsError, match="must rise"):
        subsets([TRUTH], [0, 0.5, 0.5])


def test_ap_of_subsets_by_hand() -> None:
    """Best first: the occluded one, a false alarm, the whole one. The truncated one is missed."""
    found = make_found([(40, 0, 50, 10), (0, 12, 9, 18), (0, 0, 10, 10)], [3, 2, 1])
    results = ap_by_subset([TRUTH], match([TRUTH], [found], "car"))
    ap = {name: result.ap for name, result in results.items()}
    recall = {name: best_recall(result) for name, result in results.items()}
    assert ap["all"] == pytest.approx((1 + 2 / 3) / 3)
    assert (ap["occluded"], ap["whole"], ap["truncated"]) == (1.0, 0.5, 0.0)
    assert (ap["25-50% visible"], ap["75-100% visible"]) == (1.0, 0.5)
    assert math.isnan(ap["0-25% visible"])
    assert (recall["all"], recall["whole"], recall["truncated"]) == (2 / 3, 1.0, 0.0)
    assert math.isnan(recall["0-25% visible"])
    nothing = average_precision([TRUTH], [Detections.empty(SIZE)], "car")
    assert best_recall(nothing) == 0.0


corner, side = st.integers(0, 6), st.integers(1, 6)
box = st.tuples(corner, corner, side, side).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
true_object = st.tuples(box, st.booleans(), st.booleans(), st.sampled_from(["car", "bus"]))
images = st.lists(
    st.tuples(
        st.lists(true_object, max_size=4), st.lists(st.tuples(box, st.integers(0, 3)), max_size=6)
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(images)
def test_restricting_is_matching_anew_with_the_rest_ignored(
    cases: list[tuple[list[Any], list[Any]]],
) -> None:
    truths = [
        GroundTruth.make(str(k), "", SIZE, [o[3] for o in objects], [o[0] for o in objects],
                         difficult=[o[1] for o in objects], occluded=[o[2] for o in objects])
        for k, (objects, _) in enumerate(cases)
    ]  # fmt: skip
    founds = [make_found([b for b, _ in seen], [s for _, s in seen]) for _, seen in cases]
    quick = restrict(match(truths, founds, "car"), truths, [t.occluded for t in truths])
    slow = match(truths, founds, "car", ignored=[~t.occluded | t.difficult for t in truths])
    assert quick.outcome.tolist() == slow.outcome.tolist()
    assert quick.wanted.tolist() == slow.wanted.tolist()


def test_box_quality() -> None:
    truth = GroundTruth.make(
        "a", "", SIZE, ["car"] * 2, [(0, 0, 10, 10), (20, 0, 30, 10)],
        full=[(-10, 0, 10, 10), (20, 0, 30, 10)], visible_fraction=[0.5, np.nan],
    )  # fmt: skip
    found = make_found(
        [(-10, 0, 10, 10), (20, 0, 30, 8)], [2, 1], visible=[(0, 0, 10, 5), (20, 0, 30, 8)]
    )
    quality = box_quality([truth], [found], match([truth], [found], "car"))
    assert quality.visible.tolist() == [0.5, 0.8]
    assert quality.clipped.tolist() == [1.0, 0.8]
    assert quality.full[0] == 1.0
    assert math.isnan(quality.full[1])


def test_mask_quality_beside_the_plain_box() -> None:
    """The lower half of the box is hidden: right flags give 1, the plain box one half."""
    masks = np.zeros((2, *SIZE), bool)
    masks[0, 0:5, 0:10] = True
    truth = GroundTruth.make(
        "a", "", SIZE, ["car"] * 2, [(0, 0, 10, 10), (20, 0, 30, 10)], occluded=[True, False],
        read_mask=lambda i: masks[i] if i == 0 else None,
    )  # fmt: skip
    found = make_found(
        [(0, 0, 10, 10), (20, 0, 30, 10)], [2, 1],
        flags=[np.array([[True, True], [False, False]]), np.ones((2, 2), bool)],
    )  # fmt: skip
    quality = mask_quality([truth], [found], match([truth], [found], "car"))
    assert (quality.mask.tolist(), quality.box.tolist()) == ([1.0], [0.5])
    assert (quality.whole.tolist(), quality.occluded.tolist()) == ([False], [True])


def test_all_visible_mask_is_the_plain_box() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        low = rng.uniform(-5, 20, 2)
        full = np.append(low, low + rng.uniform(8, 30, 2))
        mask = rng.random(SIZE) < 0.5
        truth = GroundTruth.make("a", "", SIZE, ["car"], [np.clip(full, 0, [60, 40, 60, 40])],
                                 read_mask=partial(lambda mask, i: mask, mask))  # fmt: skip
        found = make_found([full], [1])
        quality = mask_quality([truth], [found], match([truth], [found], "car"))
        assert quality.mask == pytest.approx(quality.box)


def test_nothing_found_gives_empty_qualities() -> None:
    matches = match([TRUTH], [Detections.empty(SIZE)], "car")
    assert len(box_quality([TRUTH], [Detections.empty(SIZE)], matches).full) == 0
    assert len(mask_quality([TRUTH], [Detections.empty(SIZE)], matches).mask) == 0


def test_empty_masks_do_not_overlap() -> None:
    assert mask_iou(np.zeros((2, 2), bool), np.zeros((2, 2), bool)) == 0.0
