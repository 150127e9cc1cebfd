"""From features to windows: responses by GEMM, bounds, exact visibility."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.infer.planes import MirrorBasis, Planes
from halfseen.infer.visibility import chain_bound, infer_visibility
from halfseen.infer.windows import find_outside, search_levels
from halfseen.model.component import Component
from halfseen.model.mixture import Mixture

Floats = NDArray[np.float32]
# Windows that wait to be solved: a whole photo's, so that it is done once for all levels.
WAITING_BYTES = 16 << 20
# Passes of the chain bound before a window is solved, at most. A pass costs a twentieth of a cut.
PASSES = 4


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one template that reach the threshold.

    level   (N,) which of the levels looked at
    y, x    (N,) places (see `windows.py`)
    score   (N,) float32: g(x) of Eqn 1
    flags   (N, rows, cols) bool: True where a block is visible
    """

    level: NDArray[np.int64]
    y: NDArray[np.int64]
    x: NDArray[np.int64]
    score: Floats
    flags: NDArray[np.bool_]


def find_windows(
    features: Floats, component: Component, threshold: float, alpha: float, visibility: bool
) -> Windows:
    """All windows of a template at one level whose score g(x) is at least `threshold`."""
    search = Search(component, threshold, alpha, visibility)
    search.look(Planes.of(features))
    return search.windows()[0]


class Search:
    """Looks in one level after another for a component and, with `basis`, for its mirror image.

    The levels' planes are in the same basis. See `Template` for what is found.
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
        self._component, self._alpha = component, alpha
        self._visibility, self._blank = visibility, blank
        weights = component.weights.reshape(-1, component.weights.shape[2])
        self._even: Floats = weights
        self._odd: Floats | None = None
        # Bounds are summed in single precision; features have a norm of about 1.
        size = abs(component.bias) + float(np.sqrt(np.einsum("kc,kc->k", weights, weights)).sum())
        size += (abs(component.u) + abs(component.u_t)) * len(weights)
        slack = 1e-5 * size if visibility else 0.0
        self._templates = [Template(component, threshold, slack, alpha, visibility, most, blank)]
        if basis is not None:
            self._even, self._odd = weights @ basis.even.T, weights @ basis.odd.T
            # Biases, shape and slack of the mirror image are the component's.
            self._templates.append(
                Template(component, threshold, slack, alpha, visibility, most, blank)
            )
        self._sizes: list[NDArray[np.int64]] = []
        self._waiting: list[_Waiting] = []
        self._bytes = 0

    def look(self, planes: Planes, which: Sequence[int] | None = None) -> None:
        """Adds the windows of these levels, or of some of them."""
        component = self._component
        size = np.array(planes.sizes, np.int64).reshape(-1, 2)
        levels = np.column_stack([np.cumsum(size.prod(1)) - size.prod(1), size])
        levels = levels if which is None else levels[list(which)]
        before = sum(map(len, self._sizes))
        self._sizes.append(levels[:, 1:])
        some = max(WAITING_BYTES // (4 * len(self._even)), 1)
        level, y = 0, 0
        while level < len(levels):
            enough = np.array([template.enough for template in self._templates])
            level, y, found, bound, blocks = search_levels(
                self._even, self._odd, planes.even, planes.odd, levels, *component.shape,
                component.bias, component.u, component.u_t, self._alpha, self._visibility,
                self._blank, enough, level, y, some,
            )  # fmt: skip
            if len(found):
                found[:, 1] += before
                self._waiting.append(_Waiting(found, bound, blocks))
                self._bytes += blocks.nbytes
            if self._bytes > WAITING_BYTES:
                self._solve()

    def windows(self) -> list[Windows]:
        """All that was found, in no particular order: the component's, the mirror image's."""
        self._solve()
        return [template.windows() for template in self._templates]

    def _solve(self) -> None:
        if not self._waiting:
            return
        found, bound, blocks = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        side, level, y, x = found.T
        size = np.concatenate(self._sizes)[level]
        outside = find_outside(y, x, size, *self._component.shape)
        for k, template in enumerate(self._templates):
            own = np.flatnonzero(side == k)
            if len(own):
                # Alike beside alike: most can be dropped together.
                own = own[np.argsort(-bound[own], kind="stable")]
                template.solve(level[own], y[own], x[own], bound[own], blocks[own], outside[own])
        self._waiting.clear()
        self._bytes = 0


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

    def look(self, planes: Planes, which: Sequence[int] | None = None) -> None:
        """Adds the windows of these levels, or of some of them."""
        for search in self._searches:
            search.look(planes, which)

    def windows(self) -> list[Windows]:
        """What was found of each of the model's templates, in their order."""
        found = [search.windows() for search in self._searches]
        return [windows for side in zip(*found, strict=True) for windows in side]


