"""The scales of scores that other detectors use, and the ones that methods compute with.

Covering and voting compare odds: exp(beta s) of margins s, p / (1 - p) of probabilities. Soft-NMS
and mean shift weigh: s - t of margins, p of probabilities. So every scale becomes logits for the
first, and probabilities for the others; margins stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfseen.arrays import Float64
from halfseen.errors import SettingsError

SCALES = ("probability", "logit", "margin")
FAINTEST = 1e-12
"""Probabilities nearer to 0 or 1 than this are held to be this near."""
LOWEST = -30.0
"""A logit below that of any probability."""


def check_scores(scores: Any, scale: str) -> Float64:
    """(N,) finite scores on a scale, or SettingsError."""
    try:
        score = np.asarray(scores)
        if np.iscomplexobj(score):
            raise TypeError
        score = score.astype(np.float64)
    except (TypeError, ValueError):
        raise SettingsError("scores must be numbers, one for each candidate") from None
    if score.ndim != 1:
        raise SettingsError(f"scores must have shape (N,), found {score.shape}")
    if scale == "probability":
        wrong = np.flatnonzero((score < 0) | (score > 1))
        if len(wrong):
            raise SettingsError(
                f"scores: expected probabilities from 0 to 1, found {score[wrong[0]]:g} at"
                f" detection {wrong[0]}; say scale=margin, as for halfseen's scores, or scale=logit"
            )
    return score


def as_logit(score: Float64, scale: str) -> Float64:
    """Probabilities or logits as logits within the range of a float."""
    if scale == "probability":
        near = np.clip(score, FAINTEST, 1 - FAINTEST)
        return np.log(near / (1 - near))
    most = np.log(1 / FAINTEST)
    return np.clip(score, -most, most)


def as_probability(logit: Float64) -> Float64:
    """1 / (1 + exp(-logit))."""
    return 1 / (1 + np.exp(-logit))
