"""What is fuzzed: each reader as a function of a file's bytes.

A reader may return or raise HalfseenError. Anything else is a fault.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

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

Reader = Callable[[bytes], Any]
IMAGES = ("a.jpg", "b.jpg")  # those that the corpus of COCO files and results names


class Readers:
    """All readers. Those that want a file find it in `folder`, best one in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (*IMAGES, "a_leftImg8bit.png", "000001.jpg"):
            write_image(folder / name, np.zeros((60, 80, 3), np.uint8))

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

    def suppression(self, content: bytes) -> None:
        """The results of another detector, suppressed by one method after another."""
        from halfseen.suppression.results import suppress_file

        source = self._file(content)
        method = METHODS[zlib.crc32(content) % len(METHODS)]
        suppress_file(source, self.folder / "kept", method=method)

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

        (self.folder / "folder").mkdir(exist_ok=True)
        for old in (self.folder / "folder").iterdir():
            old.unlink()
        path = self._file(content, name)
        dataset = read_dataset(self.folder / whole if whole else path, kind, images=self.folder)
        for truth in dataset:
            if truth.read_mask is not None and len(truth):
                try:
                    truth.read_mask(0)
                except AnnotationError:
                    continue

    def photo(self, content: bytes) -> None:
        """An image that is searched as `detect` does, unless it is large."""
        from halfseen.data.image import open_image

        image = open_image(content)
        if image.pixels <= 10_000:
            _detector().detect(image.decode(upright=True), -1.5)

    def shard(self, content: bytes) -> None:
        from halfseen.collection.shards import JSON_LINES, PARQUET

        (PARQUET if content.startswith(b"PAR1") else JSON_LINES).decode(content)

    def request(self, content: bytes) -> None:
        """A request to the page's server: a line, headers, and a body after an empty line."""
        status, body = _served(content)
        assert status < 500, body[:500]
        if status >= 400:
            raise AnnotationError(f"answered {status}")

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


METHODS = ("voting", "greedy", "covering", "meanshift", "soft")


@lru_cache(maxsize=1)
def _detector() -> Any:
    from halfseen import Detector
    from tests.builders import make_model

    return Detector(make_model(), cores=1)


@lru_cache(maxsize=1)
def _server() -> tuple[asyncio.AbstractEventLoop, Any]:
    from halfseen.web.catalogue import find_sets
    from halfseen.web.guard import ServeLimits
    from halfseen.web.server import make_app

    limits = ServeLimits(upload_pixels=1_000_000, body_seconds=5, workers=1)
    return asyncio.new_event_loop(), make_app(find_sets()[:1], limits)


def _served(content: bytes) -> tuple[int, bytes]:
    """Return the status and body of the server's answer, called as uvicorn calls it."""
    loop, app = _server()
    head, _, body = content.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    path, _, query = target.partition(b"?")
    headers = [
        (name.strip().lower(), value.strip())
        for name, mark, value in (line.partition(b":") for line in lines)
        if mark
    ]
    scope = {
        "type": "http", "http_version": "1.1", "method": method.decode("latin-1").upper(),
        "scheme": "http", "path": unquote(path.decode("latin-1")) or "/", "raw_path": path,
        "query_string": query, "root_path": "", "headers": headers, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000), "asgi": {"version": "3.0"}, "state": {},
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    answer: list[Any] = []

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answer.append(message)

    loop.run_until_complete(asyncio.wait_for(app(scope, receive, send), 60))
    assert answer, "no answer"
    parts = [message.get("body", b"") for message in answer[1:]]
    return int(answer[0]["status"]), b"".join(parts)


# Of the data, class and settings that the checkpoints of the corpus belong to.
FINGERPRINT = "0" * 64
