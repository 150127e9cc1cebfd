"""VOC results files, `comp3_det_val_car.txt`: one class, one detection a line.

A line is `image score left top right bottom`, in 1-based inclusive pixels: (x1 + 1, y1 + 1, x2, y2)
of our half-open boxes. Scores and boxes are written with all their digits, because rounding makes
ties, and ties change AP.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float64
from halfseen.data.files import write_atomically
from halfseen.data.limits import LIMITS
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import AnnotationError, SettingsError
from halfseen.evaluate.voc_ap import BoxKind, Found, aligned, boxes_of

_NAME = re.compile(r"comp\d+_det_[^_]+_(?P<label>.+)\.txt")


def results_name(label: str, split: str = "val") -> str:
    """The file name that the development kit expects; comp3 is training on VOC's data alone."""
    return f"comp3_det_{split}_{label}.txt"


def write_voc_results(
    path: str | Path,
    truth: Sequence[GroundTruth],
    found: Found,
    label: str,
    box: BoxKind = "full",
) -> int:
    """Write the detections of one class; the file appears complete or not at all.

    `truth` gives the images' ids. Returns the number of lines.
    """
    path = Path(path)
    lines = []
    for here, detected in zip(truth, aligned(truth, found), strict=True):
        if not here.image or here.image.split() != [here.image]:
            raise AnnotationError(
                f'image id "{here.image}" is empty or holds a space, which {path.name} cannot: '
                "rename the image"
            )
        boxes = boxes_of(detected, box)
        for i in np.flatnonzero(detected.label == label):
            left, top, right, bottom = (boxes[i] + (1, 1, 0, 0)).tolist()
            lines.append(
                f"{here.image} {float(detected.score[i])!r} {left} {top} {right} {bottom}\n"
            )
    try:
        write_atomically(path, "".join(lines).encode())
    except OSError as error:
        raise AnnotationError(f"{path}: cannot write the results file ({error.strerror})") from None
    return len(lines)


def read_voc_results(
    path: str | Path, truth: Sequence[GroundTruth], label: str | None = None
) -> list[Detections]:
    """Detections of one class for each image of the truth, in its order, from a results file.

    The file knows boxes alone: `window`, `full` and `visible` are all the box, wholly visible.
    `label` is read from a name such as `comp3_det_val_car.txt` if it is not given.
    """
    path = Path(path)
    label = results_label(path) if label is None else label
    place = {here.image: k for k, here in enumerate(truth)}
    numbers, images = array("d"), array("q")
    try:
        if path.stat().st_size > LIMITS.results_bytes:
            raise AnnotationError(
                f"{path}: larger than {LIMITS.results_bytes:,} bytes; is it a results file?"
            )
        with path.open(encoding="utf-8", errors="replace") as lines:
            for n, line in enumerate(lines, start=1):
                if line.strip():
                    image, values = parse_line(line, f"{path}, line {n}")
                    if image not in place:
                        raise AnnotationError(
                            f'{path}, line {n}: image "{image[:60]}" is not among the {len(place)} '
                            "images evaluated: use the split that the results were made on"
                        )
                    images.append(place[image])
                    numbers.extend(values)
    except OSError as error:
        raise AnnotationError(f"{path}: cannot read the results file ({error.strerror})") from None
    rows = np.array(numbers).reshape(-1, 5)
    owner = np.array(images, dtype=np.int64)
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(len(truth) + 1))
    found = []
    for k, here in enumerate(truth):
        own = rows[order[cuts[k] : cuts[k + 1]]]
        labels = np.full(len(own), label)
        found.append(box_detections(own[:, 1:], own[:, 0], labels, here.size))
    return found


def results_label(path: str | Path) -> str:
    """The class that a results file is named after."""
    path = Path(path)
    name = _NAME.fullmatch(path.name)
    if name is None:
        raise SettingsError(
            f'{path.name}: cannot tell the class from a name unlike "{results_name("car")}": '
            "give the label"
        )
    return name["label"]


def parse_line(line: str, where: str) -> tuple[str, tuple[float, ...]]:
    """Return the image of one line, and its score and box; AnnotationError names `where`."""
    fields = line.split()
    if len(fields) != 6:
        raise AnnotationError(
            f"{where}: expected 6 fields, image score left top right bottom; found {len(fields)}"
        )
    try:
        score, left, top, right, bottom = map(float, fields[1:])
    except ValueError:
        raise AnnotationError(f"{where}: a field is not a number: {line.strip()[:80]}") from None
    box = (left - 1, top - 1, right, bottom)
    if math.isnan(score) or not all(map(math.isfinite, box)):
        raise AnnotationError(f"{where}: a number is not finite: {line.strip()[:80]}")
    if box[2] < box[0] or box[3] < box[1]:
        raise AnnotationError(f"{where}: the box is reversed: {line.strip()[:80]}")
    return fields[0], (score, *box)


def box_detections(
    boxes: Float64,
    score: Float64,
    label: NDArray[np.str_],
    size: tuple[int, int],
) -> Detections:
    """Detections of which boxes are all that is known: wholly visible."""
    count = len(boxes)
    grids = (np.ones((1, 1), bool),) * count
    none = np.zeros(count, np.int64)
    return Detections(score, label, none, none > 0, boxes, boxes, boxes, grids, size)
