"""From windows to detections: the best template at each place (Eqn 4), and its boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halfseen.detect.search import Windows
from halfseen.detect.windows import place_boxes
from halfseen.detections import Detections, as_blocks, visible_boxes
from halfseen.model.mixture import Mixture


def as_detections(
    model: Mixture,
    number: int,
    found: Sequence[Windows],
    scales: NDArray[np.float64],
    size: tuple[int, int],
) -> Detections:
    """Turn a model's windows into detections: the best template at each place, sorted by score.

    number  of the model in its detector
    found   the windows of each of the model's templates, in their order
    scales  (L, 2) of the levels that the windows are numbered by
    """
    if not any(len(windows.y) for windows in found):
        return Detections.empty(size)
    templates, scores, boxes = [], [], []
    grids: list[NDArray[np.uint8]] = []
    for template, windows, keep in zip(model.templates(), found, best_at_place(found), strict=True):
        index, mirrored, component = template
        rows, cols = component.shape
        blocks = np.array([[(0, 0, cols, rows)], [component.box]])
        placed = place_boxes(
            windows.y[keep],
            windows.x[keep],
            component.shape,
            blocks,
            model.descriptor,
            scales[windows.level[keep]],
        )
        templates.append(np.full((len(keep), 2), (index, mirrored)))
        scores.append(windows.score[keep])
        boxes.append(placed)
        grids.extend(as_blocks(windows.flags[keep], windows.outside[keep]))
    score = np.concatenate(scores).astype(np.float64)
    order = np.argsort(-score, kind="stable")
    components, mirrors = np.concatenate(templates)[order].T
    window, full = np.concatenate(boxes, axis=1)[:, order]
    ordered = tuple(grids[i] for i in order)
    return Detections(
        score[order],
        np.full(len(order), model.label),
        components,
        mirrors.astype(bool),
        window,
        full,
        visible_boxes(window, full, ordered, size),
        ordered,
        size,
        np.full(len(order), number),
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
