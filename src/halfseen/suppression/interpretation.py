"""The outcome of suppression: which detections remain, in what order, and why the others went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halfseen.arrays import Bool, Float64, Int64
from halfseen.detections import Detections
from halfseen.errors import SettingsError

EMPTY = -2
"""In place of an excluder: a candidate without area."""


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
