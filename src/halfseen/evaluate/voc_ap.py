"""Average precision by the rules of the PASCAL VOC development kit.

For one class, over all images at once:

1. Detections are taken by falling score; equal scores keep their order (of images, then within).
2. Each is compared with the true box of its class and image that it overlaps most (the first of
   equals), *whether or not that box is already taken*.
3. Overlap is intersection over union and must be at least 0.5.
4. If it is too small: a false positive. If the box is difficult: neither right nor wrong. If it was
   taken by an earlier detection: a false positive. Otherwise a true positive, and the box is taken.
   A detection that is wrong so far, more than half of whose own area lies in an ignored region of
   its class, is neither; VOC has no such regions.
5. Recall is over the boxes that are not difficult. A class without such boxes has no AP: NaN.

The kit counts pixels 1-based and inclusive, (x1 + 1, y1 + 1, x2, y2) in terms of our half-open
boxes, and adds 1 to every side that it measures. Both conventions give the same areas, so
`geometry.iou` is the kit's overlap. Neither boxes nor scores are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import AnnotationError, SettingsError
from halfseen.geometry import Boxes, area, intersection, iou_matrix, rows_at_once

Kind = Literal["all-point", "11-point"]
BoxKind = Literal["full", "visible", "as given"]
Found = Sequence[Detections] | Mapping[str, Detections]

TRUE, FALSE, NEITHER = 1, 0, -1


@dataclass(frozen=True, eq=False)
class Matches:
    """The outcome of every detection of one class, best first, as parallel arrays of length M.

    image     (M,) position of the image in the truth
    index     (M,) position of the detection within its image
    rank      (M,) the value it was ranked by
    outcome   (M,) TRUE, FALSE, or NEITHER
    target    (M,) the object of its image that it overlaps most, or -1 where it overlaps none
    overlap   (M,) that overlap
    wanted    (images,) how many objects were to be found in each image
    box, least   which boxes were compared, and the overlap that they needed
    """

    label: str
    box: BoxKind
    least: float
    image: Int64
    index: Int64
    rank: Float64
    outcome: NDArray[np.int8]
    target: Int64
    overlap: Float64
    wanted: Int64

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def positives(self) -> int:
        """How many objects were to be found in all."""
        return int(self.wanted.sum())

    @property
    def right(self) -> list[tuple[int, int, int]]:
        """(image, detection, object) of every true positive, best first."""
        chosen = self.outcome == TRUE
        columns = (self.image[chosen], self.index[chosen], self.target[chosen])
        return [(int(k), int(i), int(j)) for k, i, j in zip(*columns, strict=True)]


@dataclass(frozen=True, eq=False)
class APResult:
    """Average precision of one class, with the curve it sums.

    ap         fraction 0..1; NaN if the class has no objects to be found
    precision, recall, score   after each detection that is right or wrong, best first
    positives  objects to be found
    """

    label: str
    kind: Kind
    box: BoxKind
    overlap: float
    ap: float
    precision: Float64
    recall: Float64
    score: Float64
    positives: int

    def __str__(self) -> str:
        rule = f"{self.kind}, {self.box} box, IoU >= {self.overlap:g}"
        return f"{self.label}: AP {100 * self.ap:.1f}% ({rule}, {self.positives} objects)"


def average_precision(
    truth: Sequence[GroundTruth],
    found: Found,
    label: str | None = None,
    kind: Kind = "all-point",
    box: BoxKind = "full",
    overlap: float = 0.5,
    rank: Sequence[Float64] | None = None,
) -> APResult:
    """AP of one class by the rules above.

    truth    one per image
    found    one per image in the same order, or by image id (an absent image has no detections)
    label    the class; may be left out where detections (or else objects) are of one class only
    kind     "all-point" (VOC 2010 on): area under the precision envelope; "11-point" (to 2009):
             mean of the envelope at recalls 0, 0.1, ..., 1
    box      "full": the whole object's box cut to the image; "visible": the box of what is visible;
             "as given": the whole object's box, as another detector gave it
    rank     one array per image that replaces the score as the order of detections
    """
    return summarise(match(truth, found, label, box=box, overlap=overlap, rank=rank), kind)


def summarise(matches: Matches, kind: Kind = "all-point") -> APResult:
    """The curve and AP of detections that were already matched."""
    counted = matches.outcome != NEITHER
    right = matches.outcome[counted] == TRUE
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    if matches.positives:
        recall = hits / matches.positives
    else:
        recall = np.full(len(hits), np.nan)
    ap = area_under(right, matches.positives, kind)
    return APResult(
        matches.label, kind, matches.box, matches.least, ap, precision, recall,
        matches.rank[counted], matches.positives,
    )  # fmt: skip


def area_under(right: Bool, positives: int, kind: Kind = "all-point") -> float:
    """AP of ranked detections, True where right; NaN if there was nothing to find.

    The envelope is the best precision at this recall or a higher one. The recalls of the 11-point
    rule are compared in whole numbers, so that a recall of exactly 0.3 reaches the level 0.3.
    """
    if kind not in ("all-point", "11-point"):
        raise SettingsError(f'kind must be "all-point" or "11-point", not {kind!r}')
    if positives == 0:
        return float("nan")
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    if kind == "all-point":
        return float(envelope[right].sum() / positives)
    first = np.searchsorted(10 * hits, positives * np.arange(11))
    return float(envelope[first[first < len(hits)]].sum() / 11)


def match(
    truth: Sequence[GroundTruth],
    found: Found,
    label: str | None = None,
    *,
    box: BoxKind = "full",
    overlap: float = 0.5,
    ignored: Sequence[Bool] | None = None,
    rank: Sequence[Float64] | None = None,
) -> Matches:
    """Rules 1 to 4: every detection of the class with its outcome, best first.

    ignored  one array per image, True for the objects that count as neither; difficult ones,
             crowds and ignored regions if not given
    """
    if box not in ("full", "visible", "as given"):
        raise SettingsError(f'box must be "full", "visible" or "as given", not {box!r}')
    if not 0 < overlap <= 1:
        raise SettingsError(f"overlap must be above 0 and at most 1, not {overlap}")
    found = aligned(truth, found)
    label = only_label(truth, found) if label is None else label

    columns: list[tuple[NDArray[Any], ...]] = []
    wanted = np.zeros(len(truth), np.int64)
    objects = 0
    for k, (here, detected) in enumerate(zip(truth, found, strict=True)):
        own = np.flatnonzero(here.label == label)
        skip = (here.left_out if ignored is None else ignored[k])[own]
        wanted[k] = (~skip).sum()
        chosen = np.flatnonzero(detected.label == label)
        if len(chosen):
            boxes = boxes_of(detected, box)[chosen]
            if not np.isfinite(boxes).all():
                raise SettingsError(f'image "{here.image}": a {box} box is not finite numbers')
            best, shared = best_overlap(boxes, here.box[own])
            matched = np.where(shared >= overlap, best, -1)
            spared = (matched < 0) & _inside(boxes, here.box[own][here.ignore[own]])
            columns.append((
                np.full(len(chosen), k), chosen,
                _ranks(detected, rank, k, here.image)[chosen], shared,
                np.append(own, -1)[best],
                np.where(matched < 0, -1, objects + matched),
                np.append(skip, False)[matched] | spared,
            ))  # fmt: skip
        objects += len(own)

    if not columns:
        none, real = np.zeros(0, np.int64), np.zeros(0)
        outcome = none.astype(np.int8)
        return Matches(label, box, overlap, none, none, real, outcome, none, real, wanted)
    parts = [np.concatenate(column) for column in zip(*columns, strict=True)]
    order = np.argsort(-parts[2], kind="stable")
    image, index, ranks, shared, target, taken, skipped = (part[order] for part in parts)
    outcome = np.zeros(len(order), np.int8)
    objects_hit, first = np.unique(taken, return_index=True)
    outcome[first[objects_hit >= 0]] = TRUE
    outcome[skipped] = NEITHER
    return Matches(label, box, overlap, image, index, ranks, outcome, target, shared, wanted)


def boxes_of(detected: Detections, kind: BoxKind) -> Boxes:
    """The boxes of detections that are compared with the true ones; see `average_precision`."""
    if kind == "full":
        return detected.clipped
    return detected.visible if kind == "visible" else detected.full


def _inside(boxes: Boxes, regions: Boxes) -> Bool:
    """Boxes more than half of whose area lies in one of the regions."""
    if not len(regions):
        return np.zeros(len(boxes), bool)
    shared = np.zeros(len(boxes))
    for part in rows_at_once(boxes, regions):
        shared[part] = intersection(boxes[part, None], regions[None]).max(axis=1)
    return np.asarray(shared > 0.5 * area(boxes))


def best_overlap(boxes: Boxes, true: Boxes) -> tuple[Int64, Float64]:
    """For each box the true box it overlaps most (the first of equals; -1: none), and how much."""
    if not len(true):
        return np.full(len(boxes), -1), np.zeros(len(boxes))
    best, most = np.zeros(len(boxes), np.int64), np.zeros(len(boxes))
    for part in rows_at_once(boxes, true):
        shared = iou_matrix(boxes[part], true)
        best[part], most[part] = shared.argmax(axis=1), shared.max(axis=1)
    return np.where(most > 0, best, -1), most


def aligned(truth: Sequence[GroundTruth], found: Found) -> Sequence[Detections]:
    """Detections in the order of the truth; an error if they cannot be of the same images."""
    if isinstance(found, Mapping):
        unknown = sorted(set(found) - {here.image for here in truth})
        if unknown:
            raise AnnotationError(
                f"detections of {len(unknown)} image(s) that are not in the ground truth, such as "
                f'"{unknown[0]}": use the split that they were made on'
            )
        found = [
            found[here.image] if here.image in found else Detections.empty(here.size)
            for here in truth
        ]
    if len(found) != len(truth):
        raise SettingsError(
            f"ground truth of {len(truth)} images but detections of {len(found)}: give one each"
        )
    for here, detected in zip(truth, found, strict=True):
        if tuple(here.size) != tuple(detected.size):
            raise SettingsError(
                f'image "{here.image}" is {here.size} (height, width) in the ground truth but '
                f"{detected.size} in the detections: are both in the same order?"
            )
    return found


def only_label(truth: Sequence[GroundTruth], found: Sequence[Detections]) -> str:
    """The one class of the detections or, where there are none, of the objects."""
    labels = {str(name) for detected in found for name in np.unique(detected.label)}
    labels = labels or {str(name) for here in truth for name in np.unique(here.label)}
    if len(labels) != 1:
        names = ", ".join(sorted(labels)) or "none"
        raise SettingsError(f"give the label to evaluate: found {len(labels)} classes ({names})")
    return labels.pop()


def _ranks(detected: Detections, rank: Sequence[Float64] | None, k: int, image: str) -> Float64:
    values = np.asarray(detected.score if rank is None else rank[k], dtype=np.float64)
    if values.shape != (len(detected),):
        raise SettingsError(f'image "{image}": {len(detected)} detections but {values.size} ranks')
    if np.isnan(values).any():
        raise SettingsError(f'image "{image}": a detection has a score that is not a number')
    return values
