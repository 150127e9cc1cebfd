"""Dalal and Triggs' descriptor with the choices that `Hog` fixes, to compare them by.

Slower than `Hog`, by which it is checked where both can do the same (tests/benchmarks).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.features.hog_kernels import soft_histograms
from halfseen.features.kernels import signed_histograms

# Pixels of the squares that larger cells are summed from.
FINE = 2


@dataclass(frozen=True)
class HogVariant:
    """Blocks of cells, one every `cell` pixels.

    cell      pixels from one block to the next
    size      pixels of a cell; 0: as many as `cell`
    side      cells along a side of a block
    signed    18 signed orientations, hard in angle, instead of 9 unsigned ones
    gamma     whether the square root of a pixel's value is taken
    epsilon   of the normalisation, in units of summed gradients
    clip      of the normalised numbers
    border    whether the level's border pixels are repeated, so that blocks' own squares cover all
              of it; else blocks are where all their cells are
    """

    cell: int = 6
    size: int = 0
    side: int = 2
    signed: bool = False
    gamma: bool = False
    epsilon: float = 1e-2
    clip: float = 0.2
    border: bool = False

    name = "variant"
    bins = 9

    @property
    def wide(self) -> int:
        return self.size or self.cell

    @property
    def channels(self) -> int:
        return self.side**2 * self.bins * (1 + self.signed)

    @property
    def offset(self) -> float:
        """A block's own square is at its middle."""
        return 0.0 if self.border else self._around / 2

    @property
    def _around(self) -> int:
        """Pixels of a block beyond its own square, both sides together."""
        return self.side * self.wide - self.cell

    @cached_property
    def mirror(self) -> NDArray[np.intp]:
        total = self.bins * (1 + self.signed)
        angle = (self.bins - 1 - np.arange(total)) % total
        cells = np.arange(self.side**2).reshape(self.side, self.side)[:, ::-1].ravel()
        return np.concatenate([cell * total + angle for cell in cells])

    def grid(self, height: int, width: int) -> tuple[int, int]:
        if self.border:
            return -(-height // self.cell), -(-width // self.cell)
        return self._within(height, width)

    def _within(self, height: int, width: int) -> tuple[int, int]:
        """(rows, cols) of the blocks whose cells are all there."""
        rows, cols = (
            (length // FINE * FINE - self.side * self.wide) // self.cell + 1
            if self.wide != self.cell
            else length // self.cell - self.side + 1
            for length in (height, width)
        )
        return (rows, cols) if rows > 0 and cols > 0 else (0, 0)

    def __call__(self, level: Float32) -> Float32:
        rows, cols = self.grid(*level.shape[1:])
        if not rows:
            return np.zeros((0, 0, self.channels), np.float32)
        if self.border:
            before, more = self._around // 2, self._around - self._around // 2
            ends = [more - n % -self.cell for n in level.shape[1:]]
            level = np.pad(level, [(0, 0), *((before, end) for end in ends)], "edge")
            assert self._within(*level.shape[1:]) == (rows, cols)
        if self.gamma:
            level = np.sqrt(level * np.float32(255))
        hist = self._histograms(level)
        parts = [
            hist[:, r * self._jump : r * self._jump + rows * self._step : self._step,
                 c * self._jump : c * self._jump + cols * self._step : self._step][:, :rows, :cols]
            for r in range(self.side)
            for c in range(self.side)
        ]  # fmt: skip
        blocks = np.concatenate(parts)
        square = np.float32(self.epsilon**2)
        blocks = blocks / np.sqrt((blocks * blocks).sum(0) + square)
        blocks = np.minimum(blocks, np.float32(self.clip))
        blocks /= np.sqrt((blocks * blocks).sum(0) + np.float32(1e-4))
        return np.ascontiguousarray(blocks.transpose(1, 2, 0), np.float32)

    @property
    def _step(self) -> int:
        """Histograms from one block to the next."""
        return 1 if self.wide == self.cell else self.cell // FINE

    @property
    def _jump(self) -> int:
        """Histograms from one cell of a block to the next."""
        return 1 if self.wide == self.cell else self.wide // FINE

    def _histograms(self, level: Float32) -> Float32:
        """(bins, rows, cols), one for each cell; or for each place of a cell, FINE pixels apart."""
        if self.wide == self.cell:
            return self._cells(level, self.cell)
        fine = self._cells(level, FINE)
        many = self.wide // FINE
        # A pixel's share in a cell falls linearly with its distance, to 0 at one cell away.
        places = np.arange(1 - many, 2 * many - 1 + 1)
        weights = np.maximum(1 - np.abs(places - (many - 1) / 2) / many, 0).astype(np.float32)
        for axis in (1, 2):
            pad = [(0, 0)] * 3
            pad[axis] = (many - 1, many)
            padded = np.pad(fine, pad)
            length = fine.shape[axis] - many + 1
            shifted = [np.take(padded, np.arange(k, k + length), axis) for k in range(len(weights))]
            fine = np.tensordot(weights, np.stack(shifted), 1)
        return fine

    def _cells(self, level: Float32, cell: int) -> Float32:
        if not self.signed:
            return soft_histograms(level, cell, self.bins)
        angle = (np.arange(self.bins) + 0.5) * np.pi / self.bins
        directions = np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)
        height, width = level.shape[1:]
        across, down = _places(width, cell), _places(height, cell)
        hist = signed_histograms(level, directions, across, down)[1:-1, 1:-1]
        return np.ascontiguousarray(hist[: height // cell, : width // cell].transpose(2, 0, 1))

    def options(self) -> dict[str, Any]:
        return {"cell": self.cell}


def _places(length: int, cell: int) -> tuple[NDArray[np.uintp], Float32]:
    """Of each pixel along an axis the first of its two cells, from 1 on, and the second's share."""
    place = (np.arange(length) + 0.5) / cell + 0.5
    first = np.floor(place)
    return first.astype(np.uintp), (place - first).astype(np.float32)
