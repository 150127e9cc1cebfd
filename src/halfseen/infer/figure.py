"""Which blocks of a detection show the object rather than its background, from colours alone.

As GrabCut does, started from the box, but on blocks, in one round and with the exact cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.features.colour import lab
from halfseen.infer.masks import contrast_edges
from halfseen.infer.visibility import best_flags

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
# How faint the outline of a figure is that is not believed, or has none: as most are, so that it
# says nothing.
FAINT = 0.2
Bools = NDArray[np.bool_]
Boxes = NDArray[np.float64]
Typical = NDArray[np.float32] | None


class Surroundings(NamedTuple):
    """The blocks of windows in K N boxes, one of each window, then another of each; and of RING
    around them: (K N, rows + 2 RING, cols + 2 RING).

    colours  (N, ..., 3): mean colours in Lab
    known    bool: within the image
    box      bool: mostly within the window's box
    ground   bool: near the box, but not in it
    place    1 at the box's centre, 0 at its sides and beyond
    """

    colours: NDArray[np.float32]
    known: Bools
    box: Bools
    ground: Bools
    place: NDArray[np.float32]

    def some(self, index: NDArray[np.int64] | Bools) -> Surroundings:
        """Those of some windows with one box."""
        colours, known, box, ground, place = self
        return Surroundings(colours[index], known[index], box[index], ground[index], place[index])

    def mirrored(self) -> Surroundings:
        colours, known, box, ground, place = self
        side = np.s_[:, :, ::-1]
        return Surroundings(colours[side], known[side], box[side], ground[side], place[side])


class Figures(NamedTuple):
    """Figures of windows, N in all.

    grids     (N, rows + 2 RING, cols + 2 RING)
    believed  (N,) whether anything was told apart
    outline   (N,) the mean of the weights of the pairs of blocks between which the figure ends: 1
              where colours do not differ there, and the nearer to 0 the more they do. Where it is
              hidden, or the image ends, nobody sees an outline
    """

    grids: Bools
    believed: Bools
    outline: NDArray[np.float64]

    def within(self, flags: Bools) -> Bools:
        """(N, rows, cols) in windows with these flags, which are the figures not believed."""
        inner = self.grids[:, RING:-RING, RING:-RING]
        return np.where(self.believed[:, None, None], inner, flags)


def find_figures(
    pixels: NDArray[np.uint8], found: Detections, typical: Sequence[Typical] | None = None
) -> tuple[Bools, ...]:
    """For each detection (rows, cols) bool: True where a block shows the object.

    typical   for each detection what is known of the figures of its kind: see `cut_figures`
    Blocks that are flagged hidden show none, and their colours count for neither side. All others
    are True where nothing was told apart.
    """
    figures = list(found.visibility)
    for mine, flags, usual in alike(found, typical):
        seen = figure_grids(pixels, found.window[mine], found.full[mine], flags, usual)
        for n, grid in zip(mine, seen.within(flags), strict=True):
            figures[n] = grid
    return tuple(figures)


def alike(
    found: Detections, typical: Sequence[Typical] | None
) -> Iterator[tuple[list[int], Bools, Typical]]:
    """Detections that can be looked at together: which they are, their flags (N, rows, cols), and
    what is typical of each (N, rows, cols), of all or of none.
    """
    typical = typical or [None] * len(found)
    keys = [
        (grid.shape, usual is None) for grid, usual in zip(found.visibility, typical, strict=True)
    ]
    for key in dict.fromkeys(keys):
        mine = [n for n, other in enumerate(keys) if other == key]
        usual = [grid for n in mine if (grid := typical[n]) is not None]
        flags = np.stack([found.visibility[n] for n in mine])
        yield mine, flags, np.stack(usual) if usual else None


def figure_grids(
    pixels: NDArray[np.uint8],
    windows: Boxes,
    boxes: Boxes,
    flags: Bools,
    typical: Typical = None,
) -> Figures:
    """The K N figures of windows (N, 4) with flags (N, rows, cols) in boxes (K N, 4): in one of
    each window, then in another of each. What is typical (N, rows, cols) is so of the first ones.
    """
    count = len(boxes) // max(len(windows), 1)
    around = surroundings(pixels, windows, boxes, flags.shape[1:])
    return cut_figures(around, np.concatenate([flags] * count) if count > 1 else flags, typical)


def surroundings(
    pixels: NDArray[np.uint8], windows: Boxes, boxes: Boxes, shape: tuple[int, ...]
) -> Surroundings:
    """Of windows (N, 4) of so many blocks in boxes (K N, 4): one of each, then another of each."""
    from halfseen.infer.mask_kernels import block_colours, place_blocks

    rows, cols = shape[0] + 2 * RING, shape[1] + 2 * RING
    unit = (windows[:, 2:] - windows[:, :2]) / shape[::-1]
    around = windows + RING * np.hstack([-unit, unit])
    colours = lab(block_colours(pixels, around, rows, cols))
    # For each of the boxes, (rows, cols).
    known, box, ground = np.empty((3, len(boxes), rows, cols), np.bool_)
    place = np.empty((len(boxes), rows, cols), np.float32)
    height, width = pixels.shape[:2]
    place_blocks(around, unit, boxes, height, width, NEAR, known, box, ground, place)
    return Surroundings(colours, known, box, ground, place)


def cut_figures(around: Surroundings, flags: Bools, typical: Typical = None) -> Figures:
    """The figures of windows with flags (N, rows, cols).

    typical   (M, rows, cols), of the first M windows: in what share of its kind a block is figure.
              Of the others it is only known that the box's middle mostly is.
    """
    from halfseen.infer.mask_kernels import colour_evidence, mean_on_outline

    inner = np.s_[:, RING:-RING, RING:-RING]
    edges = contrast_edges(around.colours)
    count = len(around.box) // max(len(around.colours), 1)
    if count > 1:
        edges = np.concatenate([edges[0]] * count), np.concatenate([edges[1]] * count)
    hidden = np.zeros_like(around.box)
    hidden[inner] = ~flags
    neither = ~around.known | (hidden & around.box)
    inside = around.box & ~neither
    usual, prior = around.place, PLACE * (around.place - NEUTRAL)
    if typical is not None:
        usual = usual.copy()
        usual[: len(typical)], prior[: len(typical)] = 0, 0
        usual[: len(typical)][inner] = typical
        prior[: len(typical)][inner] = np.log(typical / (1 - typical))
    figure = np.where(inside, usual, 0)
    unary = colour_evidence(around.colours, figure, around.ground, inside, WIDTH, UNSEEN)
    unary += np.where(around.box, prior, -NEVER)
    grids = best_flags(unary, ALPHA, neither, edges)
    enough = grids.sum((1, 2)) > LEAST * inside.sum((1, 2))
    believed = enough & around.ground.any((1, 2))
    outline = mean_on_outline(grids, neither, *edges)
    outline[~believed | np.isnan(outline)] = FAINT
    return Figures(grids, believed, outline)
