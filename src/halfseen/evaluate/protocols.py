"""Any detector's results on one class by all protocols: AP, miss rate, Jaccard index, by group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halfseen.evaluate.bootstrap import (
    Among,
    APDifference,
    bootstrap_difference,
    bootstrap_miss_rates,
)
from halfseen.evaluate.coco_ap import COCOResult, Size, coco_by_subset
from halfseen.evaluate.groups import Groups
from halfseen.evaluate.jaccard import Jaccard, jaccard_index
from halfseen.evaluate.miss_rate import MissRate, miss_rates
from halfseen.evaluate.pool import Pool
from halfseen.evaluate.table import Cell, Table
from halfseen.evaluate.visibility import best_recall, restrict
from halfseen.evaluate.voc_ap import APResult, Found, Matches, summarise
from halfseen.ground_truth import GroundTruth

ALL = "all"
SIZES: tuple[Size, ...] = ("small", "medium", "large")
MISS_NOTE = "log-average miss rate at IoU 0.5, lower is better."
TITLES = {"visible": "visible fraction", "occluded": "occlusion", "truncated": "truncation"}


@dataclass(frozen=True, eq=False)
class Group:
    """One group of objects by every protocol; `matches` are VOC's on this group."""

    matches: Matches
    ap: APResult
    coco: COCOResult
    miss: MissRate


@dataclass(frozen=True, eq=False)
class Measured:
    """One method on one class.

    sizes     COCO's results by size: all, small, medium, large
    miss      miss rates of the pedestrian protocol: Reasonable, heavy, All
    jaccard   Jaccard index
    groups    the groups asked for, after "all" of the objects
    """

    sizes: dict[str, COCOResult]
    miss: dict[str, MissRate]
    jaccard: Jaccard
    groups: dict[str, Group]


def measure_protocols(
    truth: Sequence[GroundTruth],
    found: Found,
    matches: Matches,
    groups: Groups,
    images: int | None = None,
) -> Measured:
    """Measure one method; `matches` are VOC's of all objects, by the boxes as given.

    images  how many there are, if `truth` leaves out some that hold nothing
    """
    pool = Pool.of(truth, found, matches.label, "as given")
    everything = {ALL: [here.label == matches.label for here in truth]} | groups
    coco = coco_by_subset(pool, everything)
    miss = miss_rates(pool, subsets=everything, images=images)
    parts = {}
    for name, members in everything.items():
        own = matches if name == ALL else restrict(matches, truth, members)
        parts[name] = Group(own, summarise(own), coco[name], miss.pop(name))
    sizes = {size: coco_by_subset(pool, {size: None}, size)[size] for size in SIZES}
    return Measured({ALL: coco[ALL]} | sizes, miss, jaccard_index(pool), parts)


def protocol_table(methods: Mapping[str, Measured]) -> Table:
    """One row a method: COCO's averages, the pedestrian miss rates, and the Jaccard index."""
    columns = ["", "COCO", "AP50", "AP75", "S", "M", "L", "AR", "Reas.", "heavy", "All", "JI"]
    rows: list[list[Cell]] = []
    for name, one in methods.items():
        coco = one.sizes[ALL]
        values = [coco.ap, coco.ap50, coco.ap75, *(one.sizes[size].ap for size in SIZES)]
        values += [coco.recall, *(rate.value for rate in one.miss.values()), one.jaccard.value]
        rows.append([name, *(100 * value for value in values)])
    notes = (
        "COCO: mean AP of IoU 0.5 to 0.95, and of small, medium and large; AR: recall.",
        f"Reas., heavy, All: {MISS_NOTE}",
        "Reasonable: from 50 pixels high and 65% visible; heavy: 20 to 65% visible;",
        "All: from 20 pixels and 20%. JI: Jaccard index at the best score.",
    )
    return Table(columns, rows, "by the protocols of COCO, CityPersons and CrowdHuman, %",
                 notes=notes, ranked=False)  # fmt: skip


def group_table(methods: Mapping[str, Measured], names: Sequence[str], by: str) -> Table:
    """One row a group and method."""
    columns = ["", "method", "objects", "AP", "COCO", "recall", "MR"]
    rows: list[list[Cell]] = []
    for name in (ALL, *names):
        for method, one in methods.items():
            part = one.groups[name]
            values = (part.ap.ap, part.coco.ap, best_recall(part.ap), part.miss.value)
            rows.append([name, method, part.ap.positives, *(100 * value for value in values)])
    notes = (
        "AP: VOC, all-point, IoU 0.5; recall: found at any score. AP falls with the",
        "number of objects: compare methods, not groups. Others are ignored.",
        f"MR: {MISS_NOTE}",
    )
    return Table(columns, rows, f"by {TITLES.get(by, by)}, %", notes=notes, ranked=False)


def difference_table(
    methods: Mapping[str, Measured],
    names: Sequence[str],
    resamples: int,
    among: Among | None = None,
) -> Table | None:
    """Each method against the first, in every group, with 95% intervals; None of one method."""
    (base, first), *others = methods.items()
    if not others:
        return None
    columns = ["", "method", "AP", "low", "high", "MR", "low", "high", "better"]
    rows: list[list[Cell]] = []
    for name in (ALL, *names):
        for method, second in others:
            one, two = first.groups[name], second.groups[name]
            ap = bootstrap_difference(one.matches, two.matches, resamples=resamples, among=among)
            miss = bootstrap_miss_rates(one.miss, two.miss, resamples=resamples, among=among)
            numbers = [100 * v for d in (ap, miss) for v in (d.difference, d.low, d.high)]
            rows.append([name, method, *numbers, _better(ap, base, method)])
    notes = (
        f"Differences to {base}, with 95% intervals of a paired bootstrap over images.",
        "AP above 0 and MR below 0 speak for the method; better: where the interval of AP",
        "does not hold 0.",
    )
    return Table(columns, rows, f"against {base}, percentage points", notes=notes, ranked=False)


def _better(difference: APDifference, base: str, method: str) -> str | None:
    if math.isnan(difference.low) or not difference.certain:
        return None
    return method if difference.low > 0 else base
