"""The VOC devkit's rules: cases worked by hand, then random ones against a plain transcription."""

import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfseen import geometry
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import AnnotationError, SettingsError
from halfseen.evaluate.bootstrap import crowded
from halfseen.evaluate.groups import by_crowd
from halfseen.evaluate.voc_ap import (
    FALSE,
    NEITHER,
    TRUE,
    Kind,
    area_under,
    average_precision,
    best_overlap,
    match,
)
from tests import builders

SIZE = (100, 200)
make_found = partial(builders.make_found, size=SIZE)
make_truth = partial(builders.make_truth, size=SIZE)


def outcomes(truth: GroundTruth, found: Detections, **options: Any) -> list[int]:
    return list(match([truth], [found], "car", **options).outcome)


def test_one_right_then_one_wrong() -> None:
    truth = make_truth([(0, 0, 10, 10), (50, 0, 60, 10)])
    found = make_found([(0, 0, 10, 10), (100, 0, 110, 10)], [2.0, 1.0])
    result = average_precision([truth], [found])
    assert result.ap == 0.5  # precision 1 up to recall 1/2, then never more
    assert list(result.precision) == [1.0, 0.5]
    assert list(result.recall) == [0.5, 0.5]
    assert list(result.score) == [2.0, 1.0]
    assert (result.positives, result.label, result.kind) == (2, "car", "all-point")


def test_precision_is_an_envelope() -> None:
    # wrong, right, right of 4: precisions 0, 1/2, 2/3; the envelope at the first hit is 2/3
    assert area_under(np.array([False, True, True]), 4) == pytest.approx(2 / 3 * 2 / 4)


def test_eleven_points() -> None:
    # right, wrong, right of 2: envelope 1 up to recall 1/2 (levels 0..0.5), 2/3 beyond (0.6..1)
    right = np.array([True, False, True])
    assert area_under(right, 2, "11-point") == pytest.approx((6 + 5 * 2 / 3) / 11)
    assert area_under(right, 2, "all-point") == pytest.approx((1 + 2 / 3) / 2)


def test_eleven_points_meet_their_level_exactly() -> None:
    # 3 of 10 found: levels 0, 0.1, 0.2 and 0.3 are reached, though 3 * 0.1 > 0.3 in floats
    assert area_under(np.ones(3, bool), 10, "11-point") == pytest.approx(4 / 11)


def test_overlap_of_exactly_half_is_enough() -> None:
    truth = make_truth([(0, 0, 10, 10)])
    assert outcomes(truth, make_found([(0, 0, 10, 5)], [1])) == [TRUE]  # 50 / 100
    assert outcomes(truth, make_found([(0, 0, 10, 4.999)], [1])) == [FALSE]


def test_overlap_counts_inclusive_pixels() -> None:
    # 1-based inclusive 1..2 and 1..1 share one pixel of two: half, although (2 - 1) / 1 is not
    assert outcomes(make_truth([(0, 0, 2, 1)]), make_found([(0, 0, 1, 1)], [1])) == [TRUE]


def test_best_box_first_even_if_taken() -> None:
    """The second detection overlaps a free box by 0.6, but overlaps the taken one more."""
    truth = make_truth([(0, 0, 10, 10), (0, 0, 10, 7)])
    found = make_found([(0, 0, 10, 10), (0, 0, 10, 9.5)], [2, 1])
    matches = match([truth], [found], "car")
    assert list(matches.target) == [0, 0]
    assert list(matches.outcome) == [TRUE, FALSE]


def test_first_of_equally_good_boxes() -> None:
    truth = make_truth([(0, 0, 10, 10), (0, 0, 10, 10)])
    found = make_found([(0, 0, 10, 10)] * 2, [2, 1])
    assert outcomes(truth, found) == [TRUE, FALSE]


def test_duplicates_are_wrong() -> None:
    truth = make_truth([(0, 0, 10, 10)])
    assert outcomes(truth, make_found([(0, 0, 10, 10)] * 3, [1, 3, 2])) == [TRUE, FALSE, FALSE]


def test_difficult_counts_as_neither_however_often() -> None:
    truth = make_truth([(0, 0, 10, 10), (50, 0, 60, 10)], difficult=[True, False])
    found = make_found([(0, 0, 10, 10), (0, 0, 10, 10), (50, 0, 60, 10)], [3, 2, 1])
    assert outcomes(truth, found) == [NEITHER, NEITHER, TRUE]
    result = average_precision([truth], [found])
    assert (result.ap, result.positives) == (1.0, 1)
    assert list(result.precision) == [1.0]


