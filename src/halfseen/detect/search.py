"""From features to detections: responses, bounds, exact visibility, the best template (Eqn 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.compute.map import Map
from halfseen.detect.responses import Reached, Rule, find_level, pack_weights
from halfseen.detect.view import Levels, MirrorBasis, Plane, View
from halfseen.detect.windows import find_outside, place_boxes
from halfseen.detections import Detections, Grids, as_blocks, visible_boxes
from halfseen.errors import ModelError
from halfseen.model.mixture import Component, Mixture
from halfseen.visibility.infer import bound, solve, trusted

# Windows that wait to be solved: a whole photo's, so that it is done once for all levels.
WAITING_BYTES = 16 << 20
# Passes of the chain bound before a window is solved, at most. A pass costs a twentieth of a cut.
PASSES = 3


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one template that reach the threshold.

    level   (N,) which of the levels searched
    y, x    (N,) places (see `windows.py`)
    score   (N,) float32: g(x) of Eqn 1
    flags   (N, rows, cols) bool: True where a block is visible
    outside (N, rows, cols) bool: True where a block lies beyond the image
    """

    level: Int64
    y: Int64
    x: Int64
    score: Float32
    flags: Bool
    outside: Bool

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> Windows:
        """No windows of a template of (rows, cols)."""
        none, grids = np.zeros(0, np.int64), np.zeros((0, *shape), np.bool_)
        return cls(none, none, none, np.zeros(0, np.float32), grids, grids)


def find_windows(
    features: Float32, component: Component, threshold: float, alpha: float, visibility: bool
) -> Windows:
    """All windows of a template at one level whose score g(x) is at least `threshold`."""
    search = Search(component, threshold, alpha, visibility)
    search.add(Plane.of(features))
    return search.windows()[0]


