"""BDD100K's detection labels: a JSON list of frames, each with `labels` that hold a `box2d`.

Corners `x1 y1 x2 y2` are 0-based and inclusive. `attributes` has `occluded` and `truncated`, and
`crowd` in newer files. Labels without a box (lanes, areas) are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from halfseen.data.boxes import Box, check_box
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import Object, Row, at, flag, load_json, number, objects_of, plain
from halfseen.errors import AnnotationError

ENDS = ("x1", "y1", "x2", "y2")


def read_bdd(path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS) -> Dataset:
    """Read a file of frames; `images` is the folder that their names lie in."""
    folder = ImageFolder(images, limits)
    found = Gathered(limits)
    frames = load_json(path, limits)
    if isinstance(frames, dict):
        frames = frames.get("frames")
    if not isinstance(frames, list):
        raise AnnotationError(f"{path}: expected a list of frames, found {frames!r:.40}")
    for n, frame in enumerate(frames):
        with found.leaving_out(f"{path}: frame {n}"):
            name = frame.get("name") if isinstance(frame, dict) else None
            if not isinstance(name, str) or not name.strip():
                raise AnnotationError(f"name: expected a text, found {name!r:.40}")
            rows = frame.get("labels") or []
            if not isinstance(rows, list):
                raise AnnotationError(f"labels: expected a list, found {rows!r:.40}")
            objects = []
            for k, row in enumerate(rows):
                with at(f"labels[{k}]"):
                    one = _object(row)
                    if one is not None:
                        objects.append(one)
            found.add(Path(name).stem, *folder.find(name), objects)
    return found.dataset(path)


def _object(row: Any) -> Object | None:
    if not isinstance(row, dict):
        raise AnnotationError(f"expected an object, found {row!r:.40}")
    place, label = row.get("box2d"), row.get("category")
    if place is None:
        return None
    if not isinstance(label, str) or not label.strip():
        raise AnnotationError(f"category: expected a text, found {label!r:.40}")
    if not isinstance(place, dict):
        raise AnnotationError(f"box2d: expected an object, found {place!r:.40}")
    x1, y1, x2, y2 = (number(place.get(end), f"box2d.{end}") for end in ENDS)
    box: Box = (x1, y1, x2 + 1, y2 + 1)
    with at("box2d"):
        check_box(box)
    about = row.get("attributes") or {}
    if not isinstance(about, dict):
        raise AnnotationError(f"attributes: expected an object, found {about!r:.40}")
    occluded, truncated, crowd = (
        flag(about.get(name, 0), f"attributes.{name}")
        for name in ("occluded", "truncated", "crowd")
    )
    return Object(label, box, occluded=occluded, truncated=truncated, crowd=crowd)


def write_bdd(dataset: Dataset, path: FilePath) -> None:
    """Write a file of frames."""
    frames = [
        {
            "name": f"{truth.image}.jpg",
            "labels": [_row(k, one) for k, one in enumerate(objects_of(truth))],
        }
        for truth in dataset
    ]
    write_atomically(path, (json.dumps(frames) + "\n").encode())


def _row(k: int, one: Object) -> Row:
    x1, y1, x2, y2 = one.box
    inclusive = (x1, y1, x2 - 1, y2 - 1)
    about = {"occluded": one.occluded, "truncated": one.truncated}
    if one.crowd:
        about["crowd"] = True
    box = dict(zip(ENDS, map(plain, inclusive), strict=True))
    return {"id": str(k), "category": one.label, "attributes": about, "box2d": box}
