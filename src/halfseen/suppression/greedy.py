"""Greedy suppression (Felzenszwalb et al.): the best remaining detection drops those it covers.

Where a detector is right, many windows around the object score high; a lone strong window is more
often wrong. Greedy suppression forgets the others; with `Voting` each raises a kept one's rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from halfseen.arrays import Int64
from halfseen.settings import choice, number
from halfseen.suppression.candidates import MEASURES, Candidates, Interpretation
from halfseen.suppression.method import Method


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
        from halfseen.suppression.ranked import choose_greedily

        shapes, measure = candidates.compared(self.measure)
        excluder = np.full(len(candidates), -1, dtype=np.int64)
        overlap, kept = np.zeros(len(candidates)), [np.zeros(0, np.int64)]
        for own in candidates.by_label(candidates.order):
            chosen, excluder[own], overlap[own] = choose_greedily(
                shapes, own, measure, self.overlap
            )
            kept.append(chosen)
        return candidates.interpret(self, np.concatenate(kept), candidates.score, excluder, overlap)


@dataclass(frozen=True)
class Voting(Method):
    """Keeps what greedy suppression keeps, and ranks it by its votes.

    Each candidate that is dropped votes for one kept detection of its label that scores at least t:
    the best that it overlaps by an IoU of more than `overlap`, so that the candidates of a car
    behind a car speak for that car; if there is none, for the one that dropped it. With the scores
    s_j of its voters, a kept detection of score s ranks at

        t + log(exp(beta (s - t)) + weight sum_j (exp(beta (s_j - t)) - 1)) / beta

    over those s_j above t: never below s, and s if nobody votes for it. What scores less than t
    changes no rank above it.

    overlap    eta, the largest overlap that two kept detections may have (0 to 1)
    beta       how much more a strong candidate's vote counts: exp(beta score) is about the odds
               that it is right
    weight     how much every vote counts: little where a detector reports each object by many
               boxes that are hardly different, whose votes are far from independent
    threshold  the score t from which on a candidate votes
    measure    the overlap by which candidates are dropped: see `Greedy`
    """

    overlap: float = number(0.4, 0, 1)
    beta: float = number(4.0, 1e-3, 1e3)
    weight: float = number(1.0, 1e-9, 1e9)
    threshold: float = number(-1.0, -1e9, 1e9)
    measure: str = choice("lower", *MEASURES, "box")

    name = "voting"
    domain = "odds"

    def choose(self, candidates: Candidates) -> Interpretation:
        """What `Greedy` keeps, each label by itself, ranked by votes."""
        candidates.check_size(self.name)
        kept = Greedy(self.overlap, self.measure).choose(candidates)
        elected = self._elect(candidates, kept)
        above = self.beta * (candidates.score - self.threshold)
        total = above.copy()
        # In an order that is not that of the input, on which the last bits of sums would depend.
        order = candidates.order
        voters = order[(elected[order] >= 0) & (above[order] > 0)]
        # log(exp(x) - 1), which must not overflow.
        vote = np.log(self.weight) + above[voters] + np.log(-np.expm1(-above[voters]))
        np.logaddexp.at(total, elected[voters], vote)
        rank = self.threshold + total[kept.indices] / self.beta
        best = np.argsort(-rank, kind="stable")
        return replace(
            kept, indices=kept.indices[best], rank=rank[best], method="voting", settings=vars(self)
        )

    def _elect(self, candidates: Candidates, kept: Interpretation) -> Int64:
        """(N,) the kept detection that each dropped one votes for; -1 for the kept ones."""
        from halfseen.suppression.ranked import first_above

        elected = kept.excluder.copy()
        if self.measure in ("iou", "box"):
            return elected
        dropped = np.flatnonzero(elected >= 0)
        for voters in candidates.by_label(dropped):
            label = candidates.label[voters[0]]
            able = candidates.score[kept.indices] >= self.threshold
            best = kept.indices[able & (candidates.label[kept.indices] == label)]
            iou = MEASURES.index("iou")
            nearest = first_above(candidates.visible, best, voters, iou, self.overlap)
            elected[voters[nearest >= 0]] = nearest[nearest >= 0]
        return elected
