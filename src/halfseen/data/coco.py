"""COCO JSON: annotations of data sets, also with what is visible, and files of results.

COCO's boxes are [x, y, width, height], 0-based; ours are their half-open corners. Beyond COCO, an
annotation may hold what several data sets and tools add:

- `vis_bbox` (or `bbox_vis`) and `vis_ratio` (CityPersons): then `bbox` is the whole object and may
  leave the image;
- `a_bbox` with `i_bbox`, or `inmodal_bbox` (KINS): the whole object, and what is visible of it;
- `attributes` (CVAT), or fields of its own: `occluded`, `truncated`, `difficult`, `track_id`, and
  `occlusion_level` 0..2 and `truncation` 0..1; `ignore`. Label Studio exports none but `ignore`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.arrays import Bool, Int64
from halfseen.data import rle
from halfseen.data.boxes import fit_box
from halfseen.data.coco_writer import write_coco
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, inside, write_atomically
from halfseen.data.gather import Gathered
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import (
    Object,
    Row,
    at,
    corners,
    flag,
    integer,
    is_finite,
    is_id,
    load_json,
    number,
)
from halfseen.errors import AnnotationError

__all__ = ["read_coco", "read_results", "write_coco", "write_results"]

# Names of the visible box: CityPersons, trackers of CrowdHuman, KINS. The first wins.
VISIBLE = ("vis_bbox", "bbox_vis", "i_bbox", "inmodal_bbox")


def read_coco(path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS) -> Dataset:
    """Read the images of a COCO annotation file, in its order; each is named by its id as text.

    images  the folder of the images; by default that of the file. An image is looked for at once if
            a folder is given, else when its pixels are read: evaluation does not need them.

    A crowd (`iscrowd`) is also marked difficult: it is neither a positive nor a negative. Masks,
    from polygons or run lengths, are made when asked for.

    An absent image, or one with a faulty annotation, is left out and named in `problems`: its other
    boxes would make negatives of the faulty one. A box that exceeds the image by a pixel at most is
    cut to it. AnnotationError when the file itself is not COCO's, or no image is left.
    """
    file = Path(path)
    folder = file.parent if images is None else Path(images)
    if images is not None and not folder.is_dir():
        raise AnnotationError(f"{folder}: no such folder; expected the images of {file}")
    content = load_json(file, limits)
    if not isinstance(content, dict):
        raise AnnotationError(f"{file}: expected an object with images, annotations and categories")
    labels = _labels(file, _rows(file, content, "categories"), limits)
    found = Gathered(limits)
    listed: dict[Any, tuple[Row, list[Row]]] = {}
    for n, row in enumerate(_rows(file, content, "images")):
        if not is_id(row.get("id")) or row["id"] in listed:
            found.left_out(f"{file}: images[{n}]: id: missing, malformed or used before")
        else:
            listed[row["id"]] = (row, [])
    for n, row in enumerate(_rows(file, content, "annotations")):
        image_id = row.get("image_id")
        if is_id(image_id) and image_id in listed:
            listed[image_id][1].append(row)
        else:
            found.left_out(
                f"{file}: annotation {row.get('id', f'number {n}')!s:.40}: "
                f"image_id: {image_id!r:.40} is not a listed image"
            )
    for image_id, (row, of_image) in listed.items():
        with found.leaving_out(f"{file}: image {image_id!s:.80}"):
            if len(of_image) > limits.objects:
                raise AnnotationError(
                    f"{len(of_image)} objects exceed the limit of {limits.objects}"
                )
            size = _image_size(row, limits)
            source = _source(row, folder, images is not None)
            objects = [_object(annotation, size, labels) for annotation in of_image]
            masks = Segmentations.of(file, of_image, size, limits)
            found.add(str(row["id"]), source, size, objects, masks)
    return found.dataset(file, tuple(labels.values()), categories=labels)


def read_results(path: FilePath, limits: Limits = LIMITS) -> list[Row]:
    """Return the rows of a COCO results file, checked, otherwise as they are.

    Each has image_id, category_id, a finite score, and a bbox, a segmentation or both.
    """
    file = Path(path)
    rows = load_json(file, limits)
    if not isinstance(rows, list):
        raise AnnotationError(f"{file}: expected a list of results, found {_kind(rows)}")
    for n, row in enumerate(rows):
        _check_result(f"{file}: result {n}", row)
    return rows


def write_results(path: FilePath, rows: Iterable[Row]) -> None:
    """Write a COCO results file; numpy's numbers and pycocotools' bytes are made plain first."""
    file = Path(path)
    try:
        plain_rows = json.loads(json.dumps(list(rows), default=_plain))
        for n, row in enumerate(plain_rows):
            _check_result(f"{file}: result {n}", row)
        write_atomically(file, json.dumps(plain_rows, allow_nan=False).encode())
    except OSError as error:
        raise AnnotationError(f"{file}: cannot be written: {error.strerror}") from None
    except ValueError as error:
        raise AnnotationError(f"{file}: results that JSON cannot hold: {error}") from None


@dataclass(frozen=True)
class Segmentations:
    """The masks of an image's objects from their COCO segmentations, made when asked for."""

    rows: tuple[Any, ...]
    size: tuple[int, int]
    places: tuple[str, ...]
    limits: Limits

    @classmethod
    def of(
        cls, file: Path, rows: list[Row], size: tuple[int, int], limits: Limits
    ) -> Segmentations:
        """The masks of what is visible: KINS's own field, else COCO's."""
        shown = tuple(
            row.get("i_segm") or row.get("inmodal_seg") or row.get("segmentation") for row in rows
        )
        places = tuple(f"{file}: annotation {row.get('id')!s:.40}" for row in rows)
        return cls(shown, size, places, limits)

    def __call__(self, i: int) -> Bool | None:
        if not self.rows[i]:
            return None
        with at(f"{self.places[i]}: segmentation"):
            return rle.as_mask(self.rows[i], self.size, self.limits)

    def known(self, objects: Int64) -> Bool:
        """Of each object, whether it has a mask."""
        return np.array([bool(self.rows[i]) for i in objects], bool)

    def segmentation(self, i: int) -> Any:
        """The segmentation of object i as it is, once it was checked; None where there is none."""
        if not self.rows[i]:
            return None
        with at(f"{self.places[i]}: segmentation"):
            rle.check(self.rows[i], self.size, self.limits)
        return self.rows[i]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("ascii")
    if hasattr(value, "tolist"):
        return value.tolist()
    raise AnnotationError(f"results: cannot write a {_kind(value)} as JSON")


