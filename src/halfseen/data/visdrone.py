"""VisDrone's annotations: a folder of text files, one an image, one object a line.

`x,y,width,height,score,category,truncation,occlusion`, 0-based. Category 0 is an ignored region for
every class, and a score of 0 an object to ignore. Truncation is 0 or 1; occlusion 0 none, 1 partly
(to half), 2 heavily.
"""

from __future__ import annotations

from pathlib import Path

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder, check_classes, files_in, output_names
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import Object, at, corners, flag, integer, objects_of, read_lines, xywh
from halfseen.errors import AnnotationError

CLASSES = (
    "ignored region", "pedestrian", "people", "bicycle", "car", "van", "truck", "tricycle",
    "awning-tricycle", "bus", "motor", "others",
)  # fmt: skip
NEIGHBOURS = {"*": (CLASSES[0],)}


def read_visdrone(
    path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS
) -> Dataset:
    """Read a folder of annotations; `images` is the folder of `<id>.jpg`."""
    folder = ImageFolder(images, limits)
    found = Gathered(limits)
    for file in files_in(path, ".txt"):
        with found.leaving_out():
            objects = []
            for n, line in read_lines(file, limits):
                with at(f"{file}, line {n}"):
                    objects.append(_object(line.strip().rstrip(",").split(",")))
            found.add(file.stem, *folder.find(file.stem), objects)
    return found.dataset(path, neighbours=NEIGHBOURS)


def _object(fields: list[str]) -> Object:
    if len(fields) != 8:
        raise AnnotationError(f"expected 8 fields with commas between, found {len(fields)}")
    category = integer(fields[5], "category", 0, len(CLASSES) - 1)
    truncated = flag(fields[6], "truncation")
    level = integer(fields[7], "occlusion", -1, 2)
    return Object(
        CLASSES[category],
        corners(fields[:4], "box"),
        ignore=category == 0 or not flag(fields[4], "score"),
        truncated=truncated,
        occluded=level > 0,
        level=level,
    )


def write_visdrone(dataset: Dataset, path: FilePath) -> None:
    """Write a folder of annotations; AnnotationError for a class that VisDrone does not have."""
    check_classes(dataset, "VisDrone", CLASSES)
    folder = Path(path)
    for name, truth in zip(output_names(dataset, folder), dataset, strict=True):
        text = "".join(f"{_line(one)}\n" for one in objects_of(truth))
        write_atomically(folder / f"{name}.txt", text.encode())


def _line(one: Object) -> str:
    level = one.level if one.level >= 0 else int(one.occluded)
    numbers = (int(not one.ignore), CLASSES.index(one.label), int(one.truncated), level)
    return ",".join(map(str, (*xywh(one.box), *numbers)))
