"""The dataset that an argument names: a VOC folder, or a COCO file with its images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.errors import SettingsError

if TYPE_CHECKING:
    from halfseen.data.dataset import Dataset

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A VOC folder, or a COCO annotation file.")
]
Label = Annotated[str, typer.Option("--class", metavar="NAME", help="The class to learn.")]
Split = Annotated[
    str, typer.Option(metavar="NAME", help="Of VOC: a list in ImageSets/Main, or a file of ids.")
]
Images = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Of COCO: its images.", show_default="beside the file"),
]


def open_dataset(data: Path, split: str, images: Path | None) -> Dataset:
    """Reads the annotations; SettingsError or AnnotationError where there are none."""
    from halfseen.data.coco import read_coco
    from halfseen.data.voc import read_voc

    if data.is_dir():
        return read_voc(data, split)
    if not data.exists():
        raise SettingsError(f"{data}: no such file or folder; expected a VOC folder or COCO file")
    return read_coco(data, images or data.parent)
