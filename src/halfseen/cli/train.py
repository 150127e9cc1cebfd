"""`halfseen train`: learn a detector from boxes."""

from __future__ import annotations

import json as text
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.data import Data, Images, Label, Split, open_dataset
from halfseen.cli.options import (
    Chosen,
    Cluster,
    Cores,
    Fast,
    MethodName,
    MethodOption,
    Preset,
    PresetOption,
    Quiet,
    Seed,
    duration,
    flag,
    make_settings,
    show_check,
)
from halfseen.cli.terminal import Report, complain
from halfseen.data.files import fit_name, locked
from halfseen.errors import ClusterError, HalfseenError, SettingsError, TrainingError

if TYPE_CHECKING:
    from halfseen.evaluate.table import Table
    from halfseen.learn.progress import Progress
    from halfseen.learn.settings import TrainSettings
    from halfseen.learn.state import Round

NAME = "train"
LAST = 8  # rounds in the live view
PART = 0.1  # of a step, between two lines about it


def command(
    data: Data,
    label: Label,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The model to write.")],
    split: Split = "train",
    images: Images = None,
    method: MethodOption = MethodName.VIS,
    preset: PresetOption = Preset.default,
    fast: Fast = False,
    seed: Seed = 0,
    chosen: Chosen = None,
    cores: Cores = None,
    cluster: Cluster = None,
    resume: Annotated[bool, flag("--resume", help="Resume from the checkpoint.")] = False,
    json: Annotated[bool, flag("--json", help="Print one line of JSON for each round.")] = False,
    quiet: Quiet = False,
) -> int:
    """Learn to detect one class, from boxes alone.

    Learns the detector, then which blocks of an object are hidden, then how
    probable a detection is; with --fast the detector alone, in about a
    quarter of the time. What the data are too few for is left out, and said.

    Writes the model and, beside it, pictures of what was learnt. After every
    round FILE.checkpoint is renewed: if the training is stopped, the same
    command with --resume continues it, and ends in the same model.

    [bold]Examples[/bold]
      halfseen train VOCdevkit/VOC2012 --class car -o car.safetensors
      halfseen train labels.json --images photos --class mug -o mug.safetensors
      halfseen train scenes --class horse -o horse.safetensors --fast
    """
    from halfseen.learn.check import check
    from halfseen.learn.train import train
    from halfseen.model.store import save
    from halfseen.report.learnt import write_pictures

    report = Report(quiet)
    settings = make_settings(preset, method, seed, chosen, fast)
    checkpoint = out.parent / f"{out.name}.checkpoint"
    _check_place(out, checkpoint, resume)
    if cluster:  # workers start in folders of their own
        data, images = data.absolute(), images.absolute() if images else None
    dataset = open_dataset(data, split, images)
    with report.progress("reading images") as advance:
        summary = check(dataset, label, settings, cores=cores, cluster=cluster, on_done=advance)
    show_check(summary, report)
    unreadable = set(summary.unreadable)
    dataset = dataset[[i not in unreadable for i in range(len(dataset))]]
    try:
        with _alone(out), report.compiling(), _view(settings, report, json) as on_progress:
            model = train(
                dataset, label, settings, cores=cores, cluster=cluster, on_progress=on_progress,
                save_to=checkpoint, resume=resume,
            )  # fmt: skip
    except KeyboardInterrupt:
        if checkpoint.exists():
            complain(f"{checkpoint} keeps all rounds so far: go on with the same command, --resume")
        raise
    except ClusterError as error:
        keeps = f", with --resume: {checkpoint} keeps the rounds so far"
        raise ClusterError(f"{error}{keeps if checkpoint.exists() else ''}") from None
    except (MemoryError, OSError) as error:
        reason = getattr(error, "strerror", None) or "out of memory"
        keeps = f"; {checkpoint} keeps the rounds so far: go on with --resume"
        raise TrainingError(f"{reason}{keeps if checkpoint.exists() else ''}") from None
    try:
        save(model, out)
    except HalfseenError as error:
        raise TrainingError(
            f"{error}; {checkpoint} keeps all that was learnt: go on with --resume"
        ) from None
    checkpoint.unlink(missing_ok=True)
    report.wrote(out)
    for path in write_pictures(model, out):
        report.wrote(path)
    report.say(f"try it: halfseen detect {out} PICTURES -o found")
    return 0


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Refuse a second training of one file at once: both would renew the same checkpoint."""
    lock = out.parent / fit_name(f".{out.name}", ".lock")
    with locked(lock, f"{out}: another training is at work on it; give this one another file"):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _check_place(out: Path, checkpoint: Path, resume: bool) -> None:
    """Fails before the long work where its result could not be written."""
    if out.is_dir() or not out.name:
        raise SettingsError(f"{out}: is a folder; give the name of the model file to write")
    if not out.parent.is_dir():
        raise SettingsError(f"{out.parent}: no such folder to write the model in; make it first")
    if not os.access(out.parent, os.W_OK):
        raise SettingsError(f"{out.parent}: no permission to write there; choose another place")
    if checkpoint.exists() and not resume:
        raise SettingsError(
            f"{checkpoint}: an unfinished training: go on with --resume, or delete it to start anew"
        )
    if resume and not checkpoint.exists():
        raise SettingsError(f"{checkpoint}: no checkpoint to go on from; start without --resume")


@contextmanager
def _view(
    settings: TrainSettings, report: Report, json: bool
) -> Iterator[Callable[[Progress], None]]:
    """A function that shows progress: a live table on a terminal, else a line for each round."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    rows: list[Round] = []
    shown: dict[str, float] = {}
    console = Console(stderr=True)
    lively = console.is_terminal and not report.quiet and not json

    def show(progress: Progress) -> None:
        if progress.round is not None:
            rows.append(progress.round)
        if json:
            if progress.round is not None:
                print(text.dumps(asdict(progress.round)), flush=True)
        elif lively:
            table = _table(rows, settings).text(console.width)
            live.update(Text(f"{table}\n{_status(progress)}"), refresh=True)
        elif progress.round is not None:
            report.say(f"{_line(progress.round, settings)}; {_left(progress)}")
        elif rows and progress.share - shown.get(progress.step, -1.0) >= PART:
            shown[progress.step] = progress.share
            report.say(_status(progress))

    report.say("computing features")
    live = Live(console=console, auto_refresh=False)
    with live if lively else nullcontext():
        yield show


def _left(progress: Progress) -> str:
    return f"at most {duration(progress.left)} left" if progress.left > 0 else "done"


def _status(progress: Progress) -> str:
    return f"{progress.step}: {progress.share:.0%}; {_left(progress)}"


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:+.3f}" for value in values)


def _line(entry: Round, settings: TrainSettings) -> str:
    return (
        f"update {entry.stage}/{settings.updates} round {entry.round + 1}/{settings.rounds}: "
        f"energy {entry.energy:.2f}, u {_numbers(entry.u)}, u_t {_numbers(entry.u_t)}, "
        f"hidden {entry.hidden_share:.1%}, {entry.found} new false positives"
    )


def _table(rows: list[Round], settings: TrainSettings) -> Table:
    from halfseen.evaluate.table import Table

    columns = ("update", "round", "energy", "u", "u_t", "hidden", "false positives")
    return Table(
        columns,
        [
            (
                f"{entry.stage}/{settings.updates}",
                f"{entry.round + 1}/{settings.rounds}",
                entry.energy,
                _numbers(entry.u),
                _numbers(entry.u_t),
                f"{entry.hidden_share:.1%}",
                entry.found,
            )
            for entry in rows[-LAST:]
        ],
        digits=2,
    )
