"""Detections in words: how probable each is, and how much of it is visible."""

from __future__ import annotations

import math

import numpy as np

from halfseen.arrays import Bool
from halfseen.detections import Detections

PROBABLE = 0.5
"""The probability from which a detection is strong, and"""
SCORE = 0.0
"""the score of a model that is not calibrated: the boundary that its training drew."""


def strong(found: Detections, least: float | None = None) -> Bool:
    """(N,) whether each detection is at least so probable; of uncalibrated models, scores so high.

    least  None for PROBABLE and SCORE
    """
    by_score = np.asarray(found.score >= (SCORE if least is None else least))
    if found.probability is None:
        return by_score
    probable = found.probability >= (PROBABLE if least is None else least)
    return np.where(np.isnan(found.probability), by_score, probable)


def certainty(probability: float, score: float) -> str:
    """A probability as a percentage, or the score where it is not known."""
    if math.isnan(probability):
        return f"{score:.2f}"
    # 100% and 0% are promises that nobody keeps.
    return f"{min(max(round(100 * probability), 1), 99)}%"


def describe(found: Detections, i: int) -> str:
    """A detection for a person: "car 87%, 53% seen"."""
    known = math.nan if found.probability is None else float(found.probability[i])
    text = f"{found.label[i]} {certainty(known, float(found.score[i]))}"
    return f"{text}, {round(100 * float(found.visible_fraction[i]))}% seen"
