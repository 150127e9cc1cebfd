"""What is visible of another detector's COCO results: fields that are added to each of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from halfseen.collection.photo import Photo
from halfseen.collection.writers import image_id
from halfseen.compute.map import map_images
from halfseen.data import rle
from halfseen.data.coco import read_results, write_results
from halfseen.data.files import FilePath
from halfseen.data.limits import LIMITS
from halfseen.data.objects import at, is_id, load_json
from halfseen.detections import Detections
from halfseen.errors import AnnotationError, HalfseenError, SettingsError, suggest
from halfseen.geometry import Boxes
from halfseen.refine.detector import Detector

Row = dict[str, Any]
FIELDS = ("visible_fraction", "vis_bbox", "a_bbox", "visible_segmentation")
"""What is added, beside `segmentation` where a result has none."""

VOC_NAMES = {
    "airplane": "aeroplane", "couch": "sofa", "dining table": "diningtable",
    "motorcycle": "motorbike", "potted plant": "pottedplant", "tv": "tvmonitor",
}  # fmt: skip
"""What VOC, and so the shipped models, calls classes of COCO."""


@dataclass(frozen=True)
class Categories:
    """What a results file leaves out, from a COCO file: names of classes, and of images.

    labels  of the categories, by their numbers
    images  the keys of images (see `image_key`) by the stems of their files, where they are listed
    """

    labels: dict[Any, str]
    images: dict[str, str] = field(default_factory=dict)


@dataclass
class Account:
    """What became of the results of a file.

    seen      have the new fields
    without   reasons why others have not, and how many each
    problems  one line for each image that could not be read, or was not given
    """

    seen: int = 0
    without: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def see_file(
    source: FilePath,
    target: FilePath,
    photos: Iterable[Photo],
    detector: Detector,
    categories: Categories,
    **options: Any,
) -> Account:
    """Read a COCO results file, write it with what is visible of each result, and account for all.

    `options` are those of `map_images`. Nothing is written if the file is malformed.
    """
    rows = read_results(source)
    for n, row in enumerate(rows):
        taken = next((name for name in FIELDS if name in row), None)
        if taken is not None:
            raise AnnotationError(
                f"{source}: result {n}: {taken}: is there already, and would be replaced; rename it"
            )
    account = see_results(rows, photos, detector, categories, **options)
    write_results(target, rows)
    return account


def see_results(
    rows: Sequence[Row],
    photos: Iterable[Photo],
    detector: Detector,
    categories: Categories,
    **options: Any,
) -> Account:
    """Add to COCO results, in place, what is visible of them; account for all of them.

    `visible_fraction`      of the blocks of the object's window; None where it is not known
    `vis_bbox`, `a_bbox`    [x, y, width, height] of the visible part, and of the whole object
    `segmentation`          run lengths of the mask; of results that have one already it is
    `visible_segmentation`
    """
    account = Account()
    known = {model.label for model in detector.models}
    images: dict[str, list[tuple[Row, str]]] = {}
    for row in rows:
        row["visible_fraction"] = None
        label = categories.labels.get(row["category_id"], "")
        label = label if label in known else VOC_NAMES.get(label, "")
        if label in known:
            images.setdefault(image_key(row["image_id"]), []).append((row, label))
        else:
            account.without["of classes without a model"] += 1
    wanted: dict[str, Photo] = {}
    for photo in photos:
        stem = PurePath(photo.name).stem
        key = categories.images.get(stem, image_key(stem))
        if key in wanted:
            raise SettingsError(
                f"{wanted[key]} and {photo}: results cannot tell images of one name apart; give "
                "one folder"
            )
        if key in images:
            wanted[key] = photo
    absent = [key for key in images if key not in wanted]
    account.problems += [f'image "{key:.60}" is not among those given' for key in absent]
    account.without["of images that were not given"] += sum(len(images[key]) for key in absent)
    work = [(photo, images[key]) for key, photo in wanted.items()]
    for one in map_images(_See(detector), work, **options):
        account.seen += one.seen
        account.without += one.without
        account.problems += one.problems
    return account


class _See:
    """The work on one image. Used by several threads at once, each on other rows."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector

    def __call__(self, item: tuple[Photo, list[tuple[Row, str]]]) -> Account:
        photo, pairs = item
        account = Account()
        try:
            image = photo.pixels()
            size = image.shape[0], image.shape[1]
            with at(photo):
                boxes = np.array([_corners(row, size) for row, _ in pairs])
            found = self.detector.see(image, boxes, [label for _, label in pairs])
        except HalfseenError as error:
            account.problems.append(str(error))
            account.without["of images that failed"] += len(pairs)
            return account
        for n, (row, _) in enumerate(pairs):
            if found.blocks[n].size:
                row |= _fields(found, n, bool(row.get("segmentation")))
                account.seen += 1
            else:
                account.without["that no window reaches"] += 1
        return account


