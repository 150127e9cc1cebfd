"""The energy E(O | T, L) that learning minimises, and its gradient, as a function of arrays.

    E = lambda / 2 sum_j [ |w_j|^2 + c_j (u_j^2 + u_tj^2) ]
        + sum over positives of L(1 - g)
        + sum over negative places of L(1 + max over its windows of g)

with c_j the number of blocks; b is not regularised, and where u_t is tied to u the paper's one term
c_j u_j^2 is left. Positives keep their component and flags (m, v) fixed, so g is linear in the
parameters. A negative place may hold windows of several components; its flags are inferred anew,
exactly, at every evaluation. Fixing them as well makes u diverge: each fit raises it until every
window scores high, and the next one then kills w. A maximum of linear functions is convex, so the
whole is, and the gradient at the maximiser is a subgradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float32, Float64, Int64
from halfseen.learn.kernels import add_visible, block_sums, boundary_length, window_responses
from halfseen.visibility.infer import chain_bound, infer_visibility

Vector = Float64
Truncation = Literal["zero", "free", "tied"]
# Where b, u and u_t stand among a component's biases.
B, U, U_T = range(3)

# Work is cut into chunks of fixed size, summed in order: the same bytes for any number of cores.
CHUNK = 512
# The response of a block that must be hidden: below any sum of the others.
NEVER = np.float32(-1e4)
# Bounds are float32 sums: one this much below the threshold is below it without doubt.
ROUNDING = 1e-4
# Passes of the chain bound: more leave fewer windows to be cut that turn out below the threshold.
PASSES = 2


@dataclass(frozen=True, eq=False)
class Examples:
    """Windows of one component; those of its mirror image are stored flipped.

    features  (N, rows, cols, channels) float32
    outside   (N, rows, cols) bool: blocks beyond the image; their features are 0
    """

    features: Float32
    outside: Bool

    def __post_init__(self) -> None:
        assert self.features.shape[:-1] == self.outside.shape, (
            "features and outside differ in shape"
        )
        assert self.outside.ndim == 3, "windows are (N, rows, cols)"

    @property
    def blocks(self) -> tuple[int, int]:
        """(N, rows cols): the shape that the compiled loops take a window's blocks in."""
        count, rows, cols = self.outside.shape
        return count, rows * cols

    @cached_property
    def beyond(self) -> Int64:
        """(N,) how many blocks lie outside the image."""
        counts: Int64 = np.count_nonzero(self.outside.reshape(self.blocks), axis=1)
        return counts

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, eq=False)
class Positives:
    """Positive windows of one component with their fixed flags (True = visible)."""

    examples: Examples
    visible: Bool

    def __post_init__(self) -> None:
        assert self.visible.shape == self.examples.outside.shape, "one flag for each block"
        assert not (self.visible & self.examples.outside).any(), "a block outside is never visible"


@dataclass(frozen=True, eq=False)
class Negatives:
    """Negative windows of one component; `place` (N,) numbers the places, shared by components."""

    examples: Examples
    place: Int64

    def __post_init__(self) -> None:
        assert self.place.shape == (len(self.examples),), "one place for each window"


class Part(NamedTuple):
    """The parameters of one component: w (blocks, channels), and biases (3,): see B, U and U_T."""

    w: Vector
    bias: Vector


@dataclass(frozen=True)
class Parameters:
    """w, b, u, u_t of each component, as the flat vector that L-BFGS moves."""

    shapes: tuple[tuple[int, int, int], ...]

    @property
    def length(self) -> int:
        return sum(rows * cols * channels + 3 for rows, cols, channels in self.shapes)

    def split(self, vector: Vector) -> list[Part]:
        """For each component the views of its parameters."""
        parts, start = [], 0
        for rows, cols, channels in self.shapes:
            size = rows * cols * channels
            weights = vector[start : start + size].reshape(rows * cols, channels)
            parts.append(Part(weights, vector[start + size : start + size + 3]))
            start += size + 3
        return parts


