"""The annotations that an argument names, of any known format, with their images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from halfseen.data.dataset import Dataset

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A VOC folder, a COCO file, or another format.")
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="Format of the annotations.", show_default="guessed"
    ),
]
Label = Annotated[str, typer.Option("--class", metavar="NAME", help="The class to learn.")]
Split = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Which images of a VOC folder: a list in ImageSets/Main, or a file."
    ),
]
Images = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the images, if DATA is no VOC folder.",
        show_default="COCO: beside the file",
    ),
]


def open_dataset(data: Path, split: str, images: Path | None) -> Dataset:
    """Read annotations whose images are needed; SettingsError or AnnotationError otherwise."""
    from halfseen.data.formats import guess_format, read_dataset

    kind = guess_format(data).name
    if kind == "coco" and images is None:
        images = data.parent
    return read_dataset(data, kind, split=split, images=images)
