"""MOT Challenge ground truth: `gt.txt` of one video, one box of one track a line.

`frame,id,x,y,width,height,consider,class,visibility`, 1-based. The box is the whole person, and may
leave the image; `visibility` is the share that is visible. What is not to be considered is ignored.
A sequence's folder has `gt/gt.txt` and `seqinfo.ini` with the size and number of its frames; images
are then named by frame, `000001`, and in a folder of several sequences `MOT17-02-000001`.
"""

from __future__ import annotations

from collections.abc import Iterator
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from pathlib import Path

from halfseen.data.boxes import Box
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, write_atomically
from halfseen.data.gather import Gathered, ImageFolder, check_classes
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import (
    NAN,
    Object,
    at,
    corners,
    flag,
    integer,
    number,
    objects_of,
    plain,
    read_lines,
    read_text,
    xywh,
)
from halfseen.errors import AnnotationError
from halfseen.geometry import as_boxes, clip

CLASSES = (
    "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non motorized vehicle",
    "static person", "distractor", "occluder", "occluder on the ground", "occluder full",
    "reflection", "crowd",
)  # fmt: skip
NEIGHBOURS = {
    "pedestrian": ("person on vehicle", "static person", "distractor", "reflection", "crowd")
}
_INFO_BYTES = 65_536
TRUTH = "gt/gt.txt"


@dataclass(frozen=True)
class Sequence:
    """One video: its file, and what seqinfo.ini says of it (0 where nothing does)."""

    file: Path
    name: str
    size: tuple[int, int] = (0, 0)
    frames: int = 0
    folder: Path | None = None


def find_sequences(path: FilePath) -> list[Sequence]:
    """The sequences that a file, a sequence's folder, or a folder of those holds."""
    place = Path(path)
    if place.is_file():
        home = place.parent.parent if place.parent.name in ("gt", "det") else place.parent
        return [_sequence(place, home)]
    files = [place / TRUTH] if (place / TRUTH).is_file() else sorted(place.glob(f"*/{TRUTH}"))
    found = [_sequence(file, file.parents[1]) for file in files if file.is_file()]
    if not found:
        raise AnnotationError(f"{place}: no {TRUTH}, here or in a folder below")
    return found


def _sequence(file: Path, home: Path) -> Sequence:
    info = home / "seqinfo.ini"
    if not info.is_file():
        return Sequence(file, home.name)
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(read_text(info, _INFO_BYTES))
        said = dict(parser["Sequence"])
    except (ConfigError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise AnnotationError(f"{info}: expected a section [Sequence]: {reason}") from None
    with at(info):
        height, width, frames = (
            integer(said.get(name.lower(), "0"), name, 0, 10**6)
            for name in ("imHeight", "imWidth", "seqLength")
        )
        folder = home / said.get("imdir", "img1")
    inner = folder if folder.is_dir() and folder.resolve().parent == home.resolve() else None
    return Sequence(file, home.name, (height, width), frames, inner)


def read_rows(sequence: Sequence, limits: Limits) -> Iterator[tuple[str, int, list[str], Box]]:
    """Yield place, frame, fields and box of each line, also of results."""
    for n, line in read_lines(sequence.file, limits):
        place = f"{sequence.file}, line {n}"
        with at(place):
            fields = [text.strip() for text in line.split(",")]
            if not 6 <= len(fields) <= 10:
                raise AnnotationError(f"expected 6 to 10 fields with commas, found {len(fields)}")
            frame = integer(fields[0], "frame", 1, limits.frames)
            x1, y1, x2, y2 = corners(fields[2:6], "box")
            yield place, frame, fields, (x1 - 1, y1 - 1, x2 - 1, y2 - 1)


def read_mot(path: FilePath, images: FilePath | None = None, limits: Limits = LIMITS) -> Dataset:
    """Read the ground truth of one or several sequences; every frame is an image."""
    sequences = find_sequences(path)
    found = Gathered(limits)
    for sequence in sequences:
        folder = ImageFolder(images or sequence.folder, limits)
        frames: dict[int, list[Object]] = {}
        for place, frame, fields, full in read_rows(sequence, limits):
            with at(place):
                frames.setdefault(frame, []).append(_object(fields, full))
        last = max(sequence.frames, max(frames, default=0))
        if last > limits.frames:
            raise AnnotationError(f"{sequence.file}: {last} frames exceed {limits.frames}")
        for frame in range(1, last + 1):
            name = frame_name(sequence, frame, len(sequences))
            size = sequence.size if all(sequence.size) else None
            with found.leaving_out(f"{sequence.file}: frame {frame}"):
                source, size = folder.find(f"{frame:06d}", size)
                objects = frames.get(frame, [])
                for one in objects if all(size) else ():
                    one.box = _visible(one.whole, size)
                found.add(name, source, size, objects)
    return found.dataset(path, neighbours=NEIGHBOURS)


def frame_name(sequence: Sequence, frame: int, sequences: int) -> str:
    """The id of a frame's image: alone where there is one sequence, else after its name."""
    return f"{frame:06d}" if sequences == 1 else f"{sequence.name}-{frame:06d}"


def _visible(full: Box, size: tuple[int, int]) -> Box:
    """The part of a box that is inside the image; all of it where none is."""
    x1, y1, x2, y2 = clip(as_boxes(full), size)[0].tolist()
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else full


def _object(fields: list[str], full: Box) -> Object:
    category = integer(fields[7], "class", -1, len(CLASSES)) if len(fields) > 7 else 1
    visible = number(fields[8], "visibility", -1, 1) if len(fields) > 8 else -1.0
    return Object(
        CLASSES[max(category, 1) - 1], full,
        ignore=len(fields) > 6 and not flag(fields[6].removesuffix(".0"), "consider"),
        visible_fraction=NAN if visible < 0 else visible,
        identity=integer(fields[1], "id", -1),
    )  # fmt: skip


def write_mot(dataset: Dataset, path: FilePath) -> None:
    """Write one gt.txt. Frames are the images' ids where those are numbers, else their order."""
    check_classes(dataset, "MOT", CLASSES)
    if not any(map(len, dataset)):
        raise AnnotationError(f"{path}: a MOT file is a list of objects, and there is none")
    names = [truth.image for truth in dataset]
    numbered = all(name.isascii() and name.isdigit() and int(name) for name in names)
    lines = []
    for n, truth in enumerate(dataset, start=1):
        frame = int(truth.image) if numbered else n
        for one in objects_of(truth):
            x, y, width, height = xywh(one.whole)
            visible = -1 if one.visible_fraction != one.visible_fraction else one.visible_fraction
            row = (
                frame, one.identity, plain(x + 1), plain(y + 1), width, height,
                int(not one.ignore), CLASSES.index(one.label) + 1, plain(visible),
            )  # fmt: skip
            lines.append(",".join(map(str, row)) + "\n")
    write_atomically(path, "".join(lines).encode())
