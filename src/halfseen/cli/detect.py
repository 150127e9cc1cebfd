"""`halfseen detect`: look for objects in images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfseen.cli.terminal import Report
from halfseen.errors import HalfseenError, SettingsError

if TYPE_CHECKING:
    from halfseen.cli.formats import Format, Found
    from halfseen.infer.detector import Detector

NAME = "detect"


class FileFormat(StrEnum):
    jsonl = "jsonl"
    coco = "coco"
    voc = "voc"
    csv = "csv"


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    images: Annotated[
        list[str],
        typer.Argument(metavar="IMAGES", help="Image files, folders, or globs in quotes."),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Where to write.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print one line of JSON for each image.")
    ] = False,
    file_format: Annotated[
        FileFormat, typer.Option("--format", metavar="NAME", help="jsonl, coco, voc or csv.")
    ] = FileFormat.jsonl,
    pictures: Annotated[bool, typer.Option(metavar="", help="Draw the detections.")] = True,
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
        str, typer.Option(metavar="NAME", help="greedy, covering, meanshift or soft suppression.")
    ] = "greedy",
    overlap: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Allowed between two objects.", show_default="the method's"
        ),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Cores to use.", show_default="all")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", metavar="", help="Only say what failed.")
    ] = False,
) -> int:
    """Look for objects, and say which part of each is visible.

    Writes FOLDER/detections.jsonl (or another format) and FOLDER/pictures.
    An image that cannot be read is named, and the others go on; the exit
    code is then 1. Photographs are first turned upright, as the camera noted
    on them; boxes are in pixels of the upright picture.

    [bold]Examples[/bold]
      halfseen detect car.safetensors photo.jpg -o found
      halfseen detect car.safetensors holiday/ 'more/*.png' -o found
      halfseen detect car.safetensors photo.jpg --json | jq .detections
    """
    report = Report(quiet)
    if out is None and not json:
        raise SettingsError("nowhere to put the results: give a folder with -o, or --json")
    settings = {} if overlap is None else {"overlap": overlap}
    paths = _list(images)
    detector = _detector(model, method, settings)
    look = Look(detector, threshold, method, settings, explain, strong)
    results: Format | None = None
    if out is not None:
        if file_format in (FileFormat.coco, FileFormat.voc):
            _check_names(paths, file_format.value)
        results = _open(out, file_format.value, sorted({m.label for m in detector.models}))
        if pictures:
            look.pictures = _picture_names(paths, out / "pictures")
    try:
        failed, objects = _run(look, paths, results, json, cores, report)
    except BaseException:
        if results is not None:
            results.abandon()
        raise
    report.say(f"{len(paths)} images, {objects} objects" + (f", {failed} failed" if failed else ""))
    for path in [] if results is None else results.close():
        report.say(f"wrote {path}")
    if look.pictures:
        report.say(f"wrote {out}{os.sep}pictures")
    return 1 if failed else 0


def _run(
    look: Look, paths: Sequence[Path], results: Format | None, json: bool, cores: int | None,
    report: Report,
) -> tuple[int, int]:  # fmt: skip
    """How many images failed, and how many objects were found."""
    from halfseen.compute import map_images

    failed = objects = 0
    with report.progress("detecting", len(paths)) as advance, report.compiling():
        for found in map_images(look, paths, cores, advance):
            if found.detections is None:
                failed += 1
                report.fail(found.error)
            else:
                objects += len(found.detections)
            if results is not None:
                results.add(found)
            if json:
                print(found.line(), flush=True)
    return failed, objects


class Look:
    """Looks at one image and draws what is found. Called from several threads."""

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
        self.pictures: dict[Path, Path] = {}

    def __call__(self, path: Path) -> Found:
        from halfseen.cli.formats import Found

        try:
            return self._look(path)
        except SettingsError:
            raise
        except HalfseenError as error:
            return Found(path, None, str(error))
        except Exception as error:
            # One image must not end the work on the others, whatever it does to us.
            if os.environ.get("HALFSEEN_DEBUG"):
                raise
            return Found(path, None, f"{path}: {type(error).__name__}: {error}")

    def _look(self, path: Path) -> Found:
        from halfseen.cli.formats import Found
        from halfseen.data.image import read_image, write_image
        from halfseen.suppress import suppress
        from halfseen.view.draw import draw_detections
        from halfseen.view.records import records

        image = read_image(path, upright=True)
        candidates = self.detector.candidates(image, self.threshold)
        choice = suppress(candidates, self.method, **self.settings)
        kept = replace(candidates[choice.indices], score=choice.rank)
        suppressed: list[dict[str, Any]] = []
        if self.explain:
            place = {int(index): k for k, index in enumerate(choice.indices)}
            for i, record in enumerate(records(candidates)):
                if i not in place:
                    reason = choice.why(i)
                    by = None if reason.by is None else place[reason.by]
                    suppressed.append({**record, "by": by, "overlap": round(reason.overlap, 4)})
        if self.pictures:
            shown = (candidates, choice) if self.explain else (kept, None)
            picture = draw_detections(image, shown[0], explain=shown[1], strong=self.strong)
            self.pictures[path].parent.mkdir(parents=True, exist_ok=True)
            write_image(self.pictures[path], picture)
        return Found(path, kept, suppressed=tuple(suppressed))


def _list(words: list[str]) -> list[Path]:
    from halfseen.data.folder import list_images

    try:
        return list_images(words)
    except HalfseenError as error:
        raise SettingsError(str(error)) from None


def _check_names(paths: list[Path], name: str) -> None:
    """COCO and VOC know an image by its file name alone."""
    known: dict[str, Path] = {}
    for path in paths:
        if path.stem in known:
            raise SettingsError(
                f"{known[path.stem]} and {path}: {name} results cannot tell images of one name "
                "apart; give one folder at a time, or use --format jsonl"
            )
        known[path.stem] = path


def _detector(model: str, method: str, settings: dict[str, Any]) -> Detector:
    """The detector, after all that was asked of it has been checked."""
    from halfseen.detections import Detections
    from halfseen.infer.detector import Detector
    from halfseen.model.store import load
    from halfseen.suppress import suppress

    suppress(Detections.empty((1, 1)), method, **settings)
    if not Path(model).exists():
        raise SettingsError(f"{model}: no such model file; {_nearest(Path(model))}")
    return Detector(load(model))


def _nearest(model: Path) -> str:
    from halfseen.data.dataset import suggest

    there = model.parent.glob("*.safetensors")
    names = [path.name for path in there] if model.parent.is_dir() else []
    return suggest(model.name, names) if names else "make one with `halfseen train`"


def _open(out: Path, name: str, labels: list[str]) -> Format:
    from halfseen.cli.formats import FORMATS

    try:
        out.mkdir(parents=True, exist_ok=True)
        return FORMATS[name](out, labels)
    except OSError as error:
        raise SettingsError(f"{out}: cannot write results there: {error.strerror}") from None


def _picture_names(paths: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """A picture for each image, in the same folders below `folder`, no two of the same name."""
    above = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    names: dict[Path, Path] = {}
    taken: set[Path] = set()
    for path in paths:
        place = folder / path.absolute().relative_to(above)
        suffix = ".png" if path.suffix.lower() == ".png" else ".jpg"
        name = place.with_suffix(suffix)
        if name in taken:
            name = place.with_name(place.name + suffix)
        names[path] = name
        taken.add(name)
    return names
