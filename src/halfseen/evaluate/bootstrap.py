"""Crowded images, and whether a difference between two methods is more than chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from halfseen.arrays import Bool, Float64, Int64
from halfseen.detections import GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.miss_rate import MissRate, log_average, rates_at
from halfseen.evaluate.voc_ap import NEITHER, TRUE, Matches
from halfseen.geometry import iou_matrix, rows_at_once

CROWDED = 0.2


def crowded(truth: Sequence[GroundTruth], label: str, overlap: float = CROWDED) -> list[int]:
    """Positions of the images where two true boxes of the class overlap by IoU above `overlap`.

    Difficult boxes count as neighbours: they are there to be confused with. Crowd regions do not.
    """
    positions = []
    for k, here in enumerate(truth):
        boxes = here.box[(here.label == label) & ~here.crowd]
        for part in rows_at_once(boxes, boxes):
            if np.triu(iou_matrix(boxes[part], boxes), 1 + part.start).max() > overlap:
                positions.append(k)
                break
    return positions


@dataclass(frozen=True)
class APDifference:
    """A measure of the second method minus that of the first, with an interval over images."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    confidence: float
    resamples: int
    measure: str = "AP"

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.difference:+.1f} {self.measure} [{low:.1f}, {high:.1f}]"

    @property
    def certain(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


# A measure of one method when each image counts some times: NaN where nothing is to be found.
Weighted = Callable[[Float64], float]


def bootstrap_difference(
    first: Matches,
    second: Matches,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> APDifference:
    """Paired bootstrap of all-point AP: both methods on the same resampled images.

    Images are drawn with replacement, as many as there are; an image drawn n times counts n times,
    with its objects and detections. The interval holds the middle `confidence` of the differences;
    resamples without an object to find say nothing and are left out.
    """
    if first.label != second.label or not np.array_equal(first.wanted, second.wanted):
        raise SettingsError(
            f"methods to compare must be judged on the same objects, not {first.positives} "
            f"{first.label} and {second.positives} {second.label}"
        )

    def weighted(matches: Matches) -> Weighted:
        steps = Steps.of(matches)
        return lambda times: steps.ap(times, float(times @ first.wanted))

    return _paired(weighted(first), weighted(second), first.wanted, resamples, confidence, seed)


def bootstrap_miss_rates(
    first: MissRate,
    second: MissRate,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> APDifference:
    """Paired bootstrap of log-average miss rates; below 0 the second method misses less."""
    if not np.array_equal(first.wanted, second.wanted):
        raise SettingsError("methods to compare must be judged on the same objects")

    def weighted(rate: MissRate) -> Weighted:
        def value(times: Float64) -> float:
            weight = times[rate.image]
            wrong, right = np.cumsum(weight * ~rate.right), np.cumsum(weight * rate.right)
            return log_average(rates_at(wrong, right, float(times @ first.wanted), times.sum()))

        return value

    difference = _paired(
        weighted(first), weighted(second), first.wanted, resamples, confidence, seed
    )
    return replace(difference, measure="MR")


def _paired(
    first: Weighted,
    second: Weighted,
    wanted: Int64,
    resamples: int,
    confidence: float,
    seed: int,
) -> APDifference:
    if resamples < 1 or not 0 < confidence < 1:
        raise SettingsError(
            "the bootstrap needs at least one resample and a confidence between 0 and 1, "
            f"not {resamples} and {confidence}"
        )
    images = len(wanted)
    whole = [method(np.ones(images)) for method in (first, second)]
    rng = np.random.default_rng(seed)
    differences = np.full(resamples, np.nan)
    for n in range(resamples if wanted.any() else 0):
        times = np.bincount(rng.integers(images, size=images), minlength=images).astype(np.float64)
        if times @ wanted > 0:
            differences[n] = second(times) - first(times)
    differences = differences[~np.isnan(differences)]
    low = high = float("nan")
    if len(differences):
        tail = (1 - confidence) / 2
        low, high = (float(v) for v in np.quantile(differences, [tail, 1 - tail]))
    return APDifference(
        whole[0], whole[1], whole[1] - whole[0], low, high, confidence, len(differences)
    )


@dataclass(frozen=True, eq=False)
class Steps:
    """The ranked events of one method: all that AP needs, when each image counts some times.

    Matching is within an image, so its outcome is the same in every resample; copies of an image
    stand side by side in the ranking. Precision is highest right after a true positive, so the
    envelope needs no other points, and false positives after the last one change nothing.

    image   (M,) the image of each counted detection, best first
    right   (M,) True where it is right
    """

    image: np.ndarray
    right: Bool

    @classmethod
    def of(cls, matches: Matches) -> Steps:
        """The events of matched detections."""
        counted = matches.outcome != NEITHER
        right = matches.outcome[counted] == TRUE
        last = np.flatnonzero(right)[-1] + 1 if right.any() else 0
        return cls(matches.image[counted][:last], right[:last])

    def ap(self, times: Float64, positives: float) -> float:
        """All-point AP when image k counts times[k] times; NaN if there is nothing to find."""
        if positives == 0:
            return float("nan")
        weight = times[self.image]
        everything = np.cumsum(weight)[self.right]
        gained = weight[self.right]
        hits = np.cumsum(gained)
        precision = np.divide(hits, everything, out=np.zeros_like(hits), where=everything > 0)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        return float(gained @ envelope / positives)
