"""What may follow the paper's detector: stages that refine the detections that were kept."""

from __future__ import annotations

from typing import Protocol

from halfseen.detect.view import View
from halfseen.detections import Detections


class Stage(Protocol):
    """One refinement of kept detections, such as marking hidden blocks.

    It returns the same detections in the same order, and leaves alone those that it knows nothing
    about, such as rows of models without what it needs.
    """

    def __call__(self, view: View, found: Detections) -> Detections:
        """The detections of an image, refined."""
