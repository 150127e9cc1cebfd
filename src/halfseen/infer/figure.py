"""Which blocks of a detection show the object rather than its background, from colours alone.

As GrabCut does, started from the box, but on blocks, in one round and with the exact cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.features.colour import lab
from halfseen.infer.masks import contrast_edges
from halfseen.infer.visibility import infer_visibility

# Blocks around the window whose colours are looked at as well, and how far from the box they are
# its ground, in blocks: most of the ground lies there, and little that is like the object.
RING, NEAR = 4, 2
# The width of the kernel between colours, in Lab.
WIDTH = 6.0
# What is added to a density of colours: one that nobody has seen says little.
UNSEEN = 0.01
# How much a block's place says, and the place that says nothing (the box's centre 1, its rim 0).
PLACE, NEUTRAL = 4.0, 0.1
# The weight of a pair of neighbours of the same colour.
ALPHA = 4.0
# A figure of a smaller share of the box's blocks is not believed, nor one without any ground.
LEAST = 0.1
# Larger than what four neighbours can say for a block.
NEVER = 100.0
# How faint the outline of a figure is that is not believed: as most are, so that it says nothing.
FAINT = 0.2
Bools = NDArray[np.bool_]
Boxes = NDArray[np.float64]


class Figures(NamedTuple):
    """Figures of windows, N in all.

    grids     (N, rows + 2 RING, cols + 2 RING)
    believed  (N,) whether anything was told apart
    outline   (N,) the mean of the weights of the pairs of blocks between which the figure ends: 1
              where colours do not differ there, and the nearer to 0 the more they do
    """

    grids: Bools
    believed: Bools
    outline: NDArray[np.float64]


def find_figures(pixels: NDArray[np.uint8], found: Detections) -> tuple[Bools, ...]:
    """For each detection (rows, cols) bool: True where a block shows the object.

    Blocks that are flagged hidden show none, and their colours count for neither side. All are True
    where nothing was told apart.
    """
    figures = list(found.visibility)
    for shape in {grid.shape for grid in figures}:
        mine = [n for n, grid in enumerate(found.visibility) if grid.shape == shape]
        flags = np.stack([found.visibility[n] for n in mine])
        seen = figure_grids(pixels, found.window[mine], found.full[mine], flags)
        for n, grid in zip(mine, without_ring(seen.grids, seen.believed), strict=True):
            figures[n] = grid
    return tuple(figures)


def without_ring(grids: Bools, believed: Bools) -> Bools:
    """(N, rows, cols) figures of `figure_grids` in their windows, all True where not believed."""
    return np.asarray(grids[:, RING:-RING, RING:-RING] | ~believed[:, None, None])


def figure_grids(pixels: NDArray[np.uint8], windows: Boxes, boxes: Boxes, flags: Bools) -> Figures:
    """The K N figures of windows (N, 4) with flags (N, rows, cols) in boxes (K N, 4): in one of
    each window, then in another of each.
    """
    from halfseen.infer.mask_kernels import block_colours, colour_evidence, mean_on_outline

    rows, cols = flags.shape[1] + 2 * RING, flags.shape[2] + 2 * RING
    inner = np.s_[:, RING : rows - RING, RING : cols - RING]
    unit = (windows[:, 2:] - windows[:, :2]) / (cols - 2 * RING, rows - 2 * RING)
    around = windows + RING * np.hstack([-unit, unit])
    colours = lab(block_colours(pixels, around, rows, cols))
    edges = contrast_edges(colours)
    count = len(boxes) // max(len(windows), 1)
    if count > 1:
        colours, around, unit, flags = (
            np.concatenate([part] * count) for part in (colours, around, unit, flags)
        )
        edges = np.concatenate([edges[0]] * count), np.concatenate([edges[1]] * count)
    known_x, near_x, within_x, place_x = _along(
        around[:, 0], unit[:, 0], cols, boxes[:, ::2], pixels.shape[1]
    )
    known_y, near_y, within_y, place_y = _along(
        around[:, 1], unit[:, 1], rows, boxes[:, 1::2], pixels.shape[0]
    )
    known = known_y[:, :, None] & known_x[:, None, :]
    box = within_y[:, :, None] * within_x[:, None, :] > 0.501
    place = np.minimum(place_y[:, :, None], place_x[:, None, :]).astype(np.float32)
    hidden = np.zeros_like(box)
    hidden[inner] = ~flags
    neither = ~known | (hidden & box)
    figure = np.where(box & ~neither, place, 0)
    ground = known & near_y[:, :, None] & near_x[:, None, :] & ~box
    unary = colour_evidence(colours, figure, ground, box & ~neither, WIDTH, UNSEEN)
    unary += np.where(box, PLACE * (place - NEUTRAL), -NEVER)
    _, grids = infer_visibility(unary, 0.0, ALPHA, neither, edges)
    enough = grids.sum((1, 2)) > LEAST * (box & ~neither).sum((1, 2))
    believed = enough & ground.any((1, 2))
    return Figures(grids, believed, np.where(believed, mean_on_outline(grids, *edges), FAINT))


def _along(
    start: Boxes, unit: Boxes, count: int, sides: Boxes, length: int
) -> tuple[Bools, Bools, Boxes, Boxes]:
    """Of N rows of blocks, (N, count) each: whether a block lies in the image of this length, and
    near the box's sides (N, 2); its share within these, and its place between them, from 0 at
    either to 1 in the middle.

    Ties are decided by a hair, so that a mirrored image decides them as this one.
    """
    low = start[:, None] + unit[:, None] * np.arange(count)
    high, centre = low + unit[:, None], low + unit[:, None] / 2
    first, last = sides[:, :1], sides[:, 1:]
    known = (centre > 1e-6) & (centre < length - 1e-6)
    share = np.clip(np.minimum(high, last) - np.maximum(low, first), 0, None) / unit[:, None]
    middle, half = (first + last) / 2, np.maximum(last - first, 1e-6) / 2
    away = np.abs(centre - middle)
    near = away < half + NEAR * unit[:, None] + 1e-6
    return known, near, share, np.clip(1 - away / half, 0, 1)
