"""Results files of any detector, as detections of the images of a data set.

Read are COCO's JSON, VOC's `comp3_det_val_car.txt`, KITTI's folder of text files, MOT's det.txt
(or a folder of one file a sequence), and CrowdHuman's .odgt with `dtboxes`. Boxes are all that they
have: they are taken as they are, not cut to the image. Each format's conventions are those of its
annotations; see its module in `halfseen.data`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Float64, Int64
from halfseen.data import rle
from halfseen.data.boxes import Box
from halfseen.data.coco import read_results
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath
from halfseen.data.gather import files_in
from halfseen.data.kitti import parse_object
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.mot import Sequence, frame_name, read_rows
from halfseen.data.objects import at, corners, number, parse_json, read_lines, read_text
from halfseen.detections import Detections
from halfseen.errors import AnnotationError, SettingsError, suggest
from halfseen.evaluate.results import box_detections, parse_line, results_label

Rows = Iterator[tuple[str, "Row"]]
MOST_NAMED = 5  # classes in a message


class Row(NamedTuple):
    """One detection: the id of its image, its class (None: the only one), score and box."""

    image: str
    label: str | None
    score: float
    box: Box


@dataclass(frozen=True)
class Results:
    """The detections of a results file, one `Detections` an image of the data set.

    skipped   rows of classes that the data set does not have, or of images that it left out
    """

    name: str
    source: str
    found: tuple[Detections, ...]
    skipped: int = 0


def read_any_results(
    path: FilePath, dataset: Dataset, kind: str | None = None, limits: Limits = LIMITS
) -> Results:
    """Read a results file, or folder of them, of any detector on the images of a data set.

    `kind` is coco, voc, kitti, mot or crowdhuman; recognised from the file if not given.
    AnnotationError names the first row of an image that the data set does not have.
    """
    kind = _guess(Path(path)) if kind is None else kind
    if kind not in READERS:
        raise SettingsError(f"no results format '{kind}'; {suggest(kind, READERS)}")
    place = {truth.image: k for k, truth in enumerate(dataset)}
    classes = {label: n for n, label in enumerate(dataset.classes)}
    images, labels, numbers, skipped = array("q"), array("q"), array("d"), 0
    others: set[str] = set()  # some of the classes that the data set does not have
    for where, row in READERS[kind](Path(path), dataset, limits):
        if row.image not in place and not dataset.problems:
            raise AnnotationError(
                f'{where}: image "{row.image:.60}" is not among the {len(place)} images evaluated: '
                "use the annotations of the images that the results were made on"
            )
        label = _only_class(where, dataset) if row.label is None else row.label
        if row.image not in place or label not in classes:
            skipped += 1
            if label not in classes and len(others) < MOST_NAMED:
                others.add(label)
            continue
        images.append(place[row.image])
        labels.append(classes[label])
        numbers.extend((row.score, *row.box))
    if skipped and not images:
        raise AnnotationError(_none_left(path, dataset, skipped, others))
    found = _per_image(dataset, np.array(images, np.int64), np.array(labels, np.int64),
                       np.array(numbers).reshape(-1, 5), limits)  # fmt: skip
    return Results(Path(path).stem, str(path), found, skipped)


def _per_image(
    dataset: Dataset,
    images: Int64,
    labels: Int64,
    numbers: Float64,
    limits: Limits,
) -> tuple[Detections, ...]:
    order = np.argsort(images, kind="stable")
    cuts = np.searchsorted(images[order], np.arange(len(dataset) + 1))
    if len(images) and np.diff(cuts).max() > limits.objects:
        image = dataset[int(np.diff(cuts).argmax())].image
        raise AnnotationError(
            f'{np.diff(cuts).max()} results in image "{image:.60}" exceed {limits.objects}'
        )
    names = np.array(dataset.classes or [""], np.str_)
    found = []
    for k, truth in enumerate(dataset):
        own = order[cuts[k] : cuts[k + 1]]
        boxes, score = numbers[own, 1:], numbers[own, 0]
        found.append(box_detections(boxes, score, names[labels[own]], truth.size))
    return tuple(found)


def _none_left(path: FilePath, dataset: Dataset, skipped: int, others: set[str]) -> str:
    """Why no row of a results file is left."""
    text = f"{path}: none of its {skipped} rows is of a class and an image of {dataset.name}"
    if not others:
        return f"{text}: its images were left out"
    known = ", ".join(dataset.classes[:MOST_NAMED])
    return (
        f"{text}: they are of {', '.join(sorted(others)):.80}, the annotations of {known:.80}; "
        "halfseen convert --rename OLD=NEW renames those of annotations"
    )


def _only_class(where: str, dataset: Dataset) -> str:
    ignored = {label for near in dataset.neighbours.values() for label in near}
    classes = [label for label in dataset.classes if label not in ignored]
    if len(classes) != 1:
        raise SettingsError(
            f"{where}: these results do not name classes, and the data set has "
            f"{len(classes)}: {', '.join(classes[:5])}"
        )
    return classes[0]


def _coco(path: Path, dataset: Dataset, limits: Limits) -> Rows:
    known = dataset.categories
    for n, row in enumerate(read_results(path, limits)):
        where = f"{path}: result {n}"
        category = row["category_id"]
        label = known.get(category, f"category_id {category}") if known else None
        if "bbox" in row:
            x, y, width, height = map(float, row["bbox"])
            box = (x, y, x + width, y + height)
        else:
            with at(f"{where}: segmentation"):
                box = _extent(row["segmentation"], limits)
        yield where, Row(str(row["image_id"]), label, float(row["score"]), box)


def _extent(segmentation: object, limits: Limits) -> Box:
    """The extent of the mask of a result without a box."""
    if isinstance(segmentation, list):
        x1, y1, x2, y2 = rle.polygons_extent(segmentation)
    else:
        x1, y1, x2, y2 = rle.read_runs(segmentation, None, limits).box.tolist()
    return x1, y1, x2, y2


def _voc(path: Path, dataset: Dataset, limits: Limits) -> Rows:
    for file in files_in(path, ".txt") if path.is_dir() else [path]:
        label = results_label(file) if file.name.startswith("comp") else None
        for n, line in read_lines(file, limits):
            where = f"{file}, line {n}"
            image, (score, x1, y1, x2, y2) = parse_line(line, where)
            yield where, Row(image, label, score, (x1, y1, x2, y2))


def _kitti(path: Path, dataset: Dataset, limits: Limits) -> Rows:
    for file in files_in(path, ".txt"):
        for n, line in read_lines(file, limits):
            where = f"{file}, line {n}"
            with at(where):
                fields = line.split()
                if len(fields) != 16:
                    raise AnnotationError(f"expected 16 fields with a score, found {len(fields)}")
                one = parse_object(fields)
                score = number(fields[15], "score")
            yield where, Row(file.stem, one.label, score, one.box)


def _mot(path: Path, dataset: Dataset, limits: Limits) -> Rows:
    files = files_in(path, ".txt") if path.is_dir() else [path]
    for file in files:
        sequence = Sequence(file, file.stem)
        for where, frame, fields, box in read_rows(sequence, limits):
            with at(where):
                score = number(fields[6], "confidence") if len(fields) > 6 else 1.0
            yield where, Row(frame_name(sequence, frame, len(files)), None, score, box)


def _crowdhuman(path: Path, dataset: Dataset, limits: Limits) -> Rows:
    for n, line in enumerate(read_text(path, limits.json_bytes).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {n}"
        with at(where):
            row = parse_json(line)
            boxes = row.get("dtboxes") if isinstance(row, dict) else None
            if not isinstance(boxes, list) or not all(isinstance(one, dict) for one in boxes):
                raise AnnotationError("dtboxes: expected a list of objects")
            image = str(row.get("ID"))
            parsed = []
            for k, one in enumerate(boxes):
                with at(f"dtboxes[{k}]"):
                    tag = one.get("tag")
                    label = tag if isinstance(tag, str) else None
                    box = corners(one.get("box", one.get("fbox")), "box", empty=True)
                    parsed.append(Row(image, label, number(one.get("score"), "score"), box))
        for one in parsed:
            yield where, one


READERS: dict[str, Callable[[Path, Dataset, Limits], Iterable[tuple[str, Row]]]] = {
    "coco": _coco,
    "voc": _voc,
    "kitti": _kitti,
    "mot": _mot,
    "crowdhuman": _crowdhuman,
}


def _guess(path: Path) -> str:
    if not path.exists():
        raise SettingsError(f"{path}: no such file or folder; expected results")
    by_suffix = {".json": "coco", ".odgt": "crowdhuman"}
    if path.is_file() and path.suffix.lower() in by_suffix:
        return by_suffix[path.suffix.lower()]
    files = files_in(path, ".txt") if path.is_dir() else [path]
    for file in files:
        for _, line in read_lines(file, LIMITS):
            if "," in line:
                return "mot"
            return "kitti" if path.is_dir() and len(line.split()) > 6 else "voc"
    return "kitti" if path.is_dir() else "voc"
