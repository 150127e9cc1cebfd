"""What the methods of suppression have in common: settings that check themselves."""

from __future__ import annotations

from dataclasses import Field, field, fields
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from halfseen.detections import Detections
from halfseen.errors import SettingsError, suggest
from halfseen.suppression.candidates import Candidates
from halfseen.suppression.interpretation import Interpretation
from halfseen.suppression.scene import boxes_of


def number(default: float, low: float, high: float) -> Any:
    """A setting between two numbers."""
    return field(default=default, metadata={"range": (low, high)})


def choice(default: str, *allowed: str) -> Any:
    """A setting that is one of some words."""
    return field(default=default, metadata={"allowed": allowed})


class Method:
    """One method of suppression with its settings: a frozen dataclass of numbers and choices.

    domain  what it makes of scores: compares "odds", takes a "weight", or only their "order"
    """

    name: ClassVar[str]
    domain: ClassVar[str]

    @classmethod
    def make(cls, settings: dict[str, Any]) -> Self:
        """The method with these settings; SettingsError for wrong names, types and values."""
        known = _fields(cls)  # type: ignore[arg-type]
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

    def choose(self, candidates: Candidates) -> Interpretation:
        """The candidates that remain, each label by itself."""
        raise NotImplementedError


@cache
def _fields(kind: type[Method]) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(kind)}  # type: ignore[arg-type]


def check_number(name: str, value: Any, low: float, high: float, *, whole: bool = False) -> Any:
    """One number within [low, high] as a plain float, or as an int if `whole`."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        kind = "a whole number" if whole else "a number"
        raise SettingsError(f"{name} must be {kind}, found {str(value)!r:.80}")
    if not low <= value <= high:
        raise SettingsError(f"{name} must lie between {low:g} and {high:g}, found {value}")
    return int(value) if whole else float(value)


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in allowed:
        near = suggest(value, allowed) if isinstance(value, str) else ""
        hint = f"; {near}" if near.startswith("did") else ""
        raise SettingsError(
            f"{name} must be one of {', '.join(allowed)}, found {str(value)!r:.80}{hint}"
        )
    return value
