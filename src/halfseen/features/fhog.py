"""Felzenszwalb's 31 channels: 18 signed and 9 unsigned orientations and 4 texture energies a cell.

Differences from voc-release5: bins are centred at (k + 1/2) pi / 9, so that no gradient of an
upright edge falls between two of them and a mirror image has mirrored features; cells at the
border are kept, normalised by their nearest neighbours, instead of being dropped; there is no
32nd channel for truncation, which a model handles by u_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError

ORIENTATIONS = 9


@dataclass(frozen=True)
class Fhog:
    """One block a cell of `cell` pixels; each block owns its cell."""

    cell: int = 8
    clip: float = 0.2

    name = "fhog"
    channels = 3 * ORIENTATIONS + 4
    offset = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.cell, int) and 2 <= self.cell <= 64 and 0 < self.clip <= 1):
            raise ModelError(f"fhog: cell must be 2..64, clip in (0, 1]; found {self.options()}")

    @cached_property
    def directions(self) -> Float32:
        """(2, 9): the unit vectors (x, y) of the orientations (k + 1/2) pi / 9."""
        angle = (np.arange(ORIENTATIONS) + 0.5) * np.pi / ORIENTATIONS
        return np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)

    @cached_property
    def mirror(self) -> NDArray[np.intp]:
        """An angle a becomes pi - a; the texture energies swap sides."""
        signed = (ORIENTATIONS - 1 - np.arange(2 * ORIENTATIONS)) % (2 * ORIENTATIONS)
        unsigned = np.arange(ORIENTATIONS)[::-1]
        texture = np.array([1, 0, 3, 2])
        return np.concatenate([signed, 2 * ORIENTATIONS + unsigned, 3 * ORIENTATIONS + texture])

    def grid(self, height: int, width: int) -> tuple[int, int]:
        return -(-height // self.cell), -(-width // self.cell)

    def __call__(self, level: Float32) -> Float32:
        from halfseen.features import kernels

        height, width = level.shape[1:]
        across, down = _places(width, self.cell), _places(height, self.cell)
        hist = kernels.signed_histograms(level, self.directions, across, down)
        blocks = np.empty((*self.grid(*level.shape[1:]), self.channels), np.float32)
        kernels.felzenszwalb_channels(hist, self.clip, 1e-4, blocks)
        return blocks

    def options(self) -> dict[str, Any]:
        return {"cell": self.cell, "clip": self.clip}


@lru_cache(maxsize=256)
def _places(length: int, cell: int) -> tuple[NDArray[np.uintp], Float32]:
    """Of each pixel along an axis the first of its two cells, and the share of the second.

    Cells are counted from 1: cell 0 and the one after the last lie beyond the level.
    """
    place = (np.arange(length) + 0.5) / cell + 0.5
    first = np.floor(place)
    return first.astype(np.uintp), (place - first).astype(np.float32)