def _kind(value: Any) -> str:
    return type(value).__name__


def _rows(file: Path, content: Row, name: str) -> list[Row]:
    rows = content.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise AnnotationError(f"{file}: {name}: expected a list of objects, found {_kind(rows)}")
    return rows


def _labels(file: Path, categories: list[Row], limits: Limits) -> dict[Any, str]:
    labels: dict[Any, str] = {}
    used: set[str] = set()
    for n, row in enumerate(categories):
        place = f"{file}: categories[{n}]"
        if not is_id(row.get("id")) or row["id"] in labels:
            raise AnnotationError(f"{place}: id: missing, malformed or used before")
        name = row.get("name")
        if not isinstance(name, str) or not name.strip() or name in used:
            raise AnnotationError(f"{place}: name: missing, malformed or used before")
        if len(name) > limits.label_chars:
            raise AnnotationError(f"{place}: name: longer than {limits.label_chars} characters")
        labels[row["id"]] = name
        used.add(name)
    return labels


def _source(row: Row, folder: Path, needed: bool) -> str:
    """The path of an image; if it is needed, AnnotationError where it is not there."""
    name = row.get("file_name", row.get("im_name"))
    source = inside(folder, name) if isinstance(name, str) else None
    if needed and source is None:
        long = f" of {len(name):,} characters" if isinstance(name, str) and len(name) > 80 else ""
        raise AnnotationError(
            f"file_name: expected a path inside {folder}, found {name!r:.80}{long}"
        )
    if needed and source is not None and not source.is_file():
        raise AnnotationError(
            f"file_name: no such file: {source}; give the folder of the images, --images FOLDER"
        )
    return "" if source is None else str(source)


