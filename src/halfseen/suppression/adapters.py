"""Detections of other packages, in and out. None of those packages is imported or needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppression.others import suppress_boxes, suppress_masks


def from_numpy(
    boxes: ArrayLike,
    scores: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    size: tuple[int, int] | None = None,
) -> Detections:
    """Detections from (N, 4) boxes x1 y1 x2 y2 and (N,) scores, with all of each box visible.

    Without scores, `boxes` has rows as many detectors give them: box and score, or box, score and
    class, (N, 5) or (N, 6). size is the image's (height, width); by default just enough to hold the
    boxes.
    """
    try:
        box = np.asarray(boxes, dtype=np.float64)
        if scores is None and box.ndim == 2 and box.shape[1] in (5, 6):
            if labels is None and box.shape[1] == 6:
                labels = [f"{number:g}" for number in box[:, 5]]
            box, scores = box[:, :4], box[:, 4]
        score = np.zeros(0) if scores is None else np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingsError("boxes and scores must be numbers") from None
    box = box.reshape(-1, 4) if box.size == 0 else box
    score = score.reshape(-1)
    if box.ndim != 2 or box.shape[1] != 4:
        raise SettingsError(
            f"boxes must have shape (N, 4), found {box.shape};"
            " of rows of box, score and class pass rows[:, :4], rows[:, 4] and rows[:, 5]"
        )
    if scores is None and len(box):
        raise SettingsError("from_numpy: expected scores beside boxes of 4 numbers, found none")
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


def to_supervision(found: Detections, *, masks: bool = False) -> Any:
    """Our detections as a `supervision.Detections`: boxes cut to the image, and names of classes.

    confidence is the probability where it is known, else the score. masks: also their masks, each
    as large as the image.
    """
    try:
        from supervision import Detections as Theirs
    except ImportError:
        raise SettingsError("to_supervision needs supervision: pip install supervision") from None
    known = found.probability
    names, number = np.unique(found.label, return_inverse=True)
    every = np.array([found.mask(i) for i in range(len(found))]) if masks and len(found) else None
    return Theirs(
        xyxy=found.clipped,
        mask=every,
        confidence=found.score if known is None else np.where(np.isnan(known), found.score, known),
        class_id=number.reshape(-1),
        data={"class_name": names[number.reshape(-1)]},
    )


def suppress_supervision(detections: Any, **settings: Any) -> Any:
    """The kept ones, best first, of a `supervision.Detections`, by its masks or else its boxes.

    `settings` are those of `suppress_masks` or `suppress_boxes`. Anything with xyxy, confidence,
    class_id and mask that takes an array of indices will do; the result is of the same type.
    """
    for name in ("xyxy", "confidence", "class_id", "mask", "__getitem__"):
        if not hasattr(detections, name):
            raise SettingsError(
                "suppress_supervision: expected supervision's Detections, found"
                f" {type(detections).__name__}; for arrays of boxes or masks call"
                " hs.suppress_boxes or hs.suppress_masks"
            )
    scores, labels = detections.confidence, detections.class_id
    if scores is None:
        raise SettingsError("supervision detections: expected confidence, found none")
    if detections.mask is None:
        kept = suppress_boxes(detections.xyxy, scores, labels=labels, **settings)
    else:
        kept = suppress_masks(detections.mask, scores, labels=labels, **settings)
    return detections[kept.indices]
