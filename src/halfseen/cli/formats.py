"""The files that `halfseen detect` writes. Each appears whole, when the last image is done."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol

from halfseen.data.files import plain_name
from halfseen.detections import Detections, GroundTruth
from halfseen.view.records import Record, coco_rows, records

CSV_FIELDS = (
    "image", "label", "score",
    "full_x1", "full_y1", "full_x2", "full_y2",
    "visible_x1", "visible_y1", "visible_x2", "visible_y2",
    "visible_fraction", "component", "mirrored", "probability",
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What became of one image: detections, or the reason why there are none."""

    name: str
    detections: Detections | None
    error: str = ""
    suppressed: tuple[Record, ...] = ()

    @property
    def stem(self) -> str:
        """The file's name without its folder and suffix."""
        return PurePath(self.name).stem

    def record(self) -> Record:
        """The image as a JSON object."""
        if self.detections is None:
            return {"image": self.name, "error": self.error}
        height, width = self.detections.size
        content: Record = {"image": self.name, "width": width, "height": height}
        content["detections"] = records(self.detections)
        if self.suppressed:
            content["suppressed"] = self.suppressed
        return content

    def line(self) -> str:
        """The image as one line of JSON."""
        return json.dumps(self.record())


class Format(Protocol):
    """Takes what was found, image by image; `close` puts the files in place and names them."""

    def add(self, found: Found) -> None: ...
    def close(self) -> list[Path]: ...
    def abandon(self) -> None: ...


class _Streamed:
    """A text file that grows beside its place and moves there when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        # A file's name need not be text.
        self._file = self._part.open("w", encoding="utf-8", errors="backslashreplace", newline="")

    def write(self, text: str) -> None:
        self._file.write(text)

    def close(self) -> list[Path]:
        self._file.close()
        os.replace(self._part, self.path)
        return [self.path]

    def abandon(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


class JsonLines(_Streamed):
    """detections.jsonl: one image a line, failed ones too."""

    def __init__(self, folder: Path, labels: list[str]) -> None:
        super().__init__(folder / "detections.jsonl")

    def add(self, found: Found) -> None:
        self.write(found.line() + "\n")


class Csv(_Streamed):
    """detections.csv: one detection a line."""

    def __init__(self, folder: Path, labels: list[str]) -> None:
        super().__init__(folder / "detections.csv")
        self.write(",".join(CSV_FIELDS) + "\n")

    def add(self, found: Found) -> None:
        lines = io.StringIO()
        table = csv.writer(lines, lineterminator="\n")
        for row in [] if found.detections is None else records(found.detections):
            values: list[Any] = [row["label"], row["score"], *row["full"], *row["visible"]]
            values += [row["visible_fraction"], row["component"], int(row["mirrored"])]
            values.append(row.get("probability", ""))
            table.writerow([found.name, *values])
        self.write(lines.getvalue())


class Coco(_Streamed):
    """detections.coco.json: COCO results with run-length masks: see `Detections.mask`.

    An image's id is the number that names its file, as COCO names its images, or else the name.
    Categories are numbered from 1 in the order of the models; categories.json says so.
    """

    def __init__(self, folder: Path, labels: list[str]) -> None:
        super().__init__(folder / "detections.coco.json")
        self._categories = {label: i for i, label in enumerate(labels, start=1)}
        self._names = _Streamed(folder / "categories.json")
        self._names.write(json.dumps([{"id": i, "name": n} for n, i in self._categories.items()]))
        self._separator = "["

    def add(self, found: Found) -> None:
        if found.detections is None:
            return
        for row in coco_rows(found.detections, image_id(found.stem), self._categories):
            self.write(f"{self._separator}\n{json.dumps(row)}")
            self._separator = ","

    def close(self) -> list[Path]:
        self.write("[]\n" if self._separator == "[" else "\n]\n")
        return super().close() + self._names.close()

    def abandon(self) -> None:
        super().abandon()
        self._names.abandon()


def image_id(stem: str) -> int | str:
    """What COCO calls an image: its number, if its name is one."""
    return int(stem) if stem.isascii() and stem.isdigit() else stem


class Voc:
    """comp3_det_val_<class>.txt for each class, as the VOC development kit reads them."""

    def __init__(self, folder: Path, labels: list[str]) -> None:
        self._folder = folder
        self._labels = labels
        self._images: list[GroundTruth] = []
        self._found: list[Detections] = []

    def add(self, found: Found) -> None:
        if found.detections is not None:
            size = found.detections.size
            self._images.append(GroundTruth.make(found.stem, found.name, size, [], []))
            self._found.append(found.detections)

    def close(self) -> list[Path]:
        from halfseen.evaluate.results import results_name, write_voc_results

        paths = [self._folder / results_name(plain_name(label)) for label in self._labels]
        for label, path in zip(self._labels, paths, strict=True):
            write_voc_results(path, self._images, self._found, label)
        return paths

    def abandon(self) -> None:
        """Nothing is written before `close`."""


FORMATS: dict[str, Callable[[Path, list[str]], Format]] = {
    "jsonl": JsonLines,
    "coco": Coco,
    "voc": Voc,
    "csv": Csv,
}
