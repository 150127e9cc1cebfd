"""From many overlapping detections to one for each object."""

from typing import Any

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppression.interpretation import Interpretation, Reason
from halfseen.suppression.methods import METHODS, make_method
from halfseen.suppression.others import suppress_boxes, suppress_masks

__all__ = ["METHODS", "Interpretation", "Reason", "suppress", "suppress_boxes", "suppress_masks"]


def suppress(found: Detections, method: str = "covering", **settings: Any) -> Interpretation:
    """Chooses the detections that remain, each label by itself.

    method    "covering" (exact, by visible blocks), "voting" (what detectors use by default),
              "greedy", "meanshift" or "soft"
    settings  those of the method, such as `overlap`; `energy="paper"` gives the paper's covering
    """
    if not isinstance(found, Detections):
        raise SettingsError(
            f"suppress: expected halfseen's Detections, found {type(found).__name__};"
            " for boxes or masks of another detector use hs.suppress_boxes or hs.suppress_masks"
        )
    chosen = make_method(method, settings)
    return chosen.choose(chosen.prepare(found))
