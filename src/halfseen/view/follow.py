"""The score of one object, followed however low it falls: the best window that overlaps it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.features.pyramid import Level, LevelPlan
from halfseen.geometry import Boxes, clip, iou_matrix
from halfseen.infer.boxes import contract, extent, place_boxes
from halfseen.infer.visibility import chain_bound, infer_visibility
from halfseen.infer.windows import gather_features
from halfseen.model.component import Component
from halfseen.model.mixture import Mixture

Features = NDArray[np.float32]
Places = NDArray[np.int64]
AnyLevel = Level | LevelPlan

SAME = 0.5
"""Intersection over union from which a window speaks of the followed object."""

FEW = 32
"""Windows that are solved first; most of the others are then ruled out by their bounds."""


def follow(
    model: Mixture,
    levels: Sequence[tuple[AnyLevel, Features]],
    size: tuple[int, int],
    watched: Sequence[float],
) -> Detections | None:
    """The best of all windows whose box, cut to the image, overlaps `watched` by `SAME`.

    levels   of the image of (height, width) `size`, with the features of the model's descriptor
    watched  the object's box
    Its score is that of the best candidate of a `Detector` without a threshold; None where no
    window comes so close.
    """
    target = clip(np.asarray([watched], np.float64), size)
    best: Detections | None = None
    for index, mirrored, template in model.templates():
        for level, features in levels:
            y, x = _places_near(model, template, level, features, target, size)
            if len(y):
                found = _best(model, template, level, features, y, x, size, (index, mirrored))
                if best is None or found.score[0] > best.score[0]:
                    best = found
    return best


def _places_near(
    model: Mixture,
    template: Component,
    level: AnyLevel,
    features: Features,
    target: Boxes,
    size: tuple[int, int],
) -> tuple[Places, Places]:
    """Places whose box overlaps the target enough. Centres farther away than its half cannot."""
    height, width = features.shape[:2]
    # Along the diagonal, every row and column once.
    many = np.arange(max(height, width) + 1)
    scale = (level.scale_x, level.scale_y)
    boxes = clip(
        place_boxes(many, many, template.shape, template.box, model.descriptor, scale), size
    )
    ys, xs = (
        np.flatnonzero(_share_on_axis(boxes[: length + 1, axis::2], target[0, axis::2]) >= SAME)
        for axis, length in ((1, height), (0, width))
    )
    y, x = (places.ravel() for places in np.meshgrid(ys, xs, indexing="ij"))
    full = place_boxes(y, x, template.shape, template.box, model.descriptor, scale)
    near = iou_matrix(clip(full, size), target)[:, 0] >= SAME
    return y[near], x[near]


def _share_on_axis(spans: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union along one axis: at least that of the boxes."""
    shared = np.minimum(spans[:, 1], target[1]) - np.maximum(spans[:, 0], target[0])
    union = spans[:, 1] - spans[:, 0] + target[1] - target[0] - shared
    return np.where(union > 0, shared / np.maximum(union, 1e-9), 0)


def _best(
    model: Mixture,
    template: Component,
    level: AnyLevel,
    features: Features,
    y: Places,
    x: Places,
    size: tuple[int, int],
    which: tuple[int, bool],
) -> Detections:
    rows, cols = template.shape
    height, width = features.shape[:2]
    blocks, outside = gather_features(features, rows, cols, y, x, 0, 0, height, width)
    responses = np.einsum("nrcq,rcq->nrc", blocks, template.weights, optimize=True)
    constant = template.bias + template.u_t * outside.sum((1, 2))
    if model.visibility:
        k, score, flags = _best_visible(responses, outside, constant, template.u, model.alpha)
    else:
        scores = responses.sum((1, 2)) + constant
        k = int(scores.argmax())
        score, flags = float(scores[k]), ~outside[k]
    one = slice(k, k + 1)
    window, full, seen = (
        place_boxes(
            y[one], x[one], template.shape, box, model.descriptor, (level.scale_x, level.scale_y)
        )
        for box in ([0, 0, cols, rows], template.box, extent(flags[None]))
    )
    return Detections(
        np.array([score]),
        np.array([model.label]),
        np.array([which[0]]),
        np.array([which[1]]),
        window,
        full,
        contract(full, seen, size),
        (flags,),
        size,
    )


def _best_visible(
    responses: NDArray[np.float32],
    outside: NDArray[np.bool_],
    constant: NDArray[np.float64],
    u: float,
    alpha: float,
) -> tuple[int, float, NDArray[np.bool_]]:
    """The window of the highest exact score: (its number, score, flags)."""
    bounds = chain_bound(responses, u, alpha, outside) + constant
    order = np.argsort(-bounds)
    best = (-1, -np.inf, outside[0])
    for some in (order[:FEW], order[FEW:]):
        left = some[bounds[some] > best[1] - 1e-4]
        if len(left):
            scores, flags = infer_visibility(responses[left], u, alpha, outside[left])
            totals = scores + constant[left]
            k = int(totals.argmax())
            if totals[k] > best[1]:
                best = (int(left[k]), float(totals[k]), flags[k])
    return best
