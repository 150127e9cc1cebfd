"""Anybody's results on anybody's data set: which detector is better, and on which objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from halfseen.arrays import Int64
from halfseen.data.dataset import Dataset
from halfseen.data.formats import WhichBoxes
from halfseen.detections import Detections
from halfseen.errors import AnnotationError, SettingsError
from halfseen.evaluate.any_results import Results
from halfseen.evaluate.bootstrap import Among, bootstrap_difference
from halfseen.evaluate.evaluation import Conditions, Evaluation, Method
from halfseen.evaluate.groups import Groups, group_objects
from halfseen.evaluate.protocols import (
    ALL,
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
MOST_CLASSES = 1300  # measured at once: more than any data set in use, and seconds
FARTHEST = 2.0**31  # of an image of unknown size, in pixels: what lies beyond is no place in one


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
    (evaluation,) = evaluate_classes(dataset, [label], results, question)
    return evaluation


def evaluate_classes(
    dataset: Dataset,
    labels: Sequence[str],
    results: Sequence[Results],
    question: Question | None = None,
) -> Iterator[Evaluation]:
    """Measure several classes; the `dataset` of each holds only the images that are about it."""
    if len(labels) > MOST_CLASSES:
        raise SettingsError(
            f"{dataset.name}: {len(labels):,} classes, expected at most {MOST_CLASSES:,} at once; "
            "name those wanted with --class"
        )
    question = question or Question()
    places = _Places(dataset, results)
    for label in labels:
        yield _evaluate(dataset, label, results, question, places.of(label))


def _evaluate(
    dataset: Dataset, label: str, results: Sequence[Results], question: Question, place: Int64
) -> Evaluation:
    """Measure one class on the images at `place`; the others hold nothing of it."""
    among, about = Among(len(dataset), place), dataset[place]
    try:
        check_objects(about, label)
    except AnnotationError:
        check_objects(dataset, label)  # says so of all images
    names = distinct_names(results)
    about = replace(
        about, truths=tuple(truth_of_class(t, dataset, label, question.boxes) for t in about)
    )
    truth = about.truths
    groups = {by: group_objects(truth, by, label) for by in question.by}
    together: Groups = {name: part for own in groups.values() for name, part in own.items()}
    summaries, matches, found = [], {}, {}
    measured: dict[str, Measured] = {}
    for name, one in zip(names, results, strict=True):
        own = [one.found[k] for k in place]
        found[name] = [_sized(detected, here) for detected, here in zip(own, truth, strict=True)]
        summary, matches[name] = measure_boxes(name, label, truth, found[name])
        measured[name] = measure_protocols(
            truth, found[name], matches[name], together, len(dataset)
        )
        summaries.append(replace(summary, images=len(dataset)))
    tables = [protocol_table(measured)]
    tables += [group_table(measured, list(own), by) for by, own in groups.items()]
    difference = difference_table(measured, list(together), question.resamples, among)
    base = names[0]
    return Evaluation(
        label, about,
        tuple(Method(n, label, None, r.source) for n, r in zip(names, results, strict=True)),
        Conditions(shares=()), tuple(summaries), matches, found, base,
        {
            name: bootstrap_difference(
                matches[base], matches[name], resamples=question.resamples, among=among
            )
            for name in names[1:]
        },
        tuple(_skipped(one) for one in results if one.skipped),
        (*tables, *([] if difference is None else [difference])),
        {name: one.groups[ALL].miss for name, one in measured.items()},
    )  # fmt: skip


class _Places:
    """Where each class stands: the images with an object of it, of a neighbour, or a detection.

    So that many classes of many images do not take their product.
    """

    def __init__(self, dataset: Dataset, results: Sequence[Results]) -> None:
        self.neighbours = dataset.neighbours
        self.places: dict[str, list[int]] = {}
        labels = [[here.label for here in dataset]]
        labels += [[detected.label for detected in one.found] for one in results]
        for column in labels:
            for k, names in enumerate(column):
                for name in set(names.tolist()):
                    self.places.setdefault(name, []).append(k)
        # What is annotated anywhere says how the objects of every class are grouped.
        self.telling = {
            _first((here.level >= 0).any() for here in dataset),
            _first((here.truncation > 0).any() for here in dataset),
            _first(np.isfinite(here.visible_fraction).any() for here in dataset),
        }

    def of(self, label: str) -> Int64:
        """The images that a class's measures depend on, in order."""
        near = self.neighbours.get(label, self.neighbours.get("*", ()))
        parts = [self.telling, *(self.places.get(name, ()) for name in (label, *near))]
        return np.array(sorted(set().union(*parts)), np.int64)


def _first(flags: Iterable[bool | np.bool_]) -> int:
    """Where the first True stands; 0 where there is none."""
    return next((k for k, flag in enumerate(flags) if flag), 0)


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
        far = np.ceil(here.full[:, 2:].max(axis=0, initial=1.0)).clip(max=FARTHEST).astype(int)
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
    """The classes to evaluate: of a detector of one class that one, else all that have objects.

    Of results without a single detection all: nothing was found of them.
    """
    ignored = {name for near in dataset.neighbours.values() for name in near}
    found = {
        name for one in results for detected in one.found for name in set(detected.label.tolist())
    }
    wanted = {name for here in dataset for name in set(here.label[~here.left_out].tolist())}
    wanted -= ignored
    return [n for n in dataset.classes if n in (wanted & found if len(found) == 1 else wanted)]


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
