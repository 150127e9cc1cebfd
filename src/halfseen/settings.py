"""Settings that check themselves: frozen dataclasses whose fields say their own ranges."""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from halfseen.errors import SettingsError, suggest

_KINDS = {
    bool: "True or False", int: "a whole number", float: "a number", str: "a word",
    tuple: "a tuple of numbers",
}  # fmt: skip


def number(default: float | None, low: float, high: float) -> Any:
    """A setting between two numbers; None too where that is the default."""
    return field(default=default, metadata={"range": (low, high)})


def choice(default: str, *allowed: str) -> Any:
    """A setting that is one of some words."""
    return field(default=default, metadata={"allowed": allowed})


class Checked:
    """A frozen dataclass of settings; SettingsError for a wrong name, type or value.

    about  what messages put before the name of a setting
    """

    about: ClassVar[str] = ""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        for name in given:
            if name not in names:
                raise SettingsError(
                    f"{cls.__name__} has no setting '{name}'; {suggest(name, names)}"
                )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check every value by the type of its default and its range; numpy's become Python's."""
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, f.name, value)
            default = f.default if f.default_factory is MISSING else f.default_factory()
            if value is None and default is None:
                continue
            kind = float if default is None else type(default)
            right = isinstance(value, (int, float) if kind is float else kind)
            if not right or (isinstance(value, bool) and kind is not bool):
                expected = _KINDS.get(kind, kind.__name__)
                raise SettingsError(f"{self.about}{f.name} must be {expected}, found {value!r:.80}")
            low, high = f.metadata.get("range", (value, value))
            if "range" in f.metadata and not low <= value <= high:
                raise SettingsError(
                    f"{self.about}{f.name} must be between {low} and {high}, found {value}"
                )


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
