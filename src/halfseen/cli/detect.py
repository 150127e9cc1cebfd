"""`halfseen detect`: look for objects in images."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfseen.cli.models import complete_model, name_models
from halfseen.cli.terminal import Report
from halfseen.cli.training import Cluster
from halfseen.errors import HalfseenError, SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from halfseen.cli.formats import Format, Found
    from halfseen.collection.photo import Photo
    from halfseen.detections import Detections
    from halfseen.infer.detector import Detector

NAME = "detect"


class FileFormat(StrEnum):
    jsonl = "jsonl"
    coco = "coco"
    voc = "voc"
    csv = "csv"
    parquet = "parquet"


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model file, a shipped model's name, or all of them: all. "
            "With +masks behind it, with masks.",
            autocompletion=complete_model,
        ),
    ],
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGES", help="Files, folders, globs in quotes, lists, .tar, URLs."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Where to write.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print one line of JSON for each image.")
    ] = False,
    file_format: Annotated[
        FileFormat,
        typer.Option("--format", metavar="NAME", help="jsonl, coco, voc, csv or parquet."),
    ] = FileFormat.jsonl,
    pictures: Annotated[
        bool | None,
        typer.Option(metavar="", help="Draw the detections.", show_default="without --shard"),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", metavar="", help="Show what was suppressed, and by what."),
    ] = False,
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", help="The lowest score reported.")
    ] = -1.0,
    strong: Annotated[
        float, typer.Option(metavar="SCORE", help="Below it, pictures show hairlines.")
    ] = 0.0,
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
    cores: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Cores to use.", show_default="all")
    ] = None,
    cluster: Cluster = None,
    shard: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Many images: one file for each N of them."),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", metavar="", help="Look again where a run failed."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", metavar="", help="Only say what failed.")
    ] = False,
) -> int:
    """Look for objects, and say which part of each is visible.

    MODEL is a file, or a class that ships with halfseen: see `halfseen
    models`. Without -o or --json the objects found are listed; with -o,
    writes FOLDER/detections.jsonl (or another format) and FOLDER/pictures.
    An image that cannot be read is named, and the others go on; the exit
    code is then 1. Photographs are first turned upright, as the camera noted
    on them; boxes are in pixels of the upright picture.

    With --shard, writes FOLDER/shards instead: after a kill, or Ctrl-C, the
    same command goes on, and no image is lost or done twice. A .txt file is a
    list of images, one a line.

    [bold]Examples[/bold]
      halfseen detect car photo.jpg
      halfseen detect car+masks photo.jpg -o found
      halfseen detect all holiday/ 'more/*.png' -o found
      halfseen detect mug.safetensors photo.jpg --json | jq .detections
      halfseen detect car s3://bucket/photos -o found --shard 1000
    """
    report = Report(quiet)
    settings = {} if overlap is None else {"overlap": overlap}
    if shard is not None or retry_failed or file_format is FileFormat.parquet:
        from halfseen.cli.collection import Request, detect_collection

        if out is None or json or pictures:
            raise SettingsError("--shard and parquet write files to a folder, -o, without pictures")
        names, detector = _detector(model, method, settings)
        look = Look(detector, threshold, method, settings, explain, strong)
        request = Request(names, images, file_format.value, shard or 1000)
        return detect_collection(look, request, out, retry_failed, cores, cluster, report)
    photos = _list(images)
    _, detector = _detector(model, method, settings)
    look = Look(detector, threshold, method, settings, explain, strong)
    results: Format | None = None
    if out is not None:
        if file_format in (FileFormat.coco, FileFormat.voc):
            _check_names(photos, file_format.value)
        results = _open(out, file_format.value, sorted({m.label for m in detector.models}))
        if pictures is not False:
            look.pictures = _picture_names(photos, out.absolute() / "pictures")
    try:
        failed, objects = _run(look, photos, results, json, cores, cluster, report)
    except BaseException:
        if results is not None:
            results.abandon()
        raise
    report.say(
        f"{len(photos)} images, {objects} objects" + (f", {failed} failed" if failed else "")
    )
    for path in [] if results is None else results.close():
        report.wrote(path)
    if look.pictures and out is not None and (out / "pictures").exists():
        report.wrote(out / "pictures")
    return 1 if failed else 0


def _run(
    look: Look, photos: Sequence[Photo], results: Format | None, json: bool, cores: int | None,
    cluster: str | None, report: Report,
) -> tuple[int, int]:  # fmt: skip
    """How many images failed, and how many objects were found."""
    from halfseen.compute import map_images

    failed = objects = 0
    with report.progress("detecting", len(photos)) as advance, report.compiling():
        for found in map_images(look, photos, cores, advance, cluster, look.lost):
            if found.detections is None:
                failed += 1
                report.fail(found.error)
            else:
                objects += len(found.detections)
            if results is not None:
                results.add(found)
            if json:
                print(found.line(), flush=True)
            elif results is None:
                _list_objects(found, look.strong)
    return failed, objects


def _list_objects(found: Found, strong: float) -> None:
    """The image and what is surely in it, for a person to read."""
    if found.detections is None:
        return
    sure = found.detections[found.detections.score >= strong]
    weak = len(found.detections) - len(sure)
    print(
        f"{found.name}: {len(found.detections)} objects"
        + (f", {weak} of them weak and not listed" if weak else "")
    )
    likely = [math.nan] * len(sure) if sure.probability is None else sure.probability
    for label, score, known, seen, box in zip(
        sure.label, sure.score, likely, sure.visible_fraction, sure.visible, strict=True
    ):
        place = " ".join(f"{value:5.0f}" for value in box)
        told = "" if math.isnan(known) else f"{known:4.0%} likely"
        sureness = "" if sure.probability is None else f"  {told:11}"
        print(f"  {label:12} {score:6.2f}{sureness}  {seen:4.0%} seen  at {place}", flush=True)


class Look:
    """Looks at one image and draws what is found. Called from several threads or machines."""

    def __init__(
        self, detector: Detector, threshold: float, method: str, settings: dict[str, Any],
        explain: bool, strong: float,
    ) -> None:  # fmt: skip
        self.detector = detector
        self.threshold = threshold
        self.method = method
        self.settings = settings
        self.explain = explain
        self.strong = strong
        self.pictures: dict[str, Path] = {}

    def __call__(self, photo: Photo) -> Found:
        from halfseen.cli.formats import Found

        try:
            return self._look(photo)
        except SettingsError:
            raise
        except HalfseenError as error:
            return Found(photo.name, None, str(error))
        except Exception as error:
            # One image must not end the work on the others, whatever it does to us.
            if os.environ.get("HALFSEEN_DEBUG"):
                raise
            return Found(photo.name, None, f"{photo}: {type(error).__name__}: {error}")

    def lost(self, photo: Photo) -> Found:
        """For an image that no worker survived."""
        from halfseen.cli.formats import Found

        return Found(photo.name, None, f"{photo}: every worker that took it died")

    def _look(self, photo: Photo) -> Found:
        from halfseen.cli.formats import Found
        from halfseen.data.image import write_image
        from halfseen.view.draw import draw_detections
        from halfseen.view.records import records

        image = photo.pixels()
        kept, candidates, choice = self.detector.choose(
            image, self.threshold, self.method, **self.settings
        )
        suppressed: list[dict[str, Any]] = []
        if self.explain:
            if any(model.head is not None for model in self.detector.models):
                # The same, with the masks of what was suppressed.
                candidates = self.detector.candidates(image, self.threshold)
                candidates = _with_kept(candidates, kept, choice.indices)
            place = {int(index): k for k, index in enumerate(choice.indices)}
            for i, record in enumerate(records(candidates)):
                if i not in place:
                    reason = choice.why(i)
                    by = None if reason.by is None else place[reason.by]
                    suppressed.append({**record, "by": by, "overlap": round(reason.overlap, 4)})
        if self.pictures:
            shown = (candidates, choice) if self.explain else (kept, None)
            picture = draw_detections(image, shown[0], explain=shown[1], strong=self.strong)
            self.pictures[photo.name].parent.mkdir(parents=True, exist_ok=True)
            write_image(self.pictures[photo.name], picture)
        return Found(photo.name, kept, suppressed=tuple(suppressed))


def _with_kept(candidates: Detections, kept: Detections, indices: NDArray[np.int64]) -> Detections:
    """The candidates, with what was kept of them as it is reported: its boxes and its figure."""
    import numpy as np

    if kept.figure is not None:
        candidates = replace(candidates, figure=candidates.visibility)
    order = np.arange(len(candidates))
    order[indices] = len(candidates) + np.arange(len(kept))
    return type(kept).concatenate([candidates, kept])[order]


def _list(words: list[str]) -> list[Photo]:
    from halfseen.collection.sources import find_photos

    try:
        return list(find_photos(words))
    except HalfseenError as error:
        raise SettingsError(str(error)) from None


def _check_names(photos: Sequence[Photo], name: str) -> None:
    """COCO and VOC know an image by its file name alone, and COCO by its number if it has one."""
    from halfseen.cli.formats import image_id

    known: dict[int | str, Photo] = {}
    for photo in photos:
        stem = Path(photo.name).stem
        key = image_id(stem) if name == "coco" else stem
        if key in known:
            raise SettingsError(
                f"{known[key]} and {photo}: {name} results cannot tell images of one name "
                "apart; give one folder at a time, or use --format jsonl"
            )
        if name == "voc" and len(stem.split()) != 1:
            raise SettingsError(
                f"{photo}: {name} results cannot hold a name with a space; rename it, or use "
                "--format jsonl"
            )
        known[key] = photo


def _detector(model: str, method: str, settings: dict[str, Any]) -> tuple[list[str], Detector]:
    """The models' names and their detector, after all that was asked of it has been checked."""
    from halfseen.detections import Detections
    from halfseen.infer.detector import Detector
    from halfseen.model.store import load
    from halfseen.suppress import suppress

    suppress(Detections.empty((1, 1)), method, **settings)
    names = name_models([model])
    return names, Detector([load(name) for name in names])


def _open(out: Path, name: str, labels: list[str]) -> Format:
    from halfseen.cli.formats import FORMATS

    try:
        out.mkdir(parents=True, exist_ok=True)
        return FORMATS[name](out, labels)
    except OSError as error:
        raise SettingsError(f"{out}: cannot write results there: {error.strerror}") from None


def _picture_names(photos: Sequence[Photo], folder: Path) -> dict[str, Path]:
    """A picture for each image, in the same folders below `folder`, no two of the same name."""
    # As absolute paths no name, not even one in an archive, leads up and out of the folder.
    places = {p.name: Path(os.path.abspath(p.name.replace("://", "/"))) for p in photos}
    above = Path(os.path.commonpath([place.parent for place in places.values()]))
    names: dict[str, Path] = {}
    taken: set[Path] = set()
    for name, place in places.items():
        copy = folder / place.relative_to(above)
        suffix = ".png" if copy.suffix.lower() == ".png" else ".jpg"
        picture = copy.with_suffix(suffix)
        if picture in taken:
            picture = copy.with_name(copy.name + suffix)
        names[name] = picture
        taken.add(picture)
    return names
