"""From features to windows: responses by GEMM, bounds, exact visibility."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.infer.visibility import infer_visibility
from halfseen.infer.windows import (
    bound_windows,
    find_outside,
    gather_windows,
    select_places,
    sum_windows,
)
from halfseen.model.component import Component

# Responses of one strip of a level: large enough for an efficient GEMM, small enough for any image.
STRIP_BYTES = 32 << 20
# Windows that wait for the chain bound: a whole photo's, so that it is called once for all levels.
WAITING_BYTES = 16 << 20


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
    score: NDArray[np.float32]
    flags: NDArray[np.bool_]


def block_responses(
    features: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(blocks, H, W): the response w_i . B of every template block to every block of the level.

    One GEMM. Not a convolution by FFT: the maximum over each block's flag needs the blocks apart.
    """
    height, width, channels = features.shape
    if features.strides[1] == features.itemsize:  # planes, seen as blocks
        columns = features.transpose(2, 0, 1).reshape(channels, -1)
    else:
        columns = features.reshape(-1, channels).T
    flat = weights.reshape(-1, channels) @ columns
    return flat.reshape(len(flat), height, width)


def find_windows(
    features: NDArray[np.float32],
    component: Component,
    threshold: float,
    alpha: float,
    visibility: bool,
) -> Windows:
    """All windows of a template at one level whose score g(x) is at least `threshold`."""
    search = Search(component, threshold, alpha, visibility)
    search.look(features)
    return search.windows()


class Search:
    """Looks in one level after another for all windows whose score g(x) is at least a threshold.

    Without visibility g(x) is the plain sum. With it, windows are dropped by an upper bound, and
    what is left is solved exactly, so nothing that reaches the threshold is lost. The chain bound
    of every window costs little more than the paper's (Eqn 3), and leaves a twentieth of its
    windows or less, so that the paper's is not needed before it.

    With `most`, windows that are not among the `most` best may be left out: the most promising are
    solved first, and what cannot reach the best so far need not be solved at all.
    """

    def __init__(
        self,
        component: Component,
        threshold: float,
        alpha: float,
        visibility: bool,
        most: int | None = None,
    ) -> None:
        self.component = component
        self.threshold = threshold
        self.alpha = alpha
        self.visibility = visibility
        self.most = most
        self._best = np.zeros(0, np.float32)  # scores of the `most` best so far
        # Bounds are summed in single precision; features have a norm of about 1.
        size = abs(component.bias) + float(np.linalg.norm(component.weights, axis=2).sum())
        size += (abs(component.u) + abs(component.u_t)) * component.weights[..., 0].size
        self._slack = 1e-5 * size if visibility else 0.0
        self._enough = threshold - self._slack
        self._sizes: list[tuple[int, int]] = []
        # Windows that lie inside are solved faster than those that reach outside.
        self._inside: list[_Waiting] = []
        self._border: list[_Waiting] = []
        self._bytes = 0
        none = np.zeros(0, np.int64)
        flags = np.zeros((0, *component.shape), np.bool_)
        self._found = [Windows(none, none, none, np.zeros(0, np.float32), flags)]

    def look(self, features: NDArray[np.float32]) -> None:
        """Adds the windows of a level (H, W, channels), whose channels may lie in planes."""
        component = self.component
        rows, cols = component.shape
        height, width = features.shape[:2]
        level = len(self._sizes)
        self._sizes.append((height, width))
        for responses, top, first, last in _strips(features, component):
            place = (rows, cols, top, height, first, last)
            if self.visibility:
                sums = bound_windows(
                    responses, *place, component.bias, component.u, component.u_t, self.alpha
                )
            else:
                sums = sum_windows(responses, *place, component.bias, component.u_t)
            y, x, bound, whole = select_places(sums, self._enough, first, rows, cols, height)
            blocks = bound  # Only visibility has a use for the blocks.
            if self.visibility:
                blocks = gather_windows(responses, rows, cols, top, height, y, x)
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
        hidden = find_outside(y, x, np.array(self._sizes)[level], rows, cols) if padded else None
        if not self.visibility:
            flags = np.ones((len(y), rows, cols), np.bool_) if hidden is None else ~hidden
            return Windows(level, y, x, bound, flags)
        constant = np.full(len(y), self.component.bias)
        if hidden is not None:
            constant += self.component.u_t * hidden.sum((1, 2))
        score = np.full(len(y), -np.inf, np.float32)
        flags = np.empty((len(y), rows, cols), np.bool_)
        for part in self._promising(bound, score):
            outside = None if hidden is None else hidden[part]
            value, flags[part] = infer_visibility(
                blocks[part], self.component.u, self.alpha, outside
            )
            score[part] = value + constant[part]
        keep = score >= self.threshold
        return Windows(level[keep], y[keep], x[keep], score[keep], flags[keep])

    def _promising(
        self, bound: NDArray[np.float32], score: NDArray[np.float32]
    ) -> Iterator[NDArray[np.intp] | slice]:
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
    bound: NDArray[np.float32]
    blocks: NDArray[np.float32]


def _strips(
    features: NDArray[np.float32], component: Component
) -> Iterator[tuple[NDArray[np.float32], int, int, int]]:
    """Responses of runs of block rows: (responses, top, first place, last place)."""
    height, width = features.shape[:2]
    rows, cols = component.shape
    step = max(STRIP_BYTES // (4 * rows * cols * max(width, 1)) - rows, rows)
    for first in range(0, height + 1, step):
        last = min(first + step, height + 1)
        top = max(first - (rows + 1) // 2, 0)
        bottom = min(last - 1 - (rows + 1) // 2 + rows, height)
        yield block_responses(features[top:bottom], component.weights), top, first, last
