"""Greedy suppression (Felzenszwalb et al.): the best remaining detection drops those it covers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.geometry import area, intersection
from halfseen.suppress.interpretation import (
    Floats,
    Indices,
    Interpretation,
    best_first,
    check_range,
    check_scores,
)

Overlaps = Callable[[int, Indices], Floats]
"""`overlaps(k, others)`: the overlap of each of `others` with the higher-ranked k."""


@dataclass(frozen=True)
class Greedy:
    """Settings. overlap: eta, the largest overlap that two kept detections may have (0 to 1)."""

    overlap: float = 0.4

    def __post_init__(self) -> None:
        check_range("overlap", self.overlap, 0, 1)


def greedy(found: Detections, overlap: float = 0.4) -> Interpretation:
    """Keeps the best detection, drops those that overlap it by more than `overlap`, and repeats.

    The overlap is the shared area over the area of the lower-ranked box, of boxes cut to the image,
    among detections of the same label. Equal scores are ordered by their boxes, not by their place.
    """
    boxes = found.clipped
    content = np.column_stack([boxes, found.window, found.component])
    areas = np.maximum(area(boxes), np.finfo(float).tiny)
    return greedy_by(
        found.score, found.label, content, Greedy(overlap),
        lambda k, others: intersection(boxes[k], boxes[others]) / areas[others],
    )  # fmt: skip


def greedy_by(
    score: Floats,
    label: NDArray[np.str_],
    content: NDArray[np.float64] | NDArray[np.uint64],
    settings: Greedy,
    overlaps: Overlaps,
) -> Interpretation:
    """Greedy suppression for any measure of overlap."""
    check_scores(score)
    excluder = np.full(len(score), -1, dtype=np.int64)
    found_overlap = np.zeros(len(score))
    order = best_first(score, content)
    kept = []
    for name in np.unique(label):
        remaining = order[label[order] == name]
        while len(remaining):
            best, remaining = remaining[0], remaining[1:]
            kept.append(best)
            shared = overlaps(best, remaining)
            drop = shared > settings.overlap
            excluder[remaining[drop]] = best
            found_overlap[remaining[drop]] = shared[drop]
            remaining = remaining[~drop]
    chosen = np.zeros(len(score), dtype=bool)
    chosen[kept] = True
    indices = order[chosen[order]]
    return Interpretation(
        indices, score[indices], "greedy", vars(settings), excluder, found_overlap
    )
