"""Crowded images, and whether a difference between two methods is more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64
from halfseen.detections import GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.miss_rate import MissRate, log_average, rates_at
from halfseen.evaluate.voc_ap import NEITHER, TRUE, Matches
from halfseen.geometry import iou_matrix, rows_at_once

CROWDED = 0.2
KEPT_BYTES = 64 << 20  # of draws that are kept: all classes of a data set are resampled alike
AT_ONCE = 1_000_000  # numbers of resamples that are measured together


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


class Among(NamedTuple):
    """Which images some are among more, of which the others hold nothing to find and nothing found.

    images  how many there are in all
    place   where among them each of these is
    """

    images: int
    place: Int64


# A measure of one method when each image counts some times, for rows of such (R, images): (R,)
# values, NaN where nothing is to be found.
Weighted = Callable[[Float64], Float64]


def bootstrap_difference(
    first: Matches,
    second: Matches,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    among: Among | None = None,
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
        return lambda times: steps.ap(times, times @ first.wanted)

    draw = Draw(first.wanted, resamples, seed, among, max(len(first), len(second)))
    return _paired(weighted(first), weighted(second), draw, confidence)


def bootstrap_miss_rates(
    first: MissRate,
    second: MissRate,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    among: Among | None = None,
) -> APDifference:
    """Paired bootstrap of log-average miss rates; below 0 the second method misses less."""
    if not np.array_equal(first.wanted, second.wanted):
        raise SettingsError("methods to compare must be judged on the same objects")
    images = len(first.wanted) if among is None else among.images

    def weighted(rate: MissRate) -> Weighted:
        def value(times: Float64) -> Float64:
            weight = times[:, rate.image]
            wrong = np.cumsum(weight * ~rate.right, axis=1)
            right = np.cumsum(weight * rate.right, axis=1)
            return log_average(rates_at(wrong, right, times @ first.wanted, images))

        return value

    draw = Draw(first.wanted, resamples, seed, among, max(len(first.image), len(second.image)))
    difference = _paired(weighted(first), weighted(second), draw, confidence)
    return replace(difference, measure="MR")


@dataclass(frozen=True, eq=False)
class Draw:
    """Resamples of images, as rows that say how often each image counts.

    wanted   (images,) objects to be found in each
    among    of which images these are some; None: they are all
    events   numbers that a measure makes for each row
    """

    wanted: Int64
    resamples: int
    seed: int
    among: Among | None
    events: int

    def __post_init__(self) -> None:
        if self.resamples < 1:
            raise SettingsError(f"the bootstrap needs at least one resample, not {self.resamples}")

    def rows(self) -> Iterator[Float64]:
        """Yield (R, images) some resamples at a time."""
        images = len(self.wanted) if self.among is None else self.among.images
        step = max(AT_ONCE // max(self.events, images, 1), 1)
        for drawn in _drawn(images, self.resamples, self.seed, step):
            own = drawn if self.among is None else drawn[:, self.among.place]
            yield own.astype(np.float64)


def _drawn(images: int, resamples: int, seed: int, step: int) -> Iterator[NDArray[np.int32]]:
    """Yield how often each image is drawn, `step` resamples at a time."""
    if 4 * images * resamples <= KEPT_BYTES:
        kept = _kept(images, resamples, seed)
        yield from (kept[n : n + step] for n in range(0, resamples, step))
        return
    rows = _draw_rows(images, resamples, seed)
    while part := list(islice(rows, step)):
        yield np.stack(part)


@lru_cache(maxsize=1)
def _kept(images: int, resamples: int, seed: int) -> NDArray[np.int32]:
    return np.stack(list(_draw_rows(images, resamples, seed)))


def _draw_rows(images: int, resamples: int, seed: int) -> Iterator[NDArray[np.int32]]:
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        drawn = rng.integers(images, size=images)
        yield np.bincount(drawn, minlength=images).astype(np.int32)


def _paired(first: Weighted, second: Weighted, draw: Draw, confidence: float) -> APDifference:
    if not 0 < confidence < 1:
        raise SettingsError(f"the confidence must lie between 0 and 1, not {confidence}")
    once = np.ones((1, len(draw.wanted)))
    whole = [float(method(once)[0]) for method in (first, second)]
    parts = [np.zeros(0)]
    if draw.wanted.any():
        for times in draw.rows():
            known = times[times @ draw.wanted > 0]
            parts.append(second(known) - first(known))
    differences = np.concatenate(parts)
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

    def ap(self, times: Float64, positives: Float64) -> Float64:
        """(R,) all-point AP when image k counts times[:, k] times; NaN with nothing to find."""
        weight = times[:, self.image]
        everything = np.cumsum(weight, axis=1)[:, self.right]
        gained = weight[:, self.right]
        hits = np.cumsum(gained, axis=1)
        precision = np.divide(hits, everything, out=np.zeros_like(hits), where=everything > 0)
        envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        total = np.einsum("rm,rm->r", gained, envelope)
        values = np.full(len(total), np.nan)
        np.divide(total, positives, out=values, where=positives > 0)
        return values
