"""COCO's AP: against pycocotools on random cases, and a few worked by hand."""

import contextlib
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.coco_ap import Size, coco_average_precision, coco_by_subset
from halfseen.evaluate.groups import group_objects
from halfseen.evaluate.pool import Pool
from halfseen.geometry import area
from tests import builders

SIZE = (400, 400)
make_found = partial(builders.make_found, size=SIZE)


def random_boxes(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    corner = rng.integers(0, 150, (count, 2))
    return np.hstack([corner, corner + rng.integers(4, 150, (count, 2))]).astype(float)


def random_images(
    rng: np.random.Generator, images: int = 12
) -> tuple[list[GroundTruth], list[Detections]]:
    truths, founds = [], []
    for k in range(images):
        true = random_boxes(rng, int(rng.integers(0, 5)))
        crowd = rng.random(len(true)) < 0.25
        known = rng.random(len(true)) < 0.5  # the areas of masks are smaller than those of boxes
        size = np.where(known, rng.uniform(0.2, 1, len(true)) * area(true), np.nan)
        labels, fraction = ["car"] * len(true), rng.random(len(true))
        truths.append(
            GroundTruth.make(
                f"{k}", "", SIZE, labels, true, crowd=crowd, area=size, visible_fraction=fraction
            )
        )
        near = np.repeat(true, 3, axis=0) + rng.integers(-8, 9, (3 * len(true), 4))
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        boxes = np.clip(np.vstack([near, random_boxes(rng, 4)]), 0, 400)
        founds.append(make_found(boxes, rng.permutation(len(boxes)) + 1000 * rng.random()))
    return truths, founds


def as_coco(
    truths: Sequence[GroundTruth], founds: Sequence[Detections]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    def xywh(box: list[float]) -> list[float]:
        return [box[0], box[1], box[2] - box[0], box[3] - box[1]]

    annotations: list[dict[str, Any]] = []
    results = []
    for k, (truth, found) in enumerate(zip(truths, founds, strict=True)):
        sizes = np.where(np.isnan(truth.area), area(truth.box), truth.area)
        for box, size, crowd in zip(truth.box.tolist(), sizes, truth.crowd, strict=True):
            annotations.append({
                "id": len(annotations) + 1, "image_id": k, "category_id": 1, "bbox": xywh(box),
                "area": float(size), "iscrowd": int(crowd),
            })  # fmt: skip
        for box, score in zip(found.full.tolist(), found.score.tolist(), strict=True):
            results.append({"image_id": k, "category_id": 1, "bbox": xywh(box), "score": score})
    reference = {
        "images": [{"id": k, "width": 400, "height": 400} for k in range(len(truths))],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "car"}],
    }
    return reference, results


