"""N regions of one image, as the kernels take them: unions of rectangles, or runs of positions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halfseen.arrays import Float64, Int64
from halfseen.geometry import Boxes, area

MEASURES = ("iou", "smaller", "lower")
"""Shared area over that of either, of the smaller, or of the lower-ranked region."""


class Shapes(NamedTuple):
    """Regions whose shared areas are computed pair by pair, without a picture of any of them.

    runs    whether the regions are runs of positions; else they are rectangles
    box     (N, 4) what each region lies within: regions whose boxes do not meet share nothing
    area    (N,)
    start   (N + 1,) where the parts of each region begin
    rect    (M, 4) disjoint rectangles, if not runs
    first, last   (M,) runs [first, last), ascending within a region and apart
    """

    runs: bool
    box: Boxes
    area: Float64
    start: Int64
    rect: Boxes
    first: Int64
    last: Int64

    def take(self, chosen: Int64) -> Shapes:
        """Some of the regions."""
        count = np.diff(self.start)[chosen]
        start = np.concatenate([[0], np.cumsum(count)])
        part = np.arange(start[-1]) + np.repeat(self.start[chosen] - start[:-1], count)
        rect = self.rect if self.runs else self.rect[part]
        first, last = (self.first[part], self.last[part]) if self.runs else (self.first, self.last)
        return Shapes(self.runs, self.box[chosen], self.area[chosen], start, rect, first, last)


def of_boxes(boxes: Boxes) -> Shapes:
    """Each region is one box; a reversed box is empty."""
    box = np.ascontiguousarray(boxes)
    none = np.zeros(0, np.int64)
    return Shapes(False, box, area(box), np.arange(len(box) + 1), box, none, none)


def of_rects(rects: Boxes, start: Int64) -> Shapes:
    """Region k is the union of the disjoint rectangles rects[start[k]:start[k + 1]]."""
    none = np.zeros(0, np.int64)
    return Shapes(False, _bounds(rects, start), _sums(area(rects), start), start, rects, none, none)


def of_runs(box: Boxes, first: Int64, last: Int64, start: Int64, area: Float64) -> Shapes:
    """Region k is the union of the runs [first, last) from start[k] to start[k + 1]."""
    return Shapes(True, box, area, start, np.zeros((0, 4)), first, last)


def _sums(values: Float64, start: Int64) -> Float64:
    region = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.asarray(np.bincount(region, values, len(start) - 1), dtype=np.float64)


def _bounds(rects: Boxes, start: Int64) -> Boxes:
    """The box around each union; zeros around an empty one."""
    box = np.zeros((len(start) - 1, 4))
    some = np.flatnonzero(np.diff(start))
    if len(some):
        box[some, :2] = np.minimum.reduceat(rects[:, :2], start[some])
        box[some, 2:] = np.maximum.reduceat(rects[:, 2:], start[some])
    return box