class Template:
    """Finds, of windows of one level after another, those whose score g(x) reaches a threshold.

    Without visibility g(x) is the plain sum. With it, windows are dropped by an upper bound, and
    what is left is solved exactly, so nothing that reaches the threshold is lost. The chain bound
    of every window costs little more than the paper's (Eqn 3), and leaves a twentieth of its
    windows or less, so that the paper's is not needed before it; of those, further passes of it
    leave few that a cut then finds below the threshold.

    With `most`, windows that are not among the `most` best may be left out: the most promising are
    solved first, and what cannot reach the best so far need not be solved at all.

    Without `blank`, windows of which nothing is visible are left out. All of them score alike,
    b + u for every block, so a model for which that reaches the threshold finds them everywhere.
    """

    def __init__(
        self,
        component: Component,
        threshold: float,
        slack: float,
        alpha: float,
        visibility: bool,
        most: int | None = None,
        blank: bool = True,
    ) -> None:
        self.component = component
        self.threshold = threshold
        self.alpha = alpha
        self.visibility = visibility
        self.most = most
        self.blank = blank
        self._best = np.zeros(0, np.float32)  # scores of the `most` best so far
        self._slack = slack
        self.enough = threshold - slack
        none = np.zeros(0, np.int64)
        flags = np.zeros((0, *component.shape), np.bool_)
        self._found = [Windows(none, none, none, np.zeros(0, np.float32), flags)]

    def windows(self) -> Windows:
        """All that was found, in no particular order."""
        names = [field.name for field in fields(Windows)]
        return Windows(*(np.concatenate([getattr(w, name) for w in self._found]) for name in names))

    def solve(
        self,
        level: NDArray[np.int64],
        y: NDArray[np.int64],
        x: NDArray[np.int64],
        bound: Floats,
        blocks: Floats,
        outside: NDArray[np.bool_],
    ) -> None:
        """Adds those of some windows that reach the threshold; the highest bounds come first.

        bound    (N,) their scores or, with visibility, bounds of them
        blocks   (N, rows cols) the responses of their blocks, if there is visibility
        outside  (N, rows, cols) which blocks are outside the image
        """
        if not self.visibility:
            self._found.append(Windows(level, y, x, bound, ~outside))
            return
        blocks = blocks.reshape(outside.shape)
        constant = self.component.bias + self.component.u_t * outside.sum((1, 2))
        problem = (self.component.u, self.alpha)
        bound = constant + chain_bound(
            blocks, *problem, outside, passes=PASSES, above=self.enough - constant.max()
        )
        near = np.flatnonzero(bound >= self.enough)
        score = np.full(len(near), -np.inf, np.float32)
        flags = np.empty((len(near), *self.component.shape), np.bool_)
        for part in self._promising(bound[near], score):
            some = near[part]
            value, flags[part] = infer_visibility(blocks[some], *problem, outside[some])
            counts = self.blank | flags[part].any((1, 2))
            score[part] = np.where(counts, value + constant[some], -np.inf)
        keep = (score >= self.threshold) & (score > -np.inf)
        kept = near[keep]
        self._found.append(Windows(level[kept], y[kept], x[kept], score[keep], flags[keep]))

    def _promising(self, bound: NDArray[Any], score: Floats) -> Iterator[NDArray[np.intp] | slice]:
        """Runs of windows to solve, until no other can be among the best; reads their scores."""
        if self.most is None:
            yield slice(None)
            return
        order = np.argsort(-bound, kind="stable")
        for start in range(0, len(order), self.most):
            part = order[start : start + self.most]
            if bound[part[0]] < self.enough:
                return
            yield part
            self._best = np.sort(np.concatenate([self._best, score[part]]))[-self.most :]
            if len(self._best) == self.most:
                self.enough = max(self.enough, float(self._best[0]) - self._slack)


class _Waiting(NamedTuple):
    """Windows as `search_levels` gives them."""

    found: NDArray[np.int64]
    bound: Floats
    blocks: Floats
