"""From windows to detections: the best of a model's templates at each place, and their boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.infer.boxes import contract, extent, place_boxes
from halfseen.infer.responses import Windows
from halfseen.model.component import Component
from halfseen.model.mixture import Mixture


def told(
    model: Mixture,
    templates: Sequence[tuple[int, bool, Component]],
    found: Sequence[Windows],
    scales: NDArray[np.float64],
    size: tuple[int, int],
) -> Detections:
    """What the windows of a model's templates say, at each place the best one (Eqn 4), best first.

    scales   (L, 2) of the levels that the windows are numbered by
    """
    if not any(len(windows.y) for windows in found):
        return Detections.empty(size)
    # Of each template with windows: which it is, scores, flags, window, full and seen boxes.
    which, scores, boxes = [], [], []
    grids: list[NDArray[np.bool_]] = []
    for (index, mirrored, template), windows, keep in zip(
        templates, found, best_at_place(found), strict=True
    ):
        if not len(keep):
            continue
        rows, cols = template.shape
        flags = windows.flags[keep]
        blocks = np.empty((3, len(keep), 4))
        blocks[0], blocks[1], blocks[2] = (0, 0, cols, rows), template.box, extent(flags)
        placed = place_boxes(
            windows.y[keep], windows.x[keep], template.shape, blocks, model.descriptor,
            scales[windows.level[keep]],
        )  # fmt: skip
        which.append(np.full((len(keep), 2), (index, mirrored)))
        scores.append(windows.score[keep])
        boxes.append(placed)
        grids.extend(flags)
    score = np.concatenate(scores).astype(np.float64)
    order = np.argsort(-score, kind="stable")
    component, mirrors = np.concatenate(which)[order].T
    window, full, seen = np.concatenate(boxes, axis=1)[:, order]
    return Detections(
        score[order],
        np.full(len(order), model.label),
        component,
        mirrors.astype(bool),
        window,
        full,
        contract(full, seen, size),
        tuple(grids[i] for i in order),
        size,
    )


def best_at_place(found: Sequence[Windows]) -> list[NDArray[np.intp]]:
    """Of each template's windows those that no other template beats at the same place."""
    level, y, x, score = (
        np.concatenate([getattr(windows, name) for windows in found])
        for name in ("level", "y", "x", "score")
    )
    place = (level * (y.max() + 1) + y) * (x.max() + 1) + x
    order = np.lexsort((-score, place))
    first = np.diff(place[order], prepend=-1) > 0
    keep = np.zeros(len(order), bool)
    keep[order[first]] = True
    parts = np.split(keep, np.cumsum([len(windows.y) for windows in found])[:-1])
    return [np.flatnonzero(part) for part in parts]
