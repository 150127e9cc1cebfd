"""What is known of a detection beside its score, from which its probability follows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.geometry import area, clip, iou
from halfseen.model.calibration import TOLD, Calibration

Floats = NDArray[np.float64]

# Where learning pushes what is not the object: scores are scaled about it.
MARGIN = -1.0
# Candidates agree with a detection if they overlap it by so much, and count if they score as much.
# No scale changes which do.
AGREE = 0.5
LOWEST = MARGIN
# A candidate's say is exp(2 score), as in covering suppression.
BETA = 2.0


class Known(NamedTuple):
    """What one model kept of an image, what it was chosen from, and what its mask head tells.

    told   (len(kept), len(TOLD)): see `evidence`; zeros without a head
    """

    kept: Detections
    candidates: Detections
    told: Floats


def evidence(found: Detections, candidates: Detections, told: Floats) -> Floats:
    """(N, len(EVIDENCE)) of detections of one model, among all its candidates of the image.

    score      h(x)
    agreement  log sum exp(BETA score) / BETA over the detection and the others that agree with it
    outside    share of the window that lies outside the image
    size       log of the share of the image that the box covers
    height     of the box's centre in the image, from 0 (top) to 1
    visible    how much more its blocks say for the object than those of whole objects do, each as
               far as the mask head holds it for visible (`infer.masks.visible_evidence`)
    outline    how faint the colour edges are on which its figure ends (`infer.figure.Figures`)
    misfit     how far from the sides of its box its figures end (`infer.refine.misfit`)

    All of them are the same in the mirrored image.
    """
    boxes, (height, width) = found.clipped, found.size
    window = area(found.window)
    columns = [
        found.score,
        agreement(found, candidates),
        1 - area(clip(found.window, found.size)) / window,
        np.log(np.maximum(area(boxes), 1.0) / (height * width)),
        (boxes[:, 1] + boxes[:, 3]) / (2 * height),
    ]
    return np.column_stack([*columns, told])


def agreement(found: Detections, candidates: Detections) -> Floats:
    """(N,) how much the candidates agree that there is an object.

    It is never below the detection's own score, and rises with it.
    """
    others = candidates[candidates.score >= LOWEST]
    boxes, say = others.clipped, BETA * others.score
    total = np.empty(len(found))
    for i, (own, score) in enumerate(zip(found.clipped, found.score, strict=True)):
        agree = say[iou(own, boxes) >= AGREE]
        # The detection itself is one of the candidates, unless it scores less than those that
        # count, its box is empty, or a figure has moved it far.
        total[i] = max(np.logaddexp.reduce(agree, initial=-np.inf), BETA * score)
    return total / BETA


def probabilities(
    calibration: Calibration, found: Detections, candidates: Detections, told: Floats
) -> Floats:
    """(N,) the probability of each detection of one model; see `evidence`."""

    def scaled(values: Floats) -> Floats:
        return MARGIN + calibration.scale * (values - MARGIN)

    found, candidates = (replace(part, score=scaled(part.score)) for part in (found, candidates))
    # What is visible is a sum of responses, as scores are, and is scaled with them, about the same
    # margin: that of whole objects is 0, and their scores are not far from it.
    told = np.where(np.array(TOLD) == "visible", scaled(told), told)
    return calibration.probability(found.component, evidence(found, candidates, told))
