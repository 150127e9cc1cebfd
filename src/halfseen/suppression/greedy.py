"""Greedy suppression (Felzenszwalb et al.): the best remaining detection drops those it covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfseen.suppression.candidates import Candidates
from halfseen.suppression.interpretation import Interpretation
from halfseen.suppression.method import Method, choice, number
from halfseen.suppression.shapes import MEASURES


@dataclass(frozen=True)
class Greedy(Method):
    """Keeps the best detection, drops those that overlap it by more than `overlap`, and repeats.

    overlap  eta, the largest overlap that two kept detections may have (0 to 1)
    measure  shared area over that of the "lower"-ranked detection, of the "smaller" one, or of
             either ("iou"); "box": iou of the whole boxes, hidden parts included
    """

    overlap: float = number(0.4, 0, 1)
    measure: str = choice("lower", *MEASURES, "box")

    name = "greedy"
    domain = "order"

    def choose(self, candidates: Candidates) -> Interpretation:
        """Each label by itself. Equal scores are ordered by content, not by their place."""
        from halfseen.suppression.overlap_kernels import choose_greedily

        shapes, measure = candidates.compared(self.measure)
        excluder = np.full(len(candidates), -1, dtype=np.int64)
        overlap, kept = np.zeros(len(candidates)), [np.zeros(0, np.int64)]
        for own in candidates.by_label(candidates.order):
            chosen, excluder[own], overlap[own] = choose_greedily(
                shapes, own, measure, self.overlap
            )
            kept.append(chosen)
        return candidates.interpret(self, np.concatenate(kept), candidates.score, excluder, overlap)
