"""`halfseen models`, and the completion of arguments that name models."""

from __future__ import annotations

import json as text
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from halfseen.cli.options import flag
from halfseen.cli.terminal import show

if TYPE_CHECKING:
    from halfseen.model.mixture import Mixture

NAME = "models"
ALL = "all"


def command(
    json: Annotated[bool, flag("--json", help="Print them as JSON.")] = False,
) -> int:
    r"""List the models that ship with halfseen, with their average precision.

    Every command that takes a model takes the name of one instead of a file.
    `car` is the best that can run here; `all` stands for all classes at once.

      NAME.net   on the blocks of a neural network: finds the most; needs
                 `pip install ".\[net]"` in a clone
      NAME.fhog  on gradients, with masks: runs everywhere
      NAME.fast  on gradients, without masks: a little faster

    [bold]Examples[/bold]
      halfseen models
      halfseen detect car photo.jpg
      halfseen detect car.fast photo.jpg
      halfseen detect all photo.jpg -o found
    """
    from halfseen.evaluate.table import Table
    from halfseen.model.shipped import VARIANTS, find_shipped, shipped
    from halfseen.model.store import load

    best = {found.name.partition(".")[0]: found for found in find_shipped(ALL)}
    files = {variant: shipped(variant) for variant in VARIANTS}
    rows = []
    for label, named in best.items():
        row: dict[str, Any] = {"class": label, "best": named.name, **_described(load(named.path))}
        for variant, paths in files.items():
            row[f"ap_{variant}"] = _described(load(paths[label]))["ap"] if label in paths else None
        rows.append(row)
    if json:
        print(text.dumps(rows))
        return 0
    columns = [f"ap_{variant}" for variant in VARIANTS]
    cells = [[row["class"], row["best"], *(row[name] for name in columns)] for row in rows]
    cells.append(["mean", "", *(_mean([row[name] for row in rows]) for name in columns)])
    tests = sorted({row["tested_on"] for row in rows if row["ap"] is not None})
    notes = [f"AP in percent on {test}, none of which was learnt from." for test in tests]
    notes += sorted({named.note for named in best.values() if named.note})
    notes.append("Use the best that runs here: halfseen detect car photo.jpg")
    notes.append("Use another: halfseen detect car.fast photo.jpg")
    heading = ["class", "best here", *(f"AP, .{variant}" for variant in VARIANTS)]
    show(Table(heading, cells, notes=notes).text())
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


def complete_model(incomplete: str) -> list[str]:
    """Shipped models, model files, and folders that may hold some, that begin so: for the shell.

    Variants are offered once a class has been typed.
    """
    from halfseen.model.shipped import VARIANTS, models

    folder, start = os.path.split(incomplete)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    found = [os.path.join(folder, name) for name in names if name.startswith(start)]
    folders = [os.path.join(path, "") for path in found if os.path.isdir(path)]
    words = [*models(), ALL, *(f"{ALL}.{variant}" for variant in VARIANTS)]
    classes = [word for word in words if "." not in word]
    offered = [word for word in words if word.split(".")[0] == start.split(".")[0]]
    own = [] if folder else [w for w in dict.fromkeys(classes + offered) if w.startswith(start)]
    return own + [path for path in found if path.endswith(".safetensors")] + folders