class Search:
    """Looks in one level after another for windows whose score g(x) is at least a threshold.

    For those of a component and, with `basis`, of its mirror image; the levels' planes are in the
    same basis.

    Without visibility g(x) is the plain sum. With it, windows are dropped by an upper bound, and
    what is left is solved exactly, so nothing that reaches the threshold is lost. The chain bound
    of every window costs little more than the paper's (Eqn 3), and leaves a twentieth of its
    windows or less, so that the paper's is not needed before it; of those, further passes of it
    leave few that a cut then finds below the threshold.

    With `most`, windows that are not among the best may be left out, of both sides together twice
    `most`: no place has more than two, so they are the best of at least `most` places. The most
    promising are solved first, and what cannot reach the best so far need not be solved at all.

    Without `blank`, windows of which nothing is visible are left out. All of them score alike,
    b + u for every block, so a model for which that reaches the threshold finds them everywhere.
    """

    def __init__(
        self,
        component: Component,
        threshold: float,
        alpha: float,
        visibility: bool,
        most: int | None = None,
        basis: MirrorBasis | None = None,
        blank: bool = True,
    ) -> None:
        self.component, self.threshold, self.alpha = component, threshold, alpha
        self.visibility, self.blank = visibility, blank
        weights = component.weights.reshape(-1, component.weights.shape[2])
        even, odd = weights, weights[:, :0]
        if basis is not None:
            even, odd = weights @ basis.even.T, weights @ basis.odd.T
        self._weights = pack_weights(even, odd, component.shape)
        self._sides = 1 if basis is None else 2
        self._most = None if most is None else self._sides * most
        self._best = np.zeros(0, np.float32)  # scores of the best so far
        # Bounds are summed in single precision; features have a norm of about 1.
        size = abs(component.bias) + float(np.sqrt(np.einsum("kc,kc->k", weights, weights)).sum())
        size += (abs(component.u) + abs(component.u_t)) * len(weights)
        self._slack = 1e-5 * size if visibility else 0.0
        self._enough = threshold - self._slack
        self._sizes: list[tuple[int, int]] = []
        self._waiting: list[Reached] = []
        self._bytes = 0
        none = np.zeros((0, *component.shape), np.bool_)
        self._found = [(np.zeros((0, 4), np.int64), np.zeros(0, np.float32), none, none)]

        self._rule = Rule(
            self._sides,
            *component.shape,
            component.bias,
            component.u,
            component.u_t,
            alpha,
            visibility,
            blank,
            self._enough,
        )

    def add(self, level: Plane) -> None:
        """Adds the windows of a level."""
        rule = self._rule._replace(enough=self._enough)
        number = len(self._sizes)
        self._sizes.append(level.size)
        for reached in find_level(self._weights, level, rule, number):
            self._waiting.append(reached)
            self._bytes += reached.blocks.nbytes
            if self._bytes > WAITING_BYTES:
                self._solve()

    def windows(self) -> list[Windows]:
        """All windows found, in no particular order: of the component, then of its mirror image."""
        self._solve()
        found, score, flags, outside = (
            np.concatenate(part) for part in zip(*self._found, strict=True)
        )
        sides = [np.flatnonzero(found[:, 0] == side) for side in range(self._sides)]
        _, level, y, x = found.T
        return [
            Windows(level[own], y[own], x[own], score[own], flags[own], outside[own])
            for own in sides
        ]

    def _solve(self) -> None:
        """Solve the waiting windows, and keep those that reach the threshold."""
        if not self._waiting:
            return
        found, sums, blocks = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        self._waiting.clear()
        self._bytes = 0
        if not np.isfinite(sums).all():
            raise ModelError("scores are beyond what single precision holds: weights are too large")
        if not len(found):
            return
        if not self.visibility:
            outside = self._outside(found)
            self._found.append((found, sums, ~outside, outside))
            return
        # Alike beside alike: most can be dropped together.
        order = np.argsort(-sums, kind="stable")
        found = found[order]
        outside = self._outside(found)
        grids = blocks[order].reshape(outside.shape)
        u, alpha = self.component.u, self.alpha
        constant = self.component.bias + self.component.u_t * outside.sum((1, 2))
        above = self._enough - constant.max()
        bounds = constant + bound(trusted(grids, u, alpha, outside), PASSES, above)
        near = np.flatnonzero(bounds >= self._enough)
        score = np.full(len(near), -np.inf, np.float32)
        flags = np.empty((len(near), *self.component.shape), np.bool_)
        for part in self._promising(bounds[near], score):
            some = near[part]
            value, flags[part] = solve(trusted(grids[some], u, alpha, outside[some]))
            counts = self.blank | flags[part].any((1, 2))
            score[part] = np.where(counts, value + constant[some], -np.inf)
        # As a double: single precision would round a threshold up or down.
        keep = (score >= np.float64(self.threshold)) & (score > -np.inf)
        kept = near[keep]
        self._found.append((found[kept], score[keep], flags[keep], outside[kept]))

    def _outside(self, found: Int64) -> Bool:
        """(N, rows, cols) which blocks of windows are outside the image."""
        _, level, y, x = found.T
        sizes = np.array(self._sizes, np.int64).reshape(-1, 2)
        return find_outside(y, x, sizes[level], *self.component.shape)

    def _promising(
        self, bounds: NDArray[Any], score: Float32
    ) -> Iterator[NDArray[np.intp] | slice]:
        """Runs of windows to solve, until no other can be among the best; reads their scores."""
        if self._most is None:
            yield slice(None)
            return
        order = np.argsort(-bounds, kind="stable")
        for start in range(0, len(order), self._most):
            part = order[start : start + self._most]
            if bounds[part[0]] < self._enough:
                return
            yield part
            self._best = np.sort(np.concatenate([self._best, score[part]]))[-self._most :]
            if len(self._best) == self._most:
                self._enough = max(self._enough, float(self._best[0]) - self._slack)


class ModelSearch:
    """Looks in one level after another for all templates of a model.

    `basis` is that of the model's descriptor, and of the planes, if the model is mirrored; of
    another model, None.
    """

    def __init__(
        self,
        model: Mixture,
        threshold: float,
        basis: MirrorBasis | None,
        most: int | None = None,
        blank: bool = True,
    ) -> None:
        self._searches = [
            Search(component, threshold, model.alpha, model.visibility, most, basis, blank)
            for component in model.components
        ]

    def add(self, level: Plane) -> None:
        """Adds the windows of a level."""
        for search in self._searches:
            search.add(level)

    def windows(self) -> list[Windows]:
        """The windows of each of the model's templates, in their order."""
        found = [search.windows() for search in self._searches]
        return [windows for side in zip(*found, strict=True) for windows in side]


