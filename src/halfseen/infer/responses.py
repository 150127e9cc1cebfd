"""From features to windows: responses by GEMM, bounds, exact visibility."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.infer.planes import MirrorBasis, Planes
from halfseen.infer.visibility import chain_bound, infer_visibility
from halfseen.infer.windows import (
    bound_windows,
    find_outside,
    gather_windows,
    select_places,
    sum_windows,
)
from halfseen.model.component import Component
from halfseen.model.mixture import Mixture

Floats = NDArray[np.float32]
# Responses of one strip of a level: large enough for an efficient GEMM and for few rows to be made
# twice, small enough for any image, and for the caches to hold them until they are summed.
STRIP_BYTES = 2 << 20
# Windows that wait to be solved: a whole photo's, so that it is done once for all levels.
WAITING_BYTES = 16 << 20
# Passes of the chain bound before a window is solved, in steps: the first leave few for the next.
# A pass costs a twentieth of a cut.
PASSES = (2, 6)


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


def block_responses(
    planes: Planes, even: Floats, odd: Floats | None
) -> tuple[Floats, Floats | None]:
    """(blocks, H, W): the responses w_i . B of every template block to every block of the level.

    Their even and odd parts, of the weights (blocks, channels) in the basis of the planes: one GEMM
    each. Not a convolution by FFT: the maximum over each block's flag needs the blocks apart.
    """
    shape = (len(even), *planes.size)
    responses = (even @ planes.even).reshape(shape)
    if odd is None or planes.odd is None:
        return responses, None
    return responses, (odd @ planes.odd).reshape(shape)


def find_windows(
    features: Floats, component: Component, threshold: float, alpha: float, visibility: bool
) -> Windows:
    """All windows of a template at one level whose score g(x) is at least `threshold`."""
    search = Search(component, threshold, alpha, visibility)
    search.look(Planes.of(features))
    return search.windows()[0]


class Strip(NamedTuple):
    """Responses of a run of block rows that starts at `top`, for the places first..last."""

    even: Floats
    odd: Floats | None
    top: int
    first: int
    last: int


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
        self.shape = component.shape
        weights = component.weights.reshape(-1, component.weights.shape[2])
        self._even: Floats = weights
        self._odd: Floats | None = None
        self._templates = [Template(component, 1, threshold, alpha, visibility, most, blank)]
        if basis is not None:
            self._even, self._odd = weights @ basis.even.T, weights @ basis.odd.T
            image = component.mirrored(basis.flip)
            self._templates.append(Template(image, -1, threshold, alpha, visibility, most, blank))

    def look(self, planes: Planes) -> None:
        """Adds the windows of a level."""
        for template in self._templates:
            template.sizes.append(planes.size)
        for strip in self._strips(planes):
            for template in self._templates:
                template.look(strip)

    def windows(self) -> list[Windows]:
        """All that was found, in no particular order: the component's, the mirror image's."""
        return [template.windows() for template in self._templates]

    def _strips(self, planes: Planes) -> Iterator[Strip]:
        height, width = planes.size
        rows, cols = self.shape
        step = max(STRIP_BYTES // (4 * rows * cols * max(width, 1)) - rows, rows)
        for first in range(0, height + 1, step):
            last = min(first + step, height + 1)
            top = max(first - (rows + 1) // 2, 0)
            bottom = min(last - 1 - (rows + 1) // 2 + rows, height)
            parts = block_responses(planes.rows(top, bottom), self._even, self._odd)
            yield Strip(*parts, top, first, last)


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

    def look(self, planes: Planes) -> None:
        """Adds the windows of a level."""
        for search in self._searches:
            search.look(planes)

    def windows(self) -> list[Windows]:
        """What was found of each of the model's templates, in their order."""
        found = [search.windows() for search in self._searches]
        return [windows for side in zip(*found, strict=True) for windows in side]


