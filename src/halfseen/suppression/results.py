"""Suppression of another detector's COCO results, image by image and category by category."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from halfseen.data.coco import read_results, write_results
from halfseen.data.files import FilePath
from halfseen.data.rle import Runs, read_runs
from halfseen.errors import AnnotationError
from halfseen.suppression.candidates import Interpretation
from halfseen.suppression.others import suppress_boxes, suppress_masks

# Pixels from the corner beyond which nothing of an image can lie.
FARTHEST = 1e9
MOST = 100_000
"""Results of one image: more take longer than anybody would wait."""
MOST_RUNS = 4_000_000
"""Runs of the masks of one image, and of all images beyond RUNS for each result: each takes memory
and time, and a polygon of four corners has one for each column that it spans."""
RUNS = 1000
Row = dict[str, Any]
Progress = Callable[[int, int], None]
"""`progress(done, total)`, in images."""


def suppress_file(
    source: FilePath, target: FilePath, *, progress: Progress | None = None, **settings: Any
) -> tuple[int, int]:
    """Reads a COCO results file, suppresses, and writes another; how many results were and are.

    `settings` are those of `suppress_results`. Nothing is written if anything is wrong.
    """
    rows = read_results(source)
    try:
        kept = suppress_results(rows, progress=progress, **settings)
    except AnnotationError as error:
        raise AnnotationError(f"{source}: {error}") from None
    write_results(target, kept)
    return len(rows), len(kept)


def suppress_results(
    rows: Iterable[Row],
    *,
    rescore: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> list[Row]:
    """The results that remain, images in order of appearance, best first within an image.

    By the masks of `segmentation`; a result without one counts as its whole `bbox`. `settings` are
    those of `suppress_masks`, or where no result has a mask, those of `suppress_boxes`. rescore:
    `score` becomes the method's rank; False leaves it.
    """
    images: dict[Any, list[Row]] = {}
    masks = False
    for row in rows:
        images.setdefault(row["image_id"], []).append(row)
        masks = masks or bool(row.get("segmentation"))
    if masks:  # one method for all images, though some may have boxes alone
        settings = {"method": "covering", "overlap": 0.5, **settings}
    kept = []
    runs = 0
    for done, (image, own) in enumerate(images.items()):
        if len(own) > MOST:
            raise AnnotationError(
                f"image {image}: expected at most {MOST:,} results, found {len(own):,}; "
                "leave out those of low score"
            )
        try:
            own_masks = _Masks(own) if any(row.get("segmentation") for row in own) else None
            chosen = _suppress_image(own, own_masks, settings)
            if own_masks is not None:
                runs += own_masks.runs - RUNS * len(own)
            if runs > MOST_RUNS:
                raise AnnotationError(_too_many(f"{RUNS:,} for each result"))
        except AnnotationError as error:
            raise AnnotationError(f"image {image}: {error}") from None
        for i, rank in zip(chosen.indices, chosen.rank, strict=True):
            kept.append({**own[i], "score": float(rank)} if rescore else own[i])
        if progress is not None:
            progress(done + 1, len(images))
    return kept


def _too_many(most: str) -> str:
    return f"its masks have more runs of pixels than {most}; shrink them, or leave some out"


def _suppress_image(
    rows: list[Row], masks: _Masks | None, settings: dict[str, Any]
) -> Interpretation:
    scores = [row["score"] for row in rows]
    labels = [row["category_id"] for row in rows]
    if masks is None:
        boxes = [_corners(row["bbox"]) for row in rows]
        return suppress_boxes(boxes, scores, labels=labels, **settings)
    return suppress_masks(masks, scores, labels=labels, **settings)


class _Masks:
    """The masks of an image's results, one after another, and how many runs they had so far."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.runs = 0

    def __iter__(self) -> Iterator[Runs]:
        size = _image_size(self.rows)
        for number, row in enumerate(self.rows):
            segmentation = row.get("segmentation") or _rectangle(_corners(row["bbox"]), size)
            try:
                mask = read_runs(segmentation, size)
            except AnnotationError as error:
                raise AnnotationError(f"mask {number}: {error}") from None
            self.runs += len(mask.first)
            if self.runs > MOST_RUNS:
                raise AnnotationError(_too_many(f"{MOST_RUNS:,}"))
            yield mask


def _rectangle(box: list[float], size: tuple[int, int]) -> list[list[float]]:
    """A box as a polygon around at least one pixel of the image, unless the box has no area."""
    ends = []
    for low, high, side in zip(box[:2], box[2:], size[::-1], strict=True):
        first = min(max(round(low), 0), side - 1)
        ends.append((first, max(min(round(high), side), first + (high > low))))
    (x1, x2), (y1, y2) = ends
    return [[x1, y1, x2, y1, x2, y2, x1, y2]]


def _image_size(rows: list[Row]) -> tuple[int, int]:
    """(height, width): what run lengths say, else just enough for all polygons and boxes."""
    height = width = 1.0
    for row in rows:
        segmentation = row.get("segmentation")
        if isinstance(segmentation, dict):
            size = segmentation.get("size")
            if isinstance(size, list) and len(size) == 2 and all(type(s) is int for s in size):
                if min(size) < 1:
                    raise AnnotationError(f"size: expected [height, width] above 0, found {size}")
                return size[0], size[1]
        for polygon in segmentation or ():
            numbers = polygon if isinstance(polygon, list) else []
            # Compared, not converted: whole numbers of JSON may be too large for a float.
            if not all(type(n) in (int, float) and abs(n) <= FARTHEST for n in numbers):
                raise AnnotationError("segmentation: expected polygons of finite numbers")
            width = max([width, *numbers[0::2]])
            height = max([height, *numbers[1::2]])
        if "bbox" in row:
            x2, y2 = _corners(row["bbox"])[2:]
            width, height = max(width, x2), max(height, y2)
    return math.ceil(height), math.ceil(width)


def _corners(bbox: list[float]) -> list[float]:
    x, y, width, height = bbox
    corners = [x, y, x + width, y + height]
    if max(map(abs, corners)) > FARTHEST:
        raise AnnotationError(
            f"bbox: expected corners at most {FARTHEST:g} pixels away, found {bbox!r:.80}"
        )
    return corners
