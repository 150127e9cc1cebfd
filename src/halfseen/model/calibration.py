"""Logistic calibration: from a detection's score and place to a probability."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from halfseen.arrays import Float64, Int64
from halfseen.errors import ModelError
from halfseen.settings import Checked, number

# What is known of a detection, in the order of the weights: see `refine.probability.evidence`.
EVIDENCE = ("score", "agreement", "outside", "size", "height")
# Of these a detection can only profit, so that its probability rises with its score.
RISING = ("score", "agreement")
# Beyond what any data could ask for; sums of such numbers are still numbers.
LARGEST = 1e12


@dataclass(frozen=True)
class CalibrationSettings(Checked):
    """How the evidence of a detection is made, as chosen on VOC train.

    margin  where learning pushes what is not the object: scores are scaled about it, and
            candidates below it do not count
    agree   candidates agree with a detection if they overlap it by so much
    beta    a candidate's say is exp(beta score), as in covering suppression
    """

    about = "a calibration's "

    margin: float = number(-1.0, -100, 100)
    agree: float = number(0.5, 0.01, 1)
    beta: float = number(2.0, 1e-3, 100)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The probability that a detection is right: a logistic function, of each component its own.

    bias     (components,) float64
    weights  (components, len(EVIDENCE)) float64; those of RISING are not negative
    scale    brings scores s to those that it was learnt from, -1 + scale (s + 1): its models had
             fewer images, and so lower scores
    settings of its evidence
    """

    bias: Float64
    weights: Float64
    scale: float = 1.0
    settings: CalibrationSettings = field(default_factory=CalibrationSettings)

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.weights.shape[1] != len(EVIDENCE):
            raise ModelError(
                f"a calibration's weights must be (components, {len(EVIDENCE)}), "
                f"found {self.weights.shape}"
            )
        if self.bias.shape != self.weights.shape[:1]:
            raise ModelError(
                f"a calibration needs a bias for each of its {len(self.weights)} components, "
                f"found {self.bias.shape}"
            )
        if self.bias.dtype != np.float64 or self.weights.dtype != np.float64:
            raise ModelError(
                f"a calibration must be float64, found {self.bias.dtype} and {self.weights.dtype}"
            )
        values = np.append(self.bias, self.weights)
        if not (np.abs(values) <= LARGEST).all():
            raise ModelError(
                f"a calibration holds NaN or values beyond {LARGEST:g}; train the model again"
            )
        if not 0 < self.scale <= 1:
            raise ModelError(
                f"a calibration's scale must be above 0 and at most 1, found {self.scale}"
            )
        for name in RISING:
            if (self.weights[:, EVIDENCE.index(name)] < 0).any():
                raise ModelError(f"a calibration's weight of {name} must not be negative")

    def check(self, components: int) -> None:
        """ModelError unless it belongs to so many components."""
        if len(self.bias) != components:
            raise ModelError(
                f"a calibration of {len(self.bias)} components, but the model has {components}"
            )

    def probability(self, component: Int64, evidence: Float64) -> Float64:
        """(N,) of detections by these components with this evidence (N, len(EVIDENCE))."""
        odds = self.bias[component] + (self.weights[component] * evidence).sum(1)
        # Neither overflows nor makes equals of what is hopeless.
        return np.asarray(np.exp(-np.logaddexp(0, -odds)))
