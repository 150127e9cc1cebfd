"""Detections as plain records, for files and web pages."""

from __future__ import annotations

import math
from typing import Any

from halfseen.data import rle
from halfseen.detections import Detections

Record = dict[str, Any]

LETTERS = ".hgo"
"""One for each `Block`, in the order of their values."""


def records(found: Detections) -> list[Record]:
    """One JSON object a detection, best first.

    Boxes are [x1, y1, x2, y2] in pixels, 0-based and half-open. `blocks` has one text a row of
    blocks, over the pixels of `window`, one letter a block (`LETTERS`): o for the object, g for its
    ground, h for hidden, and . outside the image. `probability` is there for models that are
    calibrated.
    """
    fractions = found.visible_fraction
    rows: list[Record] = [
        {
            "label": str(found.label[i]),
            "score": float(found.score[i]),
            "full": _numbers(found.full[i]),
            "visible": _numbers(found.visible[i]),
            "visible_fraction": round(float(fractions[i]), 4),
            "component": int(found.component[i]),
            "mirrored": bool(found.mirrored[i]),
            "window": _numbers(found.window[i]),
            "blocks": [
                "".join(LETTERS[block] for block in row) for row in found.blocks[i].tolist()
            ],
        }
        for i in range(len(found))
    ]
    return _with_probability(rows, found)


def _with_probability(rows: list[Record], found: Detections) -> list[Record]:
    """The rows, with the probabilities that are known."""
    if found.probability is not None:
        for row, known in zip(rows, found.probability, strict=True):
            if not math.isnan(known):
                row["probability"] = float(f"{known:.4g}")
    return rows


def coco_rows(found: Detections, image_id: int | str, categories: dict[str, int]) -> list[Record]:
    """COCO results: the whole object's box within the image, and the mask of what is seen of it.

    Of calibrated models they also have a `probability`, which COCO's readers pass over.
    """
    boxes = found.clipped
    rows = [
        {
            "image_id": image_id,
            "category_id": categories[str(found.label[i])],
            "bbox": _numbers([x1, y1, x2 - x1, y2 - y1]),
            "score": float(found.score[i]),
            "segmentation": rle.encode(found.mask(i)),
        }
        for i, (x1, y1, x2, y2) in enumerate(boxes)
    ]
    return _with_probability(rows, found)


def _numbers(values: Any) -> list[float]:
    """Hundredths of a pixel say enough of a box."""
    return [round(float(value), 2) for value in values]
