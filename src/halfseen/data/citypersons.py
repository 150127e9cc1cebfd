"""CityPersons: Cityscapes' JSON files, one an image, and the authors' .mat files.

JSON has `objects` with `label`, `bbox` and `bboxVis`; a row of `bbs` in .mat is class, x, y, width,
height, instance, and the same four of the visible box. Both are taken as 0-based. Pedestrians are
what is evaluated; the other classes, and class 0, count as neither. The visible fraction is the
ratio of the boxes' areas. The JSON in COCO's layout (`vis_bbox`, `vis_ratio`) is read by `coco`.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, read_bounded, write_atomically
from halfseen.data.gather import (
    Gathered,
    ImageFolder,
    check_classes,
    check_size,
    files_in,
    output_names,
)
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import (
    Object,
    Row,
    at,
    corners,
    integer,
    load_json,
    objects_of,
    stem,
    xywh,
)
from halfseen.errors import AnnotationError

CLASSES = (
    "ignore", "pedestrian", "rider", "sitting person", "person (other)", "person group",
)  # fmt: skip
NEIGHBOURS = {"pedestrian": (CLASSES[0], *CLASSES[2:])}
ENDING = "_gtBboxCityPersons.json"
PICTURE = "_leftImg8bit"


def read_citypersons(
    path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS
) -> Dataset:
    """Read a folder of Cityscapes' JSON files, or of such folders of cities, or one .mat file."""
    folder = ImageFolder(images, limits)
    found = Gathered(limits)
    if Path(path).is_file():
        for n, (name, rows) in enumerate(_cells(Path(path), limits)):
            with found.leaving_out(f"{path}: image {n + 1}"):
                objects = []
                for k, row in enumerate(rows):
                    with at(f"bbs row {k + 1}"):
                        objects.append(_from_mat(row))
                short = name.removesuffix(".png").removesuffix(PICTURE)
                found.add(short, *_find(folder, short), objects)
        return found.dataset(path, neighbours=NEIGHBOURS)
    for file in sorted(Path(path).glob(f"*/*{ENDING}")) or files_in(path, ".json"):
        name = stem(file, ENDING).removesuffix(".json")
        with found.leaving_out(file):
            content = load_json(file, limits)
            if not isinstance(content, dict) or not isinstance(content.get("objects"), list):
                raise AnnotationError("expected imgHeight, imgWidth and a list of objects")
            height, width = (
                integer(content.get(side), side, 1, limits.pixels)
                for side in ("imgHeight", "imgWidth")
            )
            objects = []
            for k, row in enumerate(content["objects"]):
                with at(f"objects[{k}]"):
                    objects.append(_from_json(row))
            source, _ = _find(folder, name, (height, width))
            found.add(name, source, (height, width), objects)
    return found.dataset(path, neighbours=NEIGHBOURS)


def _find(
    folder: ImageFolder, name: str, size: tuple[int, int] | None = None
) -> tuple[str, tuple[int, int]]:
    """The path and size of an image, which may be in the folder of its city."""
    city = name.partition("_")[0]
    in_city = folder.folder is not None and (folder.folder / city).is_dir()
    return folder.find(f"{city}/{name}{PICTURE}.png" if in_city else f"{name}{PICTURE}", size)


def _from_json(row: Any) -> Object:
    label = row.get("label") if isinstance(row, dict) else None
    if not isinstance(label, str) or not label.strip():
        raise AnnotationError(f"label: expected a text, found {label!r:.40}")
    identity = integer(row.get("instanceId", -1), "instanceId", -1)
    return _object(label, row.get("bbox"), row.get("bboxVis"), identity, "bbox", "bboxVis")


def _from_mat(row: list[float]) -> Object:
    label = CLASSES[integer(row[0], "class", 0, len(CLASSES) - 1)]
    identity = integer(row[5], "instance", -1)
    return _object(label, row[1:5], row[6:10], identity, "x y w h", "visible x y w h")


def _object(label: str, full: Any, visible: Any, identity: int, *names: str) -> Object:
    one = Object(
        label, corners(visible, names[1], empty=True), corners(full, names[0]),
        ignore=label == CLASSES[0], identity=identity,
    )  # fmt: skip
    one.visible_fraction = one.area_ratio
    return one


