"""What a method of suppression is, and the table of all methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, fields
from functools import cache
from typing import Any, ClassVar, Self

from halfseen.detections import Detections
from halfseen.errors import SettingsError, suggest
from halfseen.settings import check_choice, check_number
from halfseen.suppression.candidates import Candidates, Interpretation, boxes_of

METHODS: dict[str, type[Method]] = {}
"""Every method by its name: each subclass of `Method` is entered as its module is imported."""


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


@cache
def _fields(kind: type[Method]) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
