"""What is fuzzed: each reader as a function of a file's bytes.

A reader may return or raise HalfseenError. Anything else is a fault.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data import rle
from halfseen.data.candidates import read_candidates
from halfseen.data.coco import read_coco, read_results
from halfseen.data.image import decode_image, read_indices, write_image
from halfseen.data.limits import LIMITS
from halfseen.data.voc import read_annotation
from halfseen.detections import GroundTruth
from halfseen.errors import AnnotationError
from halfseen.evaluate.results import read_voc_results
from tests.builders import make_image

Reader = Callable[[bytes], Any]
IMAGES = ("a.jpg", "b.jpg")  # those that the corpus of COCO files and results names


class Readers:
    """All readers. Those that want a file find it in `folder`, best one in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (*IMAGES, "a_leftImg8bit.png", "000001.jpg"):
            write_image(folder / name, np.zeros((60, 80, 3), np.uint8))
        self.scene = make_image("scene", [(8, 16)]).source
        self._made: set[str] = set()

    def _file(self, content: bytes, name: str = "input") -> Path:
        """Write a file; of each folder in the way, one file alone is ever there."""
        path = self.folder / name
        if name not in self._made:
            shutil.rmtree(path.parent, ignore_errors=True) if path.parent != self.folder else None
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made = {n for n in self._made if Path(n).parent != Path(name).parent} | {name}
        path.write_bytes(content)
        return path

    def image(self, content: bytes) -> None:
        decode_image(content, upright=True)

    def mask(self, content: bytes) -> None:
        read_indices(self._file(content))

    def voc(self, content: bytes) -> None:
        read_annotation(self._file(content), LIMITS)

    def coco(self, content: bytes) -> None:
        for truth in read_coco(self._file(content), self.folder):
            for i in range(min(len(truth), 3)):
                assert truth.read_mask is not None
                try:
                    truth.read_mask(i)
                except AnnotationError:
                    continue

    def results(self, content: bytes) -> None:
        from halfseen.suppression.results import _image_size

        rows = read_results(self._file(content))[:3]
        size = _image_size(rows)
        for row in rows:
            if row.get("segmentation"):
                rle.as_mask(row["segmentation"], size)

    def crowdhuman(self, content: bytes) -> None:
        self._dataset("crowdhuman", content, "input.odgt")

    def citypersons(self, content: bytes) -> None:
        self._dataset("citypersons", content, "folder/a_gtBboxCityPersons.json", "folder")

    def citypersons_mat(self, content: bytes) -> None:
        self._dataset("citypersons", content, "input.mat")

    def caltech(self, content: bytes) -> None:
        self._dataset("caltech", content, "folder/a.txt", "folder")

    def kaist(self, content: bytes) -> None:
        self._dataset("kaist", content, "folder/a.txt", "folder")

    def kitti(self, content: bytes) -> None:
        self._dataset("kitti", content, "folder/a.txt", "folder")

    def visdrone(self, content: bytes) -> None:
        self._dataset("visdrone", content, "folder/a.txt", "folder")

    def mot(self, content: bytes) -> None:
        self._dataset("mot", content, "gt.txt")

    def bdd(self, content: bytes) -> None:
        self._dataset("bdd", content, "input.json")

    def cocoa(self, content: bytes) -> None:
        self._dataset("cocoa", content, "input.json")

    def _dataset(self, kind: str, content: bytes, name: str, whole: str | None = None) -> None:
        from halfseen.data.formats import read_dataset

        path = self._file(content, name)
        dataset = read_dataset(self.folder / whole if whole else path, kind, images=self.folder)
        for truth in dataset:
            if truth.read_mask is not None and len(truth):
                try:
                    truth.read_mask(0)
                except AnnotationError:
                    continue

    def shard(self, content: bytes) -> None:
        from halfseen.collection.shards import JSON_LINES, PARQUET

        (PARQUET if content.startswith(b"PAR1") else JSON_LINES).decode(content)

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
        """A model, and what it finds: numbers that load may still be too large to compute with."""
        from halfseen.model.store import load
        from halfseen.refine.detector import Detector

        model = load(self._file(content))
        if model.pyramid.largest <= 2 and model.pyramid.factor > 1.1:
            Detector(model, cores=1).detect(self.scene, 0.5)

    def checkpoint(self, content: bytes) -> None:
        from halfseen.learn.checkpoint import Checkpoint
        from halfseen.learn.state import unpack

        sealed = hashlib.sha256(content).digest() + content  # a digest is no secret
        Checkpoint.load(self._file(sealed), FINGERPRINT).part("detector").get("rounds", unpack)

    def candidates(self, content: bytes) -> None:
        for found in read_candidates(self._file(content)):
            found.visible_fraction  # noqa: B018

    def archive(self, content: bytes) -> None:
        from halfseen.collection.photo import read_archive

        for photo in read_archive(str(self._file(content, "input.tar"))):
            photo.read()

    def name_list(self, content: bytes) -> None:
        from halfseen.collection.sources import find_photos

        for _ in find_photos([str(self._file(content, "input.txt"))]):
            pass


# Of the data, class and settings that the checkpoints of the corpus belong to.
FINGERPRINT = "0" * 64
