"""CrowdHuman's annotations (.odgt): one JSON object a line and image.

`fbox` is the whole person, `vbox` what is visible, each [x, y, width, height], 0-based; `fbox` may
leave the image. A region of `tag` mask holds people that nobody annotated: it is read as an ignored
crowd of class person, a person with `extra.ignore` as ignored alone. Heads (`hbox`) are not read.
The visible fraction is the area of `vbox` over that of `fbox`.
"""

from __future__ import annotations

import json
from typing import Any

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import (
    Object,
    Row,
    at,
    corners,
    flag,
    integer,
    objects_of,
    parse_json,
    read_text,
    xywh,
)
from halfseen.errors import AnnotationError

PERSON, MASK = "person", "mask"


def read_crowdhuman(
    path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS
) -> Dataset:
    """Read an .odgt file. `images` is the folder of `<ID>.jpg`; sizes are unknown without it."""
    folder = ImageFolder(images, limits)
    found = Gathered(limits)
    for number, line in enumerate(read_text(path, limits.json_bytes).splitlines(), start=1):
        if line.strip():
            with found.leaving_out(f"{path}, line {number}"):
                row = parse_json(line)
                name = row.get("ID") if isinstance(row, dict) else None
                if not isinstance(name, str) or not name.strip():
                    raise AnnotationError(f"ID: expected a text, found {name!r:.40}")
                boxes = row.get("gtboxes")
                if not isinstance(boxes, list):
                    raise AnnotationError(f"gtboxes: expected a list, found {boxes!r:.40}")
                objects = []
                for k, box in enumerate(boxes):
                    with at(f"gtboxes[{k}]"):
                        objects.append(_object(box))
                found.add(name, *folder.find(name), objects)
    return found.dataset(path)


def _object(row: Any) -> Object:
    if not isinstance(row, dict) or not isinstance(row.get("tag"), str):
        raise AnnotationError(f"tag: expected an object with a tag, found {row!r:.40}")
    extra = row.get("extra") or {}
    if not isinstance(extra, dict):
        raise AnnotationError(f"extra: expected an object, found {extra!r:.40}")
    full = corners(row.get("fbox"), "fbox")
    box = corners(row["vbox"], "vbox", empty=True) if "vbox" in row else full
    mask = row["tag"] == MASK
    one = Object(
        PERSON if mask else row["tag"],
        box,
        full,
        crowd=mask,
        ignore=mask or flag(extra.get("ignore", 0), "extra.ignore"),
        occluded=flag(extra.get("occ", 0), "extra.occ"),
        identity=integer(extra.get("box_id", -1), "extra.box_id", -1),
    )
    if "vbox" in row:
        one.visible_fraction = one.area_ratio
    return one


def write_crowdhuman(dataset: Dataset, path: FilePath) -> None:
    """Write an .odgt file."""
    lines = [
        json.dumps({"ID": truth.image, "gtboxes": [_row(one) for one in objects_of(truth)]})
        for truth in dataset
    ]
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def _row(one: Object) -> Row:
    extra: Row = {}
    if one.ignore:
        extra["ignore"] = 1
    if one.occluded:
        extra["occ"] = 1
    if one.identity >= 0:
        extra["box_id"] = one.identity
    mask = one.crowd and one.ignore
    row: Row = {"tag": MASK if mask else one.label, "fbox": xywh(one.whole), "extra": extra}
    if one.visible_fraction == one.visible_fraction or one.box != one.whole:
        row["vbox"] = xywh(one.box)
    return row
