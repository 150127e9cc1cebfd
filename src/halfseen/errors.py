"""Errors that a user can cause: each says what was expected, found, where, and what to do."""

from collections.abc import Iterable
from pathlib import Path


class HalfseenError(Exception):
    """Base of all errors raised on purpose. A command prints its one line and exits."""


class ImageError(HalfseenError):
    """An image that cannot be read or will not be (too large, not an image)."""


class AnnotationError(HalfseenError):
    """An annotation file (VOC XML, COCO JSON, results file, run-length mask) that is malformed."""


class ModelError(HalfseenError):
    """A model file that is damaged, of another version, or inconsistent."""


class SettingsError(HalfseenError):
    """A setting or argument outside its range."""


class TrainingError(HalfseenError):
    """Data from which nothing can be learnt, or learning that cannot go on."""


class ClusterError(HalfseenError):
    """A cluster that cannot be reached, or has no worker left. What was finished is kept."""


def install(extra: str) -> str:
    """Return the command that installs an extra, from the clone that this package runs from."""
    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").is_file():
        return f"pip install -e '{clone}[{extra}]'"
    return f"pip install 'halfseen[{extra}]'"


def suggest(word: str, known: Iterable[str]) -> str:
    """Return advice on a word that is not known: the nearest one, or all."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    shown = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")
    return f"known: {shown or 'none'}"
