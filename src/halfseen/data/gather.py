"""Gathering a data set: images as a reader finds them, within bounds, and what was left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, inside, is_plain_name
from halfseen.data.image import SUFFIXES, read_size
from halfseen.data.limits import Limits
from halfseen.data.objects import Object, columns_of
from halfseen.errors import AnnotationError, ImageError, suggest
from halfseen.ground_truth import GroundTruth, MaskReader


class Gathered:
    """The images of one data set, in the order in which they were added.

    numpy holds the class names of an image at the width of the longest, so that a small file with
    one long name and many objects would take gigabytes: the total is checked before it is made.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._truths: dict[str, GroundTruth] = {}
        self._problems: list[str] = []
        self._left_out = 0
        self._label_bytes = 0

    def add(
        self,
        image: str,
        source: str,
        size: tuple[int, int],
        objects: Sequence[Object],
        read_mask: MaskReader | None = None,
    ) -> None:
        """Add one image; AnnotationError if it exceeds a limit, or its id is taken."""
        if image in self._truths:
            raise AnnotationError(f"lists '{image:.80}' more than once")
        if len(objects) > self.limits.objects:
            raise AnnotationError(
                f"{len(objects)} objects exceed the limit of {self.limits.objects}"
            )
        longest = max((len(one.label) for one in objects), default=0)
        if longest > self.limits.label_chars:
            raise AnnotationError(
                f"a class name of {longest} characters exceeds {self.limits.label_chars}"
            )
        self._label_bytes += 4 * longest * len(objects)
        if self._label_bytes > self.limits.arrays_bytes:
            raise AnnotationError(f"class names exceed {self.limits.arrays_bytes:,} bytes in all")
        columns = columns_of(objects)
        label, box = columns.pop("label"), columns.pop("box")
        self._truths[image] = GroundTruth.make(
            image, source, size, label, box, read_mask=read_mask, **columns
        )

    @contextmanager
    def leaving_out(self, place: object = "") -> Iterator[None]:
        """Within it, an AnnotationError becomes a line in `problems` that begins with the place."""
        try:
            yield
        except AnnotationError as error:
            self.left_out(f"{place}: {error}" if place else str(error))

    def left_out(self, line: str) -> None:
        """Note one thing that was left out."""
        self._left_out += 1
        if len(self._problems) < self.limits.problems:
            self._problems.append(line)

    def dataset(
        self,
        place: FilePath,
        classes: Sequence[str] | None = None,
        neighbours: Mapping[str, tuple[str, ...]] | None = None,
        categories: Mapping[int | str, str] | None = None,
    ) -> Dataset:
        """Return the data set of a file or folder; AnnotationError if no image is left."""
        name = Path(place).stem
        if not self._truths:
            raise AnnotationError(
                self._problems[0] if self._problems else f"{place}: no image is listed"
            )
        truths = tuple(self._truths.values())
        if classes is None:
            classes = sorted({label for truth in truths for label in set(truth.label.tolist())})
        problems = tuple(self._problems)
        if self._left_out > len(problems):
            problems += (f"{name}: ... and {self._left_out - len(problems)} more",)
        return Dataset(
            name, tuple(classes), truths, problems, self.limits, neighbours or {}, categories or {}
        )


class ImageFolder:
    """Finds the images that annotations name, and their sizes from their headers.

    Without a folder every name is taken as it is, and sizes stay unknown: (0, 0).
    """

    def __init__(self, folder: FilePath | None, limits: Limits) -> None:
        self.folder = None if folder is None else Path(folder)
        self.limits = limits
        if self.folder is not None and not self.folder.is_dir():
            raise AnnotationError(f"{self.folder}: no such folder; expected images")
        self._by_stem = {} if self.folder is None else by_stem(self.folder, SUFFIXES)

    def find(self, name: str, size: tuple[int, int] | None = None) -> tuple[str, tuple[int, int]]:
        """Return the path and (height, width) of the image with this name, suffix or not.

        A size that is already known is not read again.
        """
        if self.folder is None:
            return name, size or (0, 0)
        path = inside(self.folder, name)
        if path is None:
            raise AnnotationError(f"image '{name:.80}' is not a path inside {self.folder}")
        if not path.is_file():
            found = self._by_stem.get(name) or self._by_stem.get(os.path.splitext(name)[0])
            if found is None:
                raise AnnotationError(f"{path}: no such image")
            path = Path(found)
        if size is not None:
            return str(path), size
        try:
            return str(path), read_size(path, self.limits)
        except ImageError as error:
            raise AnnotationError(str(error)) from None


def by_stem(folder: Path, suffixes: Sequence[str]) -> dict[str, str]:
    """Paths by file stem, the earlier suffix first; one listing costs less than many lookups."""
    found: dict[str, str] = {}
    names = os.listdir(folder) if folder.is_dir() else []
    for suffix in reversed(suffixes):
        for name in names:
            start, extension = os.path.splitext(name)
            if extension.lower() == suffix:
                found[start] = str(folder / name)
    return found


def files_in(folder: FilePath, ending: str) -> list[Path]:
    """The files of a folder with this ending, sorted; AnnotationError if there is none."""
    place = Path(folder)
    try:
        names = sorted(name for name in os.listdir(place) if name.lower().endswith(ending))
    except OSError as error:
        raise AnnotationError(f"{place}: cannot be listed: {error.strerror}") from None
    if not names:
        raise AnnotationError(f"{place}: no file *{ending} in this folder")
    return [place / name for name in names]


def check_size(truth: GroundTruth) -> None:
    """AnnotationError where the size of an image is not known."""
    if not all(truth.size):
        raise AnnotationError(
            f"{truth.image}: its size is not known; give its images, --images FOLDER"
        )


def check_classes(dataset: Dataset, format_name: str, known: Sequence[str]) -> None:
    """AnnotationError for a class of objects that a format with fixed classes does not have."""
    for label in sorted({name for truth in dataset for name in truth.label.tolist()}):
        if label not in known:
            raise AnnotationError(
                f"{format_name} has no class '{label}'; {suggest(label, known)} "
                f"(--rename '{label}=...' renames it)"
            )


def output_names(dataset: Dataset, folder: Path) -> list[str]:
    """The image ids as file names in a folder that is made; AnnotationError if one cannot be."""
    names = [truth.image for truth in dataset]
    for name in names:
        if not is_plain_name(name):
            raise AnnotationError(f"{folder}: '{name:.80}' cannot be a file name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnnotationError(f"{folder}: cannot be made: {error.strerror}") from None
    return names
