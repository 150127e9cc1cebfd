"""Caltech's and KAIST's pedestrian annotations (bbGt): a folder of text files, one an image.

The files may also stand as both data sets unpack, `set06/V000/I00019.txt`: the image is then called
`set06_V000_I00019`, as Caltech's toolbox calls it.

After a first line `% bbGt version=3`, each object is `label x y w h occluded xv yv wv hv ignore
angle`: the whole box and the visible one. Coordinates are taken as they are. As in the Caltech
toolbox, an object that is not occluded is wholly visible, and one whose visible box equals the
whole one is "barely visible": fraction 0. KAIST's `occluded` is a level: 0 none, 1 partly, 2
heavily. Angles are not read.
"""

from __future__ import annotations

from pathlib import Path

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder, files_in, output_names
from halfseen.data.image import SUFFIXES
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import Object, at, corners, flag, integer, objects_of, read_lines, xywh
from halfseen.errors import AnnotationError

HEAD = "% bbGt version="
NESTED = "set*/V*/*.txt"
FIELDS = {0: 10, 1: 10, 2: 11, 3: 12}  # of a line, by version
NEIGHBOURS = {"person": ("people", "person?", "person-fa", "cyclist", "ignore")}


def read_caltech(
    path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS, *, levels: bool = False
) -> Dataset:
    """Read a folder of bbGt files; `levels` reads `occluded` as KAIST's levels."""
    folder = ImageFolder(images, limits)
    found = Gathered(limits)
    for file in sorted(Path(path).glob(NESTED)) or files_in(path, ".txt"):
        with found.leaving_out():
            objects, version = [], 0
            for n, line in read_lines(file, limits):
                with at(f"{file}, line {n}"):
                    if n == 1 and line.startswith(HEAD):
                        version = integer(line.removeprefix(HEAD), "version", 0, 3)
                    else:
                        objects.append(_object(line.split(), version, levels))
            place = file.relative_to(path).with_suffix("")
            found.add("_".join(place.parts), *_find(folder, place), objects)
    return found.dataset(path, neighbours=NEIGHBOURS)


def read_kaist(path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS) -> Dataset:
    """Read a folder of KAIST's annotations, whose `occluded` is a level."""
    return read_caltech(path, images, limits, levels=True)


def _find(folder: ImageFolder, place: Path) -> tuple[str, tuple[int, int]]:
    """The path and size of an image: in the same folders as its text, KAIST's in `visible`."""
    if folder.folder is not None and len(place.parts) > 1:
        for name in (place, place.parent / "visible" / place.name):
            for suffix in SUFFIXES:
                if (folder.folder / f"{name}{suffix}").is_file():
                    return folder.find(f"{name}{suffix}")
    return folder.find("_".join(place.parts))


def _object(fields: list[str], version: int, levels: bool) -> Object:
    if len(fields) != FIELDS[version]:
        raise AnnotationError(
            f"expected {FIELDS[version]} fields as in version {version}, found {len(fields)}"
        )
    full = corners(fields[1:5], "x y w h")
    level = integer(fields[5], "occluded", 0, 2)
    visible = corners(fields[6:10], "xv yv wv hv", empty=True)
    one = Object(
        fields[0],
        full,
        full,
        occluded=level > 0,
        level=level if levels or level == 2 else -1,
        ignore=len(fields) > 10 and flag(fields[10], "ignore"),
    )
    if level == 0:
        one.visible_fraction = 1.0
    elif visible == full:
        one.visible_fraction = 0.0
    elif any(visible):
        one.box = visible
        one.visible_fraction = one.area_ratio
    return one


def write_caltech(dataset: Dataset, path: FilePath) -> None:
    """Write a folder of bbGt files of version 3."""
    folder = Path(path)
    for name, truth in zip(output_names(dataset, folder), dataset, strict=True):
        lines = [f"{HEAD}3", *map(_line, objects_of(truth))]
        write_atomically(folder / f"{name}.txt", "".join(f"{line}\n" for line in lines).encode())


def _line(one: Object) -> str:
    visible: list[float] = [0, 0, 0, 0]
    if one.box != one.whole:
        visible = xywh(one.box)
    elif one.visible_fraction == 0:
        visible = xywh(one.whole)
    level = one.level if one.level > 0 else int(one.occluded or any(visible))
    numbers = [*xywh(one.whole), level, *visible, int(one.ignore), 0]
    return " ".join(["_".join(one.label.split()), *map(str, numbers)])
