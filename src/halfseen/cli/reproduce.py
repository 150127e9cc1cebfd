"""`halfseen reproduce`: the paper's table, on your copy of VOC."""

from __future__ import annotations

import json as text
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.options import (
    Alphas,
    Chosen,
    Cluster,
    Cores,
    Folds,
    Lambdas,
    Overlaps,
    Preset,
    PresetOption,
    Quiet,
    Seed,
    flag,
    make_tried,
    parse_changes,
)
from halfseen.cli.terminal import Advance, Report
from halfseen.errors import ClusterError, HalfseenError

if TYPE_CHECKING:
    from halfseen.learn.state import Round
    from halfseen.learn.tuning import Step
    from halfseen.model.mixture import Method
    from halfseen.studies.reproduce import Study

NAME = "reproduce"
# Of the paper's ranges, as few values as show the best: each is two models a class.
LAMBDAS = (0.1, 1.0, 10.0, 100.0)
ALPHAS = (0.01, 0.03, 0.1)


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
    chosen: Chosen = None,
    tune: Annotated[
        bool, flag("--tune", help="First choose lambda, alpha and the overlaps of each class.")
    ] = False,
    folds: Folds = 2,
    most: Annotated[
        int, typer.Option("--most", min=4, metavar="N", help="Images to choose by, half with it.")
    ] = 1000,
    lambdas: Lambdas = None,
    alphas: Alphas = None,
    overlaps: Overlaps = None,
    cores: Cores = None,
    cluster: Cluster = None,
    json: Annotated[bool, flag("--json", help="Print the table as JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Train and test BL, BLT and VIS as the paper does, class by class.

    Every model and every run of images is kept in FOLDER as soon as it is
    done: after a kill the same command resumes. VOC 2010's test annotations
    were never published, so this trains on one split and tests on another.

    With --tune each class gets settings of its own, as in the paper: lambda
    by BL, the overlap of greedy suppression, alpha by VIS, and the overlap of
    covering suppression, one after another, each by AP on held-out folds of
    the training images. FOLDER/PRESET-tuned/chosen has what was chosen.

    [bold]Examples[/bold]
      halfseen reproduce VOCdevkit/VOC2010
      halfseen reproduce VOCdevkit/VOC2010 --class car --class bus --preset paper
      halfseen reproduce VOCdevkit/VOC2010 --preset paper --tune
    """
    from halfseen.data.voc import read_voc
    from halfseen.learn.settings import TrainSettings
    from halfseen.studies.paper import CLASSES
    from halfseen.studies.reproduce import (
        Study,
        choose_class,
        claim,
        detect_all,
        score_all,
        table,
        train_class,
    )

    report = Report(quiet)
    if cluster:
        devkit = devkit.absolute()  # workers start in folders of their own
    train, test = read_voc(devkit, train_split), read_voc(devkit, test_split)
    for problem in (*train.problems, *test.problems):
        report.fail(problem)
    labels = list(classes or CLASSES)
    study = Study(
        train, test, out, labels, preset.value, seed, cores, cluster=cluster,
        changes=parse_changes(TrainSettings.preset(preset.value), chosen),
    )  # fmt: skip
    if tune:
        tried = make_tried(
            {"lambdas": lambdas, "alphas": alphas, "overlaps": overlaps},
            lambdas=LAMBDAS, alphas=ALPHAS, folds=folds, energy=study.energy,
        )  # fmt: skip
        study = replace(study, tried=tried, images=most)
    if study.folder.exists():
        claim(study)  # before any class fails one by one

    def choose(n: int, advance: Advance) -> None:
        test.check_class(labels[n])
        choose_class(study, labels[n], partial(_tell_value, study, n, report, advance))

    def learn(n: int, advance: Advance) -> None:
        if study.tried is not None and not study.chosen_path(labels[n]).exists():
            return  # as has been said
        test.check_class(labels[n])
        train_class(study, labels[n], partial(_tell_round, study, n, report, advance))

    with report.compiling():
        failed = study.tried is not None and _each("choosing", labels, choose, report)
        failed = _each("training", labels, learn, report) or failed
    if not any(study.model_path(label, "VIS").exists() for label in labels):
        raise HalfseenError(f"{devkit}: no class could be learnt; nothing was written")
    with report.progress("detecting", len(test)) as done:
        detect_all(study, lambda so_far, _: done(so_far))
    scores = score_all(study)
    print(text.dumps(scores) if json else table(study, scores).text())
    for name in ("results.json", "table.md"):
        report.wrote(study.folder / name)
    return int(failed)


def _each(
    what: str, labels: list[str], work: Callable[[int, Advance], None], report: Report
) -> bool:
    """Do the work of each class, by its number; whether it failed for some.

    One class that cannot be learnt must not cost the others.
    """
    failed = False
    with report.progress(what) as advance:
        for n, label in enumerate(labels):
            try:
                work(n, advance)
            except ClusterError:
                raise
            except HalfseenError as error:
                report.fail(f"{label}: {error}")
                failed = True
    return failed


def _tell_value(
    study: Study, n: int, report: Report, advance: Advance,
    step: Step, value: float, fold: int, ap: float,
) -> None:  # fmt: skip
    """One evaluation for class number n: a line, and the bar over those of all classes."""
    assert study.tried is not None
    done, total = study.tried.progress(step, value, fold)
    advance(n * total + done, len(study.classes) * total)
    report.say(f"{study.classes[n]}: {step} {value:g}, fold {fold + 1}: AP {100 * ap:.1f}")


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
