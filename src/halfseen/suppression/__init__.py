"""From many overlapping detections to one for each object.

A method is a frozen dataclass, a subclass of `Method`, whose module stands in `_MODULES`.
"""

from halfseen.suppression import covering, greedy, meanshift, soft
from halfseen.suppression.candidates import Interpretation, Reason
from halfseen.suppression.method import METHODS, make_method, suppress
from halfseen.suppression.others import suppress_boxes, suppress_masks

_MODULES = (covering, greedy, meanshift, soft)

__all__ = [
    "METHODS",
    "Interpretation",
    "Reason",
    "make_method",
    "suppress",
    "suppress_boxes",
    "suppress_masks",
]
