"""What every method chooses from: scores, labels, regions that overlap; and what it chose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import Boxes, area

MEASURES = ("iou", "smaller", "lower")
"""Shared area over that of either, of the smaller, or of the lower-ranked region."""

EMPTY = -2
"""In place of an excluder: a candidate without area."""

LARGEST = 1e100
"""The largest score that methods can compute with; greedy suppression only compares scores."""


class Shapes(NamedTuple):
    """Regions whose shared areas are computed pair by pair, without a picture of any of them.

    runs    whether the regions are runs of positions; else they are rectangles
    box     (N, 4) what each region lies within: regions whose boxes do not meet share nothing
    area    (N,)
    start   (N + 1,) where the parts of each region begin
    rect    (M, 4) disjoint rectangles, if not runs
    first, last   (M,) runs [first, last), ascending within a region and apart
    """

    runs: bool
    box: Boxes
    area: Float64
    start: Int64
    rect: Boxes
    first: Int64
    last: Int64

    def take(self, chosen: Int64) -> Shapes:
        """Some of the regions."""
        count = np.diff(self.start)[chosen]
        start = np.concatenate([[0], np.cumsum(count)])
        part = np.arange(start[-1]) + np.repeat(self.start[chosen] - start[:-1], count)
        rect = self.rect if self.runs else self.rect[part]
        first, last = (self.first[part], self.last[part]) if self.runs else (self.first, self.last)
        return Shapes(self.runs, self.box[chosen], self.area[chosen], start, rect, first, last)


def of_boxes(boxes: Boxes) -> Shapes:
    """Each region is one box; a reversed box is empty."""
    box = np.ascontiguousarray(boxes)
    none = np.zeros(0, np.int64)
    return Shapes(False, box, area(box), np.arange(len(box) + 1), box, none, none)


def of_rects(rects: Boxes, start: Int64) -> Shapes:
    """Region k is the union of the disjoint rectangles rects[start[k]:start[k + 1]]."""
    none = np.zeros(0, np.int64)
    return Shapes(False, _bounds(rects, start), _sums(area(rects), start), start, rects, none, none)


def of_runs(box: Boxes, first: Int64, last: Int64, start: Int64, area: Float64) -> Shapes:
    """Region k is the union of the runs [first, last) from start[k] to start[k + 1]."""
    return Shapes(True, box, area, start, np.zeros((0, 4)), first, last)


def _sums(values: Float64, start: Int64) -> Float64:
    region = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.asarray(np.bincount(region, values, len(start) - 1), dtype=np.float64)


def _bounds(rects: Boxes, start: Int64) -> Boxes:
    """The box around each union; zeros around an empty one."""
    box = np.zeros((len(start) - 1, 4))
    some = np.flatnonzero(np.diff(start))
    if len(some):
        box[some, :2] = np.minimum.reduceat(rects[:, :2], start[some])
        box[some, 2:] = np.maximum.reduceat(rects[:, 2:], start[some])
    return box


@dataclass(frozen=True)
class Reason:
    """Why a detection was kept or dropped.

    kind     "kept"; "excluded": it overlaps the kept detection `by` by `overlap`, above the limit;
             "nothing": no kept detection excludes it, but kept ones cover all of it, so that it
             would have added nothing, or its score is below the threshold; "empty": it has no area
    by       the kept detection at fault, or None
    overlap  with `by`, in the method's own measure
    """

    kind: str
    by: int | None = None
    overlap: float = 0.0

    def __str__(self) -> str:
        if self.kind == "excluded":
            return f"excluded by detection {self.by}, overlap {self.overlap:.2f}"
        return {"kept": "kept", "empty": "has no area"}.get(self.kind, "added nothing")


@dataclass(frozen=True, eq=False, repr=False)
class Interpretation:
    """The chosen subset of N detections.

    indices   the kept detections, best first, as indices of the input
    rank      (len(indices),) the scores by which they are ranked, descending
    method    the name of the method that chose them, and
    settings  its settings
    energy    what the method maximised, as reached by `indices`; None if it maximises nothing
    bound     a proven upper bound of the energy of any allowed subset; None as above
    optimal   whether `energy` is proven to be the maximum (to 1e-9 of its value)
    excluder  (N,) the kept detection that excludes each one, -1 for none, -2 if it has no area
    overlap   (N,) the overlap with it
    """

    indices: Int64
    rank: Float64
    method: str
    settings: Mapping[str, Any]
    excluder: Int64
    overlap: Float64
    energy: float | None = None
    bound: float | None = None
    optimal: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        text = f"Interpretation({self.method}: {len(self)} of {len(self.excluder)} kept"
        if self.energy is not None:
            text += f", energy {self.energy:g}"
            text += ", optimal" if self.optimal else f", bound {self.bound:g}"
        return text + ")"

    @property
    def kept(self) -> Bool:
        """(N,) whether each detection of the input remains."""
        mask = np.zeros(len(self.excluder), dtype=bool)
        mask[self.indices] = True
        return mask

    def of(self, found: Detections) -> Detections:
        """The kept ones of the detections that were its input, best first.

        Their score is their rank; what it was before is their extra column `response`.
        """
        kept = found[self.indices]
        return replace(kept, score=self.rank, extra={**kept.extra, "response": kept.score})

    def why(self, i: int) -> Reason:
        """Why detection i of the input was kept or dropped, and by whom."""
        count = len(self.excluder)
        if not 0 <= i < count:
            raise SettingsError(f"why({i}): expected the index of one of {count} detections")
        if i in self.indices:
            return Reason("kept")
        if self.excluder[i] >= 0:
            return Reason("excluded", int(self.excluder[i]), float(self.overlap[i]))
        return Reason("empty" if self.excluder[i] == EMPTY else "nothing")


@dataclass(frozen=True, eq=False)
class Candidates:
    """N candidates of one image.

    score    (N,) finite
    label    (N,) names or numbers: candidates of different labels never exclude each other
    content  (N, M) numbers that order candidates of equal score, whatever their order in the input
    visible  what is visible of each
    whole    all of each, hidden parts included
    full     (N, 4) the boxes of the whole objects
    box      (N, 4) the same, cut to the image where there is one
    logits   whether the scores are logits of probabilities; else they are margins or weights
    """

    score: Float64
    label: NDArray[Any]
    content: NDArray[Any]
    visible: Shapes
    whole: Shapes
    full: Boxes
    box: Boxes
    logits: bool = False

    def __post_init__(self) -> None:
        wrong = np.flatnonzero(~np.isfinite(self.score))
        if len(wrong):
            raise SettingsError(
                f"scores must be finite, found {self.score[wrong[0]]} at detection {wrong[0]}"
                f" ({len(wrong)} such of {len(self.score)}); remove them first"
            )

    def __len__(self) -> int:
        return len(self.score)

    @cached_property
    def order(self) -> Int64:
        """All candidates by falling score; equal ones by their content."""
        return best_first(self.score, self.content)

    def by_label(self, order: Int64) -> Iterator[Int64]:
        """Yield the members of `order` that share a label, one label after another, in order."""
        label = self.label[order]
        if (label == label[:1]).all():
            yield from [order] if len(order) else []
            return
        code = np.unique(label, return_inverse=True)[1].reshape(-1)
        together = np.argsort(code, kind="stable")
        yield from np.split(order[together], np.flatnonzero(np.diff(code[together])) + 1)

    def compared(self, measure: str) -> tuple[Shapes, int]:
        """The regions and the place in `MEASURES` that a measure of overlap stands for."""
        if measure == "box":
            return of_boxes(self.box), MEASURES.index("iou")
        return self.visible, MEASURES.index(measure)

    def interpret(
        self, method: Any, kept: Int64, rank: Float64, excluder: Int64, overlap: Float64
    ) -> Interpretation:
        """What a `Method` kept, sorted by its `rank` (N,); equal ones as in their `order`."""
        place = np.empty(len(self), dtype=np.int64)
        place[self.order] = np.arange(len(self))
        kept = kept[np.argsort(place[kept])]
        indices = kept[np.argsort(-rank[kept], kind="stable")]
        excluder[indices], overlap[indices] = -1, 0
        return Interpretation(indices, rank[indices], method.name, vars(method), excluder, overlap)

    def check_size(self, method: str) -> None:
        """Refuses scores that are too large to compute with."""
        largest = np.abs(self.score).max(initial=0)
        if largest > LARGEST:
            raise SettingsError(
                f"{method} suppression: scores up to {largest:g} are too large to compute with;"
                " rescale them"
            )


def boxes_of(found: Detections) -> Candidates:
    """Detections whose visible regions are their boxes, cut to the image."""
    box = found.clipped
    content = np.column_stack([box, found.window, found.component])
    shapes = of_boxes(box)
    return Candidates(found.score, found.label, content, shapes, shapes, found.full, box)


def best_first(score: Float64, content: NDArray[Any]) -> Int64:
    """Indices by falling score; equal scores by the rows of `content`, not by their place.

    So the order of the input cannot change the result, but for detections alike in every respect.
    """
    order = np.argsort(-score, kind="stable").astype(np.int64)
    ranked = score[order]
    tied = np.flatnonzero(ranked[1:] == ranked[:-1])
    if len(tied):
        edges = np.flatnonzero(np.diff(ranked, prepend=np.inf, append=-np.inf))
        for start in np.unique(np.searchsorted(edges, tied, side="right") - 1):
            run = order[edges[start] : edges[start + 1]]
            order[edges[start] : edges[start + 1]] = run[np.lexsort(content[run].T[::-1])]
    return order
