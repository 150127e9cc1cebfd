"""Anybody's results: figures equal to those of the measures, neighbours, names and groups."""

from dataclasses import replace

import numpy as np
import pytest

from halfseen.data.dataset import Dataset
from halfseen.detections import Detections
from halfseen.errors import AnnotationError, SettingsError
from halfseen.evaluate.any_results import Results
from halfseen.evaluate.coco_ap import coco_average_precision
from halfseen.evaluate.results import box_detections
from halfseen.evaluate.voc_ap import average_precision
from halfseen.ground_truth import GroundTruth
from halfseen.studies.results import (
    MOST_CLASSES,
    Question,
    _evaluate,
    _Places,
    class_table,
    distinct_names,
    evaluate_classes,
    evaluate_results,
    results_classes,
    truth_of_class,
)

SIZE = (300, 400)


def crowd(seed: int = 0, images: int = 20) -> tuple[Dataset, list[Results]]:
    rng = np.random.default_rng(seed)
    truths = []
    founds: list[list[Detections]] = [[], []]
    for k in range(images):
        corner = rng.uniform(0, 200, (6, 2))
        boxes = np.hstack([corner, corner + rng.uniform(30, 120, (6, 2))])
        labels = np.array(["person"] * 4 + ["rider", "car"])
        truths.append(
            GroundTruth.make(f"{k}", "", SIZE, labels, boxes, visible_fraction=rng.random(6))
        )
        for n, found in enumerate(founds):
            near = boxes + rng.normal(0, 4 + 6 * n, boxes.shape)
            found.append(box_detections(near, rng.random(6), labels, SIZE))
    dataset = Dataset("crowd", ("car", "person", "rider"), tuple(truths),
                      neighbours={"person": ("rider",)})  # fmt: skip
    return dataset, [Results(f"r{n}", f"r{n}.json", tuple(f)) for n, f in enumerate(founds)]


def test_figures_are_those_of_the_measures() -> None:
    dataset, results = crowd()
    evaluation = evaluate_results(
        dataset, "car", results, Question(("visible", "size"), resamples=20)
    )
    protocols, visible, size, difference = evaluation.tables
    for n, one in enumerate(results):
        summary = evaluation.summaries[n]
        assert summary.ap == average_precision(dataset.truths, one.found, "car", box="as given").ap
        coco = coco_average_precision(dataset.truths, one.found, "car", box="as given")
        assert summary.coco == coco.ap == pytest.approx(float(protocols.rows[n][1] or 0) / 100)
        assert visible.rows[n][:3] == ["all", one.name, 20]
    assert (
        sum(int(row[2] or 0) for row in visible.rows if row[1] == "r0") == 40
    )  # all, and quarters
    assert [row[0] for row in difference.rows[:1]] == ["all"]
    assert {row[0] for row in size.rows} <= {"all", "small", "medium", "large"}
    assert evaluation.differences["r1"].difference < 0
    for table in evaluation.tables:
        assert max(map(len, table.text().splitlines())) <= 80


def test_neighbours_count_as_neither() -> None:
    dataset, results = crowd()
    alone = replace(dataset, neighbours={})
    with_riders = [
        replace(one, found=tuple(replace(f, label=np.where(f.label == "rider", "person", f.label))
                                 for f in one.found))
        for one in results
    ]  # fmt: skip
    ours = evaluate_results(dataset, "person", with_riders[:1]).summaries[0]
    strict = evaluate_results(alone, "person", with_riders[:1]).summaries[0]
    assert ours.objects == strict.objects == 80
    assert ours.ap > strict.ap


