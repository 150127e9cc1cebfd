"""Average precision by COCO's definition, for boxes.

It differs from VOC's in that a detection takes the best box *still free*, that AP is the mean over
ten overlaps and over 101 recalls, that only the best 100 detections of an image count, and that
objects outside a range of areas are ignored together with unmatched detections outside it. Crowd
regions are ignored, may be matched by any number of detections, and measure overlap by the
detection's own area.

One departure: the area of an object is its box's, because boxes are all that every data set has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from halfseen.detections import Bools, Detections, Floats, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.voc_ap import BoxKind, Found, aligned, only_label
from halfseen.geometry import Boxes, area, intersection, iou_matrix

OVERLAPS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
MOST_DETECTIONS = 100
AREAS = {
    "all": (0.0, 1e10),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
Size = Literal["all", "small", "medium", "large"]


@dataclass(frozen=True, eq=False)
class COCOResult:
    """AP and best recall of one class at each overlap; NaN where no object was to be found.

    at          (10,) AP at overlaps 0.5, 0.55, ..., 0.95
    recall_at   (10,) highest recall at the same overlaps
    """

    label: str
    size: Size
    at: Floats
    recall_at: Floats
    positives: int

    @property
    def ap(self) -> float:
        """COCO's AP: the mean over the ten overlaps."""
        return float(self.at.mean())

    @property
    def ap50(self) -> float:
        return float(self.at[0])

    @property
    def ap75(self) -> float:
        return float(self.at[5])

    @property
    def recall(self) -> float:
        """COCO's AR: the mean over the ten overlaps."""
        return float(self.recall_at.mean())


def coco_average_precision(
    truth: Sequence[GroundTruth],
    found: Found,
    label: str | None = None,
    size: Size = "all",
    box: BoxKind = "full",
) -> COCOResult:
    """AP of one class by COCO's rules. Difficult objects are ignored."""
    if size not in AREAS:
        raise SettingsError(f"size must be one of {', '.join(AREAS)}, not {size!r}")
    found = aligned(truth, found)
    label = only_label(truth, found) if label is None else label
    images = [
        _match_image(here, seen, label, AREAS[size], box)
        for here, seen in zip(truth, found, strict=True)
    ]
    positives = sum(wanted for *_, wanted in images)
    missing = np.full(len(OVERLAPS), np.nan)
    if not positives:
        return COCOResult(label, size, missing, missing, 0)
    score = np.concatenate([part[0] for part in images])
    order = np.argsort(-score, kind="stable")
    right = np.concatenate([part[1] for part in images], axis=1)[:, order]
    counted = ~np.concatenate([part[2] for part in images], axis=1)[:, order]
    ap = [_mean_envelope(r[c], positives) for r, c in zip(right, counted, strict=True)]
    best = (right & counted).sum(axis=1) / positives
    return COCOResult(label, size, np.array(ap), best, positives)


def _mean_envelope(right: Bools, positives: int) -> float:
    """The mean of the precision envelope at the 101 recalls."""
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    return float(envelope[np.searchsorted(hits / positives, RECALLS)].mean())


def _match_image(
    here: GroundTruth, seen: Detections, label: str, areas: tuple[float, float], box: BoxKind
) -> tuple[Floats, Bools, Bools, int]:
    """Of one image's best detections: score (n,), right and ignored (10, n), objects wanted."""
    low, high = areas
    own = np.flatnonzero(here.label == label)
    boxes = here.box[own]
    sizes = area(boxes)
    skip = here.crowd[own] | here.difficult[own] | (sizes < low) | (sizes > high)
    order = np.argsort(skip, kind="stable")  # the objects that count come first
    boxes, skip, crowd = boxes[order], skip[order], here.crowd[own][order]

    chosen = np.flatnonzero(seen.label == label)
    chosen = chosen[np.argsort(-seen.score[chosen], kind="stable")][:MOST_DETECTIONS]
    candidates = (seen.clipped if box == "full" else seen.visible)[chosen]
    shared = _overlaps(candidates, boxes, crowd)
    sizes = area(candidates)
    outside = (sizes < low) | (sizes > high)

    right = np.zeros((len(OVERLAPS), len(chosen)), bool)
    ignored = np.tile(outside, (len(OVERLAPS), 1))
    most = shared.max(axis=1, initial=0)
    for t, least in enumerate(OVERLAPS):
        free = np.ones(len(boxes), bool)
        for i in np.flatnonzero(most >= least):
            j = _take(shared[i], least, free | crowd, skip)
            if j >= 0:
                free[j] = False
                right[t, i] = True
                ignored[t, i] = skip[j]
    return seen.score[chosen], right, ignored, int((~skip).sum())


def _overlaps(candidates: Boxes, boxes: Boxes, crowd: Bools) -> Floats:
    shared = iou_matrix(candidates, boxes)
    own = np.maximum(area(candidates), np.finfo(float).tiny)
    shared[:, crowd] = intersection(candidates[:, None], boxes[None, crowd]) / own[:, None]
    return shared


def _take(shared: Floats, least: float, free: Bools, skip: Bools) -> int:
    """The free object overlapped most (the last of equals), first of those that count; or -1."""
    for group in (free & ~skip, free & skip):
        eligible = np.flatnonzero(group & (shared >= least))
        if len(eligible):
            return int(eligible[::-1][np.argmax(shared[eligible[::-1]])])
    return -1