def _fields(found: Detections, n: int, has_mask: bool) -> Row:
    mask = "visible_segmentation" if has_mask else "segmentation"
    return {
        "visible_fraction": round(float(found.visible_fraction[n]), 4),
        "vis_bbox": _sides(found.visible[n]),
        "a_bbox": _sides(found.full[n]),
        mask: rle.encode(found.mask(n)),
    }


def _sides(box: Boxes) -> list[float]:
    """[x, y, width, height] in hundredths of a pixel."""
    return [round(value, 2) for value in (*box[:2].tolist(), *(box[2:] - box[:2]).tolist())]


def _corners(row: Row, size: tuple[int, int]) -> list[float]:
    """The box of a result; of one without, that around its mask."""
    if "bbox" in row:
        x, y, width, height = map(float, row["bbox"])
        if not math.isfinite(x + width) or not math.isfinite(y + height):
            raise AnnotationError(f"bbox: expected finite corners, found {row['bbox']!r:.80}")
        return [x, y, x + width, y + height]
    return [float(side) for side in rle.read_runs(row["segmentation"], size).box]


def image_key(name: int | str) -> str:
    """What an image is known by: its number, or else its name."""
    return str(image_id(str(name)))


def read_categories(path: FilePath, rename: Mapping[str, str] | None = None) -> Categories:
    """Read a COCO annotation file, or a list of categories such as `halfseen detect` writes.

    rename  other names of classes; AnnotationError, or SettingsError for one that is not there
    """
    content = load_json(path, LIMITS)
    file = content if isinstance(content, dict) else {"categories": content}
    labels: dict[Any, str] = {}
    for n, row in enumerate(_rows(path, file, "categories")):
        if not is_id(row.get("id")) or not isinstance(row.get("name"), str):
            raise AnnotationError(f"{path}: categories[{n}]: expected an id and a name")
        labels[row["id"]] = row["name"]
    names = rename or {}
    for old in names:
        if old not in labels.values():
            raise SettingsError(f"{path}: no class '{old}'; {suggest(old, labels.values())}")
    images = {
        PurePath(row["file_name"]).stem: image_key(row["id"])
        for row in (_rows(path, file, "images") if "images" in file else [])
        if isinstance(row.get("file_name"), str) and is_id(row.get("id"))
    }
    return Categories({key: names.get(name, name) for key, name in labels.items()}, images)


def _rows(path: FilePath, content: Row, name: str) -> list[Row]:
    rows = content.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise AnnotationError(f"{path}: {name}: expected a list of objects")
    return rows


def categories_beside(source: Path, categories: Path | None) -> Path:
    """The file of categories: as given, or the one beside the results; SettingsError if none."""
    path = source.parent / "categories.json" if categories is None else categories
    if not path.is_file():
        found = f"no {path}" if categories is None else f"{path}: no such file"
        raise SettingsError(
            f"{found}; results have numbers for classes: name a COCO file with --categories FILE"
        )
    return path
