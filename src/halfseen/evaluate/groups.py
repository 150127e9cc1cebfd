"""Groups of objects by how much of them is visible, how large they are, or how close they stand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from halfseen.arrays import Bool, Float64
from halfseen.errors import SettingsError
from halfseen.evaluate.coco_ap import AREAS
from halfseen.geometry import area, iou_matrix, rows_at_once
from halfseen.ground_truth import GroundTruth

Groups = dict[str, list[Bool]]  # by name, one array of members an image

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
TRUNCATIONS = (0.0, 0.15, 0.3, 0.5, 1.0)  # KITTI's easy, moderate and hard
CROWDING = (0.0, 0.1, 0.2, 0.3, 0.4)
LEVELS = ("visible", "partly occluded", "largely occluded")


def group_objects(truth: Sequence[GroundTruth], by: str, label: str) -> Groups:
    """Group the objects of all images; a group without a member is left out.

    visible    quarters of the visible fraction
    occluded   by level where levels are known, else by flag
    truncated  by share where shares are known, else by flag
    size       COCO's small, medium and large
    crowd      IoU with another object of the class above 0, 0.1, ... 0.4, and "alone"

    SettingsError where the annotations do not say it.
    """
    if by not in BY:
        raise SettingsError(f"objects can be grouped by {', '.join(BY)}, not by {by!r}")
    groups = BY[by](truth, label)
    found = {
        name: members
        for name, members in groups.items()
        if any((m & (t.label == label)).any() for m, t in zip(members, truth, strict=True))
    }
    if not found:
        raise SettingsError(f"the annotations do not say by what '{by}' could group {label}")
    return found


def by_visible(truth: Sequence[GroundTruth], label: str = "") -> Groups:
    """Quarters of the visible fraction; an object of unknown fraction is in none."""
    return between([here.visible_fraction for here in truth], QUARTERS, "visible")


def between(values: Sequence[Float64], edges: Sequence[float], what: str) -> Groups:
    """One group for each [low, high) between edges, the last with its end; NaN is in none."""
    if len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise SettingsError(f"edges of what is {what} must rise, not {list(edges)}")
    return {
        f"{100 * low:g}-{100 * high:g}% {what}": [
            (v >= low) & ((v <= high) if high == edges[-1] else (v < high)) for v in values
        ]
        for low, high in itertools.pairwise(edges)
    }


def by_occluded(truth: Sequence[GroundTruth], label: str = "") -> Groups:
    """Levels of occlusion, or the flag where no levels are annotated."""
    if any((here.level >= 0).any() for here in truth):
        named = enumerate(LEVELS)
        return {name: [here.level == n for here in truth] for n, name in named}
    return _flagged([here.occluded for here in truth], "occluded")


def by_truncated(truth: Sequence[GroundTruth], label: str = "") -> Groups:
    """Shares outside the image, or the flag where no shares are annotated."""
    shares = [here.truncation for here in truth]
    if any((values > 0).any() for values in shares):
        return between(shares, TRUNCATIONS, "truncated")
    return _flagged([here.truncated for here in truth], "truncated")


def by_size(truth: Sequence[GroundTruth], label: str = "") -> Groups:
    """COCO's ranges of area, as annotated or else of the boxes."""
    sizes = [np.where(np.isnan(here.area), area(here.box), here.area) for here in truth]
    return {
        name: [(values >= low) & (values <= high) for values in sizes]
        for name, (low, high) in AREAS.items()
        if name != "all"
    }


def by_crowd(truth: Sequence[GroundTruth], label: str) -> Groups:
    """Objects that no other of their class overlaps, and those that one overlaps by more than t.

    Difficult objects count as neighbours; crowds and ignored regions do not.
    """
    closest = [_closest(here, label) for here in truth]
    alone = {"alone": [values == 0 for values in closest]}
    return alone | {f"IoU above {t:g}": [values > t for values in closest] for t in CROWDING}


def _closest(here: GroundTruth, label: str) -> Float64:
    """(N,) highest IoU with another object of the class; NaN for objects of other classes."""
    values = np.full(len(here), np.nan)
    own = np.flatnonzero((here.label == label) & ~here.crowd & ~here.ignore)
    if len(own):
        boxes = here.box[own]
        for part in rows_at_once(boxes, boxes):
            shared = iou_matrix(boxes[part], boxes)
            np.fill_diagonal(shared[:, part.start :], 0.0)
            values[own[part]] = shared.max(axis=1)
    return values


def _flagged(flags: Sequence[Bool], word: str) -> Groups:
    if not any(values.any() for values in flags):
        return {}
    return {f"not {word}": [~values for values in flags], word: list(flags)}


BY: dict[str, Callable[[Sequence[GroundTruth], str], Groups]] = {
    "visible": by_visible,
    "occluded": by_occluded,
    "truncated": by_truncated,
    "size": by_size,
    "crowd": by_crowd,
}
