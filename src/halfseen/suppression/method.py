"""What a method of suppression is, what it returns, and the table of all methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from halfseen.arrays import Bool, Float64, Int64
from halfseen.detections import Detections
from halfseen.errors import SettingsError, suggest
from halfseen.settings import check_choice, check_number
from halfseen.suppression.candidates import Candidates, boxes_of

EMPTY = -2
"""In place of an excluder: a candidate without area."""

METHODS: dict[str, type[Method]] = {}
"""Every method by its name: each subclass of `Method` is entered as its module is imported."""


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


def suppress(found: Detections, method: str = "covering", **settings: Any) -> Interpretation:
    """Choose the detections that remain, each label by itself.

    method    "covering" (exact, by visible blocks), "voting" (what detectors use by default),
              "greedy", "meanshift" or "soft"
    settings  those of the method, such as `overlap`; `energy="paper"` gives the paper's covering
    """
    if not isinstance(found, Detections):
        raise SettingsError(
            f"suppress: expected halfseen's Detections, found {type(found).__name__};"
            " for boxes or masks of another detector use hs.suppress_boxes or hs.suppress_masks"
        )
    chosen = make_method(method, settings)
    return chosen.choose(chosen.prepare(found))


def make_method(name: str, settings: dict[str, Any]) -> Method:
    """A method by its name, with settings of its own; SettingsError for what is not known."""
    return METHODS[check_choice("method", name, tuple(METHODS))].make(settings)


class Method(ABC):
    """One method of suppression with its settings: a frozen dataclass of numbers and choices.

    domain  what it makes of scores: compares "odds", takes a "weight", or only their "order"
    """

    name: ClassVar[str]
    domain: ClassVar[str]

    def __init_subclass__(cls) -> None:
        METHODS[cls.name] = cls

    @classmethod
    def make(cls, settings: dict[str, Any]) -> Self:
        """The method with these settings; SettingsError for wrong names, types and values."""
        known = _fields(cls)
        values = {}
        for name, value in settings.items():
            if name not in known:
                raise SettingsError(
                    f"{cls.name} suppression has no setting '{name}'; {suggest(name, known)}"
                )
            metadata = known[name].metadata
            if "allowed" in metadata:
                values[name] = check_choice(name, value, metadata["allowed"])
            else:
                whole = known[name].type == "int"
                values[name] = check_number(name, value, *metadata["range"], whole=whole)
        return cls(**values)

    def prepare(self, found: Detections) -> Candidates:
        """The candidates of detections, as this method compares them."""
        return boxes_of(found)

    @abstractmethod
    def choose(self, candidates: Candidates) -> Interpretation:
        """The candidates that remain, each label by itself."""

    def interpret(
        self,
        candidates: Candidates,
        kept: Int64,
        rank: Float64,
        excluder: Int64,
        overlap: Float64,
    ) -> Interpretation:
        """The kept candidates sorted by their `rank` (N,), equal ones as in their `order`."""
        place = np.empty(len(candidates), dtype=np.int64)
        place[candidates.order] = np.arange(len(candidates))
        kept = kept[np.argsort(place[kept])]
        indices = kept[np.argsort(-rank[kept], kind="stable")]
        excluder[indices], overlap[indices] = -1, 0
        return Interpretation(indices, rank[indices], self.name, vars(self), excluder, overlap)


@cache
def _fields(kind: type[Method]) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
