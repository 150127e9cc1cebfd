"""Writers of one results file for a whole run. The file appears whole, when the run is done.

A writer is a context manager: it provides a function that takes the result of one image after
another, puts its files in place when the block ends well, and leaves nothing behind when it does
not.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from halfseen.collection.result import ImageResult
from halfseen.data.files import open_atomically, plain_names

if TYPE_CHECKING:
    from halfseen.detections import Detections, GroundTruth

Add = Callable[[ImageResult], object]

CSV_FIELDS = (
    "image", "label", "score",
    "full_x1", "full_y1", "full_x2", "full_y2",
    "visible_x1", "visible_y1", "visible_x2", "visible_y2",
    "visible_fraction", "component", "mirrored", "probability",
)  # fmt: skip


@contextmanager
def write_jsonl(paths: Sequence[Path], labels: Sequence[str]) -> Iterator[Add]:
    """Write one image a line, failed ones too."""
    with _open_text(paths[0]) as file:
        yield lambda result: file.write(result.line() + "\n")


@contextmanager
def write_csv(paths: Sequence[Path], labels: Sequence[str]) -> Iterator[Add]:
    """Write one detection a line."""
    from halfseen.data.records import records

    with _open_text(paths[0]) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(CSV_FIELDS)

        def add(result: ImageResult) -> None:
            for row in [] if result.detections is None else records(result.detections):
                values = [row["label"], row["score"], *row["full"], *row["visible"]]
                values += [row["visible_fraction"], row["component"], int(row["mirrored"])]
                values.append(row.get("probability", ""))
                table.writerow([result.name, *values])

        yield add


@contextmanager
def write_coco(paths: Sequence[Path], labels: Sequence[str]) -> Iterator[Add]:
    """Write COCO results with run-length masks (see `Detections.mask`), and their categories.

    Categories are numbered from 1 in the order of the labels; the second file lists them.
    """
    from halfseen.data.records import coco_rows

    categories = {label: i for i, label in enumerate(labels, start=1)}
    with _open_text(paths[0]) as file, _open_text(paths[1]) as names:
        names.write(json.dumps([{"id": i, "name": n} for n, i in categories.items()]))
        separator = "["

        def add(result: ImageResult) -> None:
            nonlocal separator
            if result.detections is None:
                return
            for row in coco_rows(result.detections, image_id(result.stem), categories):
                file.write(f"{separator}\n{json.dumps(row)}")
                separator = ","

        yield add
        file.write("[]\n" if separator == "[" else "\n]\n")


def image_id(stem: str) -> int | str:
    """Return what COCO calls an image: the number that names its file, or else the name."""
    return int(stem) if stem.isascii() and stem.isdigit() else stem


@contextmanager
def write_voc(paths: Sequence[Path], labels: Sequence[str]) -> Iterator[Add]:
    """Write one file a class, as the VOC development kit reads them."""
    from halfseen.detections import GroundTruth
    from halfseen.evaluate.results import write_voc_results

    images: list[GroundTruth] = []
    found: list[Detections] = []

    def add(result: ImageResult) -> None:
        if result.detections is not None:
            size = result.detections.size
            images.append(GroundTruth.make(result.stem, result.name, size, [], []))
            found.append(result.detections)

    yield add
    for label, path in zip(labels, paths, strict=True):
        write_voc_results(path, images, found, label)


def voc_file_names(labels: Sequence[str]) -> list[str]:
    """Return the name of each class's results file."""
    from halfseen.evaluate.results import results_name

    return [results_name(name) for name in plain_names(labels)]


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file that appears whole; file names in it need not be valid text."""
    with open_atomically(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="")
        try:
            yield text
        except BaseException:
            with suppress(OSError):
                text.detach()
            raise
        text.detach()  # flushes, and leaves the stream open
