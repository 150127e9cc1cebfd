"""All measures of one method on one class of one dataset, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from halfseen.arrays import Bool, Float64
from halfseen.detections import GroundTruth
from halfseen.evaluate.blocks import BlockCounts, neighbour_counts, whole_counts
from halfseen.evaluate.bootstrap import crowded
from halfseen.evaluate.coco_ap import coco_average_precision
from halfseen.evaluate.sweep import SweepPoint
from halfseen.evaluate.visibility import ap_by_subset, best_recall, box_quality, mask_quality
from halfseen.evaluate.voc_ap import (
    APResult,
    BoxKind,
    Found,
    Matches,
    aligned,
    match,
    summarise,
)

CURVE_POINTS = 400


@dataclass(frozen=True)
class Subset:
    """AP and recall on some of the objects. Recall compares subsets, AP only methods on one."""

    objects: int
    ap: float
    recall: float


@dataclass(frozen=True)
class Blocks:
    """How well the hidden blocks of right detections were found, over `objects` of them."""

    objects: int
    balanced_accuracy: float
    precision: float
    recall: float
    false_hidden_share: float

    @classmethod
    def of(cls, counts: BlockCounts) -> Blocks:
        return cls(
            counts.objects, counts.balanced_accuracy, counts.precision, counts.recall,
            counts.false_hidden_share,
        )  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """Mean IoU over `objects` right detections, and of the plain box on the same ones."""

    objects: int
    iou: float
    box_iou: float


@dataclass(frozen=True)
class Covered:
    """One step of the occlusion sweep: `share` of every whole object is covered."""

    share: float
    ap: float
    recall: float
    blocks: Blocks


@dataclass(frozen=True)
class Summary:
    """One method, one class, one dataset. Shares and APs are 0..1, NaN where not known.

    ap, ap_11        VOC's, all-point and 11-point, of the whole object's box cut to the image
    ap_visible       VOC's, all-point, of the box around what is seen
    coco             COCO's AP, the mean over overlaps 0.5 to 0.95
    recall           share of the objects found at any score
    subsets          by name: all, whole, truncated, occluded, and quarters of visible fraction
    crowded          the images where true boxes overlap by IoU above 0.2
    visible_box      IoU of `visible` with the annotated box; beside it that of `full` cut to the
                     image
    full_box         IoU of `full` with the whole object's box, where that is known; beside it that
                     of `full` cut to the image with the annotated box
    masks            mask IoU with instance masks beside the plain box's: all, whole, occluded
    hidden           blocks that a real neighbour hides (from instance masks)
    false_hidden     share of the visible blocks of whole objects that were called hidden
    visible_share    mean share of visible blocks in right detections
    precision_curve, recall_curve   at most 400 points of the precision/recall curve
    sweep            the occlusion sweep, where it was made
    """

    name: str
    label: str
    images: int
    objects: int
    detections: int
    ap: float
    ap_11: float
    ap_visible: float
    coco: float
    recall: float
    subsets: dict[str, Subset]
    crowded: Subset
    visible_box: Fit
    full_box: Fit
    masks: dict[str, Fit]
    hidden: Blocks
    false_hidden: float
    visible_share: float
    precision_curve: tuple[float, ...]
    recall_curve: tuple[float, ...]
    sweep: tuple[Covered, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON; what is not known is null."""
        plain = _plain(asdict(self))
        assert isinstance(plain, dict)
        return plain

    def figures(self) -> dict[str, str | int | float]:
        """Every number but the curve, by a flat name such as `subsets.whole.ap`, for CSV."""
        fields = asdict(self)
        del fields["precision_curve"], fields["recall_curve"]
        fields["sweep"] = {f"{step.share:.0%}": asdict(step) for step in self.sweep}
        return dict(_flat(fields))


