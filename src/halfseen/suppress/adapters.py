"""Detections of other packages, in and out. None of those packages is imported or needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import as_boxes
from halfseen.suppress.masks import suppress_masks


def from_numpy(
    boxes: ArrayLike,
    scores: ArrayLike,
    labels: ArrayLike | None = None,
    size: tuple[int, int] | None = None,
) -> Detections:
    """Detections from (N, 4) boxes x1 y1 x2 y2 and (N,) scores, with all of each box visible.

    size is the image's (height, width); by default just enough to hold the boxes.
    """
    box = as_boxes(boxes)
    score = np.asarray(scores, dtype=np.float64).reshape(-1)
    count = len(score)
    label = np.zeros(count, np.str_) if labels is None else np.asarray(labels).astype(np.str_)
    if len(box) != count or label.shape != (count,):
        raise SettingsError(
            f"boxes, scores and labels must be as many, found {len(box)}, {count}, {label.size}"
        )
    if not np.isfinite(box).all() or (box[:, 2:] <= box[:, :2]).any():
        raise SettingsError("boxes must be finite with x1 < x2 and y1 < y2")
    if size is None:
        x, y = np.ceil(box[:, 2:].max(axis=0, initial=1))
        size = (int(y), int(x))
    return Detections(
        score, label, np.zeros(count, np.int64), np.zeros(count, bool), box, box, box,
        tuple(np.ones((1, 1), bool) for _ in range(count)), size,
    )  # fmt: skip


def suppress_supervision(detections: Any, **settings: Any) -> Any:
    """The kept ones, best first, of a `supervision.Detections`, by its masks or else its boxes.

    `settings` are those of `suppress_masks`. Anything with xyxy, confidence, class_id and mask that
    takes an array of indices will do; the result is of the same type.
    """
    scores = detections.confidence
    if scores is None:
        raise SettingsError("supervision detections: expected confidence, found none")
    boxes = as_boxes(detections.xyxy)
    mask = detections.mask
    if mask is None:
        whole = np.ones((len(boxes), 1, 1), dtype=bool)
        kept = suppress_masks(whole, scores, labels=detections.class_id, windows=boxes, **settings)
    else:
        kept = suppress_masks(mask, scores, labels=detections.class_id, **settings)
    return detections[kept.indices]
