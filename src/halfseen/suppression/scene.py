"""Our own detections as candidates by their visible blocks of the scene.

The scene is the block grid of the image at scale 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float64
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppression.candidates import Candidates, of_runs

MOST_BLOCKS = 2**28
"""Scene blocks in all windows together: more take longer than anybody would wait."""


def blocks_of(found: Detections, block: float = 8.0, *, whole: bool = False) -> Candidates:
    """Detections as sets of scene blocks of `block` pixels, whose positions go row by row.

    Flags are resampled by nearest neighbour; a block belongs to a window if its centre lies inside.
    A window that meets the image but holds no centre gets the block nearest to its own. whole: also
    make the sets of all blocks of each window; without it they are the visible ones.
    """
    from halfseen.suppression.scene_kernels import place_windows, rasterise

    grids = found.visibility
    for n, grid in enumerate(grids):
        if grid.ndim != 2 or grid.size == 0:
            raise SettingsError(
                f"visibility of detection {n}: expected (rows, columns), found {grid.shape}"
            )
    window = np.array(found.window, order="C")
    height, width = found.size
    places = place_windows(window, block, float(height), float(width))
    blocks = np.maximum(places[:, 2:] - places[:, :2], 0).astype(np.float64).prod(axis=1).sum()
    low, high = places[:, :2].min(axis=0, initial=0), places[:, 2:].max(axis=0, initial=0)
    if blocks > MOST_BLOCKS or np.prod((high - low).astype(np.float64)) > 2**62:
        raise SettingsError(
            f"block {block:g}: the windows hold {blocks:.3g} blocks of the scene, expected at most"
            f" {MOST_BLOCKS:,}; use larger blocks"
        )
    flags = [np.ravel(grid) for grid in grids]
    shape = np.array([grid.shape for grid in grids], dtype=np.int64).reshape(-1, 2)
    every = np.concatenate([np.zeros(0, bool), *flags])
    bounds = places.astype(np.float64)
    first, last, start, area, digest = rasterise(window, every, shape, places, block)
    visible = everything = of_runs(bounds, first, last, start, area)
    if whole:
        everything = of_runs(bounds, *rasterise(window, every[:0], shape, places, block)[:4])
    box = found.clipped
    content = np.column_stack([_as_words(window), _as_words(box), digest])
    return Candidates(found.score, found.label, content, visible, everything, found.full, box)


def _as_words(numbers: Float64) -> NDArray[np.uint64]:
    return np.ascontiguousarray(numbers).view(np.uint64)
