"""COCO's masks: run lengths, plain or compressed, and polygons.

Run lengths go down the columns, one column after another, and alternate between background and
object, background first. The compressed form stores each length from the third on (the first two
of each kind stay whole) as its difference to the last but one, in base 32 with a continuation bit,
as printable characters.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import AnnotationError

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]

_FIRST = 48  # the character '0' stands for zero
_DIGITS = 7  # of five bits: enough for any length below 2^34
_SCALE = 5  # polygons are walked in fifths of a pixel
_FAR = 1e9  # pixels: no corner lies further out


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


def area(rle: Any, limits: Limits = LIMITS) -> int:
    """How many pixels a run-length mask covers, without decoding it."""
    height, width = _size(rle, limits)
    return int(_counts(rle, height * width)[1::2].sum())


def as_mask(segmentation: Any, size: tuple[int, int], limits: Limits = LIMITS) -> Mask:
    """The mask of any COCO segmentation in an image of (height, width)."""
    if isinstance(segmentation, list):
        return fill_polygons(segmentation, size, limits)
    mask = decode(segmentation, limits)
    if mask.shape != tuple(size):
        raise AnnotationError(f"size: expected {list(size)} as the image, found {list(mask.shape)}")
    return mask


def fill_polygons(
    polygons: Sequence[ArrayLike], size: tuple[int, int], limits: Limits = LIMITS
) -> Mask:
    """The union of polygons [x1, y1, x2, y2, ...] in an image of (height, width).

    Pixel for pixel what COCO's own code fills: each outline is walked in fifths of a pixel, and
    toggles the pixels below it where it crosses the middle of a column.
    """
    height, width = size
    if min(height, width) < 0:
        raise AnnotationError(f"size: expected (height, width) of at least 0, found {size}")
    if height * width > limits.pixels:
        raise AnnotationError(f"size: {height * width:,} pixels exceed {limits.pixels:,}")
    corners = [_corners(polygon) for polygon in polygons]
    steps = sum(float(_lengths(points).sum()) for points in corners)
    if steps > limits.polygon_steps:
        raise AnnotationError(
            f"polygons: outlines longer than {limits.polygon_steps // _SCALE:,} px"
        )
    mask = np.zeros((height, width), dtype=bool)
    for points in corners:
        x, y = _crossings(points.astype(np.int64), height, width)
        toggles = np.bincount(x * height + y, minlength=height * width)[: height * width]
        mask |= (np.cumsum(toggles) % 2 == 1).reshape(width, height).T
    return mask


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
    raw = text.encode("ascii", "replace") if isinstance(text, str) else text
    codes = np.frombuffer(raw, dtype=np.uint8).astype(np.int64) - _FIRST
    if codes.size == 0 or codes.min() < 0 or codes.max() > 63 or codes[-1] & 32:
        raise AnnotationError("counts: malformed compressed run lengths")
    ends = np.flatnonzero((codes & 32) == 0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > _DIGITS:
        raise AnnotationError("counts: a compressed run length has too many digits")
    place = np.arange(codes.size) - np.repeat(starts, lengths)
    counts = np.add.reduceat((codes & 31) << (5 * place), starts)
    counts -= np.where(codes[ends] & 16, np.int64(1) << (5 * lengths), 0)
    counts[1::2] = np.cumsum(counts[1::2])
    counts[2::2] = np.cumsum(counts[2::2])
    return counts


def _corners(polygon: ArrayLike) -> NDArray[np.float64]:
    """(n + 1, 2) whole numbers: the corners in fifths of a pixel, the first repeated at the end."""
    try:
        flat = np.asarray(polygon, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        flat = np.zeros(0)
    if flat.ndim != 1 or flat.size < 6 or flat.size % 2 or not (np.abs(flat) < _FAR).all():
        raise AnnotationError("polygon: expected at least three corners [x1, y1, x2, y2, ...]")
    points = np.trunc(_SCALE * flat.reshape(-1, 2) + 0.5)
    return np.concatenate([points, points[:1]])


def _lengths(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Steps along each edge, of which one goes one fifth along the edge's longer axis."""
    return np.abs(np.diff(points, axis=0)).max(axis=1) + 1


def _crossings(points: Counts, height: int, width: int) -> tuple[Counts, Counts]:
    """Where an outline crosses the middle of a pixel column: the column, and the first row below.

    A crossing lies between two steps of which the lower x is 2 modulo 5; its y is the lesser.
    """
    u, v = _walk(points)
    moves = u[1:] != u[:-1]
    x = np.minimum(u[1:], u[:-1])[moves] - _SCALE // 2
    y = np.minimum(v[1:], v[:-1])[moves]
    middle = (x % _SCALE == 0) & (x >= 0) & (x < width * _SCALE)
    row = np.clip(-((_SCALE // 2 - y[middle]) // _SCALE), 0, height)
    return x[middle] // _SCALE, row


def _walk(points: Counts) -> tuple[Counts, Counts]:
    """Every step of an outline in fifths of a pixel, edge after edge."""
    start, end = points[:-1], points[1:]
    distinct = (start != end).any(axis=1)
    start, end = start[distinct], end[distinct]
    if len(start) == 0:
        return points[:1, 0], points[:1, 1]
    delta = np.abs(end - start)
    wide = delta[:, 0] >= delta[:, 1]
    along = np.where(wide, 0, 1)
    edge = np.arange(len(start))
    # Edges are measured from their lesser end, so that both directions round alike.
    backward = start[edge, along] > end[edge, along]
    low = np.where(backward[:, None], end, start)
    high = np.where(backward[:, None], start, end)
    count = delta.max(axis=1)
    slope = (high - low)[edge, 1 - along] / count
    of_step = np.repeat(edge, count + 1)
    t = np.arange(len(of_step)) - np.repeat(np.cumsum(count + 1) - count - 1, count + 1)
    t = np.where(backward[of_step], count[of_step] - t, t)
    major = low[edge, along][of_step] + t
    minor = np.trunc(low[edge, 1 - along][of_step] + slope[of_step] * t + 0.5).astype(np.int64)
    flat = wide[of_step]
    return np.where(flat, major, minor), np.where(flat, minor, major)
