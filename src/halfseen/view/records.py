"""Detections as plain records, for files and web pages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.data import rle
from halfseen.detections import Detections

Record = dict[str, Any]


def records(found: Detections) -> list[Record]:
    """One JSON object a detection, best first.

    Boxes are [x1, y1, x2, y2] in pixels, 0-based and half-open. `visibility` has one text a row of
    blocks, 1 where a block is visible, over the pixels of `window`; so has `figure`, 1 where a
    block shows the object rather than its background or what hides it, where that is known; that
    may be so where `visibility` has 0. `probability` is there for models that are calibrated.
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
            "visibility": _texts(found.visibility[i]),
        }
        for i in range(len(found))
    ]
    if found.probability is not None:
        for row, known in zip(rows, found.probability, strict=True):
            if not math.isnan(known):
                row["probability"] = float(f"{known:.4g}")
    if found.figure is not None:
        for row, grid in zip(rows, found.figure, strict=True):
            row["figure"] = _texts(grid)
    return rows


def coco_rows(found: Detections, image_id: int | str, categories: dict[str, int]) -> list[Record]:
    """COCO results: the whole object's box within the image, and the mask of what is seen of it."""
    boxes = found.clipped
    return [
        {
            "image_id": image_id,
            "category_id": categories[str(found.label[i])],
            "bbox": _numbers([x1, y1, x2 - x1, y2 - y1]),
            "score": float(found.score[i]),
            "segmentation": rle.encode(found.mask(i)),
        }
        for i, (x1, y1, x2, y2) in enumerate(boxes)
    ]


def _texts(grid: NDArray[np.bool_]) -> list[str]:
    return ["".join("01"[flag] for flag in row) for row in grid.tolist()]


def _numbers(values: Any) -> list[float]:
    """Hundredths of a pixel say enough of a box."""
    return [round(float(value), 2) for value in values]
