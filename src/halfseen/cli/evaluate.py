"""`halfseen evaluate`: how good models are, overall and where objects are partly hidden."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.data import Data, Images, Split, open_dataset
from halfseen.cli.models import complete_model, name_models
from halfseen.cli.terminal import Report
from halfseen.cli.training import Cluster, Cores, Quiet
from halfseen.errors import HalfseenError, SettingsError

if TYPE_CHECKING:
    from halfseen.data.dataset import Dataset
    from halfseen.view.evaluation import Conditions, Evaluation, Method

NAME = "evaluate"
MOST_PROBLEMS = 5  # printed; all of them are in the report


def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Model files or names, or VOC results files (.txt).",
            autocompletion=complete_model,
        ),
    ],
    data: Data,
    split: Split = "val",
    images: Images = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="NAME", help="Only this; may be repeated.", show_default="all"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Where to write.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", help="The lowest score that counts.")
    ] = -1.1,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="voting, greedy, covering, meanshift or soft suppression."
        ),
    ] = "voting",
    overlap: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Allowed between two objects.", show_default="the method's"
        ),
    ] = None,
    sweep: Annotated[
        bool, typer.Option(metavar="", help="Also cover whole objects with texture, step by step.")
    ] = True,
    whole_boxes: Annotated[
        bool,
        typer.Option(
            "--whole-boxes", metavar="", help="Judge by whole objects' boxes, where known."
        ),
    ] = False,
    paper_flags: Annotated[
        bool,
        typer.Option("--paper-flags", metavar="", help="Models with a mask head without it, too."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the sweep's textures.")] = 0,
    cores: Cores = None,
    cluster: Cluster = None,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print all figures as JSON, no tables.")
    ] = False,
    quiet: Quiet = False,
) -> int:
    """Measure models: AP overall and by what is visible, masks, and a sweep.

    Several models of one class are compared side by side; a VIS model is also
    shown with covering suppression, as VIS+NMS. With -o, writes FOLDER/
    report.html (curves, pictures, settings), results.json, results.csv and
    VOC results files. What cannot be evaluated is named, and the rest goes
    on; the exit code is then 1.

    [bold]Examples[/bold]
      halfseen evaluate car.safetensors VOCdevkit/VOC2012 -o found
      halfseen evaluate bl.safetensors vis.safetensors scenes -o found
      halfseen evaluate car.safetensors val.json --images val2017 --json
    """
    from halfseen.evaluate.sweep import SHARES
    from halfseen.view.evaluation import Conditions, with_paper_flags
    from halfseen.view.evaluation_files import as_document, as_text, write_files

    report = Report(quiet)
    rows = _methods(models, method, overlap, classes)
    rows = with_paper_flags(rows) if paper_flags else rows
    conditions = Conditions(threshold, SHARES if sweep else (), seed, whole_boxes)
    _make_folder(out)
    # Workers start in folders of their own.
    dataset = open_dataset(data.absolute() if cluster else data, split, images)
    problems = list(dataset.problems)
    evaluations = []
    with report.compiling():
        for evaluation in _run(dataset, rows, conditions, cores, cluster, report, problems):
            evaluations.append(evaluation)
            if not json and not quiet:
                _print_tables(evaluation)
    _tell(problems, report)
    if not evaluations:
        raise HalfseenError(f"{data}: no class could be evaluated")
    facts = _facts(data, split, dataset, conditions, method)
    if json:
        print(as_text(as_document(evaluations, facts)))
    if out is not None:
        for path in write_files(
            out, evaluations, Path(split).stem if data.is_dir() else data.stem, facts
        ):
            report.wrote(path)
    elif not json:
        report.say("give a folder with -o for the report: curves, pictures, results files")
    return 1 if problems else 0


def _methods(
    words: Sequence[str], suppression: str, overlap: float | None, classes: Sequence[str] | None
) -> list[Method]:
    """The rows of the comparison, after all that was asked for has been checked."""
    from halfseen.detections import Detections
    from halfseen.suppress import suppress
    from halfseen.view.evaluation import name_methods

    settings = {} if overlap is None else {"overlap": overlap}
    suppress(Detections.empty((1, 1)), suppression, **settings)
    files: list[str] = []
    for word in words:
        files += [word] if word.endswith(".txt") else name_models([word])
    rows = name_methods(files, suppression, settings)
    if not classes:
        return rows
    from halfseen.data.dataset import suggest

    known = {row.label for row in rows}
    for label in classes:
        if label not in known:
            raise SettingsError(f"no model of class '{label}' was given; {suggest(label, known)}")
    return [row for row in rows if row.label in classes]


def _make_folder(out: Path | None) -> None:
    """Before the long work, not after it."""
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"{out}: cannot write results there: {error.strerror}") from None


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
    from halfseen.view.evaluation import evaluate

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
            problems.append(str(error))
            continue
        problems += [line for line in evaluation.problems if line not in problems]
        yield evaluation


def _print_tables(evaluation: Evaluation) -> None:
    from halfseen.evaluate.overview import by_fraction, overview, sweep_table, what_is_seen

    summaries = evaluation.summaries
    for table in (
        overview(summaries), by_fraction(summaries), what_is_seen(summaries), sweep_table(summaries)
    ):  # fmt: skip
        if table is not None:
            print(table.text(), end="\n\n")
    for name, difference in evaluation.differences.items():
        print(f"{name} against {evaluation.baseline}: {difference} (95%, bootstrap over images)")
    if evaluation.differences:
        print()


def _tell(problems: Sequence[str], report: Report) -> None:
    for line in problems[:MOST_PROBLEMS]:
        report.fail(line)
    if len(problems) > MOST_PROBLEMS:
        report.fail(f"... and {len(problems) - MOST_PROBLEMS} more like these")


def _facts(
    data: Path, split: str, dataset: Dataset, conditions: Conditions, method: str
) -> dict[str, str]:
    """What made the results, for the record."""
    from datetime import datetime

    import halfseen

    shares = ", ".join(f"{share:.0%}" for share in conditions.shares)
    return {
        "halfseen": halfseen.__version__,
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(["halfseen", *sys.argv[1:]]),
        "data": str(data),
        "split": split if data.is_dir() else data.name,
        "images": f"{len(dataset)} read, {len(dataset.problems)} problems",
        "boxes": "whole objects, cut to the image" if conditions.whole_boxes else "as annotated",
        "threshold": f"{conditions.threshold:g}",
        "suppression": method,
        "sweep": f"{shares} covered, seed {conditions.seed}" if shares else "none",
    }
