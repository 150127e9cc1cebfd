"""COCO JSON: annotations of datasets, and files of detection results.

COCO's boxes are [x, y, width, height], 0-based; ours are their half-open corners.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from halfseen.data.boxes import Box, fit_box
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, inside, read_bounded, write_atomically
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.rle import as_mask
from halfseen.detections import Bools, GroundTruth
from halfseen.errors import AnnotationError

Row = dict[str, Any]


def read_coco(json_path: FilePath, images_folder: FilePath, limits: Limits = LIMITS) -> Dataset:
    """The images of a COCO annotation file, in its order; each is named by its COCO id as text.

    A crowd (`iscrowd`) is also marked difficult: it is neither a positive nor a negative. Masks,
    from polygons or run lengths, are made when asked for.

    An absent image, or one with a faulty annotation, is left out and told in `problems`: its other
    boxes would make negatives of the faulty one. A box that exceeds the image by a pixel at most is
    cut to it. AnnotationError when the file itself is not COCO's, or no image is left.
    """
    file, folder = Path(json_path), Path(images_folder)
    if not folder.is_dir():
        raise AnnotationError(f"{folder}: no such folder; expected the images of {file}")
    content = _load(file, limits)
    if not isinstance(content, dict):
        raise AnnotationError(f"{file}: expected an object with images, annotations and categories")
    labels = _labels(file, _rows(file, content, "categories"))
    problems: list[str] = []
    images: dict[Any, tuple[Row, list[Row]]] = {}
    for number, row in enumerate(_rows(file, content, "images")):
        if not _is_id(row.get("id")) or row["id"] in images:
            problems.append(f"{file}: images[{number}]: id: missing, malformed or used before")
        else:
            images[row["id"]] = (row, [])
    for number, row in enumerate(_rows(file, content, "annotations")):
        image_id = row.get("image_id")
        if _is_id(image_id) and image_id in images:
            images[image_id][1].append(row)
        else:
            problems.append(
                f"{file}: annotation {row.get('id', f'number {number}')}: "
                f"image_id: {image_id!r:.40} is not a listed image"
            )
    truths = []
    for image_id, (row, of_image) in images.items():
        try:
            truths.append(_truth(file, folder, row, of_image, labels, limits))
        except AnnotationError as error:
            problems.append(f"{file}: image {image_id}: {error}")
    if not truths:
        raise AnnotationError(problems[0] if problems else f"{file}: images: the list is empty")
    return Dataset(file.stem, tuple(labels.values()), tuple(truths), tuple(problems), limits)


def read_results(path: FilePath, limits: Limits = LIMITS) -> list[Row]:
    """The rows of a COCO results file, checked, otherwise as they are.

    Each has image_id, category_id, a finite score, and a bbox, a segmentation or both.
    """
    file = Path(path)
    rows = _load(file, limits)
    if not isinstance(rows, list):
        raise AnnotationError(f"{file}: expected a list of results, found {_kind(rows)}")
    for number, row in enumerate(rows):
        _check_result(f"{file}: result {number}", row)
    return rows


def write_results(path: FilePath, rows: Iterable[Row]) -> None:
    """Write a COCO results file; numpy's numbers and pycocotools' bytes are made plain first."""
    file = Path(path)
    try:
        plain = json.loads(json.dumps(list(rows), default=_plain))
        for number, row in enumerate(plain):
            _check_result(f"{file}: result {number}", row)
        write_atomically(file, json.dumps(plain, allow_nan=False).encode())
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

    def __call__(self, i: int) -> Bools | None:
        if not self.rows[i]:
            return None
        try:
            return as_mask(self.rows[i], self.size, self.limits)
        except AnnotationError as error:
            raise AnnotationError(f"{self.places[i]}: segmentation: {error}") from None


def _load(file: Path, limits: Limits) -> Any:
    content = read_bounded(file, limits.json_bytes)
    try:
        return json.loads(content, parse_constant=_no_constant)
    except RecursionError:
        raise AnnotationError(f"{file}: JSON nested too deep") from None
    except ValueError as error:
        raise AnnotationError(f"{file}: not valid JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("ascii")
    if hasattr(value, "tolist"):
        return value.tolist()
    raise AnnotationError(f"results: cannot write a {_kind(value)} as JSON")


def _kind(value: Any) -> str:
    return type(value).__name__


def _is_id(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _rows(file: Path, content: Row, name: str) -> list[Row]:
    rows = content.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise AnnotationError(f"{file}: {name}: expected a list of objects, found {_kind(rows)}")
    return rows


def _labels(file: Path, categories: list[Row]) -> dict[Any, str]:
    labels: dict[Any, str] = {}
    for number, row in enumerate(categories):
        place = f"{file}: categories[{number}]"
        if not _is_id(row.get("id")) or row["id"] in labels:
            raise AnnotationError(f"{place}: id: missing, malformed or used before")
        name = row.get("name")
        if not isinstance(name, str) or not name.strip() or name in labels.values():
            raise AnnotationError(f"{place}: name: missing, malformed or used before")
        labels[row["id"]] = name
    return labels


def _truth(
    file: Path, folder: Path, row: Row, annotations: list[Row], labels: dict[Any, str],
    limits: Limits,
) -> GroundTruth:  # fmt: skip
    size = _image_size(row, limits)
    name = row.get("file_name")
    source = inside(folder, name) if isinstance(name, str) else None
    if source is None:
        raise AnnotationError(f"file_name: expected a path inside {folder}, found {name!r:.80}")
    if not source.is_file():
        raise AnnotationError(f"file_name: no such file: {source}")
    if len(annotations) > limits.objects:
        raise AnnotationError(f"{len(annotations)} objects exceed the limit of {limits.objects}")
    objects = [_object(annotation, size, labels) for annotation in annotations]
    places = tuple(f"{file}: annotation {annotation.get('id')}" for annotation in annotations)
    segmentations = tuple(annotation.get("segmentation") for annotation in annotations)
    crowd = [crowd for _, _, crowd in objects]
    return GroundTruth.make(
        str(row["id"]), str(source), size,
        [label for label, _, _ in objects], [box for _, box, _ in objects],
        crowd=crowd, difficult=crowd,
        read_mask=Segmentations(segmentations, size, places, limits),
    )  # fmt: skip


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


def _object(row: Row, size: tuple[int, int], labels: dict[Any, str]) -> tuple[str, Box, bool]:
    try:
        category, crowd, segmentation = (
            row.get("category_id"), row.get("iscrowd", 0), row.get("segmentation"),
        )  # fmt: skip
        if not _is_id(category) or category not in labels:
            raise AnnotationError(f"category_id: {category!r:.40} is not a listed category")
        if crowd not in (0, 1):
            raise AnnotationError(f"iscrowd: expected 0 or 1, found {crowd!r:.40}")
        if not isinstance(segmentation, (list, dict, type(None))):
            raise AnnotationError(f"segmentation: expected polygons or run lengths, "
                                  f"found {_kind(segmentation)}")  # fmt: skip
        x, y, width, height = _bbox(row.get("bbox"))
        try:
            box = fit_box((x, y, x + width, y + height), size)
        except AnnotationError as error:
            raise AnnotationError(f"bbox: {error}") from None
    except AnnotationError as error:
        raise AnnotationError(f"annotation {row.get('id')}: {error}") from None
    return labels[category], box, bool(crowd)


def _bbox(value: Any) -> Box:
    if not isinstance(value, list) or len(value) != 4 or not all(map(_is_finite, value)):
        raise AnnotationError(f"bbox: expected [x, y, width, height], found {value!r:.80}")
    x, y, width, height = map(float, value)
    return x, y, width, height


def _is_finite(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _check_result(place: str, row: Any) -> None:
    if not isinstance(row, dict):
        raise AnnotationError(f"{place}: expected an object, found {_kind(row)}")
    for name in ("image_id", "category_id"):
        if not _is_id(row.get(name)):
            raise AnnotationError(f"{place}: {name}: expected an id, found {row.get(name)!r:.40}")
    if not _is_finite(row.get("score")):
        raise AnnotationError(f"{place}: score: expected a number, found {row.get('score')!r:.40}")
    if "bbox" not in row and not row.get("segmentation"):
        raise AnnotationError(f"{place}: expected a bbox or a segmentation, found neither")
    if "bbox" in row:
        try:
            width, height = _bbox(row["bbox"])[2:]
        except AnnotationError as error:
            raise AnnotationError(f"{place}: {error}") from None
        if width < 0 or height < 0:
            raise AnnotationError(f"{place}: bbox: width and height are negative or reversed")
    if not isinstance(row.get("segmentation", []), (list, dict)):
        raise AnnotationError(f"{place}: segmentation: expected polygons or run lengths")
