"""Soft-NMS (Bodla et al.): overlapping detections are ranked lower instead of being dropped."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from halfseen.arrays import Float64
from halfseen.settings import choice, number
from halfseen.suppression.candidates import MEASURES, Candidates, Interpretation
from halfseen.suppression.method import Method


@dataclass(frozen=True)
class Soft(Method):
    """Lowers the scores of what overlaps the best remaining detection by r, and repeats.

    decay      "gaussian": exp(-r^2 / sigma), or "linear": 1 - r where r > overlap
    overlap    of the linear decay (0 to 1)
    sigma      of the Gaussian decay
    threshold  t: scores decay towards it; Soft-NMS is defined for scores from 0, which s - t are
    least      a detection whose score is within this of t goes
    measure    of the overlap r: see `Greedy`
    """

    decay: str = choice("gaussian", "gaussian", "linear")
    overlap: float = number(0.3, 0, 1)
    sigma: float = number(0.5, 1e-6, 1e6)
    threshold: float = number(-1.0, -1e9, 1e9)
    least: float = number(1e-3, 0, 1e9)
    measure: str = choice("iou", *MEASURES, "box")

    name = "soft"
    domain = "weight"

    def factor(self, overlap: Float64) -> Float64:
        """The factor by which an overlap lowers a score."""
        if self.decay == "gaussian":
            return np.exp(-(overlap**2) / self.sigma)
        return np.where(overlap > self.overlap, 1 - overlap, 1.0)

    def choose(self, candidates: Candidates) -> Interpretation:
        """Each label by itself. The excluder of one that goes lowered its score most."""
        from halfseen.suppression.overlap_kernels import overlaps_with

        candidates.check_size(self.name)
        shapes, measure = candidates.compared(self.measure)
        rest = candidates.score - self.threshold
        excluder = np.full(len(candidates), -1, dtype=np.int64)
        lowest, overlap = np.ones(len(candidates)), np.zeros(len(candidates))
        order, kept = candidates.order, []
        for remaining in candidates.by_label(order[rest[order] > self.least]):
            while len(remaining):
                first = int(rest[remaining].argmax())
                best = remaining[first]
                kept.append(best)
                remaining = np.delete(remaining, first)
                shared = overlaps_with(shapes, measure, best, remaining)
                factor = self.factor(shared)
                rest[remaining] *= factor
                worst = factor < lowest[remaining]
                lowest[remaining[worst]] = factor[worst]
                excluder[remaining[worst]] = best
                overlap[remaining[worst]] = shared[worst]
                remaining = remaining[rest[remaining] > self.least]
        chosen = np.array(kept, dtype=np.int64)
        result = candidates.interpret(self, chosen, rest, excluder, overlap)
        return replace(result, rank=rest[result.indices] + self.threshold)
