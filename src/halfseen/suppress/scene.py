"""Detections on the block grid of their scene: the image at scale 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.geometry import Boxes

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Scene:
    """N candidates as sets of scene blocks, in bits: see `kernels`.

    visible  (N, L) H of the paper: the blocks in which a candidate is visible
    whole    (N, L) the support of G: all blocks of its window
    box      (N, 4) its box cut to the image, for the overlap of boxes
    content  (N, M) uint64: what tells candidates of equal score apart, whatever their order
    """

    visible: Bits
    whole: Bits
    box: Boxes
    content: Bits

    def __getitem__(self, chosen: NDArray[np.int64]) -> Scene:
        """The scene of some of the candidates."""
        return Scene(
            self.visible[chosen], self.whole[chosen], self.box[chosen], self.content[chosen]
        )


def scene_of(found: Detections, block: float = 8.0) -> Scene:
    """The scene of detections, with blocks of `block` pixels.

    Flags are resampled by nearest neighbour; a block belongs to a window if its centre lies inside.
    """
    from halfseen.suppress.kernels import rasterise

    height, width = found.size
    rows, columns = (max(1, int(side / block + 0.5)) for side in (height, width))
    flags = [np.ravel(grid) for grid in found.visibility]
    shape = np.array([grid.shape for grid in found.visibility], dtype=np.int64).reshape(-1, 2)
    whole, visible = rasterise(
        np.array(found.window, order="C"), np.concatenate([np.zeros(0, bool), *flags]), shape,
        float(block), rows, columns,
    )  # fmt: skip
    box = found.clipped
    return Scene(visible, whole, box, np.hstack([_as_words(found.window), _as_words(box), visible]))


def _as_words(numbers: NDArray[np.float64]) -> Bits:
    return np.ascontiguousarray(numbers).view(np.uint64)
