"""`halfseen see`: what is visible of another detector's results."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import Annotated

import typer

from halfseen.cli.convert import as_names
from halfseen.cli.models import complete_model
from halfseen.cli.options import Cores, OutFile, Quiet, check_files, flag
from halfseen.cli.terminal import Report
from halfseen.errors import SettingsError

NAME = "see"


def command(
    source: Annotated[Path, typer.Argument(metavar="RESULTS", help="A COCO results file (JSON).")],
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGES", help="Files, folders, globs in quotes, lists, .tar, URLs."
        ),
    ],
    out: OutFile,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="A model file or a shipped class; may be repeated.",
            show_default="all",
            autocompletion=complete_model,
        ),
    ] = None,
    categories: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A COCO file that names the classes.",
            show_default="categories.json beside RESULTS",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="The model's name of a class; may be repeated."),
    ] = None,
    cores: Cores = None,
    json: Annotated[bool, flag("--json", help="Print the counts as JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Say which part of another detector's boxes is visible.

    Adds to each result visible_fraction, the boxes of its visible part
    (vis_bbox) and of the whole object (a_bbox), and the mask of what is seen of
    it (segmentation). No result and no field is lost; where nothing is known of
    a result, its visible_fraction is null.

    [bold]Examples[/bold]
      halfseen see yolo.json val2017 -o seen.json --categories instances_val2017.json
      halfseen see found/detections.coco.json photos -o seen.json --model car
    """
    from halfseen.collection.sources import find_photos
    from halfseen.errors import ImageError
    from halfseen.model.shipped import name_models
    from halfseen.refine.detector import Detector
    from halfseen.studies.see import categories_beside, read_categories, see_file

    check_files(source, out)
    report = Report(quiet)
    names = read_categories(categories_beside(source, categories), as_names(rename))
    detector = Detector(name_models(model or ["all"], report.say))
    try:
        photos = list(find_photos(images))
    except ImageError as error:
        raise SettingsError(str(error)) from None
    with report.compiling(), report.progress("seeing", len(photos)) as advance:
        account = see_file(source, out, photos, detector, names, cores=cores, on_done=advance)
    for line in account.problems:
        report.fail(line)
    if json:
        counts = {"file": str(out), "seen": account.seen, "without": dict(account.without)}
        print(text.dumps(counts))
    total = account.seen + account.without.total()
    report.say(f"{total} results, what is visible known of {account.seen}")
    for reason, number in account.without.items():
        if number:
            report.say(f"  {number} {reason}")
    report.wrote(out)
    return 1 if account.problems else 0
