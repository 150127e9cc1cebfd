"""The tables of a comparison: one row a method, all of one class, in percent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from halfseen.evaluate.summary import Summary
from halfseen.evaluate.table import Cell, Table


def overview(summaries: Sequence[Summary]) -> Table:
    """AP overall and on the parts that tell methods apart."""
    first = summaries[0]
    columns = ["", "AP", "11-pt", "COCO", "whole", "trunc.", "occl.", "crowd", "recall"]
    rows: list[list[Cell]] = [
        [
            s.name,
            *_percent(s.ap, s.ap_11, s.coco),
            *(100 * s.subsets[name].ap for name in ("whole", "truncated", "occluded")),
            *_percent(s.crowded.ap, s.recall),
        ]
        for s in summaries
    ]
    counts = [first.subsets[name].objects for name in ("whole", "truncated", "occluded")]
    rows.append(["objects", first.objects, None, None, *counts, first.crowded.objects, None])
    notes = ("AP: VOC, all-point, IoU 0.5; 11-pt: VOC to 2009; COCO: mean of IoU 0.5 to 0.95.",)
    return Table(columns, rows, f"{first.label}, {first.images} images: AP %", notes=notes)


def by_fraction(summaries: Sequence[Summary]) -> Table | None:
    """AP and recall by visible fraction; None where fractions are not known."""
    names = [name for name in summaries[0].subsets if name.endswith("visible")]
    if not names:
        return None
    first, *short = (name.removesuffix(" visible") for name in names)
    columns = ["", f"AP {first}", *short, f"rec. {first}", *short]
    rows: list[list[Cell]] = [
        [
            s.name,
            *(100 * s.subsets[name].ap for name in names),
            *(100 * s.subsets[name].recall for name in names),
        ]
        for s in summaries
    ]
    counts: list[Cell] = [summaries[0].subsets[name].objects for name in names]
    rows.append(["objects", *counts, *counts])
    notes = ("AP falls with the number of objects: compare methods, not columns. Recall: both.",)
    return Table(columns, rows, "by visible fraction, %", notes=notes)


def what_is_seen(summaries: Sequence[Summary]) -> Table | None:
    """The quality of boxes, masks and hidden blocks of right detections; None of boxes alone."""
    if all(math.isnan(s.visible_share) and not s.visible_box.objects for s in summaries):
        return None
    columns = [
        "", "seen", "visible", "full", "mask", "(box)", "occl.", "(box)", "hid. BA", "false",
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            s.name,
            *_percent(
                s.visible_share, s.visible_box.iou, s.full_box.iou, s.masks["all"].iou,
                s.masks["all"].box_iou, s.masks["occluded"].iou, s.masks["occluded"].box_iou,
                s.hidden.balanced_accuracy, s.false_hidden,
            ),
        ]
        for s in summaries
    ]  # fmt: skip
    notes = (
        "seen: blocks called visible. visible, full: IoU of these boxes with true ones.",
        "mask: IoU of masks with instance masks, occl. on occluded objects,",
        "(box) the plain box's. hid. BA: balanced accuracy of blocks that a neighbour",
        "hides, chance is 50. false: visible blocks of whole objects called hidden.",
    )
    return Table(columns, rows, "boxes, masks and hidden blocks of right detections, %", 1, notes)


def sweep_table(summaries: Sequence[Summary]) -> Table | None:
    """The occlusion sweep; None where it was not made."""
    swept = [s for s in summaries if s.sweep]
    if not swept:
        return None
    shares = [step.share for step in swept[0].sweep]
    covered = [k for k, share in enumerate(shares) if share > 0]
    columns = [
        "",
        *(f"AP {share:.0%}" for share in shares),
        *(f"BA {shares[k]:.0%}" for k in covered),
        "false",
    ]
    rows: list[list[Cell]] = [
        [
            s.name,
            *(100 * step.ap for step in s.sweep),
            *(100 * s.sweep[k].blocks.balanced_accuracy for k in covered),
            100 * s.sweep[0].blocks.false_hidden_share,
        ]
        for s in swept
    ]
    notes = (
        "BA: balanced accuracy of hidden blocks, chance is 50.",
        f"false: visible blocks called hidden, with {shares[0]:.0%} covered.",
    )
    return Table(columns, rows, "whole objects under pasted texture, %", 1, notes)


def _percent(*values: float) -> list[Cell]:
    return [100 * value for value in values]
