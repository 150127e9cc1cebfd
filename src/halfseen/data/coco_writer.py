"""Writing a data set as a COCO annotation file; `coco.read_coco` reads it back the same."""

from __future__ import annotations

import json
import math
from pathlib import Path

from halfseen.data import rle
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import check_size
from halfseen.data.objects import Object, Row, objects_of, xywh
from halfseen.ground_truth import GroundTruth


def write_coco(dataset: Dataset, path: FilePath) -> None:
    """Write an annotation file, masks included.

    What COCO lacks stands in the fields that `coco` names. Images keep their ids, as numbers where
    they are numbers. AnnotationError where the size of an image is not known.
    """
    numbers: dict[str, int | str] = {label: key for key, label in dataset.categories.items()}
    if not numbers.keys() >= set(dataset.classes):
        numbers = {label: n for n, label in enumerate(dataset.classes, start=1)}
    images: list[Row] = []
    annotations: list[Row] = []
    for truth in dataset:
        image = image_row(truth)
        images.append(image)
        for k, one in enumerate(objects_of(truth)):
            row = _row(one, truth, k)
            row |= {"id": len(annotations) + 1, "image_id": image["id"]}
            row |= {"category_id": numbers[one.label]}
            annotations.append(row)
    categories = [{"id": key, "name": label} for label, key in numbers.items()]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_atomically(path, (json.dumps(content, allow_nan=False) + "\n").encode())


def image_row(truth: GroundTruth) -> Row:
    """One of COCO's `images`; AnnotationError where the size is not known."""
    check_size(truth)
    name = Path(truth.source).name if isinstance(truth.source, str) else ""
    height, width = truth.size
    name = name or f"{truth.image}.png"
    return {"id": as_id(truth.image), "file_name": name, "height": height, "width": width}


def as_id(image: str) -> int | str:
    """An id as a number where it is the same text as that number, else as text."""
    plain = image.isascii() and image.isdigit() and (image == "0" or image[0] != "0")
    return int(image) if plain else image


def _row(one: Object, truth: GroundTruth, k: int) -> Row:
    x1, y1, x2, y2 = one.whole
    area = (x2 - x1) * (y2 - y1) if math.isnan(one.area) else one.area
    row: Row = {"bbox": xywh(one.whole), "area": area, "iscrowd": int(one.crowd)}
    height, width = truth.size
    if one.box != one.whole or min(x1, y1, width - x2, height - y2) < 0:  # else `bbox` is both
        row["vis_bbox"] = xywh(one.box)
    if not math.isnan(one.visible_fraction):
        row["vis_ratio"] = one.visible_fraction
    if one.ignore:
        row["ignore"] = 1
    if one.identity >= 0:
        row["track_id"] = one.identity
    about: Row = {"occluded": one.occluded, "truncated": one.truncated}
    if one.difficult != one.crowd:
        about["difficult"] = one.difficult
    if one.level >= 0:
        about["occlusion_level"] = one.level
    if not math.isnan(one.truncation):
        about["truncation"] = one.truncation
    row["attributes"] = about
    stored = truth.segmentation(k)
    if stored is not None:
        row["segmentation"] = stored
    elif (mask := truth.mask(k)) is not None:
        row["segmentation"] = rle.encode(mask)
    return row
