"""The outcome of suppression: which detections remain, in what order, and why the others went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.errors import SettingsError

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reason:
    """Why a detection was kept or dropped.

    kind     "kept"; "excluded": it overlaps the kept detection `by` by `overlap`, above the limit;
             "nothing": no kept detection excludes it, but it would have added nothing
    by       the kept detection at fault, or None
    overlap  with `by`, in the method's own measure
    """

    kind: str
    by: int | None = None
    overlap: float = 0.0

    def __str__(self) -> str:
        if self.kind == "excluded":
            return f"excluded by detection {self.by}, overlap {self.overlap:.2f}"
        return "kept" if self.kind == "kept" else "added nothing"


@dataclass(frozen=True, eq=False)
class Interpretation:
    """The chosen subset of N detections.

    indices   the kept detections, best first, as indices of the input
    rank      (len(indices),) the scores by which they are ranked, descending
    method    the name of the method that chose them, and
    settings  what it was told
    energy    what the method maximised, as reached by `indices`; None if it maximises nothing
    bound     a proven upper bound of the energy of any allowed subset; None as above
    optimal   whether `energy` is proven to be the maximum (to 1e-9 of its value)
    excluder  (N,) the kept detection that excludes each one, -1 for none
    overlap   (N,) the overlap with it
    """

    indices: Indices
    rank: Floats
    method: str
    settings: Mapping[str, Any] = field(repr=False)
    excluder: Indices = field(repr=False)
    overlap: Floats = field(repr=False)
    energy: float | None = None
    bound: float | None = None
    optimal: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """(N,) whether each detection of the input remains."""
        mask = np.zeros(len(self.excluder), dtype=bool)
        mask[self.indices] = True
        return mask

    def why(self, i: int) -> Reason:
        """Why detection i of the input was kept or dropped, and by whom."""
        count = len(self.excluder)
        if not 0 <= i < count:
            raise SettingsError(f"why({i}): expected the index of one of {count} detections")
        if i in self.indices:
            return Reason("kept")
        if self.excluder[i] >= 0:
            return Reason("excluded", int(self.excluder[i]), float(self.overlap[i]))
        return Reason("nothing")


def best_first(score: Floats, content: NDArray[Any]) -> Indices:
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


def check_scores(score: Floats) -> None:
    """Refuses NaN and infinite scores, naming the first."""
    wrong = np.flatnonzero(~np.isfinite(score))
    if len(wrong):
        raise SettingsError(
            f"scores must be finite, found {score[wrong[0]]} at detection {wrong[0]}"
            f" ({len(wrong)} such of {len(score)}); remove them first"
        )


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuses a setting outside [low, high] or NaN."""
    if not low <= value <= high:
        raise SettingsError(f"{name} must lie between {low} and {high}, found {value}")
