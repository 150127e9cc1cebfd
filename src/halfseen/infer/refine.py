"""Boxes that follow the figure: corrected by where the object was seen to end.

A component predicts one box for all of its windows. Where the figure ends short of it, or goes on
beyond, so does the object, mostly.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.geometry import Boxes
from halfseen.infer.figure import RING, Figures, Typical, alike, cut_figures, surroundings
from halfseen.infer.masks import Verdict
from halfseen.infer.missing import hide_missing, not_surely_hidden

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# The figure is also looked for in a box larger by this share, half of it on each side.
GROWN = 0.4
# An end of a figure is where rows (columns) first hold so much of what the fullest one holds.
SHARES = (0.01, 0.3)
INWARDS = np.array([1, 1, -1, -1])
# Columns of x, y of a box's first corner, and of its last, for each of its sides.
LOW, HIGH = [0, 1, 0, 1], [2, 3, 2, 3]
# No side moves by more of the box's size, so that something is left of it.
FARTHEST = 0.4
# How far a side moves inwards: so much of each of what `look` tells, and a constant. Learnt from
# boxes of VOC train by benchmarks/voc/boxes.py, for all classes together.
SIDE = (0.1375, -0.0623, 0.1457, 0.1286, 0.4521, 0.0373, 0.0012)
TOP = (0.2280, -0.0332, 0.0180, 0.0379, 0.7039, -0.1966, 0.0235)
BOTTOM = (0.3029, -0.1973, 0.1159, 0.0762, 0.7014, -0.1336, 0.0145)
WEIGHTS = np.array([SIDE, TOP, SIDE, BOTTOM])


class Seen(NamedTuple):
    """What figures tell of N detections.

    figures  for each (rows, cols) bool: what shows the object
    away     (N, 4, 6) how far inwards of each side the object ends, in shares of the box's size in
             the image: by the figure, by the figure and all that is hidden for sure, and by the
             figure of the larger box; each for both of SHARES
    outline  (N,) how faint the outline of the figure is: see `figure.Figures`
    flags    for each (rows, cols) bool: what is visible, after a second look if one was asked for
    may_be   for each (rows, cols) bool: what may be visible: the figure is a part of it
    """

    figures: tuple[Bools, ...]
    away: Floats
    outline: Floats
    flags: tuple[Bools, ...]
    may_be: tuple[Bools, ...]

    @classmethod
    def join(cls, parts: Sequence[Seen], order: NDArray[np.int64]) -> Seen:
        """What is told of the detections of all parts, in another order."""
        figures, away, outline, flags, may_be = zip(*parts, strict=True)

        def ordered(grids: tuple[tuple[Bools, ...], ...]) -> tuple[Bools, ...]:
            together = list(itertools.chain(*grids))
            return tuple(together[n] for n in order.tolist())

        return cls(
            ordered(figures), np.concatenate(away)[order], np.concatenate(outline)[order],
            ordered(flags), ordered(may_be),
        )  # fmt: skip


def corrected_boxes(found: Detections, away: Floats) -> Boxes:
    """(N, 4): the full boxes of detections, corrected by where the object was seen to end."""
    return correct(found, away, WEIGHTS)


def misfit(away: Floats) -> Floats:
    """(N,) how far from the sides of the box the figures end, in the mean, of all sides together.

    Where a window shows no object its figures have no reason to end there.
    """
    return np.asarray(np.abs(away).mean(2).sum(1))


def look(
    pixels: NDArray[np.uint8],
    found: Detections,
    typical: Sequence[Typical] | None = None,
    judged: Sequence[Verdict] | None = None,
) -> Seen:
    """What the figures of detections tell.

    typical   see `find_figures`
    judged    what mask heads said of them: figures are then looked for in all that is not hidden
              for sure, and what is missing is looked at again (`hide_missing`)
    """
    from halfseen.infer.mask_kernels import wide_extents

    clipped = found.clipped
    figures, visible, may_be = (list(found.visibility) for _ in range(3))
    away, outline = np.zeros((len(found), 4, 6)), np.zeros(len(found))
    for mine, flags, usual in alike(found, typical):
        shown = flags
        if judged is not None:
            verdict = Verdict(*map(np.stack, zip(*(judged[n] for n in mine), strict=True)))
            shown = not_surely_hidden(verdict, flags)
        windows, boxes = found.window[mine], found.full[mine]
        both = np.concatenate(
            [boxes, boxes - GROWN / 2 * INWARDS * (boxes[:, HIGH] - boxes[:, LOW])]
        )
        around = surroundings(pixels, windows, both, flags.shape[1:])
        grids, believed, faint = cut_figures(around, np.concatenate([shown] * 2), usual)
        figure, larger = grids[: len(mine)], grids[len(mine) :]
        first = Figures(figure, believed[: len(mine)], faint[: len(mine)])
        outline[mine], own = first.outline, first.within(shown)
        after = flags
        if judged is not None and usual is not None:
            after = hide_missing(verdict, flags, own, usual)
        for k, n in enumerate(mine):
            figures[n], visible[n], may_be[n] = own[k], after[k], shown[k]
        grids &= believed[:, None, None]
        filled = figure.copy()
        filled[:, RING:-RING, RING:-RING] |= ~shown & first.believed[:, None, None]
        unit = (windows[:, 2:] - windows[:, :2]) / flags.shape[:0:-1]
        ends = wide_extents(np.concatenate([figure, filled, larger]), np.array(SHARES)) - RING
        # (N, sides, kinds, shares)
        ends = ends.reshape(3, len(mine), 4, 2).transpose(1, 2, 0, 3).reshape(len(mine), 4, 6)
        scale = INWARDS / sides(clipped[mine])
        begin = windows[:, LOW] - clipped[mine]
        away[mine] = ends * (scale * unit[:, LOW])[..., None] + (scale * begin)[..., None]
    # A figure that is not believed says nothing.
    away[np.isnan(away)] = 0
    return Seen(tuple(figures), away, outline, tuple(visible), tuple(may_be))


def correct(found: Detections, away: Floats, weights: Floats) -> Boxes:
    """(N, 4): the full boxes, with sides moved by `weights` (4, 7) of what is `away` (N, 4, 6).

    A side beyond the image stays: where it is nobody sees. So do boxes of which nothing is visible.
    """
    inwards = (away * weights[:, :-1]).sum(2) + weights[:, -1]
    inwards = np.clip(inwards, -FARTHEST, FARTHEST) * INWARDS * sides(found.clipped)
    return np.asarray(found.full + np.where(movable(found), inwards, 0))


def movable(found: Detections) -> Bools:
    """(N, 4): which sides lie in the image, by a hair, of what is at least partly visible."""
    seen = np.array([bool(grid.any()) for grid in found.visibility], np.bool_)
    return np.asarray((np.abs(found.full - found.clipped) < 1e-6) & seen[:, None])


def sides(boxes: Boxes) -> Boxes:
    """(N, 4): width, height, width, height of boxes."""
    return np.maximum(boxes[:, HIGH] - boxes[:, LOW], 1e-6)
