"""The checks that every annotated box passes, whatever the format it came in."""

import math

from halfseen.errors import AnnotationError

Box = tuple[float, float, float, float]

# Formats and tools disagree by one pixel on where an image begins and ends.
_SLACK = 1.0


def check_box(box: Box) -> None:
    """AnnotationError unless a 0-based, half-open box is finite and neither empty nor reversed."""
    x1, y1, x2, y2 = box
    if not all(map(math.isfinite, box)):
        raise AnnotationError(f"expected finite numbers, found {box}")
    if x2 <= x1 or y2 <= y1:
        raise AnnotationError(f"empty or reversed: {x2 - x1:g} x {y2 - y1:g} pixels")


def fit_box(box: Box, size: tuple[int, int]) -> Box:
    """A checked box, cut to the image of (height, width) where it exceeds it by a pixel at most."""
    check_box(box)
    x1, y1, x2, y2 = box
    height, width = size
    outside = max(-x1, -y1, x2 - width, y2 - height)
    if outside > _SLACK:
        raise AnnotationError(f"{outside:g} pixels outside the image of {width} x {height}")
    cut = (max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height)))
    check_box(cut)
    return cut
