"""`halfseen reproduce`: the paper's table, on your copy of VOC."""

from __future__ import annotations

import json as text
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.options import Cluster, Cores, Preset, PresetOption, Quiet, Seed, flag
from halfseen.cli.terminal import Advance, Report
from halfseen.errors import ClusterError, HalfseenError

if TYPE_CHECKING:
    from halfseen.learn.state import Round
    from halfseen.model.mixture import Method
    from halfseen.studies.reproduce import Study

NAME = "reproduce"


def command(
    devkit: Annotated[Path, typer.Argument(metavar="VOCDEVKIT", help="A VOC folder.")],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="FOLDER", help="Where to keep models and results."),
    ] = Path("reproduction"),
    train_split: Annotated[
        str, typer.Option("--train", metavar="NAME", help="Split or file of ids.")
    ] = "train",
    test_split: Annotated[
        str, typer.Option("--test", metavar="NAME", help="Split or file of ids.")
    ] = "val",
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="May be repeated.", show_default="all 20"),
    ] = None,
    preset: PresetOption = Preset.default,
    seed: Seed = 0,
    cores: Cores = None,
    cluster: Cluster = None,
    json: Annotated[bool, flag("--json", help="Print the table as JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Train and test BL, BLT and VIS as the paper does, class by class.

    Every model and every run of images is kept in FOLDER as soon as it is
    done: after a kill the same command resumes. VOC 2010's test annotations
    were never published, so this trains on one split and tests on another.

    [bold]Examples[/bold]
      halfseen reproduce VOCdevkit/VOC2010
      halfseen reproduce VOCdevkit/VOC2010 --class car --class bus --preset paper
    """
    from halfseen.data.voc import read_voc
    from halfseen.studies.paper import CLASSES
    from halfseen.studies.reproduce import Study, claim, detect_all, score_all, table, train_class

    report = Report(quiet)
    if cluster:
        devkit = devkit.absolute()  # workers start in folders of their own
    train, test = read_voc(devkit, train_split), read_voc(devkit, test_split)
    for problem in (*train.problems, *test.problems):
        report.fail(problem)
    labels = list(classes or CLASSES)
    study = Study(train, test, out, labels, preset.value, seed, cores, cluster=cluster)
    if study.folder.exists():
        claim(study)  # before any class fails one by one
    failed = False
    with report.progress("training") as advance, report.compiling():
        for n, label in enumerate(labels):
            tell = partial(_tell_round, study, n, report, advance)
            try:
                test.check_class(label)
                train_class(study, label, tell)
            except ClusterError:
                raise
            except HalfseenError as error:
                # One class that cannot be learnt must not cost the others.
                report.fail(f"{label}: {error}")
                failed = True
    if not any(study.model_path(label, "VIS").exists() for label in labels):
        raise HalfseenError(f"{devkit}: no class could be learnt; nothing was written")
    with report.progress("detecting", len(test)) as done:
        detect_all(study, lambda so_far, _: done(so_far))
    scores = score_all(study)
    print(text.dumps(scores) if json else table(study, scores).text())
    for name in ("results.json", "table.md"):
        report.wrote(study.folder / name)
    return int(failed)


def _tell_round(
    study: Study, n: int, report: Report, advance: Advance, method: Method, entry: Round
) -> None:
    """One round of class number n: a line, and the bar over all rounds of all classes."""
    settings = study.settings
    rounds = (settings.updates + 1) * settings.rounds
    before = (n * len(study.methods) + study.methods.index(method)) * rounds
    done = before + entry.stage * settings.rounds + entry.round + 1
    advance(done, len(study.classes) * len(study.methods) * rounds)
    report.say(
        f"{study.classes[n]} {method}: update {entry.stage}, round {entry.round + 1}, "
        f"energy {entry.energy:.1f}, {entry.found} false positives"
    )
