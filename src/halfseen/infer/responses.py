"""From a level's features to its windows: responses by GEMM, bounds, exact visibility."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.infer.visibility import chain_bound, infer_visibility
from halfseen.infer.windows import gather_windows, sum_windows
from halfseen.model.component import Component

# Responses of one strip of a level: large enough for an efficient GEMM, small enough for any image.
STRIP_BYTES = 32 << 20


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one template at one level that reach the threshold.

    y, x    (N,) places (see `windows.py`)
    score   (N,) float32: g(x) of Eqn 1
    flags   (N, rows, cols) bool: True where a block is visible
    """

    y: NDArray[np.int64]
    x: NDArray[np.int64]
    score: NDArray[np.float32]
    flags: NDArray[np.bool_]

    @classmethod
    def concatenate(cls, parts: list[Windows]) -> Windows:
        return cls(
            *(np.concatenate([getattr(p, n) for p in parts]) for n in ("y", "x", "score", "flags"))
        )


def block_responses(
    features: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(blocks, H, W): the response w_i . B of every template block to every block of the level.

    One GEMM. Not a convolution by FFT: the maximum over each block's flag needs the blocks apart.
    """
    height, width, channels = features.shape
    flat = weights.reshape(-1, channels) @ features.reshape(-1, channels).T
    return flat.reshape(-1, height, width)


def find_windows(
    features: NDArray[np.float32],
    component: Component,
    threshold: float,
    alpha: float,
    visibility: bool,
) -> Windows:
    """All windows of a template at a level whose score g(x) is at least `threshold`.

    Without visibility g(x) is the plain sum. With it, windows are dropped by the block bound
    (Eqn 3), then by the chain bound, and what is left is solved exactly: both are upper bounds, so
    nothing that reaches the threshold is lost.
    """
    return Windows.concatenate(
        [_find_in_strip(*strip, component, threshold, alpha, visibility)
         for strip in _strips(features, component)]
    )  # fmt: skip


def _strips(
    features: NDArray[np.float32], component: Component
) -> Iterator[tuple[NDArray[np.float32], int, int, int, int]]:
    """Responses of runs of block rows: (responses, top, height, first place, last place)."""
    height, width = features.shape[:2]
    rows, cols = component.shape
    step = max(STRIP_BYTES // (4 * rows * cols * max(width, 1)) - rows, rows)
    for first in range(0, height + 1, step):
        last = min(first + step, height + 1)
        top = max(first - (rows + 1) // 2, 0)
        bottom = min(last - 1 - (rows + 1) // 2 + rows, height)
        responses = block_responses(features[top:bottom], component.weights)
        yield responses, top, height, first, last


def _find_in_strip(
    responses: NDArray[np.float32],
    top: int,
    height: int,
    first: int,
    last: int,
    component: Component,
    threshold: float,
    alpha: float,
    visibility: bool,
) -> Windows:
    rows, cols = component.shape
    floor = component.u if visibility else -np.inf
    sums = sum_windows(
        responses, rows, cols, top, height, first, last, component.bias, floor, component.u_t
    )
    y, x = np.nonzero(sums >= threshold)
    score = sums[y, x]
    y = y + first
    blocks, outside = gather_windows(responses, rows, cols, top, height, y, x)
    if not visibility:
        return Windows(y, x, score, ~outside)
    constant = np.float32(component.bias) + np.float32(component.u_t) * outside.sum((1, 2))
    near = chain_bound(blocks, component.u, alpha, outside) + constant >= threshold - 1e-4
    blocks, outside, constant = blocks[near], outside[near], constant[near]
    scores, flags = infer_visibility(blocks, component.u, alpha, outside)
    scores = (scores + constant).astype(np.float32)
    keep = scores >= threshold
    return Windows(y[near][keep], x[near][keep], scores[keep], flags[keep])