# Run in a process of its own: damaged files can crash scipy's parser.
PARSER = """
import io, json, sys
import numpy as np
from scipy.io import loadmat
try:
    found = loadmat(io.BytesIO(sys.stdin.buffer.read()), squeeze_me=True, struct_as_record=False)
    (cells,) = (value for name, value in found.items() if not name.startswith("__"))
    rows = [
        (str(cell.im_name), np.asarray(cell.bbs, np.float64).reshape(-1, 10).tolist())
        for cell in np.atleast_1d(cells)
    ]
except Exception as error:
    sys.exit(" ".join(str(error).split()) or type(error).__name__)
print(json.dumps(rows))
"""
PARSER_SECONDS = 60
MAT_BYTES = 4 << 20  # once inflated, all variables; CityPersons' own has 2 MB


def _cells(file: Path, limits: Limits) -> list[tuple[str, list[list[float]]]]:
    """(image name, rows of `bbs`) of each cell of the one variable of a .mat file."""
    try:
        content = _inflate(read_bounded(file, limits.results_bytes), limits)
        run = subprocess.run(
            [sys.executable, "-c", PARSER],
            input=content,
            capture_output=True,
            timeout=PARSER_SECONDS,
            check=False,
        )
        reason = run.stderr.decode(errors="replace").strip()[-200:] or "its bytes crash the parser"
        if run.returncode == 0:
            return [(str(name), rows) for name, rows in json.loads(run.stdout)]
    except (zlib.error, ValueError) as error:
        reason = str(error)
    except subprocess.TimeoutExpired:
        reason = f"not read in {PARSER_SECONDS} s"
    raise AnnotationError(
        f"{file}: expected one variable of cells with im_name and bbs of 10 columns: {reason}"
    )


def _inflate(content: bytes, limits: Limits) -> bytes:
    """The .mat file with its compressed variables inflated, no further than the limit."""
    most = min(MAT_BYTES, limits.results_bytes)
    parts, place, total = [content[:128]], 128, 0
    while place + 8 <= len(content):
        kind, size = np.frombuffer(content[place : place + 8], "<u4").tolist()
        body = content[place + 8 : place + 8 + size]
        if kind == 15:  # a compressed variable
            body = zlib.decompressobj().decompress(body, most + 1 - total)
            parts.append(body)
        else:
            parts.append(content[place : place + 8 + size])
        total += len(body)
        if total > most:
            raise ValueError(f"its variables exceed the limit of {most:,} bytes")
        place += 8 + size
    return b"".join(parts)


def write_citypersons(dataset: Dataset, path: FilePath) -> None:
    """Write a .mat file where the path ends so, else a folder of Cityscapes' JSON files."""
    if Path(path).suffix == ".mat":
        _write_mat(dataset, path)
        return
    folder = Path(path)
    for truth in dataset:
        check_size(truth)
    for name, truth in zip(output_names(dataset, folder), dataset, strict=True):
        rows = [_row(one) for one in objects_of(truth)]
        content = {"imgHeight": truth.size[0], "imgWidth": truth.size[1], "objects": rows}
        write_atomically(folder / f"{name}{ENDING}", json.dumps(content, indent=1).encode())


def _row(one: Object) -> Row:
    return {
        "instanceId": one.identity,
        "label": one.label,
        "bbox": xywh(one.whole),
        "bboxVis": xywh(one.box),
    }


def _write_mat(dataset: Dataset, path: FilePath) -> None:
    from scipy.io import savemat

    check_classes(dataset, "CityPersons", CLASSES)
    cells = np.empty((1, len(dataset)), dtype=object)
    for n, truth in enumerate(dataset):
        rows = []
        for one in objects_of(truth):
            numbers = [CLASSES.index(one.label), *xywh(one.whole), one.identity, *xywh(one.box)]
            rows.append([float(value) for value in numbers])
        name, city = f"{truth.image}{PICTURE}.png", truth.image.partition("_")[0]
        bbs = np.array(rows, np.float64).reshape(-1, 10)
        cells[0, n] = {"cityname": city, "im_name": name, "bbs": bbs}
    out = io.BytesIO()
    savemat(out, {"anno_aligned": cells}, do_compression=True)
    write_atomically(path, out.getvalue())
