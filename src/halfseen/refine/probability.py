"""How probable a detection is: a stage that asks the models' calibrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from halfseen.arrays import Float64
from halfseen.detect.view import View
from halfseen.detections import Detections
from halfseen.geometry import area, clip, iou
from halfseen.model.calibration import CalibrationSettings
from halfseen.model.mixture import Mixture


class Probability:
    """Stage: the probability of each detection, NaN where its model is not calibrated."""

    def __init__(self, models: Sequence[Mixture]) -> None:
        self._models = models

    def __call__(self, view: View, found: Detections) -> Detections:
        """The detections with their probabilities, which the candidates of the view also decide."""
        known = np.full(len(found), np.nan)
        for m, model in enumerate(self._models):
            own = found.model == m
            if model.calibration is not None and own.any():
                candidates = view.candidates[view.candidates.model == m]
                known[own] = probabilities(model, found[own], candidates)
        return replace(found, probability=known)


def probabilities(model: Mixture, found: Detections, candidates: Detections) -> Float64:
    """(N,) the probability of each detection of one model, among all its candidates."""
    calibration = model.calibration
    assert calibration is not None
    settings = calibration.settings

    def scaled(values: Float64) -> Float64:
        return settings.margin + calibration.scale * (values - settings.margin)

    found = replace(found, extra={**found.extra, "response": scaled(responses_of(found))})
    candidates = replace(candidates, score=scaled(candidates.score), extra={})
    return calibration.probability(found.component, evidence(found, candidates, settings))


def responses_of(found: Detections) -> Float64:
    """(N,) h(x) of detections: their scores before suppression ranked them."""
    return np.asarray(found.extra.get("response", found.score))


def evidence(found: Detections, candidates: Detections, settings: CalibrationSettings) -> Float64:
    """(N, 5) of detections of one model, among all its candidates of the image.

    score      h(x)
    agreement  log sum exp(beta score) / beta over the detection and the others that agree with it
    outside    share of the window that lies outside the image
    size       log of the share of the image that the box covers
    height     of the box's centre in the image, from 0 (top) to 1

    All of them are the same in the mirrored image.
    """
    boxes, (height, width) = found.clipped, found.size
    window = area(found.window)
    return np.column_stack(
        [
            responses_of(found),
            agreement(found, candidates, settings),
            1 - area(clip(found.window, found.size)) / window,
            np.log(np.maximum(area(boxes), 1.0) / (height * width)),
            (boxes[:, 1] + boxes[:, 3]) / (2 * height),
        ]
    )


def agreement(found: Detections, candidates: Detections, settings: CalibrationSettings) -> Float64:
    """(N,) how much the candidates agree that there is an object.

    It is never below the detection's own score, and rises with it.
    """
    others = candidates[candidates.score >= settings.margin]
    boxes, weight = others.clipped, settings.beta * others.score
    total = np.empty(len(found))
    for i, (own, score) in enumerate(zip(found.clipped, responses_of(found), strict=True)):
        agree = weight[iou(own, boxes) >= settings.agree]
        # The detection itself is one of the candidates, unless it scores less than those that
        # count, or its box is empty.
        total[i] = max(np.logaddexp.reduce(agree, initial=-np.inf), settings.beta * score)
    return total / settings.beta