def test_the_boxes_that_are_compared() -> None:
    truth = GroundTruth.make(
        "a", "", (0, 0), ["person"], [(0, 0, 50, 50)], full=[(-20, 0, 50, 200)]
    )
    dataset = Dataset("one", ("person",), (truth,))
    whole = box_detections(truth.full, np.ones(1), truth.label, (0, 0))
    for boxes, ap in (("whole", 1.0), ("visible", 0.0)):
        question = Question(boxes=boxes)  # type: ignore[arg-type]
        evaluation = evaluate_results(dataset, "person", [Results("r", "r", (whole,))], question)
        assert evaluation.summaries[0].ap == ap
    assert truth_of_class(truth, dataset, "person", "whole").size == (200, 50)
    with pytest.raises(SettingsError, match="boxes must be"):
        Question(boxes="half")  # type: ignore[arg-type]


def test_a_box_beyond_all_images_does_not_make_one_of_any_size() -> None:
    boxes = np.array([[3.0, 2.0**63, 4.0, 2.0**63 + 4096], [1.0, 2.0, 8.0, 9.0]])
    truth = GroundTruth.make("a", "", (0, 0), ["car", "car"], boxes)
    measured = truth_of_class(truth, Dataset("far", ("car",), (truth,)), "car", "whole")
    assert measured.size == (2**31, 8)
    np.testing.assert_array_equal(measured.box, boxes)


def test_a_class_is_measured_on_the_images_that_are_about_it() -> None:
    """All figures are those of all images: also of resamples, rates for each image and groups."""
    dataset, results = crowd(images=6)
    bus = GroundTruth.make("b", "", SIZE, ["bus"], [(5, 5, 90, 80)], level=[1], truncation=[0.2])
    nothing = [GroundTruth.make(f"n{k}", "", SIZE, [], []) for k in range(30)]
    dataset = replace(
        dataset, classes=(*dataset.classes, "bus"), truths=(*nothing, bus, *dataset.truths)
    )
    none = box_detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.str_), SIZE)
    results = [replace(one, found=((none,) * 31) + one.found) for one in results]
    question = Question(("visible", "crowd"), resamples=30)
    place = _Places(dataset, results).of("car")
    assert len(place) == 1 + 6  # the one that tells of levels, and those with cars
    quick = _evaluate(dataset, "car", results, question, place)
    slow = _evaluate(dataset, "car", results, question, np.arange(len(dataset)))
    assert [s.as_json() for s in quick.summaries] == [s.as_json() for s in slow.summaries]
    assert quick.differences == slow.differences
    assert [t.as_json() for t in quick.tables] == [t.as_json() for t in slow.tables]
    for where in (place, np.arange(len(dataset))):  # levels are known, though not those of cars
        with pytest.raises(SettingsError, match="do not say by what 'occluded'"):
            _evaluate(dataset, "car", results, Question(("occluded",)), where)


def test_more_classes_than_anybody_would_wait_for() -> None:
    labels = [f"c{n}" for n in range(MOST_CLASSES + 1)]
    truth = GroundTruth.make("a", "", SIZE, labels, [(0, 0, 9, 9)] * len(labels))
    dataset = Dataset("many", tuple(labels), (truth,))
    results = [
        Results("r", "r", (box_detections(truth.box, np.ones(len(truth)), truth.label, SIZE),))
    ]
    with pytest.raises(
        SettingsError, match=r"many: 1,301 classes, expected at most 1,300.*--class"
    ):
        list(evaluate_classes(dataset, labels, results))


def test_classes_and_names() -> None:
    dataset, results = crowd()
    assert results_classes(dataset, results) == ["car", "person"]  # riders are neighbours
    cars = [replace(one, found=tuple(f[f.label == "car"] for f in one.found)) for one in results]
    assert results_classes(dataset, cars) == ["car"]
    again = [replace(results[0], source=f"{folder}/r.json") for folder in "ab"]
    assert distinct_names(again) == ["a/r0", "b/r0"]
    assert distinct_names([results[0]] * 2)[1].endswith(" 2")
    table = class_table([evaluate_results(dataset, label, results) for label in ("car", "person")])
    assert [row[0] for row in table.rows] == ["car", "person", "mean"]
    with pytest.raises(AnnotationError, match="no class 'cat'; did you mean 'car'"):
        evaluate_results(dataset, "cat", results)
