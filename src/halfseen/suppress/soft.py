"""Soft-NMS (Bodla et al.): overlapping detections are ranked lower instead of being dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import iou
from halfseen.suppress.interpretation import (
    Floats,
    Indices,
    Interpretation,
    best_first,
    check_range,
    check_scores,
)

Overlaps = Callable[[int, Indices], Floats]


@dataclass(frozen=True)
class Soft:
    """Settings.

    decay      "gaussian": exp(-r^2 / sigma), or "linear": 1 - r where r > overlap
    overlap    of the linear decay (0 to 1)
    sigma      of the Gaussian decay
    threshold  t: scores decay towards it; Soft-NMS is defined for scores from 0, which s - t are
    least      a detection whose score is within this of t goes
    """

    decay: str = "gaussian"
    overlap: float = 0.3
    sigma: float = 0.5
    threshold: float = -1.0
    least: float = 1e-3

    def __post_init__(self) -> None:
        check_range("overlap", self.overlap, 0, 1)
        check_range("sigma", self.sigma, 1e-6, 1e6)
        check_range("threshold", self.threshold, -1e9, 1e9)
        check_range("least", self.least, 0, 1e9)
        if self.decay not in ("gaussian", "linear"):
            raise SettingsError(f"decay must be gaussian or linear, found {self.decay!r}")

    def factor(self, overlap: Floats) -> Floats:
        """What an overlap leaves of a score."""
        if self.decay == "gaussian":
            return np.exp(-(overlap**2) / self.sigma)
        return np.where(overlap > self.overlap, 1 - overlap, 1.0)


def soft(
    found: Detections,
    overlap: float = 0.3,
    *,
    decay: str = "gaussian",
    sigma: float = 0.5,
    threshold: float = -1.0,
    least: float = 1e-3,
) -> Interpretation:
    """Soft-NMS of boxes cut to the image, by intersection over union, each label by itself."""
    boxes = found.clipped
    content = np.column_stack([boxes, found.window, found.component])
    return soft_by(
        found.score, found.label, content, Soft(decay, overlap, sigma, threshold, least),
        lambda k, others: iou(boxes[k], boxes[others]),
    )  # fmt: skip


def soft_by(
    score: Floats,
    label: NDArray[np.str_],
    content: NDArray[np.float64] | NDArray[np.uint64],
    settings: Soft,
    overlaps: Overlaps,
) -> Interpretation:
    """Soft-NMS for any measure of overlap.

    The excluder of a detection that goes is the one that lowered its score most.
    """
    check_scores(score)
    rest = score - settings.threshold
    excluder = np.full(len(score), -1, dtype=np.int64)
    least, found_overlap = np.ones(len(score)), np.zeros(len(score))
    order = best_first(score, content)
    kept = []
    for name in np.unique(label):
        remaining = order[(label[order] == name) & (rest[order] > settings.least)]
        while len(remaining):
            first = int(rest[remaining].argmax())
            best = remaining[first]
            kept.append(best)
            remaining = np.delete(remaining, first)
            shared = overlaps(best, remaining)
            factor = settings.factor(shared)
            rest[remaining] *= factor
            worst = factor < least[remaining]
            least[remaining[worst]] = factor[worst]
            excluder[remaining[worst]] = best
            found_overlap[remaining[worst]] = shared[worst]
            remaining = remaining[rest[remaining] > settings.least]
    chosen = np.array(kept, dtype=np.int64)
    place = np.empty(len(score), dtype=np.int64)
    place[order] = np.arange(len(order))
    indices = chosen[np.lexsort((place[chosen], -rest[chosen]))]
    excluder[indices], found_overlap[indices] = -1, 0
    return Interpretation(
        indices, rest[indices] + settings.threshold, "soft", vars(settings), excluder, found_overlap
    )
