"""The features of a level as they are multiplied: in planes, and split by what a mirror does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from halfseen.errors import ModelError

Floats = NDArray[np.float32]


class MirrorBasis:
    """Splits channels into those that a mirror image keeps (even) and those it negates (odd).

    A mirror image permutes the channels, w to P w, and twice is no change; so the sums of each pair
    of channels that swap, with those that stay, and the differences of each pair are a basis in
    which w . B = w+ . B+ + w- . B- and (P w) . B = w+ . B+ - w- . B-. The same two products, each
    of half the channels, serve a template and its mirror image.

    flip        (channels,) the descriptor's `mirror`
    even, odd   (n, channels) orthonormal
    """

    def __init__(self, flip: NDArray[np.intp]) -> None:
        channel = np.arange(len(flip))
        if not np.array_equal(flip[flip], channel):
            raise ModelError(
                "a descriptor's mirror must give every channel back when it is applied twice"
            )
        self.flip = flip
        unit = np.eye(len(flip), dtype=np.float32)
        half = np.float32(np.sqrt(0.5))
        low = channel[channel < flip]
        stay = unit[channel == flip]
        both = half * (unit[low] + unit[flip[low]])
        self.even = np.concatenate([both, stay]).astype(np.float32, copy=False)
        self.odd = (half * (unit[low] - unit[flip[low]])).astype(np.float32, copy=False)


@dataclass(frozen=True, eq=False)
class Planes:
    """The features of some levels, of each (height, channels, width): a product for each row.

    sizes      (height, width) of the levels
    even, odd  all levels one after another. With a mirror's basis they are its two parts; without,
               `even` is all there is.
    """

    sizes: tuple[tuple[int, int], ...]
    even: Floats
    odd: Floats | None

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """(L, 3): how many blocks lie before each level, its height and its width."""
        size = np.array(self.sizes, np.int64).reshape(-1, 2)
        blocks = size[:, 0] * size[:, 1]
        return np.column_stack([np.cumsum(blocks) - blocks, size])

    @staticmethod
    def of(features: Floats, basis: MirrorBasis | None = None) -> Planes:
        """Of a level's blocks (height, width, channels), whose channels may lie in planes."""
        rows = features.transpose(0, 2, 1)
        sizes = ((features.shape[0], features.shape[1]),)
        if basis is None:
            return Planes(sizes, rows.ravel(), None)
        return Planes(sizes, (basis.even @ rows).ravel(), (basis.odd @ rows).ravel())

    @staticmethod
    def join(levels: Sequence[Planes]) -> Planes:
        """Several levels in one; all have a mirror's basis, or none has."""
        odd = [part.odd for part in levels if part.odd is not None]
        return Planes(
            tuple(size for part in levels for size in part.sizes),
            np.concatenate([part.even for part in levels]),
            np.concatenate(odd) if odd else None,
        )
