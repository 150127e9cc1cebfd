"""`halfseen evaluate`: how good models are, overall and where objects are partly hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.data import Images, Kind, Split, open_dataset
from halfseen.cli.evaluate_results import (
    Request,
    Show,
    evaluate_files,
    leave,
    make_folder,
    record,
    tell_problems,
)
from halfseen.cli.models import complete_model
from halfseen.cli.options import Cluster, Cores, OutFolder, Overlap, Quiet, Suppression, flag
from halfseen.cli.terminal import Report, note, show
from halfseen.errors import HalfseenError, SettingsError

if TYPE_CHECKING:
    from halfseen.data.dataset import Dataset
    from halfseen.evaluate.evaluation import Conditions, Evaluation, Method

NAME = "evaluate"
AS = "; if the data call it otherwise, say --as NAME"


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... DATA",
            help="Models (files or names) and annotations; with --truth, any detector's results.",
            autocompletion=complete_model,
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Annotations of the images of results files."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="Group objects of results: visible, occluded, truncated, size or crowd.",
        ),
    ] = None,
    boxes: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="True boxes to compare results with: whole or visible.",
            show_default="the format's",
        ),
    ] = None,
    kind: Kind = None,
    split: Split = "val",
    images: Images = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="NAME", help="Only this class; may be repeated.", show_default="all"
        ),
    ] = None,
    out: OutFolder = None,
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", help="The lowest score that counts.")
    ] = -1.1,
    method: Suppression = "voting",
    overlap: Overlap = None,
    sweep: Annotated[
        bool, typer.Option(metavar="", help="Also cover whole objects with texture, step by step.")
    ] = True,
    whole_boxes: Annotated[
        bool, flag("--whole-boxes", help="Compare with boxes of whole objects, where known.")
    ] = False,
    paper_flags: Annotated[
        bool,
        flag("--paper-flags", help="Also evaluate models with a mask head by the paper's flags."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="What the data call the class of the models."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the textures of the sweep.")
    ] = 0,
    cores: Cores = None,
    cluster: Cluster = None,
    json: Annotated[bool, flag("--json", help="Print all figures as JSON, no tables.")] = False,
    quiet: Quiet = False,
) -> int:
    """Measure models, or any detector's results: AP overall and by visible share.

    With --truth the words are results files: COCO JSON, VOC or MOT text, a
    folder of KITTI text, CrowdHuman .odgt. They are measured by VOC's, COCO's
    and CityPersons' rules, overall and --by group, against annotations of any
    format that `halfseen convert` reads. Others are compared with the first.

    Several models of one class are compared side by side; a VIS model is also
    shown with covering suppression, as VIS+NMS. With -o, writes FOLDER/
    report.html (curves, pictures, settings), results.json, results.csv and
    VOC results files. A class that cannot be evaluated is named and
    skipped; the exit code is then 1.

    [bold]Examples[/bold]
      halfseen evaluate car.safetensors VOCdevkit/VOC2012 -o found
      halfseen evaluate bl.safetensors vis.safetensors scenes -o found
      halfseen evaluate a.json b.json --truth val.json --by visible -o found
      halfseen evaluate dets.odgt --truth annotation_val.odgt --by crowd
    """
    from halfseen.evaluate.evaluation import Conditions
    from halfseen.evaluate.sweep import SHARES
    from halfseen.studies.evaluate import with_paper_flags

    report, wanted = Report(quiet), Show(out, json, quiet)
    if truth is not None:
        question = Request(tuple(by or ()), boxes, kind, split, images, tuple(classes or ()))
        return evaluate_files(words, truth, question, wanted)
    if by or boxes or kind:
        raise SettingsError("--by, --boxes and --format are for results files: give --truth DATA")
    if len(words) < 2:
        raise SettingsError(_missing(words[0]))
    *models, last = words
    data = Path(last)
    rows = _methods(models, method, overlap)
    rows = _of_classes(_called(rows, name) if name else rows, classes)
    rows = with_paper_flags(rows) if paper_flags else rows
    conditions = Conditions(threshold, SHARES if sweep else (), seed, whole_boxes)
    make_folder(out)
    # Workers start in folders of their own.
    dataset = open_dataset(data.absolute() if cluster else data, split, images)
    problems = list(dataset.problems)
    evaluations = []
    with report.compiling():
        for evaluation in _run(dataset, rows, conditions, cores, cluster, report, problems):
            evaluations.append(evaluation)
            if not json and not quiet:
                _print_tables(evaluation)
    tell_problems(problems, report)
    if not evaluations:
        raise HalfseenError(f"{data}: no class could be evaluated")
    shares = ", ".join(f"{share:.0%}" for share in conditions.shares)
    facts = record(
        dataset,
        str(data),
        split=split if data.is_dir() else data.name,
        boxes="whole objects, cut to the image" if whole_boxes else "as annotated",
        threshold=f"{threshold:g}",
        suppression=method,
        sweep=f"{shares} covered, seed {seed}" if shares else "none",
    )
    part = Path(split).stem if data.is_dir() else data.stem
    leave(evaluations, facts, part, wanted, report, "curves, pictures, results files")
    return 1 if problems else 0


def _missing(word: str) -> str:
    """What is missing beside the only word that was given."""
    from halfseen.model.shipped import find_shipped

    is_data = Path(word).exists() and Path(word).suffix != ".safetensors"
    if is_data and not find_shipped(word):
        return f"MODEL is missing: halfseen evaluate MODEL {word}, or --truth for results files"
    return f"DATA is missing: halfseen evaluate {word} DATA, a VOC folder or a COCO file"


def _methods(words: Sequence[str], suppression: str, overlap: float | None) -> list[Method]:
    """The rows of the comparison, after its suppression has been checked."""
    from halfseen.model.shipped import name_models
    from halfseen.studies.evaluate import name_methods
    from halfseen.suppression import make_method

    settings = {} if overlap is None else {"overlap": overlap}
    make_method(suppression, settings)
    files: list[str] = []
    for word in words:
        files += [word] if word.endswith(".txt") else name_models([word], note)
    return name_methods(files, suppression, settings)


def _called(rows: Sequence[Method], name: str) -> list[Method]:
    """The same rows, their class called as the data call it."""
    own = sorted({row.label for row in rows})
    if len(own) > 1:
        raise SettingsError(f"--as {name}: expected models of one class, found {', '.join(own)}")
    return [
        replace(row, label=name, model=row.model and replace(row.model, label=name)) for row in rows
    ]


def _of_classes(rows: Sequence[Method], classes: Sequence[str] | None) -> list[Method]:
    """The rows of the classes asked for; SettingsError for one that has none."""
    if not classes:
        return list(rows)
    from halfseen.errors import suggest

    known = {row.label for row in rows}
    for label in classes:
        if label not in known:
            raise SettingsError(f"no model of class '{label}' was given; {suggest(label, known)}")
    return [row for row in rows if row.label in classes]


def _run(
    dataset: Dataset,
    rows: Sequence[Method],
    conditions: Conditions,
    cores: int | None,
    cluster: str | None,
    report: Report,
    problems: list[str],
) -> Iterator[Evaluation]:
    """The evaluation of each class; a class that has none leaves a line in `problems`."""
    from halfseen.studies.evaluate import evaluate

    for label in dict.fromkeys(row.label for row in rows):
        own = [row for row in rows if row.label == label]
        try:
            with report.progress(label) as advance:
                evaluation = evaluate(
                    dataset, label, own, conditions, cores=cores, cluster=cluster,
                    on_done=lambda done: advance(done, len(dataset)),
                )  # fmt: skip
        except SettingsError:
            raise
        except HalfseenError as error:
            problems.append(f"{error}{'' if label in dataset.classes else AS}")
            continue
        problems += [line for line in evaluation.problems if line not in problems]
        for line in evaluation.notes:
            report.say(f"note: {line}")
        yield evaluation


def _print_tables(evaluation: Evaluation) -> None:
    from halfseen.evaluate.overview import by_fraction, overview, sweep_table, what_is_seen

    summaries = evaluation.summaries
    for table in (
        overview(summaries), by_fraction(summaries), what_is_seen(summaries), sweep_table(summaries)
    ):  # fmt: skip
        if table is not None:
            show(table.text() + "\n")
    for name, difference in evaluation.differences.items():
        show(f"{name} against {evaluation.baseline}: {difference} (95%, bootstrap over images)")
    if evaluation.differences:
        print()
