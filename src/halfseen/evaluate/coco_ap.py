"""Average precision by COCO's definition, for boxes.

It differs from VOC's in that a detection takes the best box *still free*, that AP is the mean over
ten overlaps and over 101 recalls, that only the best 100 detections of an image count, and that
objects outside a range of areas are ignored together with unmatched detections outside it. Crowd
regions are ignored, may be matched by any number of detections, and measure overlap by the
detection's own area. The area of an object is its mask's where annotated, else its box's.

Objects outside a subset (by visible fraction, say) are ignored in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from halfseen.arrays import Bool, Float64
from halfseen.errors import SettingsError
from halfseen.evaluate.pool import Members, Pool
from halfseen.evaluate.voc_ap import NEITHER, TRUE, BoxKind, Found
from halfseen.geometry import area
from halfseen.ground_truth import GroundTruth

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
    at: Float64
    recall_at: Float64
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
    """AP of one class by COCO's rules. Difficult objects and ignored regions are ignored."""
    if size not in AREAS:
        raise SettingsError(f"size must be one of {', '.join(AREAS)}, not {size!r}")
    (result,) = coco_by_subset(Pool.of(truth, found, label, box), {"all": None}, size).values()
    return result


def coco_by_subset(
    pool: Pool, subsets: Mapping[str, Members | None], size: Size = "all"
) -> dict[str, COCOResult]:
    """AP of one class on subsets of its objects, by name; None stands for all of them."""
    low, high = AREAS[size]
    outside = pool.left_out | (pool.size < low) | (pool.size > high)
    ignored = np.array(
        [outside if part is None else outside | ~pool.members(part) for part in subsets.values()]
    ).reshape(len(subsets), len(outside))
    region = np.tile(pool.crowd, (len(subsets), 1))
    unused = np.tile(pool.rank >= MOST_DETECTIONS, (len(subsets), 1))
    outcome = pool.match(ignored, region, OVERLAPS, unused)
    sizes = area(pool.boxes.found)
    beyond = (sizes < low) | (sizes > high)
    outcome[(outcome != TRUE) & beyond] = NEITHER
    ranked = outcome[:, :, pool.order]
    return {
        name: _result(pool.label, size, ranked[n], int((~ignored[n]).sum()))
        for n, name in enumerate(subsets)
    }


def _result(label: str, size: Size, ranked: np.ndarray, positives: int) -> COCOResult:
    if not positives:
        missing = np.full(len(OVERLAPS), np.nan)
        return COCOResult(label, size, missing, missing, 0)
    ap = [_mean_envelope(row[row != NEITHER] == TRUE, positives) for row in ranked]
    best = (ranked == TRUE).sum(axis=1) / positives
    return COCOResult(label, size, np.array(ap), best, positives)


def _mean_envelope(right: Bool, positives: int) -> float:
    """The mean of the precision envelope at the 101 recalls."""
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    return float(envelope[np.searchsorted(hits / positives, RECALLS)].mean())
