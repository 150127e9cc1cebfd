"""COCO's AP: against pycocotools on random cases, and a few worked by hand."""

import contextlib
import io
import math

import numpy as np
import pytest

from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.coco_ap import coco_average_precision

SIZE = (400, 400)


def make_found(boxes, scores):
    boxes = np.array(boxes, float).reshape(-1, 4)
    n = len(boxes)
    return Detections(
        np.array(scores, float), np.full(n, "car"), np.zeros(n, np.int64), np.zeros(n, bool),
        boxes, boxes, boxes, (np.ones((2, 2), bool),) * n, SIZE,
    )  # fmt: skip


def random_boxes(rng, count):
    corner = rng.integers(0, 150, (count, 2))
    return np.hstack([corner, corner + rng.integers(4, 150, (count, 2))]).astype(float)


def random_images(rng, images=12):
    truths, founds = [], []
    for k in range(images):
        true = random_boxes(rng, rng.integers(0, 5))
        crowd = rng.random(len(true)) < 0.25
        truths.append(GroundTruth.make(f"{k}", "", SIZE, ["car"] * len(true), true, crowd=crowd))
        near = np.repeat(true, 3, axis=0) + rng.integers(-8, 9, (3 * len(true), 4))
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        boxes = np.clip(np.vstack([near, random_boxes(rng, 4)]), 0, 400)
        founds.append(make_found(boxes, rng.permutation(len(boxes)) + 1000 * rng.random()))
    return truths, founds


def by_pycocotools(truths, founds):
    coco = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval

    def xywh(box):
        return [box[0], box[1], box[2] - box[0], box[3] - box[1]]

    annotations, results = [], []
    for k, (truth, found) in enumerate(zip(truths, founds, strict=True)):
        for box, crowd in zip(truth.box.tolist(), truth.crowd, strict=True):
            wide, high = box[2] - box[0], box[3] - box[1]
            annotations.append({
                "id": len(annotations) + 1, "image_id": k, "category_id": 1, "bbox": xywh(box),
                "area": wide * high, "iscrowd": int(crowd),
            })  # fmt: skip
        for box, score in zip(found.full.tolist(), found.score.tolist(), strict=True):
            results.append({"image_id": k, "category_id": 1, "bbox": xywh(box), "score": score})
    with contextlib.redirect_stdout(io.StringIO()):
        reference = coco.COCO()
        reference.dataset = {
            "images": [{"id": k} for k in range(len(truths))],
            "annotations": annotations,
            "categories": [{"id": 1, "name": "car"}],
        }
        reference.createIndex()
        judge = COCOeval(reference, reference.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
    return judge.eval["precision"], judge.eval["recall"]


@pytest.mark.parametrize("seed", range(12))
def test_against_pycocotools(seed):
    truths, founds = random_images(np.random.default_rng(seed))
    precision, recall = by_pycocotools(truths, founds)
    for a, size in enumerate(("all", "small", "medium", "large")):
        ours = coco_average_precision(truths, founds, "car", size=size)
        if ours.positives == 0:
            assert (precision[:, :, 0, a, 2] == -1).all()
            assert math.isnan(ours.ap)
            continue
        assert ours.at == pytest.approx(precision[:, :, 0, a, 2].mean(axis=1), abs=1e-9)
        assert ours.recall_at == pytest.approx(recall[:, 0, a, 2], abs=1e-9)


def test_second_detection_may_take_the_free_box():
    """Unlike the VOC rule: the better box is taken, so the other is tried."""
    truth = GroundTruth.make("a", "", SIZE, ["car"] * 2, [(0, 0, 100, 100), (0, 0, 100, 70)])
    found = make_found([(0, 0, 100, 100), (0, 0, 100, 95)], [2, 1])
    assert coco_average_precision([truth], [found]).ap50 == pytest.approx(1.0)


def test_of_equal_overlaps_the_last_box_is_taken():
    """The first detection lies midway between two boxes; the second fits only the first box."""
    truth = GroundTruth.make("a", "", SIZE, ["car"] * 2, [(0, 0, 100, 100), (40, 0, 140, 100)])
    found = make_found([(20, 0, 120, 100), (0, 0, 100, 100)], [2, 1])
    precision, _ = by_pycocotools([truth], [found])
    assert precision[0, :, 0, 0, 2].mean() == pytest.approx(1.0)
    assert coco_average_precision([truth], [found]).ap50 == pytest.approx(1.0)


def test_ap_is_the_mean_over_overlaps():
    truth = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 100, 100)])
    result = coco_average_precision([truth], [make_found([(0, 0, 100, 77)], [1])])
    assert result.at.tolist() == [1] * 6 + [0] * 4  # 0.77 reaches 0.5, ..., 0.75
    assert (result.ap, result.ap50, result.ap75) == (0.6, 1.0, 1.0)
    assert result.recall == 0.6


def test_only_a_hundred_detections_count():
    truth = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 100, 100)])
    boxes = [(200, 200, 220, 220)] * 100 + [(0, 0, 100, 100)]
    assert coco_average_precision([truth], [make_found(boxes, np.arange(101)[::-1])]).ap == 0.0


def test_nothing_to_find_and_nothing_found():
    none = GroundTruth.make("a", "", SIZE, [], [])
    assert math.isnan(coco_average_precision([none], [make_found([], [])], "car").ap)
    one = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 100, 100)])
    assert coco_average_precision([one], [make_found([], [])], "car").ap == 0.0


def test_unknown_range_of_areas():
    with pytest.raises(SettingsError, match="huge"):
        coco_average_precision([], [], "car", size="huge")
