"""Options that commands share, and the summary that `check`, `train` and `tune` print first."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfseen.cli.terminal import Report, count
from halfseen.errors import SettingsError, suggest

if TYPE_CHECKING:
    from halfseen.learn.check import Check
    from halfseen.learn.settings import TrainSettings
    from halfseen.learn.tuning import TuneSettings

SHOWN = 10  # lines of one kind; `check --json` has them all


class MethodName(StrEnum):
    """What is learnt: visibility, truncation alone, or neither."""

    VIS = "VIS"
    BLT = "BLT"
    BL = "BL"


class Preset(StrEnum):
    """Where settings start from."""

    default = "default"
    paper = "paper"
    net = "net"


flag = partial(typer.Option, metavar="")
"""An option without a value."""

Chosen = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; may be repeated."),
]
MethodOption = Annotated[
    MethodName,
    typer.Option("--method", help="VIS infers what is hidden; BLT and BL are baselines."),
]
PresetOption = Annotated[
    Preset,
    typer.Option("--preset", help="net: on blocks of a neural network. paper: its settings."),
]
Fast = Annotated[bool, flag("--fast", help="The detector alone: no masks, no probability.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same model.")]
Cores = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Cores to use.", show_default="all")
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the workers of a Dask scheduler (tcp://...)."),
]
Quiet = Annotated[bool, flag("-q", "--quiet", help="Print only errors.")]
Suppression = Annotated[
    str,
    typer.Option(metavar="NAME", help="Suppression: voting, greedy, covering, meanshift, soft."),
]
Overlap = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Overlap allowed between two objects.",
        show_default="the method's",
    ),
]
Folds = Annotated[
    int, typer.Option(min=2, max=20, metavar="N", help="Number of folds, each held out once.")
]
Lambdas = Annotated[str | None, typer.Option(metavar="A,B,...", help="Values of lambda to try.")]
Alphas = Annotated[str | None, typer.Option(metavar="A,B,...", help="Values of alpha to try.")]
Overlaps = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Overlaps of suppression to try.")
]
OutFile = Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Where to write.")]
OutFolder = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Where to write.")
]


def check_files(source: Path, out: Path) -> None:
    """Fail before the work where there is nothing to read, or nowhere to write."""
    if not source.is_file():
        raise SettingsError(f"{source}: no such file")
    if not out.absolute().parent.is_dir():
        raise SettingsError(f"{out}: its folder does not exist; make it first")


def make_settings(
    preset: Preset, method: MethodName, seed: int, chosen: list[str] | None, fast: bool = True
) -> TrainSettings:
    """The settings of a preset with what the user changed; SettingsError names the fault.

    fast  the detector alone; else VIS also learns its mask head and its calibration, but not as
          in the paper
    """
    from halfseen.learn.settings import TrainSettings

    more = not fast and method is MethodName.VIS and preset is not Preset.paper
    settings = TrainSettings.preset(
        preset.value, method=method.value, seed=seed, masks=more, calibrate=more
    )
    return replace(settings, **parse_changes(settings, chosen))


def parse_changes(settings: TrainSettings, chosen: list[str] | None) -> dict[str, Any]:
    """What `--set NAME=VALUE` changes of the settings; SettingsError names the fault."""
    known = {f.name: getattr(settings, f.name) for f in fields(settings)}
    known = {k: v for k, v in known.items() if isinstance(v, (bool, int, float, str))}
    # The paper's name for it.
    known["lambda"] = settings.regularisation
    changes: dict[str, Any] = {}
    for text in chosen or ():
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in known:
            raise SettingsError(
                f"--set {text}: expected NAME=VALUE with a known name; {suggest(name, known)}"
            )
        key = "regularisation" if name == "lambda" else name
        changes[key] = _parse(text, value, type(known[name]))
    return changes


def _parse(text: str, value: str, kind: type) -> Any:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return words[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        expected = {bool: "yes or no", int: "a whole number", float: "a number"}[kind]
        raise SettingsError(f"--set {text}: expected {expected}, found '{value}'") from None


def make_tried(written: dict[str, str | None], **settings: Any) -> TuneSettings:
    """What cross-validation tries: values as the user wrote them, else those of `settings`."""
    from halfseen.learn.tuning import TuneSettings

    given = {name: _numbers(name, text) for name, text in written.items() if text is not None}
    return TuneSettings(**settings | given)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(f"--{name}: expected numbers such as 0.1,1,10; found {text}") from None


def show_check(found: Check, report: Report) -> None:
    """The summary of a check, for a person."""
    report.say(
        f"{count(found.images, 'image')}; {count(found.objects, f'{found.label} object')}, "
        f"{found.whole} of them whole; training reads {count(found.read, 'image')}"
    )
    for part in found.components:
        wide, high = part.smallest
        report.say(
            f"component of {part.rows} x {part.cols} blocks from {count(part.objects, 'object')}; "
            f"it sees objects from {wide:.0f} x {high:.0f} pixels up"
        )
    _list([f"left out: {line}" for line in found.problems], report)
    missed = sorted(found.unreached, key=lambda u: u.overlap)
    _list(
        [
            f"out of reach: {u.file}, box {', '.join(f'{v:.0f}' for v in u.box)}: "
            f"the best window overlaps it by {math.floor(100 * u.overlap) / 100:.2f}, where"
            f" {found.overlap:.2f} are needed"
            for u in missed
        ],
        report,
    )
    if missed:
        share = len(missed) / found.objects
        report.say(
            f"nothing is learnt from {count(len(missed), 'object')} ({share:.0%}) out of reach of "
            "every window"
        )
    report.say(
        f"about {duration(found.seconds)} on {count(found.cores, 'core')}, at most "
        f"{found.memory / 2**30:.1f} GiB of memory (estimates)"
    )
    if len(found.costs) > 1:
        steps = [f"{cost.step} {duration(cost.seconds / found.cores)}" for cost in found.costs]
        report.say(f"that is: {', '.join(steps)}; --fast learns the detector alone")


def _list(lines: list[str], report: Report) -> None:
    for line in lines[:SHOWN]:
        report.say(line)
    if len(lines) > SHOWN:
        report.say(f"... and {len(lines) - SHOWN} more: `halfseen check --json` lists them all")


def duration(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 90:
        return count(max(round(seconds), 1), "second")
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
