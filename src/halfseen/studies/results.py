"""Anybody's results on anybody's data set: which detector is better, and on which objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.formats import WhichBoxes
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.evaluate.any_results import Results
from halfseen.evaluate.bootstrap import bootstrap_difference
from halfseen.evaluate.evaluation import Conditions, Evaluation, Method
from halfseen.evaluate.groups import Groups, group_objects
from halfseen.evaluate.protocols import (
    Measured,
    difference_table,
    group_table,
    measure_protocols,
    protocol_table,
)
from halfseen.evaluate.summary import measure_boxes
from halfseen.evaluate.table import Cell, Table
from halfseen.ground_truth import GroundTruth
from halfseen.studies.evaluate import check_objects

RESAMPLES = 1000


@dataclass(frozen=True)
class Question:
    """What to measure.

    by         how to group objects: visible, occluded, truncated, size or crowd
    boxes      which true boxes are compared: of whole objects, or of what is visible
    resamples  of the bootstrap between methods
    """

    by: tuple[str, ...] = ()
    boxes: WhichBoxes = "whole"
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        if self.boxes not in ("whole", "visible"):
            raise SettingsError(f'boxes must be "whole" or "visible", not {self.boxes!r}')


def evaluate_results(
    dataset: Dataset, label: str, results: Sequence[Results], question: Question | None = None
) -> Evaluation:
    """Measure results files on one class by all protocols; the first is what others are held to.

    AnnotationError if the data set has no object of the class to be found.
    """
    question = question or Question()
    check_objects(dataset, label)
    names = distinct_names(results)
    dataset = replace(
        dataset,
        truths=tuple(truth_of_class(here, dataset, label, question.boxes) for here in dataset),
    )
    truth = dataset.truths
    groups = {by: group_objects(truth, by, label) for by in question.by}
    together: Groups = {name: part for own in groups.values() for name, part in own.items()}
    summaries, matches, found = [], {}, {}
    measured: dict[str, Measured] = {}
    for name, one in zip(names, results, strict=True):
        found[name] = [
            _sized(detected, here) for detected, here in zip(one.found, truth, strict=True)
        ]
        summary, matches[name] = measure_boxes(name, label, truth, found[name])
        measured[name] = measure_protocols(truth, found[name], matches[name], together)
        summaries.append(summary)
    tables = [protocol_table(measured)]
    tables += [group_table(measured, list(own), by) for by, own in groups.items()]
    difference = difference_table(measured, list(together), question.resamples)
    base = names[0]
    return Evaluation(
        label, dataset,
        tuple(Method(n, label, None, r.source) for n, r in zip(names, results, strict=True)),
        Conditions(shares=()), tuple(summaries), matches, found, base,
        {
            name: bootstrap_difference(matches[base], matches[name], resamples=question.resamples)
            for name in names[1:]
        },
        tuple(_skipped(one) for one in results if one.skipped),
        (*tables, *([] if difference is None else [difference])),
    )  # fmt: skip


def truth_of_class(
    here: GroundTruth, dataset: Dataset, label: str, boxes: WhichBoxes
) -> GroundTruth:
    """The truth as a class's protocol has it: its neighbours ignored, and the boxes compared.

    An image of unknown size gets the smallest that holds its boxes; nothing is cut to it.
    """
    near = dataset.neighbours.get(label, dataset.neighbours.get("*", ()))
    neighbour = np.isin(here.label, [name for name in near if name != label])
    size = here.size
    if not all(size):
        far = np.ceil(here.full[:, 2:].max(axis=0, initial=1.0)).astype(int)
        size = (int(far[1]), int(far[0]))
    return replace(
        here,
        size=size,
        label=np.where(neighbour, label, here.label) if neighbour.any() else here.label,
        ignore=here.ignore | neighbour,
        box=here.full if boxes == "whole" else here.box,
    )


def distinct_names(results: Sequence[Results]) -> list[str]:
    """A name for each results file: its own, else with its folder, else with its number."""
    names = [one.name for one in results]
    if len(set(names)) < len(names):
        names = [f"{Path(one.source).absolute().parent.name}/{one.name}" for one in results]
    if len(set(names)) < len(names):
        names = [f"{name} {n}" for n, name in enumerate(names, start=1)]
    return names


def results_classes(dataset: Dataset, results: Sequence[Results]) -> list[str]:
    """The classes to evaluate: of a detector of one class that one, else all that have objects."""
    ignored = {name for near in dataset.neighbours.values() for name in near}
    found = {
        name for one in results for detected in one.found for name in set(detected.label.tolist())
    }
    wanted = {name for here in dataset for name in set(here.label[~here.left_out].tolist())}
    wanted -= ignored
    return [n for n in dataset.classes if n in (wanted if len(found) > 1 else wanted & found)]


def _sized(detected: Detections, here: GroundTruth) -> Detections:
    return detected if detected.size == here.size else replace(detected, size=here.size)


def _skipped(one: Results) -> str:
    return f"{one.source}: {one.skipped} rows of other classes, or of images that were left out"


def class_table(evaluations: Sequence[Evaluation]) -> Table:
    """VOC's and COCO's AP of every class and method, and their means over classes."""
    names = [summary.name for summary in evaluations[0].summaries]
    rows: list[list[Cell]] = [
        [e.label, e.summaries[0].objects, *(100 * v for s in e.summaries for v in (s.ap, s.coco))]
        for e in evaluations
    ]
    means = np.array([row[2:] for row in rows], np.float64).mean(axis=0)
    rows.append(["mean", sum(e.summaries[0].objects for e in evaluations), *means.tolist()])
    columns = [f"{what} {name}" for name in names for what in ("AP", "COCO")]
    notes = ("AP: VOC, all-point, IoU 0.5; COCO: mean of IoU 0.5 to 0.95.",)
    return Table(["class", "objects", *columns], rows, "all classes, %", notes=notes)
