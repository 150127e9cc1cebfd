"""`halfseen models`, and the models that arguments of other commands name."""

from __future__ import annotations

import json as text
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfseen.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from halfseen.model.mixture import Mixture

NAME = "models"
ALL = "all"


def command(
    json: Annotated[bool, typer.Option("--json", metavar="", help="Print them as JSON.")] = False,
) -> int:
    """List the models that ship with halfseen, with their average precision.

    Each can be named instead of a file, by every command that takes a model;
    the word `all` stands for all of them together. With `+masks` behind the
    name they tell which part of an object is hidden, and which is its figure;
    that takes a little longer.

    [bold]Examples[/bold]
      halfseen models
      halfseen detect car photo.jpg
      halfseen detect car+masks photo.jpg
      halfseen detect all photo.jpg -o found
    """
    from halfseen.evaluate.table import Table
    from halfseen.model.shipped import MASKS, shipped
    from halfseen.model.store import load

    models = {name: load(path) for name, path in shipped().items()}
    masked = {name: load(path) for name, path in shipped(masks=True).items()}
    rows = [
        {"class": name, **_described(model), "ap_with_masks": None}
        for name, model in models.items()
    ]
    for row in rows:
        if other := masked.get(row["class"] + MASKS):
            row["ap_with_masks"] = _described(other)["ap"]
    if json:
        print(text.dumps(rows))
        return 0
    columns = ("ap", "ap_with_masks")
    cells = [
        [row["class"], row["method"], row["components"], *(row[name] for name in columns)]
        for row in rows
    ]
    cells.append(["mean", "", "", *(_mean([row[name] for row in rows]) for name in columns)])
    tests = sorted({row["tested_on"] for row in rows if row["ap"] is not None})
    notes = [f"AP in percent on {test}, none of which was learnt from." for test in tests]
    notes.append("Use one: halfseen detect car photo.jpg")
    notes.append(f"With its mask: halfseen detect car{MASKS} photo.jpg")
    heading = ["class", "method", "components", "AP", f"AP, {MASKS}"]
    print(Table(heading, cells, notes=notes).text())
    return 0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _described(model: Mixture) -> dict[str, Any]:
    tested = model.training.get("tested", {})
    return {
        "method": model.method,
        "components": len(model.components),
        "ap": tested.get("ap"),
        "tested_on": tested.get("data"),
    }


def name_models(words: Sequence[str]) -> list[str]:
    """The words with `all` spelt out; SettingsError, with the nearest name, for an unknown one."""
    from halfseen.model.shipped import MASKS, find_model, shipped

    named: list[str] = []
    for word in words:
        every = {ALL: False, ALL + MASKS: True}
        if word in every and not os.path.isfile(word):
            named += list(shipped(masks=every[word]))
        else:
            named.append(word)
    try:
        for word in named:
            find_model(word)
    except ModelError as error:
        raise SettingsError(str(error)) from None
    return named


def complete_model(incomplete: str) -> list[str]:
    """Shipped models, model files, and folders that may hold some, that begin so: for the shell."""
    from halfseen.model.shipped import MASKS, shipped

    folder, start = os.path.split(incomplete)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    found = [os.path.join(folder, name) for name in names if name.startswith(start)]
    folders = [os.path.join(path, "") for path in found if os.path.isdir(path)]
    words = (*shipped(), ALL, *shipped(masks=True), ALL + MASKS)
    own = [] if folder else [word for word in words if word.startswith(start)]
    return own + [path for path in found if path.endswith(".safetensors")] + folders
