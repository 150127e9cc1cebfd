"""Mean-shift fusion (Dalal's thesis, section 5.3): detections climb to the modes of their density.

A detection is a point y = (x, y, log scale) with the covariance

    H = diag((scale sigma_x)^2, (scale sigma_y)^2, sigma_s^2)

which widens with its scale, and the weight w = s - t. From every detection the mean shift

    y <- H_h sum_i omega_i H_i^-1 y_i,  H_h^-1 = sum_i omega_i H_i^-1
    omega_i  proportional to  |H_i|^-1/2 w_i exp(-D_i^2(y) / 2)

is repeated until it stands still.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.geometry import Boxes
from halfseen.suppress.interpretation import (
    Floats,
    Interpretation,
    best_first,
    check_range,
    check_scores,
)

STEPS = 100
STILL = 1e-5
"""A shift below this many standard deviations is none."""


@dataclass(frozen=True)
class MeanShift:
    """Settings.

    sigma_x, sigma_y  of position, in widths and heights of the object (Dalal: 8 and 16 pixels of a
                      64 x 128 window: 1/8)
    sigma_scale       of log scale (Dalal: log 1.3)
    threshold         t: the weight of a detection is s - t
    merge             modes closer than this many standard deviations are one
    """

    sigma_x: float = 0.125
    sigma_y: float = 0.125
    sigma_scale: float = 0.26
    threshold: float = -1.0
    merge: float = 1.0

    def __post_init__(self) -> None:
        for name in ("sigma_x", "sigma_y", "sigma_scale", "merge"):
            check_range(name, getattr(self, name), 1e-6, 1e6)
        check_range("threshold", self.threshold, -1e9, 1e9)


def meanshift(
    found: Detections,
    *,
    sigma_x: float = 0.125,
    sigma_y: float = 0.125,
    sigma_scale: float = 0.26,
    threshold: float = -1.0,
    merge: float = 1.0,
) -> Interpretation:
    """Keeps for each mode, of each label, the best detection that climbs to it.

    Its rank is t plus the density at the mode, in units in which a lone detection has its own
    weight s - t. The others of the mode are excluded by it, with the overlap exp(-D^2 / 2).
    """
    settings = MeanShift(sigma_x, sigma_y, sigma_scale, threshold, merge)
    return meanshift_of(found.score, found.label, found.full, settings)


def meanshift_of(
    score: Floats, label: NDArray[np.str_], full: Boxes, settings: MeanShift
) -> Interpretation:
    """The same for whole boxes of any kind."""
    from halfseen.suppress.climb import climb

    check_scores(score)
    rank = np.zeros(len(score))
    excluder = np.full(len(score), -1, dtype=np.int64)
    overlap = np.zeros(len(score))
    kept = []
    order = best_first(score, full)
    order = order[score[order] > settings.threshold]
    for name in np.unique(label[order]):
        own = order[label[order] == name]
        weight = score[own] - settings.threshold
        points, deviation = _points(full[own], settings)
        modes, density = climb(points, deviation, weight, STEPS, STILL)
        leader: list[int] = []
        for i in range(len(own)):
            distance = (modes[leader] - modes[i]) / deviation[i]
            near = np.flatnonzero((distance**2).sum(axis=1) < settings.merge**2)
            if not len(near):
                leader.append(i)
                continue
            k = leader[near[0]]
            excluder[own[i]] = own[k]
            overlap[own[i]] = np.exp(-(((points[i] - points[k]) / deviation[k]) ** 2).sum() / 2)
        kept.extend(own[leader])
        rank[own[leader]] = settings.threshold + density[leader]
    chosen = np.array(kept, dtype=np.int64)
    place = np.empty(len(score), dtype=np.int64)
    place[order] = np.arange(len(order))
    indices = chosen[np.lexsort((place[chosen], -rank[chosen]))]
    return Interpretation(indices, rank[indices], "meanshift", vars(settings), excluder, overlap)


def _points(full: Boxes, settings: MeanShift) -> tuple[Floats, Floats]:
    """(N, 3) centre and log scale, and their standard deviations."""
    sides = np.maximum(full[:, 2:] - full[:, :2], 1e-9)
    points = np.column_stack([(full[:, :2] + full[:, 2:]) / 2, np.log(sides.prod(axis=1)) / 2])
    sigma = sides * [settings.sigma_x, settings.sigma_y]
    return points, np.column_stack([sigma, np.full(len(full), settings.sigma_scale)])
