"""One annotated object, and the parsing of rows that every format's reader shares.

A reader turns rows into `Object`s, a writer turns `Object`s into rows; the format's conventions
(1-based, inclusive, width and height) stand in its own module. What is wrong with a field is
raised without its place; `at` adds file, line and field on the way up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from halfseen.data.boxes import Box
from halfseen.data.files import FilePath, read_bounded
from halfseen.data.limits import Limits
from halfseen.errors import AnnotationError
from halfseen.ground_truth import COLUMNS, GroundTruth

Row = dict[str, Any]
NAN = float("nan")


@dataclass(slots=True)
class Object:
    """One object with the columns of `GroundTruth`; `full` is `box` where it is not given."""

    label: str
    box: Box
    full: Box | None = None
    difficult: bool = False
    truncated: bool = False
    occluded: bool = False
    crowd: bool = False
    ignore: bool = False
    visible_fraction: float = NAN
    truncation: float = NAN
    area: float = NAN
    level: int = -1
    identity: int = -1

    def __post_init__(self) -> None:
        if self.full is None:
            self.full = self.box

    @property
    def whole(self) -> Box:
        """The whole object's box."""
        return self.full or self.box

    @property
    def area_ratio(self) -> float:
        """Area of `box` over that of `full`: what pedestrian data sets call visible ratio."""
        return min(_area(self.box) / _area(self.whole), 1.0) if _area(self.whole) > 0 else NAN


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def columns_of(objects: Sequence[Object]) -> Row:
    """Lists of the columns of `GroundTruth`, by name."""
    return {name: [getattr(one, name) for one in objects] for name in COLUMNS}


def objects_of(truth: GroundTruth) -> list[Object]:
    """The objects of one image, as Python values."""
    columns = [getattr(truth, name).tolist() for name in COLUMNS]
    rows = (dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    return [Object(**{**row, "box": tuple(row["box"]), "full": tuple(row["full"])}) for row in rows]


@contextmanager
def at(place: object) -> Iterator[None]:
    """Within it, an AnnotationError's line begins with the place."""
    try:
        yield
    except AnnotationError as error:
        raise AnnotationError(f"{place}: {error}") from None


def read_text(path: FilePath, most: int) -> str:
    """Return the text of a file within the limit; a byte-order mark at its start is dropped."""
    content = read_bounded(path, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnnotationError(f"{path}: not UTF-8 text at byte {error.start}") from None


def read_lines(path: FilePath, limits: Limits) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line that is not blank."""
    for number, line in enumerate(read_text(path, limits.results_bytes).splitlines(), start=1):
        if line.strip():
            yield number, line


def load_json(path: FilePath, limits: Limits) -> Any:
    """Return the content of a JSON file; AnnotationError names the file."""
    with at(path):
        return parse_json(read_bounded(path, limits.json_bytes))


def parse_json(text: str | bytes) -> Any:
    """Return the content of a JSON text, without NaN and infinities."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise AnnotationError("JSON nested too deep") from None
    except ValueError as error:
        raise AnnotationError(f"not valid JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def is_id(value: Any) -> bool:
    """Return whether a JSON value can be an id: a whole number or a text."""
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Return whether a JSON value is a finite number."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def number(value: Any, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a field, text or JSON value, as a finite float within low..high."""
    if type(value) is float and low <= value <= high and math.isfinite(value):
        return value
    try:
        found = float(value) if isinstance(value, str) or is_finite(value) else NAN
    except ValueError:
        found = NAN
    if not math.isfinite(found) or not low <= found <= high:
        span = "" if math.isinf(low) and math.isinf(high) else f" from {low:g} to {high:g}"
        raise AnnotationError(f"{name}: expected a number{span}, found {value!r:.40}")
    return found


def integer(value: Any, name: str, low: int = -(2**62), high: int = 2**62) -> int:
    """Return a field, text or JSON value, as a whole number within low..high."""
    if type(value) is int and low <= value <= high:
        return value
    found = number(value, name)
    if not found.is_integer() or not low <= found <= high:
        span = f" from {low} to {high}" if high < 2**62 else f" from {low}" * (low > -(2**62))
        raise AnnotationError(f"{name}: expected a whole number{span}, found {value!r:.40}")
    return int(found)


def flag(value: Any, name: str) -> bool:
    """Return a field that is true or false: 0, 1, true, false, yes, no, or empty."""
    if value in (0, 1):
        return bool(value)
    word = str(value).strip().lower()
    if word not in ("0", "1", "true", "false", "yes", "no", "none", ""):
        raise AnnotationError(f"{name}: expected 0 or 1, found {value!r:.40}")
    return word in ("1", "true", "yes")


def corners(values: Any, name: str, empty: bool = False) -> Box:
    """Return the half-open corners of [x, y, width, height]; sides are above 0 unless `empty`."""
    texts = [isinstance(value, str) for value in values] if isinstance(values, list) else []
    if len(texts) != 4 or any(texts) != all(texts):
        raise AnnotationError(f"{name}: expected [x, y, width, height], found {values!r:.80}")
    x, y, width, height = (number(value, name) for value in values)
    if min(width, height) < 0 or (min(width, height) == 0 and not empty):
        raise AnnotationError(f"{name}: empty or reversed: {width:g} x {height:g} pixels")
    return x, y, x + width, y + height


def xywh(box: Box) -> list[float]:
    """Return [x, y, width, height]; whole numbers as such."""
    x1, y1, x2, y2 = box
    return [plain(value) for value in (x1, y1, x2 - x1, y2 - y1)]


def plain(value: float) -> float | int:
    """Return a whole number as int, for files that people read."""
    return int(value) if float(value).is_integer() else float(value)


def stem(path: Path, ending: str) -> str:
    """Return a file's name without its ending, which need not be a suffix."""
    return path.name.removesuffix(ending)
