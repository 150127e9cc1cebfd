"""The models that arguments name: checked, and completed by the shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from halfseen.errors import SettingsError


def check_models(words: Sequence[str]) -> None:
    """SettingsError, with the nearest name, unless every word is the path of a file."""
    for word in words:
        if not Path(word).exists():
            raise SettingsError(f"{word}: no such model file; {_nearest(Path(word))}")


def _nearest(model: Path) -> str:
    from halfseen.data.dataset import suggest

    there = model.parent.glob("*.safetensors")
    names = [path.name for path in there] if model.parent.is_dir() else []
    return suggest(model.name, names) if names else "make one with `halfseen train`"


def complete_model(incomplete: str) -> list[str]:
    """Model files, and folders that may hold some, that begin so: for the shell."""
    folder, start = os.path.split(incomplete)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    found = [os.path.join(folder, name) for name in names if name.startswith(start)]
    folders = [os.path.join(path, "") for path in found if os.path.isdir(path)]
    return [path for path in found if path.endswith(".safetensors")] + folders
