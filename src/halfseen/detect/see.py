"""What is visible of the boxes of any detector: the best window of each, as a detection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.arrays import Int64
from halfseen.detect.follow import follow
from halfseen.detect.view import View
from halfseen.detections import Detections
from halfseen.errors import SettingsError, suggest
from halfseen.geometry import Boxes, clip
from halfseen.model.mixture import Mixture


def check_boxes(boxes: ArrayLike) -> Boxes:
    """(N, 4) finite boxes that are not reversed, or SettingsError."""
    try:
        box = np.asarray(boxes, np.float64)
    except (TypeError, ValueError):
        raise SettingsError("boxes: expected numbers of shape (N, 4)") from None
    box = box.reshape(-1, 4) if box.size == 0 else box
    if box.ndim != 2 or box.shape[1] != 4:
        raise SettingsError(f"boxes: expected shape (N, 4), x1 y1 x2 y2; found {box.shape}")
    right = np.isfinite(box).all(axis=1) & (box[:, :2] <= box[:, 2:]).all(axis=1)
    if not right.all():
        first = int(right.argmin())
        raise SettingsError(
            f"boxes: expected finite x1 <= x2 and y1 <= y2, found {box[first].tolist()} at box "
            f"{first}; of x, y, width, height make corners first"
        )
    return box


def models_of(
    labels: str | Sequence[str] | NDArray[np.str_] | None, count: int, models: Sequence[Mixture]
) -> Int64:
    """(N,) the number of the first model of each box's label, or SettingsError.

    labels  one for each box, one for all, or None for a detector of one class
    """
    first: dict[str, int] = {}
    for m, model in enumerate(models):
        first.setdefault(model.label, m)
    if labels is None:
        if len(first) > 1:
            raise SettingsError(
                f"labels: expected one for each box, because the detector has {len(first)} classes"
            )
        return np.zeros(count, np.int64)
    names = [labels] * count if isinstance(labels, str) else list(labels)
    if len(names) != count:
        raise SettingsError(f"labels: expected {count} as boxes, found {len(names)}")
    for n, name in enumerate(names):
        if name not in first:
            raise SettingsError(
                f"labels: no model of {str(name)!r:.60}, the label of box {n}; "
                f"{suggest(str(name), first)}"
            )
    return np.array([first[name] for name in names], np.int64)


def windows_of_boxes(view: View, boxes: Boxes, model: Int64) -> tuple[Detections, Int64]:
    """The best window of its model for each box that one reaches, and which boxes these are.

    A window reaches a box as `follow` says. Its `full` is the box as given, which says better than
    a rigid template where the object ends; but beyond the image, where nobody can see it end, the
    window's own box counts as well.
    """
    found = [follow(view, box.tolist(), m) for box, m in zip(boxes, model.tolist(), strict=True)]
    reached = np.array([n for n, window in enumerate(found) if window is not None], np.int64)
    windows = [window for window in found if window is not None]
    joined = Detections.concatenate([Detections.empty(view.size), *windows])
    own, given = joined.full, boxes[reached]
    low = np.minimum(own[:, :2], given[:, :2])
    both = np.concatenate([low, np.maximum(own[:, 2:], given[:, 2:])], axis=1)
    joined.full[:] = np.where(own == clip(own, view.size), given, both)
    return joined.with_blocks(joined.blocks), reached


def in_order(
    found: Detections, reached: Int64, boxes: Boxes, model: Int64, models: Sequence[Mixture]
) -> Detections:
    """One row for each box: what was seen of those that were reached, nothing of the others."""
    rest = np.setdiff1d(np.arange(len(boxes)), reached)
    unknown = Detections(
        score=np.full(len(rest), np.nan),
        label=np.array([models[m].label for m in model[rest].tolist()], np.str_),
        component=np.full(len(rest), -1),
        mirrored=np.zeros(len(rest), bool),
        window=boxes[rest],
        full=boxes[rest],
        visible=np.full((len(rest), 4), np.nan),
        blocks=(np.zeros((0, 0), np.uint8),) * len(rest),
        size=found.size,
        model=model[rest],
    )
    order = np.argsort(np.concatenate([reached, rest]))
    return Detections.concatenate([found, unknown])[order]
