"""`halfseen convert`: annotations from one format to another, with what is visible."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from halfseen.cli.data import Images, Kind, Split
from halfseen.cli.options import Quiet
from halfseen.cli.terminal import Report, show
from halfseen.errors import SettingsError

NAME = "convert"


def command(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Annotations of any known format.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="The format to write.")],
    kind: Kind = None,
    split: Split = "val",
    images: Images = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rename a class; may be repeated."),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Convert annotations, and say what the other format cannot hold.

    Reads and writes voc, coco, cocoa, crowdhuman, citypersons, caltech, kaist,
    kitti, mot, bdd and visdrone. Visible boxes, visible fractions, levels of
    occlusion, truncation and ignored regions go over where the other format has
    a place for them. What was written is read back and compared; the last line
    says what was lost.

    [bold]Examples[/bold]
      halfseen convert annotation_val.odgt val.json --to coco --images Images
      halfseen convert VOCdevkit/VOC2012 labels --to kitti --split val
      halfseen convert val.json gt.txt --to mot --rename person=pedestrian
    """
    from halfseen.data.convert import convert, rename_classes
    from halfseen.data.formats import find_format, guess_format, read_dataset

    report = Report(quiet)
    find_format(to).write()
    if source.resolve() == target.resolve():
        raise SettingsError(f"{target}: is what is read; give another place to write")
    names = as_names(rename)
    kind = guess_format(source).name if kind is None else kind
    dataset = rename_classes(read_dataset(source, kind, split=split, images=images), names)
    for line in dataset.problems:
        report.fail(line)
    done = convert(dataset, target, to, split)
    report.say(f"{done.images} images, {done.objects} objects: {kind} to {to}")
    report.wrote(target)
    show(str(done))
    return 1 if dataset.problems else 0


def as_names(rename: Sequence[str] | None) -> dict[str, str]:
    """The names of classes that `--rename OLD=NEW` gives."""
    return dict(_pair(text) for text in rename or ())


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old.strip() or not new.strip():
        raise SettingsError(f"--rename {text}: expected OLD=NEW")
    return old, new
