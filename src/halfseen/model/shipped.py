"""The models that ship with the package, by the names of their classes."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from halfseen.data.dataset import suggest
from halfseen.errors import ModelError

FOLDER = Path(__file__).parents[1] / "models" / "voc"
SUFFIX = ".safetensors"
# What is added to the name of a class for its model with a mask head.
MASKS = "+masks"


def shipped(folder: Path = FOLDER, masks: bool = False) -> dict[str, Path]:
    """Their files by name, in the order of the classes: "car"; with mask heads "car+masks"."""
    end = MASKS if masks else ""
    files = (folder / "masks" if masks else folder).glob(f"*{SUFFIX}")
    return {path.stem + end: path for path in sorted(files)}


def find_model(name: str | os.PathLike[str], folder: Path = FOLDER) -> Path:
    """The file that a path, or the name of a shipped model, stands for.

    A file comes before a shipped model of the same name, a folder after it. ModelError, with the
    nearest name, where there is neither.
    """
    path = Path(name)
    models = shipped(folder, masks=str(name).endswith(MASKS))
    if path.is_file() or (path.exists() and str(name) not in models):
        return path
    if str(name) in models:
        return models[str(name)]
    if path.suffix != SUFFIX and path.name == str(name):
        advice = _nearest(str(name), folder)
        raise ModelError(f"{name}: no such file, and no shipped model of that name; {advice}")
    there = [file.name for file in path.parent.glob(f"*{SUFFIX}")]
    advice = suggest(path.name, there) if there else "make one with `halfseen train`"
    raise ModelError(f"{name}: expected a model file, found no such file; {advice}")


def _nearest(name: str, folder: Path) -> str:
    """What to say of a name that no shipped model has."""
    label, plus, _ = name.lower().partition("+")
    if label == "all":
        return f"load one after another: {', '.join(shipped(folder, masks=bool(plus)))}"
    near = difflib.get_close_matches(label, shipped(folder), n=1)
    if near:
        return f"did you mean '{near[0]}{MASKS if plus else ''}'?"
    return f"{suggest(label, shipped(folder))}; with masks, one of them and {MASKS}"
