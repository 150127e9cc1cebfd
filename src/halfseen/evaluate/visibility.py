"""Measures by how much of an object is in view, and of the boxes and masks of what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.groups import QUARTERS, between
from halfseen.evaluate.voc_ap import NEITHER, APResult, Matches, summarise
from halfseen.geometry import clip, iou


def whole(truth: GroundTruth) -> Bool:
    """Objects neither truncated nor occluded, nor difficult, crowds or ignored."""
    return ~(truth.truncated | truth.occluded | truth.left_out)


def subsets(
    truth: Sequence[GroundTruth], edges: Sequence[float] = QUARTERS
) -> dict[str, list[Bool]]:
    """Named subsets of the objects, each as one array of members per image.

    "all", "whole", "truncated", "occluded"; and, where visible fractions are known, one for each
    [low, high) between edges (the last with its end). An object of unknown fraction is in none.
    """
    named = {
        "all": [np.ones(len(here), bool) for here in truth],
        "whole": [whole(here) for here in truth],
        "truncated": [here.truncated for here in truth],
        "occluded": [here.occluded for here in truth],
    }
    fractions = [here.visible_fraction for here in truth]
    by_fraction = between(fractions, edges, "visible")
    return named | by_fraction if any(np.isfinite(v).any() for v in fractions) else named


def restrict(matches: Matches, truth: Sequence[GroundTruth], keep: Sequence[Bool]) -> Matches:
    """The same detections judged on a subset of the objects.

    Objects outside the subset become like difficult ones: finding them is neither right nor wrong.
    What hits no object stays wrong in every subset, so **AP falls with the size of the subset** and
    compares methods on one subset, not subsets with each other; recall compares both.
    """
    if [len(member) for member in keep] != [len(here) for here in truth]:
        raise SettingsError("a subset has one flag for each object of each image")

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(here, name) for here in truth] or [np.zeros(0)])

    left_out = column("difficult") + column("crowd") + column("ignore") > 0
    wanted = np.concatenate([*keep, np.zeros(0, bool)]).astype(bool)
    wanted &= (column("label") == matches.label) & ~left_out
    starts = np.cumsum([0] + [len(here) for here in truth])
    on_object = (matches.target >= 0) & (matches.overlap >= matches.least)
    place = np.where(on_object, starts[matches.image] + matches.target, -1)
    outside = on_object & ~np.append(wanted, False)[place]
    outcome = np.where(outside, NEITHER, matches.outcome).astype(np.int8)
    total = np.concatenate([[0], np.cumsum(wanted)])
    return replace(matches, outcome=outcome, wanted=total[starts[1:]] - total[starts[:-1]])


def ap_by_subset(
    truth: Sequence[GroundTruth],
    matches: Matches,
    edges: Sequence[float] = QUARTERS,
) -> dict[str, APResult]:
    """AP, with its curve, on every subset of `subsets`. Its recall is `best_recall(result)`."""
    return {
        name: summarise(restrict(matches, truth, keep))
        for name, keep in subsets(truth, edges).items()
    }


def best_recall(result: APResult) -> float:
    """The share of objects found at any score; NaN if there were none to find."""
    if not result.positives:
        return float("nan")
    return float(result.recall[-1]) if len(result.recall) else 0.0


@dataclass(frozen=True, eq=False)
class BoxQuality:
    """Overlaps of right detections with their objects, one of each array a detection, best first.

    visible   IoU of `visible` with the annotated box
    clipped   IoU of `full`, cut to the image, with the annotated box
    full      IoU of `full` with the whole object's box; NaN where that is not known, which is where
              the object's visible fraction is not
    """

    visible: Float64
    clipped: Float64
    full: Float64


def box_quality(
    truth: Sequence[GroundTruth], found: Sequence[Detections], matches: Matches
) -> BoxQuality:
    """How well the two boxes of each right detection fit."""
    rows = []
    for k, i, j in matches.right:
        here, detected = truth[k], found[k]
        known = np.isfinite(here.visible_fraction[j])
        rows.append(
            (
                iou(detected.visible[i], here.box[j]),
                iou(clip(detected.full[i], detected.size), here.box[j]),
                iou(detected.full[i], here.full[j]) if known else np.nan,
            )
        )
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return BoxQuality(*table.T)


@dataclass(frozen=True, eq=False)
class MaskQuality:
    """Overlaps of right detections with the visible pixels of their objects, where those are known.

    mask      IoU of `Detections.mask` with the object's mask
    box       IoU of the detection's box (`full` cut to the image) with it: what a mask has to beat
    whole, occluded   which objects are so
    """

    mask: Float64
    box: Float64
    whole: Bool
    occluded: Bool


def mask_quality(
    truth: Sequence[GroundTruth], found: Sequence[Detections], matches: Matches
) -> MaskQuality:
    """How well the mask of each right detection fits the object's instance mask."""
    rows = []
    for k, i, j in matches.right:
        here, detected = truth[k], found[k]
        true = here.mask(j)
        if true is None:
            continue
        box = np.zeros(detected.size, bool)
        # The pixels whose centres lie in the box, as in `Detections.mask`.
        x1, y1, x2, y2 = np.ceil(clip(detected.full[i], detected.size) - 0.5).astype(int)
        box[y1:y2, x1:x2] = True
        rows.append((
            mask_iou(detected.mask(i), true), mask_iou(box, true), whole(here)[j], here.occluded[j]
        ))  # fmt: skip
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return MaskQuality(table[:, 0], table[:, 1], table[:, 2] > 0, table[:, 3] > 0)


def mask_iou(first: Bool, second: Bool) -> float:
    """Intersection over union of two masks; 0 if both are empty."""
    either = np.count_nonzero(first | second)
    return np.count_nonzero(first & second) / either if either else 0.0
