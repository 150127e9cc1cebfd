"""Suppression by covering (Ott, Everingham and Matas, section 4): exact, and aware of hiding.

Of the candidates D, with H_k the scene blocks in which k is visible, find

    I* = argmax_I sum_i max_{k in I} G_ik   subject to   r(k, l) <= eta for all k, l in I
    r(k, l) = |H_k and H_l| / |H_k or H_l|

The paper's G is s_k - t on all blocks of the window of k, visible or not. The default here departs
from it: G is exp(beta s_k), close to the odds of the detection, on the visible blocks alone, so
that one strong detection outweighs many weak ones beside it. The kept detections are ranked by

    t + (s_k - t) sqrt(what k adds to the others / what it covers)
    + log(1 + sum_i r(i, k) (exp(gamma (s_i - t)) - 1) / exp(gamma (s_k - t))) / gamma

so that one which others cover sinks, and one that many dropped candidates agree with rises: i runs
over the other candidates that overlap k more than any other kept detection, and by AGREES at least.
At t they do not count: where nearly every window scores about t, their number means nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from halfseen.arrays import Float64, Int64
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.settings import check_choice, choice, number
from halfseen.suppression.candidates import Candidates, Interpretation
from halfseen.suppression.method import Method
from halfseen.suppression.scene import blocks_of
from halfseen.suppression.scores import as_logit, as_probability

if TYPE_CHECKING:
    from halfseen.suppression.candidates import Shapes
    from halfseen.suppression.solver.solve import Solution

log = logging.getLogger(__name__)

ENERGIES: dict[str, dict[str, Any]] = {
    "odds": {"value": "odds", "blocks": "visible", "rank": "support"},
    "paper": {"value": "score", "blocks": "all", "rank": "score"},
}
AGREES = 0.3
"""The least overlap at which a candidate supports a kept detection."""
MANY = 5_000
"""Candidates of one label above which a proof within the limits is unlikely, and is warned of."""
STEEPEST = 500.0
"""Exponents of which exp() neither overflows nor vanishes."""


@dataclass(frozen=True)
class Covering(Method):
    """Settings.

    overlap      eta, the largest overlap that two kept detections may have (0 to 1; the paper
                 chooses it by cross-validation from 0.2 to 1)
    threshold    t: detections that score less are dropped (paper: -1)
    value        "odds": exp(beta s), or "score": s - t (paper)
    beta         of the odds, above 0
    blocks       which blocks get the value: "visible", or "all" of the window (paper)
    price        what each kept detection costs, in units of the energy (paper: 0)
    rank         by "score" (paper), by "marginal" contribution, or by that and "support"
    gamma        how much more strong candidates count than weak ones in the support, above 0
    measure      of r: the blocks that both see over those that either sees ("iou", paper), or over
                 those that the "smaller" sees; "box": intersection over union of the boxes
    solver       "exact" (paper), or "marginal": repeatedly the candidate that gains most
    block        pixels between scene blocks (the cell size of the descriptor)
    max_nodes, max_work      limits of the search for one label: nodes, and steps at all of them
                             (the default takes about a second). The same on every machine
    max_seconds  another limit of it; what is found may then depend on the machine (default: none)
    """

    overlap: float = number(0.3, 0, 1)
    threshold: float = number(-1.0, -1e9, 1e9)
    value: str = choice("odds", "odds", "score")
    beta: float = number(4.0, 1e-6, 1e6)
    blocks: str = choice("visible", "visible", "all")
    price: float = number(0.0, 0, 1e100)
    rank: str = choice("support", "support", "marginal", "score")
    gamma: float = number(4.0, 1e-6, 1e6)
    measure: str = choice("iou", "iou", "smaller", "box")
    solver: str = choice("exact", "exact", "marginal")
    block: float = number(8.0, 1, 1e6)
    max_nodes: int = number(100_000, 0, 1e15)
    max_work: int = number(1_000_000_000, 0, 1e15)
    max_seconds: float = number(1e9, 0, 1e9)

    name = "covering"
    domain = "odds"

    @classmethod
    def make(cls, settings: dict[str, Any]) -> Covering:
        """Also takes an `energy` by name, "odds" (the default) or "paper", and changes of it."""
        energy = check_choice("energy", settings.get("energy", "odds"), tuple(ENERGIES))
        given = {name: value for name, value in settings.items() if name != "energy"}
        return super().make({**ENERGIES[energy], **given})

    def values(self, score: Float64) -> Float64:
        """G of each candidate on the blocks that it covers."""
        if self.value == "score":
            return score - self.threshold
        largest = np.abs(score).max(initial=0)
        if largest * self.beta > STEEPEST:
            raise SettingsError(
                f"odds of scores up to {largest:g} overflow at beta {self.beta:g};"
                ' rescale the scores, lower beta or set value="score"'
            )
        return np.exp(self.beta * score)

    def prepare(self, found: Detections) -> Candidates:
        """Detections as sets of scene blocks."""
        return blocks_of(found, self.block, whole=self.blocks == "all")

    def choose(self, candidates: Candidates) -> Interpretation:
        """The best interpretation of a scene, each label by itself.

        `optimal` says whether it is proven to be the best; if a limit stopped the search, it is
        not, and `bound` still holds.
        """
        candidates.check_size(self.name)
        score, count = candidates.score, len(candidates)
        excluder, overlap = np.full(count, -1, dtype=np.int64), np.zeros(count)
        rank, kept = np.zeros(count), [np.zeros(0, np.int64)]
        energy, bound, optimal = 0.0, 0.0, True
        order = candidates.order[score[candidates.order] >= self.threshold]
        for own in candidates.by_label(order):
            shapes, solution, who, most = self._solve(candidates, own)
            energy, bound = energy + solution.energy, bound + solution.bound
            optimal &= solution.optimal
            chosen = own[solution.chosen]
            kept.append(chosen)
            rank[chosen] = score[chosen]
            if self.rank != "score":
                mass = (self.values(score[own]) * shapes.area)[solution.chosen]
                part = np.sqrt(solution.marginal[solution.chosen] / mass)
                rank[chosen] = self._lowered(score[chosen], part, candidates.logits)
            if self.rank == "support":
                rank[chosen] += self._support(score[own], score[chosen], who, most)
            drop = most > self.overlap
            excluder[own[drop]] = chosen[who[drop]]
            overlap[own[drop]] = most[drop]
        result = candidates.interpret(self, np.concatenate(kept), rank, excluder, overlap)
        return replace(result, energy=energy, bound=bound, optimal=optimal)

    def _solve(self, candidates: Candidates, own: Int64) -> tuple[Shapes, Solution, Int64, Float64]:
        """Find the best set of the candidates `own`.

        Returns what they cover, the solution, and for each of them the place among the chosen ones
        that it overlaps most, with that overlap.
        """
        from halfseen.suppression.overlap_kernels import MOST_PAIRS, Graph, find_pairs, strongest
        from halfseen.suppression.solver.solve import SearchLimits, maximise

        if len(own) > MANY:
            log.warning(
                "covering suppression of %d candidates: the result may not be proven optimal within"
                " its limits; raise the detection threshold",
                len(own),
            )
        shapes = candidates.visible if self.blocks == "visible" else candidates.whole
        compared, measure = candidates.compared(self.measure)
        covered = shapes.take(own)
        compared = covered if compared is shapes else compared.take(own)
        conflict = Graph(*find_pairs(compared, measure, self.overlap))
        if not len(conflict.start):
            raise SettingsError(
                f"covering suppression: of {len(own):,} candidates more than {MOST_PAIRS:,} pairs "
                'overlap; leave out those of low score, or use method "greedy"'
            )
        exact = self.solver == "exact"
        limits = SearchLimits.of(exact, self.max_nodes, self.max_seconds, self.max_work)
        value = self.values(candidates.score[own])
        solution = maximise(value, covered, conflict, limits, self.price)
        kept = np.flatnonzero(solution.chosen)
        return covered, solution, *strongest(compared, kept, measure)

    def _lowered(self, score: Float64, part: Float64, logits: bool) -> Float64:
        """Scores of which `part` is left: of s - t, or of the probability."""
        if logits:
            return as_logit(as_probability(score) * part, "probability")
        return self.threshold + (score - self.threshold) * part

    def _support(self, score: Float64, kept: Float64, who: Int64, overlap: Float64) -> Float64:
        """What the candidates that agree with each kept one add to its rank; at least 0."""
        agree = overlap >= AGREES
        score, who, overlap = score[agree], who[agree], overlap[agree]
        # What a vote at the threshold would be, next to the kept one's own.
        nothing = np.exp(self.gamma * (self.threshold - kept))
        steep = np.minimum(self.gamma * (score - kept[who]), STEEPEST)
        votes = overlap * (np.exp(steep) - nothing[who])
        # The kept ones are among those that agree with them, each by 1 - nothing.
        total = nothing + np.bincount(who, votes, len(kept))
        return np.log(np.maximum(total, 1)) / self.gamma