@dataclass(frozen=True)
class Objective:
    """How the energy is made up.

    regularisation  lambda
    alpha           weight of the Ising prior
    visibility      whether negatives' flags are inferred (else every inside block is visible)
    truncation      u_t is "zero", a "free" parameter, or "tied" to u
    smoothing       width of the Huber hinge's quadratic part; 0 is the hinge
    """

    regularisation: float
    alpha: float
    visibility: bool
    truncation: Truncation
    smoothing: float = 0.0

    def loss(self, margin: Vector) -> tuple[Vector, Vector]:
        """Loss and its derivative: 0 below 0, then m^2 / 2d up to d, then m - d / 2."""
        if self.smoothing == 0:
            return np.maximum(margin, 0), (margin > 0).astype(np.float64)
        width = self.smoothing
        slope = np.clip(margin / width, 0, 1)
        return np.where(margin < width, 0.5 * width * slope**2, margin - width / 2), slope

    def __call__(
        self,
        vector: Vector,
        parameters: Parameters,
        positives: Sequence[Positives],
        negatives: Sequence[Negatives],
        pool: ThreadPoolExecutor | None = None,
    ) -> tuple[float, Vector]:
        """E and its gradient at `vector`; one entry a component in both sequences."""
        tied = self.tie(vector, parameters)
        gradient = np.zeros_like(vector)
        parts = list(zip(parameters.split(tied), parameters.split(gradient), strict=True))
        energy = 0.0
        for (w, bias), (dw, dbias) in parts:
            weight = self.regularisation * len(w) * np.array([0, 1, self.truncation == "free"])
            energy += float(0.5 * self.regularisation * (w * w).sum() + 0.5 * weight @ bias**2)
            dw += self.regularisation * w
            dbias += weight * bias
        for ((w, bias), (dw, dbias)), given in zip(parts, positives, strict=True):
            loss, slope = self.loss(1 - self.fixed_scores(w, bias, given, pool))
            energy += float(loss.sum())
            _accumulate(given.examples, given.visible, -slope, dw, dbias, pool)
        found = [
            self.best_scores(w, bias, batch.examples, -1.0, pool)
            for ((w, bias), _), batch in zip(parts, negatives, strict=True)
        ]
        for (_, (dw, dbias)), batch, (scores, visible), winner in zip(
            parts, negatives, found, _winners([s for s, _ in found], negatives), strict=True
        ):
            loss, slope = self.loss(np.where(winner, 1 + scores, -1.0))
            energy += float(loss.sum())
            _accumulate(batch.examples, visible, slope, dw, dbias, pool)
        return energy, self._untie(gradient, parameters)

    def tie(self, vector: Vector, parameters: Parameters) -> Vector:
        """The vector with u_t as `truncation` wants it, and u = 0 where it does not take part."""
        vector = vector.copy()
        for _, bias in parameters.split(vector):
            if not self.visibility and self.truncation != "tied":
                bias[U] = 0
            if self.truncation == "zero":
                bias[U_T] = 0
            elif self.truncation == "tied":
                bias[U_T] = bias[U]
        return vector

    def _untie(self, gradient: Vector, parameters: Parameters) -> Vector:
        for _, bias in parameters.split(gradient):
            if self.truncation == "tied":
                bias[U] += bias[U_T]
            if not self.visibility and self.truncation != "tied":
                bias[U] = 0
            if self.truncation != "free":
                bias[U_T] = 0
        return gradient

    def fixed_scores(self, w: Vector, bias: Vector, batch: Positives, pool: Any = None) -> Vector:
        """g(x) of windows whose flags are given."""
        responses = _responses(batch.examples, w, pool)
        hidden = ~batch.visible & ~batch.examples.outside
        scores: Vector = (
            bias[B]
            + (responses * batch.visible.reshape(batch.examples.blocks)).sum(1, dtype=np.float64)
            + bias[U] * hidden.sum((1, 2))
            + bias[U_T] * batch.examples.beyond
            - self.alpha * boundary_length(batch.visible, batch.examples.outside)
        )
        return scores

    def best_scores(
        self,
        w: Vector,
        bias: Vector,
        examples: Examples,
        above: float,
        pool: Any = None,
        hidden: Bool | None = None,
    ) -> tuple[Vector, Bool]:
        """g(x) and its flags, exact where g(x) may exceed `above`; elsewhere a bound below it.

        Blocks that are known to be `hidden` are never called visible.
        """
        outside = examples.outside
        count, rows, cols = outside.shape
        constant = bias[B] + bias[U_T] * examples.beyond
        responses = _responses(examples, w, pool)
        if hidden is not None:
            responses[hidden.reshape(examples.blocks)] = NEVER
        scores = np.empty(count)
        floor = bias[U] if self.visibility else -np.inf
        block_sums(responses, outside.reshape(examples.blocks), floor, scores)
        scores += constant
        visible = ~outside
        near = np.flatnonzero(scores > above) if self.visibility else np.zeros(0, np.int64)

        def infer(chunk: Int64) -> None:
            grids = responses[chunk].reshape(-1, rows, cols)
            scores[chunk] = constant[chunk] + chain_bound(
                grids, bias[U], self.alpha, outside[chunk],
                passes=PASSES, above=above - constant[chunk].max(),
            )  # fmt: skip
            close = scores[chunk] > above - ROUNDING
            chunk = chunk[close]
            exact, flags = infer_visibility(grids[close], bias[U], self.alpha, outside[chunk])
            scores[chunk] = constant[chunk] + exact
            visible[chunk] = flags

        _run(infer, [near[k : k + CHUNK] for k in range(0, len(near), CHUNK)], pool)
        return scores, visible


