"""`halfseen suppress`: optimal suppression of another detector's results."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import Annotated

import typer

from halfseen.cli.options import OutFile, Quiet, check_files, flag
from halfseen.cli.terminal import Report

NAME = "suppress"


def command(
    source: Annotated[Path, typer.Argument(metavar="RESULTS", help="A COCO results file (JSON).")],
    out: OutFile,
    overlap: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Overlap allowed between two objects, 0 to 1: 0.5, of boxes alone 0.7.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="covering (of masks), voting (of boxes alone), greedy, meanshift or soft.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option(metavar="NAME", help="Of overlap: iou, smaller, lower or box.")
    ] = "iou",
    scale: Annotated[
        str, typer.Option(metavar="NAME", help="Of scores: probability, logit or margin.")
    ] = "probability",
    groups: Annotated[
        str, typer.Option(metavar="NAME", help="Who excludes whom: class (its own) or all.")
    ] = "class",
    keep_scores: Annotated[bool, flag("--keep-scores", help="Leave scores as they are.")] = False,
    json: Annotated[bool, flag("--json", help="Print the counts as JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Remove the duplicates from another detector's COCO results.

    Looks at each image and category by itself, at the masks of the results,
    or at their boxes if the file has none. The covering method keeps objects
    that stand close if their visible parts are apart, and finds the best set
    exactly. Scores become ranks: an object that others mostly cover counts
    less, one that many results agree on counts more.

    [bold]Example[/bold]
      halfseen suppress results.json -o kept.json --overlap 0.5
    """
    from halfseen.suppression.results import suppress_file

    check_files(source, out)
    report = Report(quiet)
    given = {"method": method, "overlap": overlap}
    settings = {name: value for name, value in given.items() if value is not None}
    if method != "meanshift":
        settings["measure"] = measure
    with report.compiling(), report.progress("suppressing") as advance:
        before, after = suppress_file(
            source,
            out,
            progress=advance,
            rescore=not keep_scores,
            scale=scale,
            groups=groups,
            **settings,
        )
    if json:
        print(text.dumps({"file": str(out), "results": before, "kept": after}))
    report.say(f"{before} results, {after} kept")
    report.wrote(out)
    return 0