def test_difficult_box_shields_a_detection_from_the_box_beside_it() -> None:
    truth = make_truth([(0, 0, 10, 9), (0, 0, 10, 10)], difficult=[False, True])
    assert outcomes(truth, make_found([(0, 0, 10, 9.9)], [1])) == [NEITHER]


def test_difficult_overlapped_too_little_is_wrong() -> None:
    truth = make_truth([(0, 0, 10, 10)], difficult=[True])
    assert outcomes(truth, make_found([(0, 0, 10, 4)], [1])) == [FALSE]


def test_crowd_is_treated_as_difficult() -> None:
    assert outcomes(
        make_truth([(0, 0, 10, 10)], crowd=[True]), make_found([(0, 0, 10, 10)], [1])
    ) == [NEITHER]


def test_other_classes_do_not_count() -> None:
    truth = make_truth([(0, 0, 10, 10), (0, 0, 10, 10)], label=["bus", "car"])
    found = make_found([(0, 0, 10, 10)] * 2, [2, 1], label=["bus", "car"])
    matches = match([truth], [found], "car")
    assert (list(matches.index), list(matches.target), matches.positives) == ([1], [1], 1)


def test_image_without_objects_gives_false_positives() -> None:
    truths = [make_truth([], "a"), make_truth([(0, 0, 10, 10)], "b")]
    found = [make_found([(0, 0, 10, 10)], [2]), make_found([(0, 0, 10, 10)], [1])]
    assert average_precision(truths, found).ap == 0.5


def test_image_without_detections_lowers_recall() -> None:
    truths = [make_truth([(0, 0, 10, 10)], "a"), make_truth([(0, 0, 10, 10)], "b")]
    found = [make_found([(0, 0, 10, 10)], [2]), Detections.empty(SIZE)]
    assert average_precision(truths, found).ap == 0.5


def test_nothing_found_is_zero() -> None:
    result = average_precision([make_truth([(0, 0, 10, 10)])], [Detections.empty(SIZE)])
    assert result.ap == 0.0
    assert len(result.precision) == 0


def test_class_without_objects_has_no_ap() -> None:
    for kind in ("all-point", "11-point"):
        result = average_precision(
            [make_truth([])], [make_found([(0, 0, 9, 9)], [1])], "car", kind=kind
        )
        assert math.isnan(result.ap)
        assert np.isnan(result.recall).all()
        assert result.positives == 0


def test_only_difficult_objects_have_no_ap() -> None:
    truth = make_truth([(0, 0, 10, 10)], difficult=[True])
    assert math.isnan(average_precision([truth], [make_found([(0, 0, 10, 10)], [1])]).ap)


def test_ties_keep_the_order_of_images_and_of_detections() -> None:
    truths = [make_truth([], "a"), make_truth([(0, 0, 10, 10)], "b")]
    found = [make_found([(0, 0, 10, 10)], [1]), make_found([(0, 0, 10, 10)], [1])]
    assert average_precision(truths, found).ap == 0.5
    assert average_precision(truths[::-1], found[::-1]).ap == 1.0
    within = match(
        [make_truth([(0, 0, 10, 10)])], [make_found([(0, 0, 10, 9), (0, 0, 10, 10)], [1, 1])]
    )
    assert list(within.index) == [0, 1]


def test_scores_keep_their_full_precision() -> None:
    truth = make_truth([(0, 0, 10, 10)])
    found = make_found([(50, 0, 60, 10), (0, 0, 10, 10)], [1.0, 1.0 + 1e-15])
    assert average_precision([truth], [found]).ap == 1.0


def test_full_boxes_are_cut_to_the_image() -> None:
    truth = make_truth([(0, 0, 10, 10)])
    found = make_found([(-30, 0, 10, 10)], [1], visible=[(0, 0, 4, 10)])
    assert average_precision([truth], [found]).ap == 1.0
    assert average_precision([truth], [found], box="visible").ap == 0.0


