"""COCO's masks: run lengths, plain or compressed, and polygons.

Run lengths go down the columns, one column after another, and alternate between background and
object, background first. The compressed form stores each length from the third on (the first two
of each kind stay whole) as its difference to the last but one, in base 32 with a continuation bit,
as printable characters.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from halfseen.arrays import Bool, Float64, Int64
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import AnnotationError

Mask = Bool
Counts = Int64

_FIRST = 48  # the character '0' stands for zero
_DIGITS = 7  # of five bits: enough for any length below 2^34
_SCALE = 5  # polygons are walked in fifths of a pixel
_FAR = 1e9  # pixels: no corner lies further out


class Runs(NamedTuple):
    """A mask in a picture of `size` (height, width) as runs [first, last) down its columns.

    box  x1 y1 x2 y2 around the mask; zeros around an empty one
    """

    first: Counts
    last: Counts
    box: Float64
    size: tuple[int, int]


def encode(mask: ArrayLike) -> dict[str, Any]:
    """A (height, width) mask as {"size": [height, width], "counts": compressed text}."""
    pixels = np.asarray(mask)
    if pixels.ndim != 2 or pixels.size == 0:
        raise AnnotationError(f"mask: expected a shape (height, width), found {pixels.shape}")
    flat = pixels.astype(bool).ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate([[0] * (1 + int(flat[0])), changes, [flat.size]])
    return {"size": [*map(int, pixels.shape)], "counts": _compress(np.diff(edges))}


def decode(rle: Any, limits: Limits = LIMITS) -> Mask:
    """The (height, width) mask of a run-length dict, compressed or not, or AnnotationError."""
    height, width = _size(rle, limits)
    counts = _counts(rle, height * width)
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape(width, height).T


def area(rle: Any) -> int:
    """How many pixels a run-length mask covers, without decoding it."""
    height, width = _size(rle, LIMITS)
    return int(_counts(rle, height * width)[1::2].sum())


def as_mask(segmentation: Any, size: tuple[int, int], limits: Limits = LIMITS) -> Mask:
    """The mask of any COCO segmentation in an image of (height, width)."""
    if isinstance(segmentation, list):
        return fill_polygons(segmentation, size, limits)
    _check_alike(_size(segmentation, limits), size)
    return decode(segmentation, limits)


def check(segmentation: Any, size: tuple[int, int], limits: Limits = LIMITS) -> None:
    """AnnotationError unless `as_mask` could make a mask of it; none is made."""
    if isinstance(segmentation, list):
        _check_outlines([_corners(polygon) for polygon in segmentation], size, limits)
        return
    found = _size(segmentation, limits)
    _check_alike(found, size)
    _counts(segmentation, found[0] * found[1])


def read_runs(segmentation: Any, size: tuple[int, int] | None, limits: Limits = LIMITS) -> Runs:
    """The runs of any COCO segmentation; polygons need the (height, width) of their image.

    Takes as much memory as there are runs, however large the image.
    """
    from halfseen.data.rle_kernels import bounds_of, runs_of

    if isinstance(segmentation, list):
        if size is None:
            raise AnnotationError("polygons: expected the size of their image, found none")
        first, last = _polygon_runs(segmentation, size, limits)
    else:
        found = _size(segmentation, limits)
        if size is not None:
            _check_alike(found, size)
        size = found
        first, last = runs_of(_counts(segmentation, size[0] * size[1]))
    return Runs(first, last, bounds_of(first, last, size[0]), size)


def mask_runs(mask: Mask) -> Runs:
    """The runs of a (height, width) mask."""
    from halfseen.data.rle_kernels import bounds_of, runs_of_mask

    height, width = mask.shape
    rows = np.flatnonzero(mask.any(axis=1))
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Runs(none, none, np.zeros(4), (height, width))
    part = mask[rows[0] : rows[-1] + 1]
    columns = np.flatnonzero(part.any(axis=0))
    part = np.ascontiguousarray(part[:, columns[0] : columns[-1] + 1])
    first, last = runs_of_mask(part, columns[0], rows[0], height)
    return Runs(first, last, bounds_of(first, last, height), (height, width))


def fill_polygons(
    polygons: Sequence[ArrayLike], size: tuple[int, int], limits: Limits = LIMITS
) -> Mask:
    """The union of polygons [x1, y1, x2, y2, ...] in an image of (height, width).

    Pixel for pixel what COCO's own code fills: each outline is walked in fifths of a pixel, and
    toggles the pixels below it where it crosses the middle of a column.
    """
    runs = _polygon_runs(polygons, size, limits)
    mask = np.zeros(size[0] * size[1], dtype=bool)
    for first, last in zip(*runs, strict=True):
        mask[first:last] = True
    return mask.reshape(size[1], size[0]).T


def polygons_extent(polygons: Sequence[ArrayLike]) -> tuple[float, ...]:
    """x1 y1 x2 y2 around the corners of polygons [x1, y1, x2, y2, ...]."""
    if not len(polygons):
        raise AnnotationError("polygons: expected at least one")
    flat = np.concatenate([_flat(polygon) for polygon in polygons]).reshape(-1, 2)
    return (*flat.min(axis=0).tolist(), *flat.max(axis=0).tolist())


def _polygon_runs(
    polygons: Sequence[ArrayLike], size: tuple[int, int], limits: Limits
) -> tuple[Counts, Counts]:
    """The runs of the union of polygons."""
    from halfseen.data.rle_kernels import toggled, unite, walk

    corners = [_corners(polygon) for polygon in polygons]
    _check_outlines(corners, size, limits)
    height, width = size
    parts = [
        toggled(np.sort(walk(points.astype(np.int64), height, width)), height * width)
        for points in corners
    ]
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0, np.int64)
    first, last = (np.concatenate([none, *(part[i] for part in parts)]) for i in range(2))
    order = np.argsort(first, kind="stable")
    return unite(first[order], last[order])


def _check_outlines(corners: Sequence[Float64], size: tuple[int, int], limits: Limits) -> None:
    height, width = size
    if min(height, width) < 0:
        raise AnnotationError(f"size: expected (height, width) of at least 0, found {size}")
    if height * width > limits.pixels:
        raise AnnotationError(f"size: {height * width:,} pixels exceed {limits.pixels:,}")
    if sum(float(_lengths(points).sum()) for points in corners) > limits.polygon_steps:
        raise AnnotationError(
            f"polygons: outlines longer than {limits.polygon_steps // _SCALE:,} px"
        )


def _check_alike(found: tuple[int, int], size: tuple[int, int]) -> None:
    if found != tuple(size):
        raise AnnotationError(f"size: expected {list(size)} as the image, found {list(found)}")


def _size(rle: Any, limits: Limits) -> tuple[int, int]:
    size = rle.get("size") if isinstance(rle, dict) else None
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        raise AnnotationError("run lengths: expected {'size': [height, width], 'counts': ...}")
    if not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in size):
        raise AnnotationError(f"size: expected two positive integers, found {list(size)}")
    if size[0] * size[1] > limits.pixels:
        raise AnnotationError(f"size: {size[0] * size[1]:,} pixels exceed {limits.pixels:,}")
    return size[0], size[1]


def _counts(rle: dict[str, Any], pixels: int) -> Counts:
    """The run lengths, all at least 0, of which the sum is the number of pixels."""
    given = rle.get("counts")
    if isinstance(given, (str, bytes)):
        counts = _decompress(given)
    elif isinstance(given, list):
        if not all(type(count) is int and 0 <= count <= pixels for count in given):
            raise AnnotationError("counts: expected integers of at least 0 within the mask")
        counts = np.array(given, dtype=np.int64)
    else:
        raise AnnotationError(f"counts: expected text or a list, found {type(given).__name__}")
    if (counts < 0).any() or (counts > pixels).any() or counts.sum() != pixels:
        raise AnnotationError(f"counts: expected run lengths that sum to {pixels}, found others")
    return counts


def _compress(counts: Counts) -> str:
    values = counts.copy()
    values[3:] -= counts[1:-2]
    digits = np.zeros((len(values), _DIGITS), dtype=np.uint8)
    used = np.zeros(digits.shape, dtype=bool)
    more = np.ones(len(values), dtype=bool)
    for k in range(_DIGITS):
        used[:, k] = more
        digit = values & 31
        values >>= 5
        # The last digit's top bit is the sign: stop when the rest only repeats it.
        more = more & (values != np.where(digit & 16, -1, 0))
        digits[:, k] = digit + 32 * more + _FIRST
    return digits[used].tobytes().decode("ascii")


def _decompress(text: str | bytes) -> Counts:
    from halfseen.data.rle_kernels import decompress

    raw = text.encode("ascii", "replace") if isinstance(text, str) else text
    counts, right = decompress(np.frombuffer(raw, dtype=np.uint8))
    if not right:
        raise AnnotationError("counts: malformed compressed run lengths")
    return counts


def _corners(polygon: ArrayLike) -> Float64:
    """(n + 1, 2) whole numbers: the corners in fifths of a pixel, the first repeated at the end."""
    points = np.trunc(_SCALE * _flat(polygon).reshape(-1, 2) + 0.5)
    return np.concatenate([points, points[:1]])


def _flat(polygon: ArrayLike) -> Float64:
    """The numbers of a polygon with at least three corners, none of them far out."""
    try:
        flat = np.asarray(polygon, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        flat = np.zeros(0)
    if flat.ndim != 1 or flat.size < 6 or flat.size % 2 or not (np.abs(flat) < _FAR).all():
        raise AnnotationError("polygon: expected at least three corners [x1, y1, x2, y2, ...]")
    return flat


def _lengths(points: Float64) -> Float64:
    """Steps along each edge, of which one goes one fifth along the edge's longer axis."""
    steps: Float64 = np.abs(np.diff(points, axis=0)).max(axis=1) + 1
    return steps
