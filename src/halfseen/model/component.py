"""One linear template of a mixture: what it weighs, and what it adds for a block it cannot see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.errors import ModelError
from halfseen.geometry import Boxes, mirror


@dataclass(frozen=True, eq=False)
class Component:
    """A template over a grid of blocks, with its biases and its average box.

    weights  (rows, cols, channels) float32: w_i of every block
    bias     b
    u        what a hidden block contributes instead of w_i . B_i
    u_t      what a block outside the image contributes (truncation)
    box      (4,) the average box in blocks from the window's corner; the window itself is
             (0, 0, cols, rows)
    """

    weights: NDArray[np.float32]
    bias: float
    u: float
    u_t: float
    box: Boxes

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or min(self.weights.shape) < 1:
            raise ModelError(
                f"a component's weights must be (rows, cols, channels), found {self.weights.shape}"
            )
        if self.weights.dtype != np.float32:
            raise ModelError(f"a component's weights must be float32, found {self.weights.dtype}")
        values = [self.bias, self.u, self.u_t, *np.ravel(self.box)]
        if not (np.isfinite(self.weights).all() and np.isfinite(values).all()):
            raise ModelError("a component holds NaN or infinite values; train the model again")
        if np.shape(self.box) != (4,) or self.box[2] <= self.box[0] or self.box[3] <= self.box[1]:
            raise ModelError(f"a component's box must be x1 < x2, y1 < y2, found {self.box}")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, cols) of the window."""
        return self.weights.shape[0], self.weights.shape[1]

    def mirrored(self, channels: NDArray[np.intp]) -> Component:
        """The component of the flipped image; `channels` says where each channel goes."""
        weights = np.ascontiguousarray(self.weights[:, ::-1][..., channels])
        return Component(weights, self.bias, self.u, self.u_t, mirror(self.box, self.shape[1]))