def _winners(scores: Sequence[Vector], negatives: Sequence[Negatives]) -> list[Bool]:
    """Which windows are the best of their place and cost anything; the first one among equals."""
    score = np.concatenate(scores)
    place = np.concatenate([batch.place for batch in negatives])
    costly = np.flatnonzero(score > -1)
    order = costly[np.lexsort((-score[costly], place[costly]))]
    first = np.ones(len(order), bool)
    first[1:] = place[order][1:] != place[order][:-1]
    winner = np.zeros(len(score), bool)
    winner[order[first]] = True
    return np.split(winner, np.cumsum([len(s) for s in scores])[:-1])


def _responses(examples: Examples, w: Vector, pool: Any) -> Float32:
    count = len(examples)
    features = examples.features.reshape(count, *w.shape)
    weights = w.astype(np.float32)
    out = np.empty((count, len(w)), np.float32)

    def run(start: int) -> None:
        window_responses(features[start : start + CHUNK], weights, out[start : start + CHUNK])

    _run(run, range(0, count, CHUNK), pool)
    return out


def _accumulate(
    examples: Examples,
    visible: Bool,
    slope: Vector,
    dw: Vector,
    dbias: Vector,
    pool: Any,
) -> None:
    """Adds slope_n dg_n / dO to the gradient."""
    count = len(examples)
    features = examples.features.reshape(count, *dw.shape)
    flags = visible.reshape(examples.blocks)
    active = np.flatnonzero(slope)
    # Chunks of active windows, or the work of one thread depends on where they lie.
    starts = range(0, len(active), CHUNK)
    sums = [np.zeros(dw.shape) for _ in starts]

    def run(k: int) -> None:
        chosen = active[k * CHUNK : (k + 1) * CHUNK]
        low, high = chosen[0], chosen[-1] + 1
        factor = np.zeros(high - low)
        factor[chosen - low] = slope[chosen]
        add_visible(features[low:high], flags[low:high], factor, sums[k])

    _run(run, range(len(starts)), pool)
    for part in sums:
        dw += part
    outside, factor = examples.beyond[active], slope[active]
    hidden = len(dw) - outside - np.count_nonzero(flags[active], axis=1)
    dbias += [factor.sum(), factor @ hidden, factor @ outside]


def _run(function: Any, items: Sequence[Any], pool: ThreadPoolExecutor | None) -> None:
    if pool is None or len(items) < 2:
        for item in items:
            function(item)
    else:
        list(pool.map(function, items))
