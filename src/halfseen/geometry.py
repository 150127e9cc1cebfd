"""Boxes and their overlaps.

A box is float64 `x1 y1 x2 y2`, 0-based and half-open, in pixels of the original image: its width is
`x2 - x1`. Every function takes arrays (..., 4) and works row by row.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from halfseen.arrays import Float64

Boxes = Float64

_MATRIX = 1 << 20  # overlaps at once


def as_boxes(boxes: ArrayLike) -> Boxes:
    """An (N, 4) float64 array, also from an empty list."""
    return np.asarray(boxes, dtype=np.float64).reshape(-1, 4)


def area(boxes: Boxes) -> Float64:
    """Areas; a reversed box has area 0."""
    sides = np.maximum(boxes[..., 2:] - boxes[..., :2], 0)
    return sides[..., 0] * sides[..., 1]


def intersection(first: Boxes, second: Boxes) -> Float64:
    """Shared area of boxes, by broadcasting: `intersection(a[:, None], b[None])` is the matrix."""
    low = np.maximum(first[..., :2], second[..., :2])
    high = np.minimum(first[..., 2:], second[..., 2:])
    sides = np.maximum(high - low, 0)
    area: Float64 = sides[..., 0] * sides[..., 1]
    return area


def iou(first: Boxes, second: Boxes) -> Float64:
    """Intersection over union, by broadcasting; 0 where both are empty."""
    shared = intersection(first, second)
    union = area(first) + area(second) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def rows_at_once(first: Boxes, second: Boxes) -> Iterator[slice]:
    """Yield parts of `first` whose matrix with `second` takes some megabytes at most."""
    step = max(_MATRIX // max(len(second), 1), 1)
    for start in range(0, len(first), step):
        yield slice(start, start + step)


def iou_matrix(first: Boxes, second: Boxes) -> Float64:
    """(len(first), len(second)) intersections over unions."""
    return iou(first[:, None], second[None])


def clip(boxes: Boxes, size: tuple[int, int]) -> Boxes:
    """Boxes cut to an image of (height, width)."""
    height, width = size
    return np.clip(boxes, 0, [width, height, width, height])


def mirror(boxes: Boxes, width: float) -> Boxes:
    """Boxes of an image of this width after a left-right flip."""
    flipped = np.array(boxes, dtype=np.float64)
    flipped[..., 0] = width - boxes[..., 2]
    flipped[..., 2] = width - boxes[..., 0]
    return flipped
