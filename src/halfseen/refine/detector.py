"""The detector that people use: the paper's, followed by the stages that its models have learnt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

from halfseen.detect.detector import PaperDetector
from halfseen.detect.view import View
from halfseen.detections import Detections
from halfseen.errors import ModelError, SettingsError
from halfseen.model.mixture import Mixture
from halfseen.model.store import load
from halfseen.refine.figure import FigureGround
from halfseen.refine.hidden import HiddenBlocks
from halfseen.refine.probability import Probability
from halfseen.suppression import Interpretation

Visibility = Literal["default", "head", "paper"]
Named = Mixture | str | PathLike[str]
BY_BLOCKS = ("covering",)
"""Methods of suppression that look at blocks: hidden ones are marked before them."""


class Detector(PaperDetector):
    """The paper's detector, with the mask heads and calibrations of its models.

    models      one or several: of `hs.load`, or their names and files, as `hs.load` takes them
    visibility  where the blocks of detections come from. "paper": from the maximum of Eqn 1, which
                decides their scores. "head": from the models' mask heads, which every model must
                have. "default": from the mask head of each model that has one. Scores are the same.
    """

    def __init__(
        self,
        models: Named | Sequence[Named],
        visibility: Visibility = "default",
        cores: int | None = None,
    ) -> None:
        super().__init__(_load(models), cores)
        if visibility not in ("default", "head", "paper"):
            raise SettingsError(f"visibility must be default, head or paper, found {visibility!r}")
        for model in self.models:
            if visibility == "head" and model.head is None:
                raise ModelError(
                    f"model {model.label!r} has no mask head; train it with masks, or ask for "
                    'visibility="paper"'
                )
        learnt = [
            replace(model, head=None) if visibility == "paper" else model for model in self.models
        ]
        calibrated = [model.calibration for model in learnt if model.calibration is not None]
        self.hidden = HiddenBlocks(learnt)
        self.stages = []
        if any(model.head is not None for model in learnt):
            self.stages += [self.hidden, FigureGround(learnt)]
        if calibrated:
            self.stages.append(Probability(learnt))
            self.lowest = min(calibration.settings.margin for calibration in calibrated)

    def suppress(
        self, view: View, candidates: Detections, method: str = "voting", **settings: Any
    ) -> tuple[Detections, Interpretation]:
        """The candidates as the method saw them, and which of them it keeps."""
        if method in BY_BLOCKS and self.hidden in self.stages:
            candidates = self.hidden(view, candidates)
        return super().suppress(view, candidates, method, **settings)


def _load(models: Named | Sequence[Named]) -> list[Mixture]:
    given = [models] if isinstance(models, (Mixture, str, PathLike)) else models
    if not isinstance(given, Iterable):
        given = [given]
    return [model if isinstance(model, Mixture) else load(model) for model in given]