def by_pycocotools(
    truths: Sequence[GroundTruth],
    founds: Sequence[Detections],
    ranges: list[list[float]] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    content, results = as_coco(truths, founds)
    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO()
        reference.dataset = content
        reference.createIndex()
        judge = COCOeval(reference, reference.loadRes(results), "bbox")
        if ranges is not None:
            judge.params.areaRng = ranges
        judge.evaluate()
        judge.accumulate()
    return judge.eval["precision"], judge.eval["recall"]


@pytest.mark.parametrize("seed", range(12))
def test_against_pycocotools(seed: int) -> None:
    truths, founds = random_images(np.random.default_rng(seed))
    precision, recall = by_pycocotools(truths, founds)
    sizes: tuple[Size, ...] = ("all", "small", "medium", "large")
    for a, size in enumerate(sizes):
        ours = coco_average_precision(truths, founds, "car", size=size)
        if ours.positives == 0:
            assert (precision[:, :, 0, a, 2] == -1).all()
            assert math.isnan(ours.ap)
            continue
        assert ours.at == pytest.approx(precision[:, :, 0, a, 2].mean(axis=1), abs=1e-9)
        assert ours.recall_at == pytest.approx(recall[:, 0, a, 2], abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_subsets_against_pycocotools(seed: int) -> None:
    """Objects outside a subset are given an area of 0, which pycocotools then leaves out."""
    truths, founds = random_images(np.random.default_rng(seed))
    groups = group_objects(truths, "visible", "car")
    ours = coco_by_subset(Pool.of(truths, founds, "car"), groups)
    for name, members in groups.items():
        inside = [
            replace(truth, area=np.where(chosen, 99.0, 0.0))
            for truth, chosen in zip(truths, members, strict=True)
        ]
        precision, recall = by_pycocotools(inside, founds, [[0.5, 1e10]] * 4)
        assert ours[name].at == pytest.approx(precision[:, :, 0, 0, 2].mean(axis=1), abs=1e-9)
        assert ours[name].recall_at == pytest.approx(recall[:, 0, 0, 2], abs=1e-9)


def test_against_faster_coco_eval() -> None:
    from faster_coco_eval import COCO, COCOeval_faster

    truths, founds = random_images(np.random.default_rng(99), 40)
    content, results = as_coco(truths, founds)
    reference = COCO(content)
    judge = COCOeval_faster(reference, reference.loadRes(results), "bbox", print_function=str)
    judge.run()
    sizes: tuple[Size, ...] = ("all", "small", "medium", "large")
    ours = [coco_average_precision(truths, founds, "car", size=size).ap for size in sizes]
    assert ours == pytest.approx([judge.stats[0], *judge.stats[3:6]], abs=1e-6)


def test_second_detection_may_take_the_free_box() -> None:
    """Unlike the VOC rule: the better box is taken, so the other is tried."""
    truth = GroundTruth.make("a", "", SIZE, ["car"] * 2, [(0, 0, 100, 100), (0, 0, 100, 70)])
    found = make_found([(0, 0, 100, 100), (0, 0, 100, 95)], [2, 1])
    assert coco_average_precision([truth], [found]).ap50 == pytest.approx(1.0)


def test_of_equal_overlaps_the_last_box_is_taken() -> None:
    """The first detection lies midway between two boxes; the second fits only the first box."""
    truth = GroundTruth.make("a", "", SIZE, ["car"] * 2, [(0, 0, 100, 100), (40, 0, 140, 100)])
    found = make_found([(20, 0, 120, 100), (0, 0, 100, 100)], [2, 1])
    precision, _ = by_pycocotools([truth], [found])
    assert precision[0, :, 0, 0, 2].mean() == pytest.approx(1.0)
    assert coco_average_precision([truth], [found]).ap50 == pytest.approx(1.0)


def test_ap_is_the_mean_over_overlaps() -> None:
    truth = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 100, 100)])
    result = coco_average_precision([truth], [make_found([(0, 0, 100, 77)], [1])])
    assert result.at.tolist() == [1] * 6 + [0] * 4  # 0.77 reaches 0.5, ..., 0.75
    assert (result.ap, result.ap50, result.ap75) == (0.6, 1.0, 1.0)
    assert result.recall == 0.6


def test_only_a_hundred_detections_count() -> None:
    truth = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 100, 100)])
    boxes = [(200, 200, 220, 220)] * 100 + [(0, 0, 100, 100)]
    assert coco_average_precision([truth], [make_found(boxes, np.arange(101)[::-1])]).ap == 0.0


def test_nothing_to_find_and_nothing_found() -> None:
    none = GroundTruth.make("a", "", SIZE, [], [])
    assert math.isnan(coco_average_precision([none], [make_found([], [])], "car").ap)
    one = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 100, 100)])
    assert coco_average_precision([one], [make_found([], [])], "car").ap == 0.0


def test_unknown_range_of_areas() -> None:
    with pytest.raises(SettingsError, match="huge"):
        coco_average_precision([], [], "car", size="huge")  # type: ignore[arg-type]