def _image_size(row: Row, limits: Limits) -> tuple[int, int]:
    for name in ("height", "width"):
        if type(row.get(name)) is not int or row[name] < 1:
            raise AnnotationError(
                f"{name}: expected an integer from 1, found {row.get(name)!r:.40}"
            )
    height, width = row["height"], row["width"]
    if height * width > limits.pixels:
        raise AnnotationError(f"width, height: their product exceeds {limits.pixels:,}")
    return height, width


def _object(row: Row, size: tuple[int, int], labels: dict[Any, str]) -> Object:
    with at(f"annotation {row.get('id')!s:.40}"):
        category, segmentation = row.get("category_id"), row.get("segmentation")
        if not is_id(category) or category not in labels:
            raise AnnotationError(f"category_id: {category!r:.40} is not a listed category")
        if not isinstance(segmentation, (list, dict, type(None))):
            raise AnnotationError(f"segmentation: expected polygons or run lengths, "
                                  f"found {_kind(segmentation)}")  # fmt: skip
        crowd = flag(row.get("iscrowd", 0), "iscrowd")
        visible = next((name for name in VISIBLE if row.get(name) is not None), None)
        if visible is None:
            full = corners(row.get("bbox"), "bbox")
            with at("bbox"):
                box = full = fit_box(full, size)
        else:
            whole = "a_bbox" if row.get("a_bbox") is not None else "bbox"
            full = corners(row.get(whole), whole)
            box = corners(row[visible], visible, empty=True)
        about = row.get("attributes")
        if not isinstance(about, dict):
            about = {}

        def said(name: str, default: Any) -> Any:
            return about.get(name, row.get(name, default))

        return Object(
            labels[category], box, full,
            crowd=crowd,
            difficult=flag(said("difficult", crowd), "difficult"),
            occluded=flag(said("occluded", 0), "occluded"),
            truncated=flag(said("truncated", 0), "truncated"),
            ignore=flag(row.get("ignore", 0), "ignore"),
            visible_fraction=_measure(row.get("vis_ratio"), "vis_ratio", 1.0),
            truncation=_measure(said("truncation", None), "truncation", 1.0),
            area=_measure(row.get("area"), "area", math.inf),
            level=integer(said("occlusion_level", -1), "occlusion_level", -1, 2),
            identity=integer(said("track_id", -1), "track_id", -1),
        )  # fmt: skip


def _measure(value: Any, name: str, most: float) -> float:
    return float("nan") if value is None else number(value, name, 0.0, most)


def _check_result(place: str, row: Any) -> None:
    if not isinstance(row, dict):
        raise AnnotationError(f"{place}: expected an object, found {_kind(row)}")
    for name in ("image_id", "category_id"):
        if not is_id(row.get(name)):
            raise AnnotationError(f"{place}: {name}: expected an id, found {row.get(name)!r:.40}")
    if not is_finite(row.get("score")):
        raise AnnotationError(f"{place}: score: expected a number, found {row.get('score')!r:.40}")
    if "bbox" not in row and not row.get("segmentation"):
        raise AnnotationError(f"{place}: expected a bbox or a segmentation, found neither")
    if "bbox" in row:
        bbox = row["bbox"]
        if not isinstance(bbox, list) or len(bbox) != 4 or not all(map(is_finite, bbox)):
            raise AnnotationError(
                f"{place}: bbox: expected [x, y, width, height], found {bbox!r:.80}"
            )
        if bbox[2] < 0 or bbox[3] < 0:
            raise AnnotationError(f"{place}: bbox: width and height are negative or reversed")
    if not isinstance(row.get("segmentation", []), (list, dict)):
        raise AnnotationError(f"{place}: segmentation: expected polygons or run lengths")
