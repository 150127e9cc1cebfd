"""What stands before what: where two objects of a class overlap, the nearer one hides the other.

Mask heads look at windows one by one, and a car behind a car is a car's texture in the wrong place.
Detections of one image know more: of two things on one ground the nearer ends lower in the image,
and, seen whole, scores higher.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.geometry import area, intersection

# Of an object that another covers by more nothing is known: it may be a part of it.
MOST = 0.7
# What scores less may not be there at all, and hides nothing.
SURE = 0.0
Bools = NDArray[np.bool_]


def hide_behind(found: Detections, judged: list[int]) -> tuple[Bools, ...]:
    """The flags of detections, where blocks behind another detection are hidden as well.

    judged   those that have flags from a mask head; the others neither hide nor are hidden
    A detection stands before another of its label that it overlaps if its box ends lower and its
    score is higher, and above SURE. It hides the blocks whose centres lie in its figure, but never
    all that is visible.
    """
    flags = list(found.visibility)
    own = np.array(judged, np.int64)
    boxes, score, label = found.clipped[own], found.score[own], found.label[own]
    areas = np.maximum(area(boxes), 1e-9)
    for n in np.flatnonzero(score > SURE).tolist():
        covered = intersection(boxes[n], boxes) / areas
        behind = (covered > 0) & (covered <= MOST) & (boxes[:, 3] < boxes[n, 3])
        behind &= (score < score[n]) & (label == label[n])
        for a in own[behind].tolist():
            flags[a] = flags[a] & ~_shown_at(found, judged[n], found.window[a], flags[a].shape)
    for a in judged:
        if not flags[a].any():
            flags[a] = found.visibility[a]
    return tuple(flags)


def _shown_at(
    found: Detections, b: int, window: NDArray[np.float64], shape: tuple[int, ...]
) -> Bools:
    """(rows, cols) of the blocks of a window: whether detection b is what is seen there."""
    shown = (found.visibility if found.figure is None else found.figure)[b]
    places, inside = [], []
    for k in (1, 0):
        count, other = shape[1 - k], shown.shape[1 - k]
        centre = window[k] + (np.arange(count) + 0.5) * (window[k + 2] - window[k]) / count
        low, high = found.window[b, k], found.window[b, k + 2]
        place = np.floor((centre - low) / (high - low) * other).astype(np.int64)
        inside.append((place >= 0) & (place < other))
        places.append(np.clip(place, 0, other - 1))
    return shown[places[0][:, None], places[1]] & inside[0][:, None] & inside[1]
