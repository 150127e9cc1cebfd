"""What else is fuzzed: commands with a stranger's file among their words, and the server's routes.

A command may say what is wrong on lines of its own. An unexpected error is a fault, although the
command line makes one line of it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import numpy as np
import typer

import halfseen
from halfseen import cli
from halfseen.data.coco import write_coco
from halfseen.data.dataset import Dataset
from halfseen.data.formats import FORMATS
from halfseen.data.image import write_image
from halfseen.errors import AnnotationError
from halfseen.features.fhog import Fhog
from halfseen.features.hog import Hog
from halfseen.ground_truth import GroundTruth
from halfseen.model.mask_head import shipped_grouping
from halfseen.model.store import save
from halfseen.suppression.solver import solve
from halfseen.visibility.bounds import block_bounds
from tests.builders import make_image, make_model, random_head, tiny_scenes
from tests.fuzz.readers import IMAGES, Readers

METHODS = ("voting", "greedy", "covering", "meanshift", "soft")
PRESETS = ("default", "paper")
GROUPS = ("visible", "occluded", "truncated", "size", "crowd")
BOXES = [(3, 4, 40, 30), (10, 12, 22, 50)]


class Commands(Readers):
    """All readers, commands and the server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        truths = [GroundTruth.make(n, n, (60, 80), ["car"] * 2, BOXES) for n in ("1", "2")]
        write_coco(Dataset("made", ("car",), tuple(truths)), folder / "truth.json")
        rows = [{"image_id": n, "category_id": 1, "score": 0.5, "bbox": [3, 4, 37, 26]}
                for n in (0, 1, 2, "a", "a.jpg", "000001")]  # fmt: skip
        (folder / "found.json").write_text(json.dumps(rows))
        names = [{"id": n, "name": "car"} for n in range(1, 4)]
        images = [{"id": n, "file_name": name} for n, name in enumerate(IMAGES, start=1)]
        (folder / "names.json").write_text(json.dumps({"categories": names, "images": images}))
        model = random_head(make_model(label="car"))
        assert model.head is not None
        head = replace(model.head, grouping=shipped_grouping())
        save(replace(model, head=head), folder / "car.safetensors")

    @classmethod
    def names(cls) -> list[str]:
        """All that is fuzzed, by name; what takes longest to begin comes first."""
        every = [name for own in (Commands, Readers) for name in vars(own)]
        return [name for name in every if not name.startswith("_") and name != "names"]

    def _run(self, *words: str | Path) -> None:
        """Run a command in the folder; AnnotationError where it ends with a code, as it should."""
        said = io.StringIO()
        quick = mock.patch.object(cli, "app", _app())
        quiet = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
        with contextlib.chdir(self.folder), quick, quiet[0], quiet[1]:
            code = cli.run([str(word) for word in words])
        assert cli.ADVICE not in said.getvalue(), said.getvalue()[:5000]
        if code:
            raise AnnotationError(f"{words[0]} ended with {code}")

    def request(self, content: bytes) -> None:
        """A request to the page's server: a line, headers, and a body after an empty line."""
        status, body = _served(content)
        assert status < 500, body[:500]
        if status >= 400:
            raise AnnotationError(f"answered {status}")

    def detect(self, content: bytes) -> None:
        """An image, with pictures, in a budget that lets only small ones be searched."""
        image = self._file(content, "photos/input.png")
        words = ["--memory", "120", "--threshold", "0", "--cores", "1", "-q", "-o", "out"]
        self._run("detect", "car.safetensors", image, *words)

    def train(self, content: bytes) -> None:
        """Annotations to learn from, in the least time, by one method or another."""
        scenes = self.folder / "scenes"
        if not scenes.is_dir():
            scenes.mkdir()
            for n, truth in enumerate(tiny_scenes()[:6]):
                write_image(scenes / f"{n}.png", truth.source)
        labels = self._file(content, "labels.json")
        code = zlib.crc32(content)
        small = {"blocks": 24, "updates": 1, "rounds": 1, "mining_images": 4, "per_image": 9,
                 "iterations": 3, "stop": 0, "store_bytes": 1 << 20}  # fmt: skip
        words = [word for k, v in small.items() for word in ("--set", f"{k}={v}")]
        words += ["--preset", PRESETS[code % len(PRESETS)], *(["--fast"] if code % 4 else [])]
        words += ["--class", "car", "--images", "scenes", "--cores", "1", "-q"]
        self._run("train", labels, *words, "-o", "made.safetensors")

    def see(self, content: bytes) -> None:
        """The results of another detector, with what is visible of them."""
        results = self._file(content, "results.json")
        words = ["--model", "car.safetensors", "--categories", "names.json", "--cores", "1", "-q"]
        self._run("see", results, *IMAGES, "-o", "seen.json", *words)

    def check(self, content: bytes) -> None:
        """Annotations before training."""
        data = self._annotations(content, "voc" if content[:1] == b"<" else "coco")
        words = ["--class", "car", "--cores", "1", "-q"]
        self._run("check", data, *words, *([] if data.is_dir() else ["--images", "."]))

    def convert(self, content: bytes) -> None:
        """Annotations of any format, to one of the others."""
        kind = _kind(content)
        formats = [name for name, one in FORMATS.items() if one.writer and name != "voc"]
        to = formats[zlib.crc32(content) % len(formats)]
        suffix = {"coco": ".json", "bdd": ".json", "crowdhuman": ".odgt", "mot": ".txt"}.get(to, "")
        target = self.folder / f"converted{suffix or to}"
        data, words = self._annotations(content, kind), ["--to", to, "--format", kind, "-q"]
        self._run("convert", data, target, *words, *([] if kind == "voc" else ["--images", "."]))

    def truth(self, content: bytes) -> None:
        """Annotations that results are measured against, with a report now and then."""
        kind, code = _kind(content), zlib.crc32(content)
        data, words = self._annotations(content, kind), ["--format", kind, "--json", "-q"]
        if code % 64 == 0:
            words += ["-o", "report"]
        if code % 3 == 0:
            words += ["--by", GROUPS[code // 64 % len(GROUPS)]]
        self._run("evaluate", self.folder / "found.json", "--truth", data, *words)

    def evaluate(self, content: bytes) -> None:
        """Results of any format, measured on annotations of two images."""
        name = "results.json" if content.lstrip()[:1] in (b"[", b"{") else "found/1.txt"
        file = self._file(content, name)
        kind = ("voc", "mot", "kitti", "crowdhuman")[zlib.crc32(content) % 4]
        place = file if kind != "kitti" or name == "results.json" else file.parent
        if name == "found/1.txt" and kind == "voc":
            place = file.rename(file.with_name("comp3_det_val_car.txt"))
            self._made.clear()
        self._run("evaluate", place, "--truth", self.folder / "truth.json", "--json", "-q")

    def suppression(self, content: bytes) -> None:
        """The results of another detector, suppressed by one method after another."""
        source, code = self._file(content), zlib.crc32(content)
        words = ["-o", "kept.json", "--method", METHODS[code % len(METHODS)], "-q"]
        # Half of the inputs as if they had too many pieces to be taken apart.
        most = 10 if code // 8 % 2 else solve.MOST_PIECES
        with mock.patch.object(solve, "MOST_PIECES", most):
            self._run("suppress", source, *words)

    def arrays(self, content: bytes) -> None:
        """Bytes as the arrays that Python gives: pixels to describe, and masks to suppress."""
        padded = content[:6000].ljust(2000, b"\0")
        side = int((len(padded) // 3) ** 0.5)
        pixels = np.frombuffer(padded, np.uint8, 3 * side * side).reshape(side, side, 3)
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)
        for descriptor in (Hog(6), Hog(6, interpolate=False), Fhog(8)):
            assert np.isfinite(descriptor(planes)).all()
        flags = np.unpackbits(np.frombuffer(padded, np.uint8, 1200))
        masks, grids = flags.reshape(6, 40, 40) > 0, flags[:600].reshape(6, 10, 10) > 0
        scores = np.frombuffer(padded, np.uint8, 6) / 255
        corner = pixels[0, :6, :2].astype(np.float64)
        windows = np.hstack([corner, corner + 1 + pixels[1, :6, :2]])
        bounds = np.empty(6, np.float32)
        block_bounds(grids.astype(np.float32), scores, ~grids, bounds)
        halfseen.Detector(make_model("BL"), cores=1).detect(pixels, -1.5)
        halfseen.suppress_masks(masks, scores, method="voting", overlap=0.1, measure="smaller")
        for method in METHODS:
            halfseen.suppress_masks(masks, scores, method=method)
            halfseen.suppress_masks(grids, scores, windows=windows, method=method)

    def _annotations(self, content: bytes, kind: str) -> Path:
        """Write annotations where a format has them; return the path that its reader is given."""
        if kind == "voc":
            top = self.folder / "voc"
            self._file(b"1\n", "voc/ImageSets/Main/val.txt")
            self._file(b"1\n", "voc/ImageSets/Main/train.txt")
            self._file(content, "voc/Annotations/1.xml")
            if not (top / "JPEGImages").is_dir():
                (top / "JPEGImages").mkdir()
                write_image(top / "JPEGImages" / "1.jpg", make_image("1", []).source)
            return top
        if kind == "citypersons" and content.startswith(b"MATLAB"):
            return self._file(content, "labels.mat")
        name = {"citypersons": "folder/a_gtBboxCityPersons.json", "crowdhuman": "labels.odgt",
                "mot": "gt.txt"}.get(kind, "folder/a.txt")  # fmt: skip
        if kind in ("coco", "cocoa", "bdd"):
            return self._file(content, "labels.json")
        file = self._file(content, name)
        return file.parent if name.startswith("folder") else file


@lru_cache(maxsize=1)
def _app() -> Any:
    """The command line, which typer would otherwise make anew for every input."""
    return typer.main.get_command(cli.app)


def _kind(content: bytes) -> str:
    """The format that annotations look like."""
    start = content[:4096].lstrip()
    for mark, kind in (
        (b"MATLAB", "citypersons"), (b"<", "voc"), (b"% bbGt", "caltech"), (b"[", "bdd"),
    ):  # fmt: skip
        if start.startswith(mark):
            return kind
    for mark, kind in (
        (b'"gtboxes"', "crowdhuman"), (b'"regions"', "cocoa"), (b'"objects"', "citypersons"),
        (b"{", "coco"),
    ):  # fmt: skip
        if mark in start:
            return kind
    commas = start.partition(b"\n")[0].count(b",")
    return "kitti" if not commas else "mot" if commas > 7 else "visdrone"


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
