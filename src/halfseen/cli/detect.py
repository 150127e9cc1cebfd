"""`halfseen detect`: find objects in images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.models import complete_model
from halfseen.cli.options import Cluster, Cores, OutFolder, Overlap, Quiet, Suppression, flag
from halfseen.cli.terminal import Report, count, show
from halfseen.collection.formats import FORMATS
from halfseen.errors import HalfseenError, SettingsError

if TYPE_CHECKING:
    from halfseen.collection.photo import Photo
    from halfseen.collection.result import ImageResult
    from halfseen.collection.writers import Add
    from halfseen.refine.detector import Detector
    from halfseen.studies.photos import PhotoDetector, PhotoSettings

NAME = "detect"

FileFormat = StrEnum("FileFormat", {name: name for name in FORMATS})  # type: ignore[misc]
JSONL = FileFormat("jsonl")


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model file, a shipped class such as `car`, or `all` of them.",
            autocompletion=complete_model,
        ),
    ],
    images: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="IMAGES",
            help="Files, folders, globs in quotes, .txt, .tar or URLs.",
            show_default=False,
        ),
    ] = None,
    out: OutFolder = None,
    json: Annotated[bool, flag("--json", help="Print one line of JSON for each image.")] = False,
    file_format: Annotated[
        FileFormat,
        typer.Option("--format", metavar="NAME", help="jsonl, coco, voc, csv or parquet."),
    ] = JSONL,
    pictures: Annotated[
        bool | None,
        typer.Option(metavar="", help="Draw the detections.", show_default="without --shard"),
    ] = None,
    compare: Annotated[
        bool, flag("--compare", help="Put the photograph beside the picture.")
    ] = False,
    everything: Annotated[
        bool, flag("--all", help="Also list and draw what is less probable.")
    ] = False,
    every_class: Annotated[
        bool, flag("--every-class", help="Keep all classes found for one object.")
    ] = False,
    explain: Annotated[
        bool, flag("--explain", help="Show what was suppressed, and by what.")
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Lowest probability (or score) written to files.",
            show_default="score -1",
        ),
    ] = None,
    strong: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Lowest probability (or score) listed and drawn.",
            show_default="0.5, or score 0",
        ),
    ] = None,
    method: Suppression = "voting",
    overlap: Overlap = None,
    cores: Cores = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="MIB",
            help="Memory to use, all cores together.",
            show_default="half of what is free",
        ),
    ] = None,
    cluster: Cluster = None,
    shard: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Write one file for every N images."),
    ] = None,
    retry_failed: Annotated[
        bool, flag("--retry-failed", help="Try the failed images of a run again.")
    ] = False,
    quiet: Quiet = False,
) -> int:
    """Find objects, and say which part of each is visible.

    MODEL is a file, or a class that ships with halfseen: see `halfseen
    models`. IMAGES are files, folders, archives, URLs, or a .txt file with
    one image a line. Probable objects are listed; with -o they are drawn in
    FOLDER/pictures instead, and all objects, the less probable ones too, are
    written to FOLDER/detections.jsonl or another format. If two classes are
    found in one object, it is reported as the more probable of the two.

    Photographs are turned upright first, as their EXIF tag says; boxes are in
    pixels of the upright picture. An image that cannot be read is named and
    skipped, and the exit code is then 1.

    With --shard, results are written to FOLDER/shards. If that run is
    stopped, the same command goes on where it was.

    [bold]Examples[/bold]
      halfseen detect car photo.jpg
      halfseen detect car.fast photo.jpg
      halfseen detect all holiday/ 'more/*.png' -o found --compare
      halfseen detect mug.safetensors photo.jpg --json | jq .detections
      halfseen detect car s3://bucket/photos -o found --shard 1000
    """
    from halfseen.compute.memory import MIB, MemoryBudget
    from halfseen.studies.photos import Drawing, PhotoDetector, PhotoSettings, picture_paths

    if not images:
        raise SettingsError(_missing(model))
    budget = None if memory is None else int(memory * MIB)
    report = Report(quiet)
    suppression = {} if overlap is None else {"overlap": overlap}
    settings = PhotoSettings(threshold, method, suppression, explain, every_class)
    if shard is not None or retry_failed or FORMATS[file_format].write is None:
        from halfseen.cli.collection import Request, detect_collection

        if out is None or json or pictures:
            raise SettingsError("--shard and parquet write files to a folder, -o, without pictures")
        names, detector = _detector(model, settings, report)
        request = Request(names, images, file_format.value, shard or 1000, out, retry_failed)
        detect = PhotoDetector(detector, settings, MemoryBudget(budget, processes=cores != 1))
        return detect_collection(detect, request, cores, cluster, report)
    photos = _list(images)
    _, detector = _detector(model, settings, report)
    _check_level("--strong", strong, detector)
    labels = sorted({model.label for model in detector.models})
    if out is not None and file_format in ("coco", "voc"):
        _check_names(photos, file_format.value)
    if out is not None and pictures is not False:
        paths = picture_paths(photos, out.absolute() / "pictures")
        settings = replace(settings, drawing=Drawing(paths, strong, everything, compare))
    files = [] if out is None else [out / name for name in FORMATS[file_format].names(labels)]
    with _open(out, file_format.value, files, labels) as add:

        def show(result: ImageResult) -> None:
            add(result)
            if json:
                print(result.line(), flush=True)
            elif out is None:
                _list_objects(result, strong, everything)

        detect = PhotoDetector(detector, settings, MemoryBudget(budget))
        failed, objects, weak = _run(detect, photos, show, strong, cores, cluster, report)
    report.say(
        f"{count(len(photos), 'image')}, {count(objects, 'object')}"
        + (f", {weak} less probable" if weak else "")
        + (f", {failed} failed" if failed else "")
    )
    for path in files:
        report.wrote(path)
    if out is not None and settings.drawing.paths and (out / "pictures").exists():
        report.wrote(out / "pictures")
    return 1 if failed else 0


def _missing(word: str) -> str:
    """What is missing beside the only word that was given."""
    from halfseen.model.shipped import find_shipped

    if Path(word).exists() and not word.endswith(".safetensors") and not find_shipped(word):
        return f"MODEL is missing: halfseen detect MODEL {word}, where MODEL may be all, or car"
    return f"IMAGES are missing: halfseen detect {word} IMAGES, files or folders"


def _run(
    detect: PhotoDetector, photos: Sequence[Photo], show: Add, strong: float | None,
    cores: int | None, cluster: str | None, report: Report,
) -> tuple[int, int, int]:  # fmt: skip
    """Detect in all photos; return how many failed, and the numbers of strong and weak objects."""
    from halfseen.compute.map import map_images

    failed = objects = weak = 0
    with report.progress("detecting", len(photos)) as advance, report.compiling():
        for result in map_images(detect, photos, cores, advance, cluster, detect.lost):
            if result.error:
                failed += 1
                report.fail(result.error)
            if result.detections is not None:
                sure = int(result.detections.strong(strong).sum())
                objects += sure
                weak += len(result.detections) - sure
            show(result)
    return failed, objects, weak


@contextmanager
def _open(out: Path | None, name: str, files: list[Path], labels: list[str]) -> Iterator[Add]:
    """Open the files of a format in a folder; without a folder, results are not written."""
    if out is None:
        yield lambda _: None
        return
    write = FORMATS[name].write
    assert write is not None
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_one = stack.enter_context(write(files, labels))
        except OSError as error:
            raise SettingsError(f"{out}: cannot write results there: {error.strerror}") from None

        def add(result: ImageResult) -> None:
            with _full(out):
                write_one(result)

        yield add
        with _full(out):
            stack.close()


@contextmanager
def _full(out: Path) -> Iterator[None]:
    """Turn an error in writing, such as a full disk, into one line."""
    try:
        yield
    except OSError as error:
        raise HalfseenError(
            f"{out}: cannot write results: {error.strerror or error}; make room, then give the "
            "same command"
        ) from None


def _list_objects(result: ImageResult, strong: float | None, everything: bool) -> None:
    """Print an image and its strong detections, or all of them, for a person to read."""
    found = result.detections
    if found is None:
        return
    sure = found.strong(strong)
    weak = int((~sure).sum())
    line = f"{result.name}: {count(int(sure.sum()), 'object')}"
    if weak:
        line += f", {weak} less probable" + ("" if everything else " (--all lists them)")
    show(line)
    for i in [*sure.nonzero()[0], *((~sure).nonzero()[0] if everything else ())]:
        place = " ".join(f"{value:.0f}" for value in found.visible[i])
        show(f"  {found.describe(int(i)):34} at {place}")


def _list(words: list[str]) -> list[Photo]:
    from halfseen.collection.sources import find_photos

    try:
        return list(find_photos(words))
    except HalfseenError as error:
        raise SettingsError(str(error)) from None


def _check_names(photos: Sequence[Photo], name: str) -> None:
    """Refuse photos of one name: COCO and VOC know an image by its file name or number alone."""
    from halfseen.collection.writers import image_id

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


def _detector(model: str, settings: PhotoSettings, report: Report) -> tuple[list[str], Detector]:
    """Return the models' names and their detector, after the settings have been checked."""
    from halfseen.model.shipped import name_models
    from halfseen.model.store import load
    from halfseen.refine.detector import Detector
    from halfseen.suppression import make_method

    make_method(settings.method, settings.settings)
    names = name_models([model], report.say)
    detector = Detector([load(name) for name in names])
    _check_level("--threshold", settings.threshold, detector)
    return names, detector


def _check_level(option: str, level: float | None, detector: Detector) -> None:
    """Refuse a level that is no number or, of models that are all calibrated, no probability."""
    if level is None:
        return
    if math.isnan(level):
        raise SettingsError(f"{option} must be a number, found nan")
    if all(model.calibration for model in detector.models) and not 0 <= level <= 1:
        raise SettingsError(
            f"{option} {level:g}: expected a probability from 0 to 1, for the model is calibrated"
        )
