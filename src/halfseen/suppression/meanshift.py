"""Mean-shift fusion (Dalal's thesis, section 5.3): detections climb to the modes of their density.

A detection is a point y = (x, y, log scale) with the covariance

    H = diag((scale sigma_x)^2, (scale sigma_y)^2, sigma_s^2)

which widens with its scale, and the weight w = s - t. From every detection the mean shift

    y <- H_h sum_i omega_i H_i^-1 y_i,  H_h^-1 = sum_i omega_i H_i^-1
    omega_i  proportional to  |H_i|^-1/2 w_i exp(-D_i^2(y) / 2)

is repeated until it stands still.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from halfseen.arrays import Float64
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import Boxes
from halfseen.settings import number
from halfseen.suppression.candidates import Candidates, Interpretation
from halfseen.suppression.method import Method

STEPS = 100
MOST = 2e8
"""Kernels of one label: about five seconds."""
STILL = 1e-5
"""A shift below this many standard deviations is none."""


@dataclass(frozen=True)
class MeanShift(Method):
    """Keeps for each mode the best detection that climbs to it.

    Its rank is t plus the density at the mode, in units in which a lone detection has its own
    weight s - t. The others of the mode are excluded by it, with the overlap exp(-D^2 / 2).

    sigma_x, sigma_y  of position, in widths and heights of the object (Dalal: 8 and 16 pixels of a
                      64 x 128 window: 1/8)
    sigma_scale       of log scale (Dalal: log 1.3)
    threshold         t: the weight of a detection is s - t
    merge             modes closer than this many standard deviations are one
    """

    sigma_x: float = number(0.125, 1e-6, 1e6)
    sigma_y: float = number(0.125, 1e-6, 1e6)
    sigma_scale: float = number(0.26, 1e-6, 1e6)
    threshold: float = number(-1.0, -1e9, 1e9)
    merge: float = number(1.0, 1e-6, 1e6)

    name = "meanshift"
    domain = "weight"

    def prepare(self, found: Detections) -> Candidates:
        """Whole boxes, by which equal scores are ordered too."""
        return replace(super().prepare(found), content=found.full)

    def choose(self, candidates: Candidates) -> Interpretation:
        """Each label by itself, by the whole boxes."""
        from halfseen.suppression.meanshift_kernels import climb

        candidates.check_size(self.name)
        score, full = candidates.score, candidates.full
        rank = np.zeros(len(score))
        excluder = np.full(len(score), -1, dtype=np.int64)
        overlap, kept = np.zeros(len(score)), [np.zeros(0, np.int64)]
        order = candidates.order
        for own in candidates.by_label(order[score[order] > self.threshold]):
            points, deviation = self._points(full[own])
            weight = score[own] - self.threshold
            modes, density, done = climb(points, deviation, weight, STEPS, STILL, MOST)
            if not done:
                raise SettingsError(
                    f"meanshift suppression: {len(own):,} candidates take too long; leave out "
                    'those of low score, or use method "greedy"'
                )
            leader: list[int] = []
            for i in range(len(own)):
                distance = (modes[leader] - modes[i]) / deviation[i]
                near = np.flatnonzero((distance**2).sum(axis=1) < self.merge**2)
                if not len(near):
                    leader.append(i)
                    continue
                k = leader[near[0]]
                excluder[own[i]] = own[k]
                overlap[own[i]] = np.exp(-(((points[i] - points[k]) / deviation[k]) ** 2).sum() / 2)
            kept.append(own[leader])
            rank[own[leader]] = self.threshold + density[leader]
        return candidates.interpret(self, np.concatenate(kept), rank, excluder, overlap)

    def _points(self, full: Boxes) -> tuple[Float64, Float64]:
        """(N, 3) centre and log scale, and their standard deviations."""
        sides = np.maximum(full[:, 2:] - full[:, :2], 1e-9)
        points = np.column_stack([(full[:, :2] + full[:, 2:]) / 2, np.log(sides.prod(axis=1)) / 2])
        sigma = sides * [self.sigma_x, self.sigma_y]
        return points, np.column_stack([sigma, np.full(len(full), self.sigma_scale)])