def measure(
    name: str,
    label: str,
    truth: Sequence[GroundTruth],
    found: Found,
    sweep: Iterable[SweepPoint] = (),
    annotated: Sequence[GroundTruth] | None = None,
) -> tuple[Summary, Matches]:
    """All measures of one method, and what became of its detections.

    truth      of all classes, one an image: any object may be the neighbour that hides
    sweep      the points of a sweep; those of other methods are left out
    annotated  the same with boxes of what is visible, where those of `truth` are of whole objects
    """
    found = aligned(truth, found)
    summary, matches = measure_boxes(name, label, truth, found, "full")
    annotated = truth if annotated is None else annotated
    boxes = box_quality(annotated, found, matches)
    known = np.isfinite(boxes.full)
    masks = mask_quality(truth, found, matches)
    summary = replace(
        summary,
        ap_visible=summarise(match(annotated, found, label, box="visible")).ap,
        visible_box=_fit(boxes.visible, boxes.clipped),
        full_box=_fit(boxes.full, boxes.clipped, known),
        masks={
            "all": _fit(masks.mask, masks.box),
            "whole": _fit(masks.mask, masks.box, masks.whole),
            "occluded": _fit(masks.mask, masks.box, masks.occluded),
        },
        hidden=Blocks.of(neighbour_counts(truth, found, matches)),
        false_hidden=whole_counts(truth, found, matches).false_hidden_share,
        visible_share=_mean([found[k].visibility[i].mean() for k, i, _ in matches.right]),
        sweep=tuple(
            Covered(point.share, point.ap.ap, point.recall, Blocks.of(point.blocks))
            for point in sweep
            if point.method == name
        ),
    )
    return summary, matches


def measure_boxes(
    name: str, label: str, truth: Sequence[GroundTruth], found: Found, box: BoxKind = "as given"
) -> tuple[Summary, Matches]:
    """The measures that need boxes alone, for any detector; all others are NaN or empty."""
    matches = match(truth, found, label, box=box)
    result = summarise(matches)
    points = _thin(len(result.recall))
    nan, nothing = float("nan"), Fit(0, float("nan"), float("nan"))
    summary = Summary(
        name=name,
        label=label,
        images=len(truth),
        objects=result.positives,
        detections=len(matches),
        ap=result.ap,
        ap_11=summarise(matches, "11-point").ap,
        ap_visible=nan,
        coco=coco_average_precision(truth, found, label, box=box).ap,
        recall=best_recall(result),
        subsets={k: _subset(v) for k, v in ap_by_subset(truth, matches).items()},
        crowded=_subset(summarise(_on_images(matches, crowded(truth, label)))),
        visible_box=nothing,
        full_box=nothing,
        masks={"all": nothing, "whole": nothing, "occluded": nothing},
        hidden=Blocks.of(BlockCounts()),
        false_hidden=nan,
        visible_share=nan,
        precision_curve=tuple(result.precision[points].tolist()),
        recall_curve=tuple(result.recall[points].tolist()),
    )
    return summary, matches


def _subset(result: APResult) -> Subset:
    return Subset(result.positives, result.ap, best_recall(result))


def _on_images(matches: Matches, images: Sequence[int]) -> Matches:
    """The same judgement on some of the images alone."""
    chosen = np.zeros(len(matches.wanted), bool)
    chosen[images] = True
    keep = chosen[matches.image]
    arrays = {
        name: getattr(matches, name)[keep]
        for name in ("image", "index", "rank", "outcome", "target", "overlap")
    }
    return replace(matches, **arrays, wanted=np.where(chosen, matches.wanted, 0))


def _fit(first: Float64, second: Float64, keep: Bool | None = None) -> Fit:
    chosen = np.ones(len(first), bool) if keep is None else keep
    return Fit(int(chosen.sum()), _mean(first[chosen]), _mean(second[chosen]))


def _mean(values: Sequence[float] | Float64) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _thin(count: int) -> np.ndarray:
    """Positions of at most CURVE_POINTS of `count`, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, CURVE_POINTS)).astype(np.int64))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(fields: dict[str, Any], above: str = "") -> Iterable[tuple[str, str | int | float]]:
    for key, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
