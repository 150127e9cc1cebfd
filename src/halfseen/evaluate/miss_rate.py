"""Log-average miss rate, as Caltech and CityPersons measure pedestrian detectors.

In one subset of the objects (a range of heights and of visible fractions), at an overlap of 0.5:

1. Objects outside the subset, difficult ones, crowds and ignored regions are ignored.
2. Detections whose height is outside the range, widened by a factor of 1.25, take no part; nor do
   those after the best 1,000 of an image.
3. By falling score, each detection takes the free object that it overlaps most, else an ignored
   one: then it counts as neither. Overlap with an ignored one is the share of the detection's own
   area, and any number of detections may match it.
4. At nine rates of false positives per image, 0.01 to 1 evenly spaced in logarithm, the miss rate
   is that of the longest prefix of the ranking that stays within; 1 where none does. The result is
   exp of the mean of their logarithms.

An object of unknown visible fraction counts as wholly visible, as in the Caltech toolbox. This is
not AP by another name: always say which one a number is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float64, Int64
from halfseen.evaluate.pool import Members, Pool
from halfseen.evaluate.voc_ap import NEITHER, TRUE

OVERLAP = 0.5
WIDER = 1.25
MOST_DETECTIONS = 1000
REFERENCES = 10.0 ** np.linspace(-2, 0, 9)
LEAST = 1e-10  # a miss rate of 0 has no logarithm


class Setup(NamedTuple):
    """A subset: heights in pixels and visible fractions, both with their ends."""

    heights: tuple[float, float] = (0.0, np.inf)
    visible: tuple[float, float] = (0.0, np.inf)


SETUPS = {
    "Reasonable": Setup((50, np.inf), (0.65, np.inf)),
    "heavy": Setup((50, np.inf), (0.2, 0.65)),
    "All": Setup((20, np.inf), (0.2, np.inf)),
}


@dataclass(frozen=True, eq=False)
class MissRate:
    """The miss rate of one class in one subset, with its curve; NaN if there is nothing to find.

    value    the log-average
    rates    (9,) miss rates at REFERENCES
    image    (M,) image of each counted detection, best first
    right    (M,) whether it is right
    wanted   (K,) objects to be found in each image that may hold some
    images   how many there are in all
    """

    value: float
    rates: Float64
    image: Int64
    right: Bool
    wanted: Int64
    images: int

    @property
    def objects(self) -> int:
        return int(self.wanted.sum())

    @property
    def curve(self) -> tuple[Float64, Float64]:
        """False positives per image and miss rate after each detection."""
        wrong = np.cumsum(~self.right) / max(self.images, 1)
        return wrong, 1 - np.cumsum(self.right) / max(self.objects, 1)


def miss_rates(
    pool: Pool,
    setups: Mapping[str, Setup] | None = None,
    subsets: Mapping[str, Members] | None = None,
    images: int | None = None,
) -> dict[str, MissRate]:
    """Log-average miss rates of one class, by name: of the setups, then of subsets of any height.

    `setups` are SETUPS if not given; `images` is how many there are, if the pool leaves out some
    that hold nothing.
    """
    setups = SETUPS if setups is None else setups
    subsets = subsets or {}
    tall = pool.boxes.true[:, 3] - pool.boxes.true[:, 1]
    fraction = np.concatenate(
        [here.visible_fraction[own] for here, own in zip(pool.truth, pool.own, strict=True)]
        or [np.zeros(0)]
    )
    fraction = np.where(np.isnan(fraction), 1.0, fraction)
    found = pool.boxes.found[:, 3] - pool.boxes.found[:, 1]
    ignored, unused = [], []
    for heights, visible in setups.values():
        ignored.append(pool.left_out | ~_within(tall, heights) | ~_within(fraction, visible))
        low, high = heights[0] / WIDER, heights[1] * WIDER
        unused.append((found < low) | (found >= high) | (pool.rank >= MOST_DETECTIONS))
    for members in subsets.values():
        ignored.append(pool.left_out | ~pool.members(members))
        unused.append(pool.rank >= MOST_DETECTIONS)
    count, images = len(ignored), images or len(pool.truth)
    rules = np.array(ignored, bool).reshape(count, len(tall))
    skipped = np.array(unused, bool).reshape(count, len(found))
    outcome = pool.match(rules, rules, np.array([OVERLAP]), skipped)[:, 0, pool.order]
    image = pool.image[pool.order]
    owner = np.repeat(np.arange(len(pool.truth)), np.diff(pool.boxes.first_true))
    results = {}
    for n, name in enumerate([*setups, *subsets]):
        counted = outcome[n] != NEITHER
        right = outcome[n][counted] == TRUE
        wanted = np.bincount(owner[~rules[n]], minlength=len(pool.truth))
        wrong, hits = np.cumsum(~right)[None], np.cumsum(right)[None]
        rates = rates_at(wrong, hits, np.array([wanted.sum()]), images)[0]
        value = float(log_average(rates))
        results[name] = MissRate(value, rates, image[counted], right, wanted, images)
    return results


def _within(values: Float64, span: tuple[float, float]) -> Bool:
    return (values >= span[0]) & (values <= span[1])


def rates_at(wrong: Float64, right: Float64, objects: Float64, images: float) -> Float64:
    """(R, 9) miss rates at REFERENCES from rows of running counts (R, M) of whole numbers.

    objects  (R,) how many are to be found; NaN where there is none
    """
    rows, events = wrong.shape
    most = np.minimum(np.floor(REFERENCES * images * (1 + 1e-12)), wrong.max(initial=0.0))
    # One search for all rows: each is lifted above all before it.
    lift = (np.arange(rows) * (wrong.max(initial=0.0) + 1))[:, None]
    last = np.searchsorted((wrong + lift).ravel(), (most + lift).ravel(), side="right")
    last = last.reshape(rows, -1) - events * np.arange(rows)[:, None]
    found = np.take_along_axis(np.column_stack([np.zeros(rows), right]), last, axis=1)
    share = np.full(found.shape, np.nan)
    np.divide(found, objects[:, None], out=share, where=objects[:, None] > 0)
    return 1 - share


def log_average(rates: Float64) -> Float64:
    """exp of the mean logarithm, of each row."""
    return np.asarray(np.exp(np.log(np.maximum(rates, LEAST)).mean(axis=-1)))
