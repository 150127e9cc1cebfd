"""What is fuzzed: each reader as a function of a file's bytes.

A reader may return or raise HalfseenError. Anything else is a fault.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from halfseen.data import rle
from halfseen.data.candidates import read_candidates
from halfseen.data.coco import read_coco, read_results
from halfseen.data.dataset import Dataset
from halfseen.data.image import decode_image, read_indices
from halfseen.data.limits import LIMITS
from halfseen.data.voc import _read_annotation
from halfseen.detections import GroundTruth
from halfseen.errors import AnnotationError
from halfseen.evaluate.results import read_voc_results

Reader = Callable[[bytes], Any]
IMAGES = ("a.jpg", "b.jpg")  # those that the corpus of COCO files and results names


class Readers:
    """All readers. Those that want a file find it in `folder`, best one in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in IMAGES:
            (folder / name).touch()

    def names(self) -> list[str]:
        return [name for name in vars(type(self)) if not name.startswith("_") and name != "names"]

    def _file(self, content: bytes, name: str = "input") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def image(self, content: bytes) -> None:
        decode_image(content, upright=True)

    def mask(self, content: bytes) -> None:
        read_indices(self._file(content))

    def voc(self, content: bytes) -> None:
        _read_annotation("a", self._file(content), "a.jpg", None, LIMITS)

    def coco(self, content: bytes) -> None:
        for truth in read_coco(self._file(content), self.folder):
            for i in range(min(len(truth), 3)):
                assert truth.read_mask is not None
                try:
                    truth.read_mask(i)
                except AnnotationError:
                    continue

    def results(self, content: bytes) -> None:
        from halfseen.suppress.results import _image_size

        rows = read_results(self._file(content))[:3]
        size = _image_size(rows)
        for row in rows:
            if row.get("segmentation"):
                rle.as_mask(row["segmentation"], size)

    def run_lengths(self, content: bytes) -> None:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = {"size": [content[0] if content else 1, 80], "counts": content[1:]}
        assert rle.area(value) == rle.decode(value).sum()

    def voc_results(self, content: bytes) -> None:
        truth = [GroundTruth.make(Path(name).stem, name, (60, 80), [], []) for name in IMAGES]
        read_voc_results(self._file(content), truth, "car")

    def model(self, content: bytes) -> None:
        from halfseen.model.store import load

        load(self._file(content)).templates()

    def checkpoint(self, content: bytes) -> None:
        from halfseen.learn import checkpoint

        sealed = hashlib.sha256(content).digest() + content  # a digest is no secret
        path = self._file(sealed)
        checkpoint.load(path, TRAINER)  # type: ignore[arg-type]
        checkpoint.load_keys(path)

    def candidates(self, content: bytes) -> None:
        for found in read_candidates(self._file(content)):
            found.visible_fraction  # noqa: B018

    def archive(self, content: bytes) -> None:
        from halfseen.collection.archive import read_archive

        for photo in read_archive(str(self._file(content, "input.tar"))):
            photo.read()

    def name_list(self, content: bytes) -> None:
        from halfseen.collection.sources import find_photos

        for _ in find_photos([str(self._file(content, "input.txt"))]):
            pass


class _Settings:
    def as_json(self) -> dict[str, Any]:
        return {"masks": False, "calibrate": False}


# Enough of a trainer to tell whether a checkpoint is its own.
TRAINER = SimpleNamespace(
    label="car",
    settings=_Settings(),
    dataset=Dataset("none", ("car",), ()),
    reassign=lambda rows, flags: [None] * len(rows),
)