def test_rank_replaces_the_score() -> None:
    truth = make_truth([(0, 0, 10, 10)])
    found = make_found([(50, 0, 60, 10), (0, 0, 10, 10)], [2, 1])
    assert average_precision([truth], [found]).ap == 0.5
    result = average_precision([truth], [found], rank=[np.array([1.0, 2.0])])
    assert (result.ap, list(result.score)) == (1.0, [2.0, 1.0])


def test_infinite_scores_have_their_place() -> None:
    truth = make_truth([(0, 0, 10, 10)])
    found = make_found([(50, 0, 60, 10), (0, 0, 10, 10)], [-np.inf, np.inf])
    assert average_precision([truth], [found]).ap == 1.0


def test_result_says_its_rule() -> None:
    result = average_precision([make_truth([(0, 0, 9, 9)])], [make_found([(0, 0, 9, 9)], [1])])
    assert str(result) == "car: AP 100.0% (all-point, full box, IoU >= 0.5, 1 objects)"


def test_detections_by_image_id() -> None:
    truths = [make_truth([(0, 0, 10, 10)], "a"), make_truth([(0, 0, 10, 10)], "b")]
    assert average_precision(truths, {"b": make_found([(0, 0, 10, 10)], [1])}).ap == 0.5


def test_unknown_images_are_named() -> None:
    with pytest.raises(AnnotationError, match=r'1 image\(s\) .* such as "z"'):
        average_precision([make_truth([])], {"z": make_found([], [])}, "car")


def test_unequal_numbers_of_images() -> None:
    with pytest.raises(SettingsError, match="truth of 1 images but detections of 0"):
        average_precision([make_truth([])], [], "car")


def test_sizes_reveal_a_wrong_order() -> None:
    with pytest.raises(SettingsError, match=r'"a" is \(100, 200\) .* \(5, 5\)'):
        average_precision([make_truth([])], [make_found([], [], size=(5, 5))], "car")


