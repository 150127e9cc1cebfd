"""The table of annotation formats: which are read and written, and how to tell them apart."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, read_most
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import AnnotationError, SettingsError, suggest

WhichBoxes = Literal["whole", "visible"]
_PEEK = 65_536  # bytes of a file that are enough to tell its format


@dataclass(frozen=True)
class Format:
    """One annotation format.

    about    what it is, for a person
    boxes    which boxes its protocol compares: whole objects, or their visible extent
    module   of halfseen.data; its functions are imported when used
    reader, writer   their names
    """

    name: str
    about: str
    boxes: WhichBoxes
    module: str
    reader: str
    writer: str

    def read(self) -> Callable[..., Dataset]:
        return cast(Callable[..., Dataset], self._function(self.reader))

    def write(self) -> Callable[..., None]:
        return cast(Callable[..., None], self._function(self.writer))

    def _function(self, name: str) -> Any:
        return getattr(importlib.import_module(f"halfseen.data.{self.module}"), name)


FORMATS = {
    one.name: one
    for one in (
        Format("voc", "PASCAL VOC folder", "visible", "voc", "read_voc", "write_voc"),
        Format("coco", "COCO JSON, also of CityPersons and KINS", "whole", "coco", "read_coco",
               "write_coco"),
        Format("cocoa", "COCO amodal JSON", "whole", "cocoa", "read_cocoa", "write_cocoa"),
        Format("crowdhuman", "CrowdHuman .odgt", "whole", "crowdhuman", "read_crowdhuman",
               "write_crowdhuman"),
        Format("citypersons", "CityPersons .mat or folder of JSON", "whole", "citypersons",
               "read_citypersons", "write_citypersons"),
        Format("caltech", "Caltech bbGt folder", "whole", "caltech", "read_caltech",
               "write_caltech"),
        Format("kaist", "KAIST bbGt folder", "whole", "caltech", "read_kaist", "write_caltech"),
        Format("kitti", "KITTI label_2 folder", "visible", "kitti", "read_kitti", "write_kitti"),
        Format("mot", "MOT gt.txt or sequences", "whole", "mot", "read_mot", "write_mot"),
        Format("bdd", "BDD100K JSON", "visible", "bdd", "read_bdd", "write_bdd"),
        Format("visdrone", "VisDrone folder", "visible", "visdrone", "read_visdrone",
               "write_visdrone"),
    )
}  # fmt: skip


def find_format(name: str) -> Format:
    """Return a format by name; SettingsError, with the nearest one, if there is none."""
    if name not in FORMATS:
        raise SettingsError(f"no format '{name}'; {suggest(name, FORMATS)}")
    return FORMATS[name]


def read_dataset(
    path: FilePath,
    kind: str | None = None,
    *,
    split: str = "val",
    images: FilePath | None = None,
    limits: Limits = LIMITS,
) -> Dataset:
    """Read annotations of any known format, recognised unless `kind` says it.

    `split` is a VOC folder's list of images; `images` the folder of the others' images, whose
    absence is no fault: their sizes may then be unknown, and they cannot be shown.
    """
    chosen = guess_format(path) if kind is None else find_format(kind)
    if chosen.name == "voc":
        return chosen.read()(path, split, limits=limits)
    return chosen.read()(path, images, limits)


def write_dataset(dataset: Dataset, path: FilePath, kind: str, split: str = "val") -> None:
    """Write annotations in a format; of VOC also the images."""
    write = find_format(kind).write()
    for truth in dataset:
        for name in ("box", "full"):
            wrong = np.flatnonzero(~np.isfinite(getattr(truth, name)).all(axis=1))
            if len(wrong):
                raise AnnotationError(f"{truth.image}: {name} of object {wrong[0] + 1}: not finite")
    try:
        if kind == "voc":
            write(dataset, path, split)
        else:
            write(dataset, path)
    except OSError as error:
        raise AnnotationError(f"{path}: cannot be written: {error.strerror}") from None


def guess_format(path: FilePath) -> Format:
    """Return the format of a file or folder, from its name and its first bytes."""
    place = Path(path)
    if not place.exists():
        raise SettingsError(f"{place}: no such file or folder; expected annotations")
    kind = _of_folder(place) if place.is_dir() else _of_file(place)
    if kind is None:
        raise SettingsError(
            f"{place}: of no known format; say which with --format: {', '.join(FORMATS)}"
        )
    return FORMATS[kind]


def _of_folder(folder: Path) -> str | None:
    if any(folder.glob("gt/gt.txt")) or any(folder.glob("*/gt/gt.txt")):
        return "mot"
    files = chain(sorted(folder.glob("*.txt")), sorted(folder.glob("set*/V*/*.txt")))
    texts = next((p for p in files if p.stat().st_size), None)
    if texts is None:
        names = ("*.json", "*/*_gtBboxCityPersons.json")
        return "citypersons" if any(any(folder.glob(name)) for name in names) else "voc"
    first = _start(texts).lstrip().partition("\n")[0]
    if first.startswith("% bbGt"):
        return "caltech"
    return "visdrone" if first.count(",") >= 7 else "kitti"


def _of_file(file: Path) -> str | None:
    by_suffix = {".odgt": "crowdhuman", ".mat": "citypersons", ".txt": "mot"}
    if file.suffix.lower() != ".json":
        return by_suffix.get(file.suffix.lower())
    start = _start(file).lstrip()
    if start.startswith("[") or '"frames"' in start:
        return "bdd"
    return "cocoa" if _first_of(file, b"regions", b"category_id") == b"regions" else "coco"


def _first_of(file: Path, *keys: bytes) -> bytes | None:
    """The key that stands first in a JSON file; annotations may follow megabytes of images."""
    pattern, last = re.compile(b'"(%s)"' % b"|".join(keys)), b""
    try:
        with file.open("rb") as stream:
            while part := stream.read(_PEEK):
                if found := pattern.search(last + part):
                    return found[1]
                last = part[-20:]
    except OSError as error:
        raise AnnotationError(f"{file}: cannot be read: {error.strerror}") from None
    return None


def _start(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return read_most(stream, _PEEK).decode("utf-8-sig", "replace")
    except OSError as error:
        raise AnnotationError(f"{file}: cannot be read: {error.strerror}") from None
