"""One class for one object: detections of several classes that show the same thing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from halfseen.arrays import Float64, Int64
from halfseen.detections import Block, Detections
from halfseen.suppression.candidates import Candidates
from halfseen.suppression.scene import blocks_of

SHARE = 0.5
"""Two classes mean one object where the IoU of what is seen of it is above this."""
GRID = 100
"""Blocks across an image, about, on which regions are compared."""


def one_class(found: Detections) -> tuple[Int64, Float64]:
    """For each detection the one of another class that replaces it, -1 for none, and their IoU.

    Detections are taken by falling probability. One is replaced if one that was kept before, of
    another class, shows the same object: the IoU of their OBJECT blocks is above SHARE. So a bus
    that is also found as a train gets the more probable of the two names, while a rider and the
    horse, who share less, both stay. Detections whose probability is not known (NaN) neither
    replace others nor are replaced: scores of different models cannot be compared.
    """
    from halfseen.suppression.overlap_kernels import IOU, overlaps_with

    count = len(found)
    by, overlap = np.full(count, -1, np.int64), np.zeros(count)
    if found.probability is None or len(np.unique(found.label)) < 2:
        return by, overlap
    known = np.flatnonzero(np.isfinite(found.probability))
    regions = _objects(found).visible
    order = known[np.argsort(-found.probability[known], kind="stable")]
    kept: list[int] = []
    for i in order.tolist():
        others = np.array([k for k in kept if found.label[k] != found.label[i]], np.int64)
        shared = overlaps_with(regions, IOU, i, others)
        if len(others) and shared.max() > SHARE:
            best = int(shared.argmax())
            by[i], overlap[i] = others[best], shared[best]
        else:
            kept.append(i)
    return by, overlap


def _objects(found: Detections) -> Candidates:
    """The OBJECT blocks of each detection, on a grid of the scene."""
    height, width = found.size
    grids = tuple(grid == Block.OBJECT for grid in found.blocks)
    return blocks_of(replace(found, blocks=grids), max(1.0, (height * width) ** 0.5 / GRID))