def test_label_is_asked_for_where_it_is_not_clear() -> None:
    truth = make_truth([(0, 0, 1, 1)] * 2, label=["bus", "car"])
    with pytest.raises(SettingsError, match=r"2 classes \(bus, car\)"):
        average_precision([truth], [Detections.empty(SIZE)])
    assert average_precision([truth], [make_found([(0, 0, 1, 1)], [1])]).label == "car"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "12-point"}, "12-point"),
        ({"box": "amodal"}, "amodal"),
        ({"overlap": 0.0}, "above 0"),
        ({"rank": [np.zeros(3)]}, "1 detections but 3 ranks"),
        ({"rank": [np.array([np.nan])]}, "not a number"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        average_precision(
            [make_truth([(0, 0, 9, 9)])], [make_found([(0, 0, 9, 9)], [1])], **options
        )


def test_boxes_that_are_not_numbers() -> None:
    with pytest.raises(SettingsError, match="not finite"):
        average_precision(
            [make_truth([(0, 0, 9, 9)])], [make_found([(0, np.nan, 9, 9)], [1])], "car"
        )


def match_step_by_step(
    truths: list[GroundTruth], founds: list[Detections], minimum: Fraction = Fraction(1, 2)
) -> tuple[list[str], int]:
    """Each rule as one sentence of code, in exact fractions of 1-based inclusive pixels."""
    lines = [
        (k, [int(v) for v in box], score)
        for k, seen in enumerate(founds)
        for box, score in zip(seen.full, seen.score, strict=True)
    ]
    lines.sort(key=lambda line: -line[2])  # Python's sort is stable
    used: set[tuple[int, int]] = set()
    verdicts: list[str] = []
    for k, (dx1, dy1, dx2, dy2), _ in lines:
        dx1, dy1 = dx1 + 1, dy1 + 1
        top = Fraction(0)
        winner: int | None = None
        for j, box in enumerate(truths[k].box):
            tx1, ty1, tx2, ty2 = (int(v) for v in box)
            tx1, ty1 = tx1 + 1, ty1 + 1
            wide = min(dx2, tx2) - max(dx1, tx1) + 1
            high = min(dy2, ty2) - max(dy1, ty1) + 1
            if wide <= 0 or high <= 0:
                continue
            one = (dx2 - dx1 + 1) * (dy2 - dy1 + 1)
            other = (tx2 - tx1 + 1) * (ty2 - ty1 + 1)
            ratio = Fraction(wide * high, one + other - wide * high)
            if ratio > top:
                top, winner = ratio, j
        if winner is None or top < minimum:
            verdicts.append("wrong")
        elif truths[k].difficult[winner]:
            continue
        elif (k, winner) in used:
            verdicts.append("wrong")
        else:
            used.add((k, winner))
            verdicts.append("right")
    wanted = sum(int((~t.difficult).sum()) for t in truths)
    return verdicts, wanted


def points(verdicts: list[str], wanted: int) -> tuple[list[Fraction], list[Fraction]]:
    recall, precision = list[Fraction](), list[Fraction]()
    for n in range(1, len(verdicts) + 1):
        hits = verdicts[:n].count("right")
        recall.append(Fraction(hits, wanted))
        precision.append(Fraction(hits, n))
    return recall, precision


def all_point(verdicts: list[str], wanted: int) -> float:
    recall, precision = points(verdicts, wanted)
    recall = [Fraction(0), *recall, Fraction(1)]
    precision = [Fraction(0), *precision, Fraction(0)]
    for i in range(len(precision) - 2, -1, -1):
        precision[i] = max(precision[i], precision[i + 1])
    steps = range(1, len(recall))
    return float(sum((recall[i] - recall[i - 1]) * precision[i] for i in steps))


def eleven_point(verdicts: list[str], wanted: int) -> float:
    recall, precision = points(verdicts, wanted)
    total = Fraction(0)
    for level in range(11):
        there = [p for r, p in zip(recall, precision, strict=True) if r >= Fraction(level, 10)]
        total += max(there, default=Fraction(0))
    return float(total / 11)


corner = st.integers(0, 12)
side = st.integers(1, 12)
boxes = st.tuples(corner, corner, side, side).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
true_objects = st.lists(st.tuples(boxes, st.booleans()), max_size=4)
candidates = st.lists(st.tuples(boxes, st.integers(0, 5)), max_size=8)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(true_objects, candidates), min_size=1, max_size=4))
def test_random_cases(images: list[tuple[list[Any], list[Any]]]) -> None:
    truths = [
        make_truth([b for b, _ in objects], f"image {k}", difficult=[d for _, d in objects])
        for k, (objects, _) in enumerate(images)
    ]
    founds = [make_found([b for b, _ in seen], [s for _, s in seen]) for _, seen in images]
    verdicts, wanted = match_step_by_step(truths, founds)
    matches = match(truths, founds, "car")
    counted = matches.outcome[matches.outcome != NEITHER]
    assert ["right" if outcome == TRUE else "wrong" for outcome in counted] == verdicts
    assert matches.positives == wanted
    rules: dict[Kind, Callable[[list[str], int], float]]
    rules = {"all-point": all_point, "11-point": eleven_point}
    for kind, rule in rules.items():
        ours = average_precision(truths, founds, "car", kind=kind).ap
        if wanted == 0:
            assert math.isnan(ours)
        else:
            assert ours == pytest.approx(rule(verdicts, wanted), abs=1e-12)


def test_right_lists_detection_and_object() -> None:
    truth = make_truth([(50, 0, 60, 10), (0, 0, 10, 10)])
    found = make_found([(90, 0, 99, 9), (0, 0, 10, 10), (50, 0, 60, 10)], [3, 1, 2])
    assert match([truth], [found], "car").right == [(0, 2, 0), (0, 1, 1)]


def test_thousands_of_boxes_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as all at once, and in little memory."""
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 300, (3000, 2)).astype(float)
    boxes = np.hstack([corner, corner + rng.integers(10, 60, (3000, 2))])
    truth = builders.make_truth(boxes[:2000], size=(400, 400), ignore=rng.random(2000) < 0.3)
    shared = geometry.iou_matrix(boxes[::7], truth.box)
    best, most = best_overlap(boxes[::7], truth.box)
    np.testing.assert_array_equal(best, np.where(shared.max(axis=1) > 0, shared.argmax(axis=1), -1))
    np.testing.assert_array_equal(most, shared.max(axis=1))
    found = builders.make_found(boxes, rng.random(3000), size=(400, 400))

    def measured() -> list[Any]:
        groups = [part[0].tolist() for part in by_crowd([truth], "car").values()]
        return [match([truth], [found]).outcome.tolist(), crowded([truth], "car"), groups]

    tracemalloc.start()
    try:
        in_parts = measured()
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(geometry, "_MATRIX", 10**9)
    assert measured() == in_parts
