"""`halfseen evaluate RESULTS --truth DATA`: results files of any detector."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from halfseen.cli.terminal import Report
from halfseen.errors import HalfseenError, SettingsError

if TYPE_CHECKING:
    from halfseen.data.dataset import Dataset
    from halfseen.evaluate.any_results import Results
    from halfseen.evaluate.evaluation import Evaluation

MOST_PROBLEMS = 5  # printed; all of them are in the report
MOST_CLASSES = 3  # whose tables are printed in full


class Request(NamedTuple):
    """What the command was asked to measure."""

    by: tuple[str, ...]
    boxes: str | None
    kind: str | None
    split: str
    images: Path | None
    classes: tuple[str, ...]


class Show(NamedTuple):
    """Where results go."""

    out: Path | None
    json: bool
    quiet: bool


def evaluate_files(words: Sequence[str], truth: Path, request: Request, show: Show) -> int:
    """Evaluate results files, print tables or JSON, and write the report; the exit code."""
    from halfseen.data.formats import find_format, guess_format, read_dataset
    from halfseen.evaluate.any_results import read_any_results
    from halfseen.studies.results import Question, evaluate_classes

    report = Report(show.quiet)
    kind = guess_format(truth) if request.kind is None else find_format(request.kind)
    question = Question(request.by, request.boxes or kind.boxes)  # type: ignore[arg-type]
    make_folder(show.out)
    dataset = read_dataset(truth, kind.name, split=request.split, images=request.images)
    problems = list(dataset.problems)
    results = [read_any_results(word, dataset) for word in words]
    with report.compiling():
        classes = _classes(dataset, results, request.classes)
        evaluations = list(evaluate_classes(dataset, classes, results, question))
    problems += [line for line in evaluations[0].problems if line not in problems]
    if not show.json and not show.quiet:
        _print_tables(evaluations)
    tell_problems(problems, report)
    boxes = "whole objects" if question.boxes == "whole" else "what is visible"
    facts = record(dataset, f"{truth} ({kind.name})", boxes=f"of {boxes}")
    leave(evaluations, facts, truth.stem, show, report, "curves, and the worst misses")
    return 1 if dataset.problems else 0


def _classes(dataset: Dataset, results: Sequence[Results], chosen: Sequence[str]) -> list[str]:
    from halfseen.studies.results import results_classes

    for label in chosen:
        dataset.check_class(label)
    classes = list(chosen) or results_classes(dataset, results)
    if all(truth.left_out.all() for truth in dataset):
        raise HalfseenError(f"{dataset.name}: the annotations hold no object to be found")
    if not classes:
        raise HalfseenError(f"{dataset.name}: none of the results is of a class with objects")
    return classes


def _print_tables(evaluations: Sequence[Evaluation]) -> None:
    from halfseen.evaluate.overview import overview
    from halfseen.studies.results import class_table

    if len(evaluations) > MOST_CLASSES:
        print(class_table(evaluations).text(), end="\n\n")
        return
    for evaluation in evaluations:
        for table in (overview(evaluation.summaries), *evaluation.tables):
            print(table.text(), end="\n\n")


def record(dataset: Dataset, data: str, **facts: str) -> dict[str, str]:
    """What made the results."""
    from datetime import datetime

    import halfseen

    return {
        "halfseen": halfseen.__version__,
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(["halfseen", *sys.argv[1:]]),
        "data": data,
        "images": f"{len(dataset)} read, {len(dataset.problems)} problems",
        **facts,
    }


def leave(
    evaluations: Sequence[Evaluation],
    facts: dict[str, str],
    split: str,
    show: Show,
    report: Report,
    more: str,
) -> None:
    """Print the figures as JSON and write the report, as far as they are asked for."""
    from halfseen.report.files import as_document, as_text, write_files

    if show.json:
        print(as_text(as_document(evaluations, facts)))
    if show.out is not None:
        for path in write_files(show.out, evaluations, split, facts):
            report.wrote(path)
    elif not show.json:
        report.say(f"give a folder with -o for the report: {more}")


def make_folder(out: Path | None) -> None:
    """Make the folder of the report before the long work, not after it."""
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"{out}: cannot write results there: {error.strerror}") from None


def tell_problems(problems: Sequence[str], report: Report) -> None:
    """Print the first problems, and how many more there are."""
    for line in problems[:MOST_PROBLEMS]:
        report.fail(line)
    if len(problems) > MOST_PROBLEMS:
        report.fail(f"... and {len(problems) - MOST_PROBLEMS} more like these")
