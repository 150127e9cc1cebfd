"""The score of one object, followed however low it falls: the best window that overlaps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float32, Float64, Int64
from halfseen.detect.search import Windows, as_detections
from halfseen.detect.view import View
from halfseen.detect.windows import gather_features, place_boxes
from halfseen.detections import Detections
from halfseen.features.descriptor import Descriptor
from halfseen.geometry import Boxes, clip, iou_matrix
from halfseen.model.mixture import Component
from halfseen.visibility.infer import chain_bound, infer_visibility

SAME = 0.5
"""Intersection over union from which a window counts as one of the followed object."""

FEW = 32
"""Windows that are solved first; most of the others are then ruled out by their bounds."""


class Best(NamedTuple):
    """The window with the highest score: its number, its score, its flags."""

    number: int
    score: float
    flags: Bool


def follow(view: View, watched: Sequence[float], m: int = 0) -> Detections | None:
    """The best of all windows of model m whose box, cut to the image, overlaps `watched` by `SAME`.

    Its score is that of the best candidate of a detector without a threshold; None where no window
    comes so close.
    """
    target = clip(np.asarray([watched], np.float64), view.size)
    levels = view.levels_of(m)
    model = levels.group.models[m]
    best: Detections | None = None
    for n, (_, _, template) in enumerate(model.templates()):
        for k in levels.of_model(m):
            features, scale = levels.features(k), levels.scales[k]
            grid = (features.shape[0], features.shape[1])
            y, x = _places_near(model.descriptor, template, scale, grid, target, view.size)
            if not len(y):
                continue
            rows, cols = template.shape
            blocks, outside = gather_features(features, rows, cols, y, x, 0, 0, *grid)
            responses = np.einsum("nrcq,rcq->nrc", blocks, template.weights, optimize=True)
            alpha = model.alpha if model.visibility else None
            one = _best(responses, outside, template, alpha)
            if best is None or one.score > best.score[0]:
                empty = Windows.empty(template.shape)
                at = slice(one.number, one.number + 1)
                level = np.zeros(1, np.int64)
                score = np.array([one.score])
                window = Windows(level, y[at], x[at], score, one.flags[None], outside[at])
                found = [empty] * len(model.templates())
                found[n] = window
                best = as_detections(model, m, found, scale[None], view.size)
    return best


def _places_near(
    descriptor: Descriptor,
    template: Component,
    scale: Float64,
    grid: tuple[int, int],
    target: Boxes,
    size: tuple[int, int],
) -> tuple[Int64, Int64]:
    """Places whose box overlaps the target enough. Centres farther away than its half cannot."""
    # Along the diagonal, every row and column once.
    many = np.arange(max(grid) + 1)
    diagonal = place_boxes(many, many, template.shape, template.box, descriptor, scale)
    boxes = clip(diagonal, size)
    ys, xs = (
        np.flatnonzero(_share_on_axis(boxes[: length + 1, axis::2], target[0, axis::2]) >= SAME)
        for axis, length in ((1, grid[0]), (0, grid[1]))
    )
    y, x = (places.ravel() for places in np.meshgrid(ys, xs, indexing="ij"))
    full = place_boxes(y, x, template.shape, template.box, descriptor, scale)
    near = iou_matrix(clip(full, size), target)[:, 0] >= SAME
    return y[near], x[near]


def _share_on_axis(spans: Float64, target: Float64) -> Float64:
    """Intersection over union along one axis: at least that of the boxes."""
    shared = np.minimum(spans[:, 1], target[1]) - np.maximum(spans[:, 0], target[0])
    union = spans[:, 1] - spans[:, 0] + target[1] - target[0] - shared
    return np.where(union > 0, shared / np.maximum(union, 1e-9), 0)


def _best(
    responses: Float32,
    outside: Bool,
    template: Component,
    alpha: float | None,
) -> Best:
    """The window of the highest exact score; without alpha every block inside is visible."""
    constant = template.bias + template.u_t * outside.sum((1, 2))
    if alpha is None:
        scores = responses.sum((1, 2)) + constant
        k = int(scores.argmax())
        return Best(k, float(scores[k]), ~outside[k])
    bounds = chain_bound(responses, template.u, alpha, outside) + constant
    order = np.argsort(-bounds)
    best = Best(-1, -np.inf, outside[0])
    for some in (order[:FEW], order[FEW:]):
        left = some[bounds[some] > best.score - 1e-4]
        if len(left):
            scores, flags = infer_visibility(responses[left], template.u, alpha, outside[left])
            totals = scores + constant[left]
            k = int(totals.argmax())
            if totals[k] > best.score:
                best = Best(int(left[k]), float(totals[k]), flags[k])
    return best
