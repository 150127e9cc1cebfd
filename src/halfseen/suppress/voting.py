"""Greedy suppression whose candidates vote: what is dropped speaks for what is kept.

Where a detector is right, many of its windows say so; a lone strong window is more often wrong.
Greedy suppression forgets the others. Here each of them votes for the object that it means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import area, intersection, iou_matrix
from halfseen.suppress.greedy import Greedy, Overlaps, greedy_by
from halfseen.suppress.interpretation import (
    Floats,
    Indices,
    Interpretation,
    best_first,
    check_range,
)

LARGEST = 1e300
"""The largest score that can be multiplied by any beta."""
PAIRS = 1_000_000
"""Pairs of detections that are looked at together at most, which bounds memory."""


@dataclass(frozen=True)
class Voting:
    """Settings.

    overlap    eta, the largest overlap that two kept detections may have (0 to 1)
    beta       how much more a strong candidate's vote counts: exp(beta score) is about the odds
               that it is right
    threshold  the score t at which a candidate has no say
    """

    overlap: float = 0.4
    beta: float = 4.0
    threshold: float = -1.0

    def __post_init__(self) -> None:
        check_range("overlap", self.overlap, 0, 1)
        check_range("beta", self.beta, 1e-3, 1e3)
        check_range("threshold", self.threshold, -1e9, 1e9)


def voting(
    found: Detections, overlap: float = 0.4, beta: float = 4.0, threshold: float = -1.0
) -> Interpretation:
    """Keeps what greedy suppression keeps, and ranks it by its votes.

    Each candidate that is dropped votes for one kept detection of its label: the best whose box it
    overlaps by an IoU of more than `overlap`, so that the candidates of a car behind a car speak
    for that car; if there is none, for the one that dropped it. With the scores s_j of its voters,
    a kept detection of score s ranks at

        t + log(exp(beta (s - t)) + sum_j (exp(beta (s_j - t)) - 1)) / beta

    over those s_j above t: never below s, and s if nobody votes for it.
    """
    boxes = found.clipped
    content = np.column_stack([boxes, found.window, found.component])
    areas = np.maximum(area(boxes), np.finfo(float).tiny)
    return voting_by(
        found.score, found.label, content, Voting(overlap, beta, threshold),
        lambda k, others: intersection(boxes[k], boxes[others]) / areas[others],
        lambda some, others: iou_matrix(boxes[some], boxes[others]),
    )  # fmt: skip


def voting_by(
    score: Floats,
    label: NDArray[np.str_],
    content: NDArray[np.float64] | NDArray[np.uint64],
    settings: Voting,
    over_lower: Overlaps,
    over_either: Callable[[Indices, Indices], Floats],
) -> Interpretation:
    """Voting for any measures of overlap: over the lower-ranked one, and over either.

    over_either   (K, L) overlaps of K detections with L others
    """
    kept = greedy_by(score, label, content, Greedy(settings.overlap), over_lower)
    if len(score) and np.abs(score).max() > LARGEST:
        raise SettingsError(
            f"scores up to {np.abs(score).max():g} are too large to vote with; rescale them"
        )
    meant = _meant(kept, label, settings.overlap, over_either)
    above = settings.beta * (score - settings.threshold)
    total = above.copy()
    # In an order that is not that of the input, on which the last bits of sums would depend.
    order = best_first(score, content)
    voters = order[(meant[order] >= 0) & (above[order] > 0)]
    # log(exp(x) - 1), which must not overflow.
    say = above[voters] + np.log(-np.expm1(-above[voters]))
    np.logaddexp.at(total, meant[voters], say)
    rank = settings.threshold + total[kept.indices] / settings.beta
    order = np.argsort(-rank, kind="stable")
    return replace(
        kept,
        indices=kept.indices[order],
        rank=rank[order],
        method="voting",
        settings=vars(settings),
    )


def _meant(
    kept: Interpretation, label: NDArray[np.str_], overlap: float,
    over_either: Callable[[Indices, Indices], Floats],
) -> Indices:  # fmt: skip
    """(N,) the kept detection that each dropped one votes for; -1 for the kept ones."""
    meant = kept.excluder.copy()
    dropped = np.flatnonzero(meant >= 0)
    for name in np.unique(label[dropped]):
        waiting = dropped[label[dropped] == name]
        best = kept.indices[label[kept.indices] == name]
        while len(best) and len(waiting):
            some, best = np.split(best, [max(PAIRS // len(waiting), 1)])
            near = over_either(some, waiting) > overlap
            mine = near.any(axis=0)
            meant[waiting[mine]] = some[near.argmax(axis=0)[mine]]
            waiting = waiting[~mine]
    return meant