class Template:
    """Looks in one level after another for all windows whose score g(x) is at least a threshold.

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
        sign: int,
        threshold: float,
        alpha: float,
        visibility: bool,
        most: int | None = None,
        blank: bool = True,
    ) -> None:
        self.component = component
        self.sign = sign  # of the odd responses; -1 for a mirror image
        self.threshold = threshold
        self.alpha = alpha
        self.visibility = visibility
        self.most = most
        self.blank = blank
        self._best = np.zeros(0, np.float32)  # scores of the `most` best so far
        # Bounds are summed in single precision; features have a norm of about 1.
        size = abs(component.bias) + float(np.linalg.norm(component.weights, axis=2).sum())
        size += (abs(component.u) + abs(component.u_t)) * component.weights[..., 0].size
        self._slack = 1e-5 * size if visibility else 0.0
        self._enough = threshold - self._slack
        self.sizes: list[tuple[int, int]] = []
        # Windows that lie inside are solved faster than those that reach outside.
        self._inside: list[_Waiting] = []
        self._border: list[_Waiting] = []
        self._bytes = 0
        none = np.zeros(0, np.int64)
        flags = np.zeros((0, *component.shape), np.bool_)
        self._found = [Windows(none, none, none, np.zeros(0, np.float32), flags)]

    def look(self, strip: Strip) -> None:
        """Adds the windows of a strip of the last of the levels."""
        component = self.component
        rows, cols = component.shape
        level = len(self.sizes) - 1
        height = self.sizes[level][0]
        parts = (strip.even, strip.odd, self.sign, rows, cols, strip.top, height)
        if self.visibility:
            sums = bound_windows(
                *parts, strip.first, strip.last,
                component.bias, component.u, component.u_t, self.alpha, self.blank,
            )  # fmt: skip
        else:
            sums = sum_windows(*parts, strip.first, strip.last, component.bias, component.u_t)
        y, x, bound, whole = select_places(sums, self._enough, strip.first, rows, cols, height)
        if not len(y):
            return
        blocks = bound  # Only visibility has a use for the blocks.
        if self.visibility:
            blocks = gather_windows(*parts, y, x)
        if whole > 0:
            part = _Waiting(level, y[:whole], x[:whole], bound[:whole], blocks[:whole])
            self._inside.append(part)
        if whole < len(y):
            part = _Waiting(level, y[whole:], x[whole:], bound[whole:], blocks[whole:])
            self._border.append(part)
        self._bytes += blocks.nbytes
        if self._bytes > WAITING_BYTES:
            self._solve()

    def windows(self) -> Windows:
        """All that was found, in no particular order."""
        self._solve()
        names = [field.name for field in fields(Windows)]
        return Windows(*(np.concatenate([getattr(w, name) for w in self._found]) for name in names))

    def _solve(self) -> None:
        for queue in (self._inside, self._border):
            if queue:
                self._found.append(self._reaching(queue, padded=queue is self._border))
                queue.clear()
        self._bytes = 0

    def _reaching(self, queue: list[_Waiting], padded: bool) -> Windows:
        """The windows of the queue that reach the threshold."""
        level = np.repeat([w.level for w in queue], [len(w.y) for w in queue])
        y, x, bound, blocks = (
            np.concatenate([getattr(w, name) for w in queue])
            for name in ("y", "x", "bound", "blocks")
        )
        rows, cols = self.component.shape
        hidden = find_outside(y, x, np.array(self.sizes)[level], rows, cols) if padded else None
        if not self.visibility:
            flags = np.ones((len(y), rows, cols), np.bool_) if hidden is None else ~hidden
            return Windows(level, y, x, bound, flags)
        constant = np.full(len(y), self.component.bias)
        if hidden is not None:
            constant += self.component.u_t * hidden.sum((1, 2))
        for passes in PASSES:
            above = self._enough - constant.max(initial=-np.inf)
            bound = chain_bound(
                blocks, self.component.u, self.alpha, hidden, passes=passes, above=above
            )
            near = bound + constant >= self._enough
            level, y, x, constant = level[near], y[near], x[near], constant[near]
            bound, blocks = bound[near], blocks[near]
            hidden = None if hidden is None else hidden[near]
        score = np.full(len(y), -np.inf, np.float32)
        flags = np.empty((len(y), rows, cols), np.bool_)
        for part in self._promising(bound + constant, score):
            outside = None if hidden is None else hidden[part]
            value, flags[part] = infer_visibility(
                blocks[part], self.component.u, self.alpha, outside
            )
            counts = self.blank | flags[part].any((1, 2))
            score[part] = np.where(counts, value + constant[part], -np.inf)
        keep = (score >= self.threshold) & (score > -np.inf)
        return Windows(level[keep], y[keep], x[keep], score[keep], flags[keep])

    def _promising(self, bound: Floats, score: Floats) -> Iterator[NDArray[np.intp] | slice]:
        """Runs of windows to solve, until no other can be among the best; reads their scores."""
        if self.most is None:
            yield slice(None)
            return
        order = np.argsort(-bound, kind="stable")
        for start in range(0, len(order), self.most):
            part = order[start : start + self.most]
            if bound[part[0]] < self._enough:
                return
            yield part
            self._best = np.sort(np.concatenate([self._best, score[part]]))[-self.most :]
            if len(self._best) == self.most:
                self._enough = max(self._enough, float(self._best[0]) - self._slack)


class _Waiting(NamedTuple):
    """Windows of a level that the bound leaves: it, and the responses of the blocks."""

    level: int
    y: NDArray[np.int64]
    x: NDArray[np.int64]
    bound: Floats
    blocks: Floats
