"""KITTI's label_2: a folder of text files, one an image, one object a line.

`type truncated occluded alpha left top right bottom`, then seven numbers of the object in space
that are not read, and in results a score. Boxes are 0-based corners. `truncated` is a share 0..1,
-1 unknown; `occluded` is 0 visible, 1 partly, 2 largely hidden, 3 (or -1) unknown. `DontCare` is
a region that KITTI ignores for every class; vans count as neither among cars, and people who sit
among pedestrians.
"""

from __future__ import annotations

import math
from pathlib import Path

from halfseen.data.boxes import Box, check_box
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder, files_in, output_names
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import NAN, Object, at, integer, number, objects_of, plain, read_lines
from halfseen.errors import AnnotationError

DONT_CARE = "DontCare"
NEIGHBOURS = {
    "*": (DONT_CARE,),
    "Car": ("Van", DONT_CARE),
    "Pedestrian": ("Person_sitting", DONT_CARE),
}
_SPACE = "-1 -1 -1 -1000 -1000 -1000 -10"  # dimensions, place and angle that are not known


def read_kitti(path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS) -> Dataset:
    """Read a folder of labels; `images` is the folder of `<id>.png`, else sizes are unknown."""
    folder = ImageFolder(images, limits)
    found = Gathered(limits)
    for file in files_in(path, ".txt"):
        with found.leaving_out():
            objects = []
            for line_number, line in read_lines(file, limits):
                with at(f"{file}, line {line_number}"):
                    objects.append(parse_object(line.split()))
            found.add(file.stem, *folder.find(file.stem), objects)
    return found.dataset(path, neighbours=NEIGHBOURS)


def parse_object(fields: list[str]) -> Object:
    """Return the object of one line's fields."""
    if not 15 <= len(fields) <= 16:
        raise AnnotationError(f"expected 15 fields, or 16 with a score, found {len(fields)}")
    truncation = number(fields[1], "truncated", -1, 1)
    level = integer(fields[2], "occluded", -1, 3)
    left, top, right, bottom = (number(text, "box") for text in fields[4:8])
    box: Box = (left, top, right, bottom)
    with at("box"):
        check_box(box)
    return Object(
        fields[0],
        box,
        truncation=NAN if truncation < 0 else truncation,
        truncated=truncation > 0,
        level=-1 if level == 3 else level,
        occluded=level in (1, 2),
        ignore=fields[0] == DONT_CARE,
    )


def write_kitti(dataset: Dataset, path: FilePath) -> None:
    """Write a folder of label files.

    An object that is truncated or occluded by an unknown share is written as truncated 1
    ("truncated") or occluded 1 ("partly").
    """
    folder = Path(path)
    for name, truth in zip(output_names(dataset, folder), dataset, strict=True):
        text = "".join(f"{_line(one)}\n" for one in objects_of(truth))
        write_atomically(folder / f"{name}.txt", text.encode())


def _line(one: Object) -> str:
    if one.ignore:
        label, truncation, level = DONT_CARE, -1.0, -1
    else:
        label = "_".join(one.label.split())
        truncation = float(one.truncated) if math.isnan(one.truncation) else one.truncation
        level = one.level if one.level >= 0 else 1 if one.occluded else 3
    box = " ".join(str(plain(value)) for value in one.box)
    return f"{label} {plain(truncation)} {level} -10 {box} {_SPACE}"
