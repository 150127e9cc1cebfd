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
At t they have no say: where nearly every window scores about t, their number says nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import iou_matrix
from halfseen.suppress.interpretation import (
    Floats,
    Indices,
    Interpretation,
    best_first,
    check_range,
    check_scores,
)
from halfseen.suppress.scene import Scene, scene_of

log = logging.getLogger(__name__)

ENERGIES: dict[str, dict[str, Any]] = {
    "odds": {"value": "odds", "blocks": "visible", "rank": "support"},
    "paper": {"value": "score", "blocks": "all", "rank": "score"},
}
CHOICES = {
    "value": ("odds", "score"),
    "blocks": ("visible", "all"),
    "rank": ("support", "marginal", "score"),
    "measure": ("visible", "box"),
    "solver": ("exact", "marginal"),
}
AGREES = 0.3
"""The least overlap at which a candidate supports a kept detection."""
MANY = 5_000
"""Candidates of one label above which a proof within the limits is unlikely, and is warned of."""


@dataclass(frozen=True)
class Covering:
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
    measure      r by "visible" blocks (paper), or by intersection over union of the "box"
    solver       "exact" (paper), or "marginal": repeatedly the candidate that gains most
    block        pixels between scene blocks (the cell size of the descriptor)
    max_nodes, max_seconds   limits of the search of one call
    """

    overlap: float = 0.3
    threshold: float = -1.0
    value: str = "odds"
    beta: float = 4.0
    blocks: str = "visible"
    price: float = 0.0
    rank: str = "support"
    gamma: float = 4.0
    measure: str = "visible"
    solver: str = "exact"
    block: float = 8.0
    max_nodes: int = 100_000
    max_seconds: float = 1.0

    def __post_init__(self) -> None:
        check_range("overlap", self.overlap, 0, 1)
        check_range("threshold", self.threshold, -1e9, 1e9)
        check_range("beta", self.beta, 1e-6, 1e6)
        check_range("gamma", self.gamma, 1e-6, 1e6)
        check_range("price", self.price, 0, 1e300)
        check_range("block", self.block, 1, 1e6)
        check_range("max_nodes", self.max_nodes, 0, 1e15)
        check_range("max_seconds", self.max_seconds, 0, 1e9)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SettingsError(
                    f"{name} must be one of {', '.join(allowed)}, found {getattr(self, name)!r}"
                )

    @classmethod
    def named(cls, energy: str, **settings: Any) -> Covering:
        """The settings of an energy by name, "odds" (the default) or "paper", with changes."""
        if energy not in ENERGIES:
            raise SettingsError(f"energy must be one of {', '.join(ENERGIES)}, found {energy!r}")
        return cls(**{**ENERGIES[energy], **settings})

    def values(self, score: Floats) -> Floats:
        """G of each candidate on the blocks that it covers."""
        if self.value == "score":
            return score - self.threshold
        exponent = self.beta * score
        if len(score) and np.abs(exponent).max() > 500:
            raise SettingsError(
                f"odds of scores up to {np.abs(score).max():g} overflow at beta {self.beta:g};"
                ' rescale the scores, lower beta or set value="score"'
            )
        return np.exp(exponent)


def covering(found: Detections, energy: str = "odds", **settings: Any) -> Interpretation:
    """The best interpretation of a scene, each label by itself; settings are those of `Covering`.

    `optimal` says whether it is proven to be the best; if a limit stopped the search, it is not,
    and `bound` still holds.
    """
    options = Covering.named(energy, **settings)
    check_scores(found.score)
    return covering_of(found.score, found.label, scene_of(found, options.block), options)


def covering_of(
    score: Floats, label: NDArray[np.str_], scene: Scene, settings: Covering
) -> Interpretation:
    """The same for candidates of any kind, given as sets of scene blocks."""
    excluder = np.full(len(score), -1, dtype=np.int64)
    overlap, rank = np.zeros(len(score)), np.zeros(len(score))
    energy, bound, optimal = 0.0, 0.0, True
    kept = []
    order = best_first(score, scene.content)
    order = order[score[order] >= settings.threshold]
    for name in np.unique(label[order]):
        own = order[label[order] == name]
        chosen, solved = _solve(score, scene, own, settings, rank)
        kept.append(chosen)
        energy, bound = energy + solved[0], bound + solved[1]
        optimal &= solved[2]
        who, most = _strongest(scene, own, chosen, settings)
        if settings.rank == "support":
            rank[chosen] += _support(score[own], score[chosen], who, most, settings)
        drop = most > settings.overlap
        excluder[own[drop]] = chosen[who[drop]]
        overlap[own[drop]] = most[drop]
    indices = np.concatenate([np.zeros(0, np.int64), *kept])
    excluder[indices], overlap[indices] = -1, 0
    place = np.empty(len(score), dtype=np.int64)
    place[order] = np.arange(len(order))
    indices = indices[np.lexsort((place[indices], -rank[indices]))]
    return Interpretation(
        indices,
        rank[indices],
        "covering",
        vars(settings),
        excluder,
        overlap,
        energy,
        bound,
        optimal,
    )


def _solve(
    score: Floats, scene: Scene, own: Indices, settings: Covering, rank: Floats
) -> tuple[Indices, tuple[float, float, bool]]:
    """The kept ones of the candidates `own`, best first, whose rank is written; the certificate."""
    from halfseen.suppress.kernels import block_conflicts, box_conflicts, extents
    from halfseen.suppress.solver import maximise

    value = settings.values(score[own])
    own, value = own[value > 0], value[value > 0]
    if len(own) > MANY:
        log.warning(
            "covering suppression of %d candidates: the result may not be proven optimal within"
            " %g s; raise the detection threshold", len(own), settings.max_seconds,
        )  # fmt: skip
    visible = scene.visible[own]
    covered = visible if settings.blocks == "visible" else scene.whole[own]
    if settings.measure == "visible":
        conflict = block_conflicts(visible, settings.overlap)
    else:
        conflict = box_conflicts(scene.box[own], settings.overlap)
    solution = maximise(
        value, covered, conflict, price=settings.price, exact=settings.solver == "exact",
        max_nodes=settings.max_nodes, max_seconds=settings.max_seconds,
    )  # fmt: skip
    chosen = own[solution.chosen]
    rank[chosen] = score[chosen]
    if settings.rank != "score":
        mass = value * extents(covered)[0]
        part = np.sqrt(solution.marginal[solution.chosen] / mass[solution.chosen])
        rank[chosen] = settings.threshold + (score[chosen] - settings.threshold) * part
    return chosen, (solution.energy, solution.bound, solution.optimal)


def _support(
    score: Floats, kept: Floats, who: Indices, overlap: Floats, settings: Covering
) -> Floats:
    """What the candidates that agree with each kept one add to its rank; at least 0."""
    agree = overlap >= AGREES
    score, who, overlap = score[agree], who[agree], overlap[agree]
    # What a vote at the threshold would be, next to the kept one's own.
    nothing = np.exp(settings.gamma * (settings.threshold - kept))
    votes = overlap * (np.exp(settings.gamma * (score - kept[who])) - nothing[who])
    # The kept ones are among those that agree with them, each by 1 - nothing.
    total = nothing + np.bincount(who, votes, len(kept))
    return np.log(np.maximum(total, 1)) / settings.gamma


def _strongest(
    scene: Scene, own: Indices, chosen: Indices, settings: Covering
) -> tuple[Indices, Floats]:
    """For each of `own` the place in `chosen` that it overlaps most, and by how much."""
    from halfseen.suppress.kernels import strongest_overlap

    if settings.measure == "visible":
        return strongest_overlap(scene.visible[own], np.flatnonzero(np.isin(own, chosen)))
    if not len(chosen):
        return np.full(len(own), -1), np.zeros(len(own))
    overlaps = iou_matrix(scene.box[own], scene.box[chosen])
    who = overlaps.argmax(axis=1)
    return who, overlaps[np.arange(len(own)), who]
