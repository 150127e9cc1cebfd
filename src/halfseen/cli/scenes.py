"""`halfseen scenes`: draw the built-in scenes as a dataset."""

from __future__ import annotations

import json as text
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from halfseen.cli.options import Quiet, flag
from halfseen.cli.terminal import Report

NAME = "scenes"


class ImageFormat(StrEnum):
    """How images are stored."""

    png = "png"
    jpg = "jpg"


def command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    count: Annotated[int, typer.Option(min=1, metavar="N", help="How many scenes.")] = 200,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="The same seed gives the same scenes.")
    ] = 1,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the list of these images.")
    ] = "train",
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="NAME", help="A class to draw; may be repeated.", show_default="all"
        ),
    ] = None,
    width: Annotated[
        int, typer.Option(min=96, max=4096, metavar="PIXELS", help="From 96 to 4096.")
    ] = 500,
    height: Annotated[
        int, typer.Option(min=96, max=4096, metavar="PIXELS", help="From 96 to 4096.")
    ] = 375,
    images: Annotated[ImageFormat, typer.Option(help="Format of the pictures.")] = ImageFormat.png,
    json: Annotated[bool, flag("--json", help="Print what was written as JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Draw scenes with partly hidden objects, as a VOC folder.

    The truth is exact: boxes, flags (truncated, occluded, difficult) and the
    mask of what is visible of each object. Another split may go into the same
    folder: give it another seed.

    [bold]Examples[/bold]
      halfseen scenes scenes --count 300 --seed 1 --split train
      halfseen scenes scenes --count 300 --seed 2 --split val
    """
    from halfseen.data.scenes import render_scenes
    from halfseen.data.voc_writer import write_voc

    report = Report(quiet)
    with report.progress("drawing scenes", count) as advance:
        dataset = render_scenes(count, seed, classes or None, (height, width), advance)
    with report.progress("writing"):
        write_voc(dataset, out, split, images.value)
    objects = sum(len(truth) for truth in dataset)
    if json:
        print(text.dumps({"folder": str(out), "split": split, "scenes": count, "objects": objects}))
    report.say(f"{count} scenes, {objects} objects")
    report.wrote(out, f"(split {split})")
    return 0