def search_levels(
    view: View, levels: Levels, threshold: float, most: int | None, each: Map
) -> dict[int, Detections]:
    """The detections of each model of a group, which share these levels."""
    group = levels.group
    bases = {group.basis_of(m) for m in group.models}
    # A window that is not among the best of its component has `most` better places, so it is not
    # among the model's best either.
    searches = {
        m: ModelSearch(model, threshold, group.basis_of(m), most, blank=False)
        for m, model in group.models.items()
    }
    wanted = {m: levels.of_model(m) for m in group.models}

    def make(k: int) -> dict[Any, Plane]:
        features = levels.features(k)
        return {basis: Plane.of(features, basis) for basis in bases}

    def search(made: dict[int, dict[Any, Plane]], batch: range, m: int) -> Detections | None:
        for k in wanted[m]:
            if k in batch:
                searches[m].add(made[k][group.basis_of(m)])
        if batch.stop < len(levels.plans):
            return None
        # With the last levels in one go, so that threads wait for each other least.
        view.await_kernels()
        windows = searches[m].windows()
        found = as_detections(group.models[m], m, windows, levels.scales[wanted[m]], view.size)
        return found if most is None else found[:most]

    result: list[Detections] = []
    for batch in levels.batches():
        made = dict(zip(batch, each(make, batch), strict=True))
        result = each(partial(search, made, batch), group.models)
    return dict(zip(group.models, result, strict=False))


def as_detections(
    model: Mixture,
    number: int,
    found: Sequence[Windows],
    scales: Float64,
    size: tuple[int, int],
) -> Detections:
    """Turn a model's windows into detections: the best template at each place, sorted by score.

    number  of the model in its detector
    found   the windows of each of the model's templates, in their order
    scales  (L, 2) of the levels that the windows are numbered by
    """
    if not any(len(windows.y) for windows in found):
        return Detections.empty(size)
    templates, scores, boxes, visible = [], [], [], []
    grids: list[UInt8] = []
    for template, windows, keep in zip(model.templates(), found, best_at_place(found), strict=True):
        index, mirrored, component = template
        rows, cols = component.shape
        blocks = np.array([[(0, 0, cols, rows)], [component.box]])
        placed = place_boxes(
            windows.y[keep],
            windows.x[keep],
            component.shape,
            blocks,
            model.descriptor,
            scales[windows.level[keep]],
        )
        templates.append(np.full((len(keep), 2), (index, mirrored)))
        scores.append(windows.score[keep])
        boxes.append(placed)
        blocks_of = as_blocks(windows.flags[keep], windows.outside[keep])
        visible.append(visible_boxes(placed[0], placed[1], blocks_of, size))
        grids.extend(blocks_of)
    score = np.concatenate(scores).astype(np.float64)
    order = np.argsort(-score, kind="stable")
    components, mirrors = np.concatenate(templates)[order].T
    window, full = np.concatenate(boxes, axis=1)[:, order]
    return Detections(
        score[order],
        np.full(len(order), model.label),
        components,
        mirrors.astype(bool),
        window,
        full,
        np.concatenate(visible)[order],
        Grids(map(grids.__getitem__, order.tolist())),
        size,
        np.full(len(order), number),
    )


def best_at_place(found: Sequence[Windows]) -> list[NDArray[np.intp]]:
    """Of each template's windows those that no other template beats at the same place."""
    level, y, x, score = (
        np.concatenate([getattr(windows, name) for windows in found])
        for name in ("level", "y", "x", "score")
    )
    place = (level * (y.max() + 1) + y) * (x.max() + 1) + x
    order = np.lexsort((-score, place))
    first = np.diff(place[order], prepend=-1) > 0
    keep = np.zeros(len(order), bool)
    keep[order[first]] = True
    parts = np.split(keep, np.cumsum([len(windows.y) for windows in found])[:-1])
    return [np.flatnonzero(part) for part in parts]
