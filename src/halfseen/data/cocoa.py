"""COCOA, COCO's amodal annotations: JSON whose annotations are images, each with `regions`.

A region's `segmentation` is the outline of the whole object, [x1, y1, x2, y2, ...]; `visible_mask`
has the run lengths of what is visible where something hides it, and `occlude_rate` the hidden
share. Regions of stuff (`isStuff`) are left out. The class is the region's free `name`. Written
outlines are the corners of whole boxes, which is all that we know of what is hidden.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data import rle
from halfseen.data.boxes import Box, check_box
from halfseen.data.coco import Segmentations
from halfseen.data.coco_writer import image_row
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import (
    NAN,
    Object,
    Row,
    at,
    flag,
    integer,
    is_id,
    load_json,
    number,
    objects_of,
    plain,
)
from halfseen.errors import AnnotationError
from halfseen.ground_truth import GroundTruth


def read_cocoa(path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS) -> Dataset:
    """Read a COCOA file; `images` is the folder of COCO's photographs."""
    folder = ImageFolder(images, limits)
    file = Path(path)
    content = load_json(file, limits)
    rows = content.get("annotations") if isinstance(content, dict) else None
    listed = content.get("images", []) if isinstance(content, dict) else None
    if not isinstance(rows, list) or not isinstance(listed, list):
        raise AnnotationError(f"{file}: expected an object with images and annotations")
    about = {row["id"]: row for row in listed if isinstance(row, dict) and is_id(row.get("id"))}
    found = Gathered(limits)
    for n, row in enumerate(rows):
        with found.leaving_out(f"{file}: annotations[{n}]"):
            if not isinstance(row, dict) or not is_id(row.get("image_id")):
                raise AnnotationError("image_id: expected an id of an image")
            image = about.get(row["image_id"], {})
            name = image.get("file_name", str(row["image_id"]))
            regions = row.get("regions")
            if not isinstance(name, str) or not isinstance(regions, list):
                raise AnnotationError(f"regions: expected a list, found {regions!r:.40}")
            if len(regions) > limits.objects:
                raise AnnotationError(
                    f"{len(regions)} objects exceed the limit of {limits.objects}"
                )
            source, size = folder.find(name, _size(image, limits))
            objects, shown = [], []
            for k, region in enumerate(regions):
                with at(f"regions[{k}]"):
                    one = _object(region, limits)
                    if one is not None:
                        objects.append(one)
                        shown.append(region)
            masks = _masks(file, shown, size, limits) if all(size) else None
            found.add(str(row["image_id"]), source, size, objects, masks)
    return found.dataset(file)


def _size(image: Row, limits: Limits) -> tuple[int, int] | None:
    if "height" not in image or "width" not in image:
        return None
    height, width = (integer(image[side], side, 1, 10**8) for side in ("height", "width"))
    if height * width > limits.pixels:
        raise AnnotationError(f"width, height: their product exceeds {limits.pixels:,}")
    return height, width


def _object(region: Any, limits: Limits) -> Object | None:
    label = region.get("name") if isinstance(region, dict) else None
    if not isinstance(label, str) or not label.strip():
        raise AnnotationError(f"name: expected a text, found {label!r:.40}")
    if flag(region.get("isStuff", 0), "isStuff"):
        return None
    full = _bounds(region.get("segmentation"))
    rate = region.get("occlude_rate")
    hidden = NAN if rate is None else number(rate, "occlude_rate", 0.0, 1.0)
    box = full
    if region.get("visible_mask"):
        with at("visible_mask"):
            x1, y1, x2, y2 = rle.read_runs(region["visible_mask"], None, limits).box.tolist()
            box = (x1, y1, x2, y2) if x2 > x1 else full
    return Object(label.strip(), box, full, occluded=hidden > 0, visible_fraction=1 - hidden)


def _bounds(outline: Any) -> Box:
    try:
        points = np.asarray(outline, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        points = np.zeros(0)
    if points.ndim != 1 or points.size < 6 or points.size % 2 or not np.isfinite(points).all():
        raise AnnotationError("segmentation: expected at least three corners [x1, y1, x2, y2, ...]")
    (x1, y1), (x2, y2) = points.reshape(-1, 2).min(axis=0), points.reshape(-1, 2).max(axis=0)
    box = (float(x1), float(y1), float(x2), float(y2))
    with at("segmentation"):
        check_box(box)
    return box


def _masks(file: Path, regions: list[Row], size: tuple[int, int], limits: Limits) -> Segmentations:
    """The visible pixels: those of the whole outline only where nothing hides any of it."""
    rows = tuple(
        region.get("visible_mask")
        or (None if region.get("occlude_rate") else [region["segmentation"]])
        for region in regions
    )
    places = tuple(f"{file}: region '{region['name']:.40}'" for region in regions)
    return Segmentations(rows, size, places, limits)


def write_cocoa(dataset: Dataset, path: FilePath) -> None:
    """Write a COCOA file; AnnotationError where the size of an image is not known."""
    images = [image_row(truth) for truth in dataset]
    annotations = [
        {"id": n, "image_id": image["id"], "regions": _regions(truth)}
        for n, (image, truth) in enumerate(zip(images, dataset, strict=True), start=1)
    ]
    content = {"images": images, "annotations": annotations}
    write_atomically(path, (json.dumps(content, allow_nan=False) + "\n").encode())


def _regions(truth: GroundTruth) -> list[Row]:
    regions = []
    for k, one in enumerate(objects_of(truth)):
        x1, y1, x2, y2 = map(plain, one.whole)
        outline = [x1, y1, x2, y1, x2, y2, x1, y2]
        row: Row = {"name": one.label, "segmentation": outline, "isStuff": 0}
        if not math.isnan(one.visible_fraction):
            row["occlude_rate"] = 1 - one.visible_fraction
        mask = truth.mask(k)
        if mask is None and one.box != one.whole:
            mask = np.zeros(truth.size, bool)
            left, top = (max(math.floor(end), 0) for end in one.box[:2])
            mask[top : math.ceil(one.box[3]), left : math.ceil(one.box[2])] = True
        if mask is not None:
            row["visible_mask"] = rle.encode(mask)
        regions.append(row)
    return regions
