"""Dalal and Triggs' histograms of oriented gradients, as overlapping normalised blocks.

Differences from scikit-image's `hog`: votes are shared between neighbouring bins and cells (Dalal's
way; `interpolate=False` gives scikit-image's hard votes), the strongest colour channel is chosen by
squared magnitude, and gradients at the border use the one neighbour there is instead of being 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError


@dataclass(frozen=True)
class Hog:
    """Blocks of 2x2 cells, one at every cell, 4 x `bins` numbers each (paper: 6 px, 9 bins).

    Neighbouring blocks share cells; block (r, c) owns the cell-sized square at its middle. With
    `border` these squares cover the level: its border pixels are repeated as far as blocks reach
    beyond it. Without, blocks are where their cells are, the first one half a cell into the level,
    and windows of objects that fill an image fit badly.
    """

    cell: int = 6
    bins: int = 9
    clip: float = 0.2
    interpolate: bool = True
    border: bool = True

    name = "hog"

    def __post_init__(self) -> None:
        whole = isinstance(self.cell, int) and isinstance(self.bins, int)
        known = whole and 2 <= self.cell <= 64 and 2 <= self.bins <= 36
        flags = isinstance(self.interpolate, bool) and isinstance(self.border, bool)
        if not (known and 0 < self.clip <= 1 and flags):
            raise ModelError(
                f"hog: cell must be 2..64, bins 2..36, clip in (0, 1], interpolate and border true "
                f"or false; found {self.options()}"
            )
        if self.border and self.cell % 2:
            raise ModelError(f"hog: cell must be even with a border, found {self.cell}")

    @property
    def channels(self) -> int:
        return 4 * self.bins

    @property
    def offset(self) -> float:
        return 0.0 if self.border else self.cell / 2

    @cached_property
    def mirror(self) -> NDArray[np.intp]:
        """Cells swap sides, and an angle a becomes pi - a."""
        angle = np.arange(self.bins)[::-1]
        return np.concatenate([cell * self.bins + angle for cell in (1, 0, 3, 2)])

    def grid(self, height: int, width: int) -> tuple[int, int]:
        if self.border:
            return -(-height // self.cell), -(-width // self.cell)
        rows, cols = height // self.cell - 1, width // self.cell - 1
        return (rows, cols) if rows > 0 and cols > 0 else (0, 0)

    def __call__(self, level: Float32) -> Float32:
        return np.ascontiguousarray(self.planes(level).transpose(1, 2, 0))

    def planes(self, level: Float32) -> Float32:
        """The same as (channels, rows, cols), as they are computed and multiplied fastest."""
        from halfseen.features import hog_kernels as kernels

        blocks = np.empty((self.channels, *self.grid(*level.shape[1:])), np.float32)
        if self.border:
            half = self.cell // 2
            # Half a cell on each side, and what is missing of the last block's own square.
            ends = [half - pixels % -self.cell for pixels in level.shape[1:]]
            level = np.pad(level, [(0, 0), *((half, end) for end in ends)], "edge")
        if blocks.size:
            votes = kernels.soft_histograms if self.interpolate else kernels.hard_histograms
            hist = votes(level, self.cell, self.bins)
            kernels.normalise_blocks(hist, self.clip, 1e-2, blocks)
        return blocks

    def options(self) -> dict[str, Any]:
        return {
            "cell": self.cell,
            "bins": self.bins,
            "clip": self.clip,
            "interpolate": self.interpolate,
            "border": self.border,
        }
