"""The models that ship with the package: a class, and the variant of its model, as in "car.net".

`car` alone is the best variant that can run here. Variants are folders of files, best first: what
a file holds (mask head, calibration) is used, whatever the folder.
"""

from __future__ import annotations

import fnmatch
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from halfseen.errors import ModelError, SettingsError, install, suggest

FOLDER = Path(__file__).parents[1] / "models" / "voc"
SUFFIX = ".safetensors"
ALL = "all"
# The folder of each variant, from FOLDER, the best first. `net` is on the blocks of a network,
# `fhog` on gradients with a mask head, `fast` on gradients alone.
VARIANTS = {"net": "../net", "fhog": "masks", "fast": "."}
# The ending by which older releases named the models with mask heads.
OLD = "+masks"

log = logging.getLogger(__name__)


class Named(NamedTuple):
    """A shipped model: its name with its variant, its file, and what to say about the choice."""

    name: str
    path: Path
    note: str = ""


def shipped(variant: str = "fast", folder: Path = FOLDER) -> dict[str, Path]:
    """The files of a variant by class, in the order of the classes."""
    place = folder / VARIANTS[variant]
    return {path.stem: Path(os.path.normpath(path)) for path in sorted(place.glob(f"*{SUFFIX}"))}


def models(pattern: str = "*") -> list[str]:
    """Names of the shipped models that match a shell pattern, such as "car*".

    First the classes, each of which stands for the best of its models that can run here, then
    those of every variant.
    """
    names = [*_classes(FOLDER)]
    names += [f"{label}.{variant}" for variant in VARIANTS for label in shipped(variant)]
    return [name for name in names if fnmatch.fnmatchcase(name, pattern)]


def find_model(name: str | os.PathLike[str], folder: Path = FOLDER) -> Path:
    """The file that a path, or the name of a shipped model, stands for.

    A file comes before a shipped model of the same name, a folder after it. ModelError, with the
    nearest name, where there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    named = find_shipped(str(name), folder)
    if len(named) == 1 and not _is_all(str(name)):
        if named[0].note:
            _say_once(named[0].note)
        return named[0].path
    if named:
        names = ", ".join(model.name for model in named)
        raise ModelError(f"{name}: several models; load one after another: {names}")
    if path.exists():
        return path
    if path.suffix != SUFFIX and path.name == str(name):
        advice = _nearest(str(name), folder)
        raise ModelError(f"{name}: no such file, and no shipped model of that name; {advice}")
    there = [file.name for file in path.parent.glob(f"*{SUFFIX}")]
    advice = suggest(path.name, there) if there else "make one with `halfseen train`"
    raise ModelError(f"{name}: expected a model file, found no such file; {advice}")


def find_shipped(name: str, folder: Path = FOLDER) -> list[Named]:
    """The shipped models that a name stands for: one, or for `all` one of each class.

    "car.net" is the variant that it names; "car" the best variant that can run here, with a note
    where a better one cannot. An old name ("car+masks") has a note that says the new one. None for
    a name that is no shipped model's.
    """
    label, variant, note = _parts(name)
    if variant not in ("", *VARIANTS):
        return []
    known = _classes(folder)
    labels = known if label == ALL else [label] if label in known else []
    return [
        found
        for each in labels
        if (found := _choose(each, [variant] if variant else VARIANTS, folder, note))
    ]


def name_models(words: Sequence[str], say: Callable[[str], None]) -> list[str]:
    """The models that words of a command name: files as they are, shipped ones with their variants.

    `all` becomes one for each class. SettingsError, with the nearest name, for an unknown one.

    say  is called once with each note: a better variant that cannot run here, or an old name
    """
    named: list[str] = []
    notes: dict[str, None] = {}
    try:
        for word in words:
            found = [] if os.path.isfile(word) else find_shipped(word)
            named += [model.name for model in found]
            notes |= dict.fromkeys(model.note for model in found if model.note)
            if not found:
                find_model(word)
                named.append(word)
    except ModelError as error:
        raise SettingsError(str(error)) from None
    for line in notes:
        say(line)
    return named


def _parts(name: str) -> tuple[str, str, str]:
    """A name's class and variant, "" for none, and what to say of an old name."""
    if name.endswith(OLD):
        label = name.removesuffix(OLD)
        return label, "fhog", f"{name} is now called {label}.fhog; {label} alone is the best here"
    label, _, variant = name.partition(".")
    return label, variant if variant or "." not in name else "?", ""


def _is_all(name: str) -> bool:
    return _parts(name)[0] == ALL


def _choose(label: str, variants: Iterable[str], folder: Path, note: str = "") -> Named | None:
    """The first of these variants of a class that is there and, if there are others, can run."""
    names = list(variants)
    for variant in names:
        path = shipped(variant, folder).get(label)
        if path is None:
            continue
        if variant == "net" and len(names) > 1 and not _net_runs():
            note = "using models on gradients; those on network blocks find far more: "
            note += install("net")
            continue
        return Named(f"{label}.{variant}", path, note)
    return None


def _net_runs() -> bool:
    """Whether models on network blocks can run here."""
    from halfseen.features.backbone import installed

    return installed()


@lru_cache(maxsize=64)
def _say_once(note: str) -> None:
    log.warning(note)


def _classes(folder: Path) -> list[str]:
    return sorted({label for variant in VARIANTS for label in shipped(variant, folder)})


def _nearest(name: str, folder: Path) -> str:
    """What to say of a name that no shipped model has."""
    import difflib

    label, _, variant = name.lower().replace("+", ".").partition(".")
    known = [*_classes(folder), ALL]
    if label not in known or not variant:
        advice = suggest(label, known)
        if advice.startswith("known"):
            return f"{advice}; each alone, or with a variant: {', '.join(VARIANTS)} (car.fast)"
        label = difflib.get_close_matches(label, known, n=1)[0]
    near = difflib.get_close_matches(variant.replace("masks", "fhog"), VARIANTS, n=1)
    end = f".{near[0]}" if near else ""
    if variant and not near:
        return f"{label} comes as {label}, {', '.join(f'{label}.{v}' for v in VARIANTS)}"
    return f"did you mean '{label}{end}'?"
