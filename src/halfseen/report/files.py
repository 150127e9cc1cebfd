"""What an evaluation leaves in a folder: the report, its figures, and VOC results files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfseen.data.files import plain_name, write_atomically
from halfseen.errors import HalfseenError
from halfseen.evaluate.evaluation import Evaluation
from halfseen.evaluate.results import results_name, write_voc_results
from halfseen.evaluate.table import Table
from halfseen.report.report import report_html, settings_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def as_document(evaluations: Sequence[Evaluation], facts: Mapping[str, str]) -> dict[str, Any]:
    """All figures as JSON values. Shares and APs are 0..1; what is not known is null."""
    return {
        "made": dict(facts),
        "classes": {
            e.label: {
                "dataset": e.dataset.name,
                "baseline": e.baseline,
                "methods": [
                    {**summary.as_json(), "settings": settings_of(method)}
                    for summary, method in zip(e.summaries, e.methods, strict=True)
                ],
                "differences": {name: asdict(d) for name, d in e.differences.items()},
                "tables": [table.as_json() for table in e.tables],
                "problems": list(e.problems),
            }
            for e in evaluations
        },
    }


def as_text(document: Mapping[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(document, allow_nan=False, default=str)


def write_files(
    folder: Path,
    evaluations: Sequence[Evaluation],
    split: str,
    facts: Mapping[str, str],
    figures: Mapping[str, Figure] | None = None,
) -> list[Path]:
    """Writes all files, each whole or not at all, and returns their paths, the report first.

    The detections of a class's only model are `comp3_det_<split>_<class>.txt` in the folder; of
    several models, and of the covering variant, each has a folder of its name. `figures` are shown
    in the report, each under its name.
    """
    text = json.dumps(as_document(evaluations, facts), allow_nan=False, default=str, indent=1)
    written = [folder / "report.html", folder / "results.json", folder / "results.csv"]
    _write(written[0], report_html(evaluations, facts, figures=figures))
    _write(written[1], text + "\n")
    _write(written[2], _csv(evaluations))
    for e in evaluations:
        alone = len({method.source for method in e.methods}) == 1
        for n, method in enumerate(e.methods):
            if method.model is None:
                continue
            place = folder if alone and n == 0 else folder / plain_name(method.name)
            file = place / results_name(plain_name(e.label), plain_name(split))
            place.mkdir(exist_ok=True)
            write_voc_results(file, e.dataset.truths, e.found[method.name], e.label)
            written.append(file)
    return written


def _csv(evaluations: Sequence[Evaluation]) -> str:
    """One row a class and method, one column a figure; some figures not every class has."""
    rows = [summary.figures() for e in evaluations for summary in e.summaries]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Table(columns, [[row.get(name) for name in columns] for row in rows]).csv()


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise HalfseenError(f"{path}: cannot be written: {error.strerror}") from None
