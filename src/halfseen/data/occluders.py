"""Shapes of drawn occluders, and texture to fill them with."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Int64, Pixels

SHAPES = ("rectangle", "blob", "bars")
# How far an occluder reaches beyond what it covers, in sides of that.
REACH = 0.15

Field = NDArray[np.floating[Any]]


def draw_shape(y: Field, x: Field, rng: np.random.Generator, *, rows_first: bool = False) -> Field:
    """A random function of place whose level sets are rectangles, blobs or bars.

    y, x        coordinates that broadcast to the result; what is covered is the unit square
    rows_first  draw y of a rectangle's centre before x. Two callers have drawn it in different
                order from the start, and each must go on drawing the same shapes.
    """
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    if shape == "rectangle":
        centre = rng.random(2)
        centre_y, centre_x = centre if rows_first else centre[::-1]
        aspect = np.exp(rng.uniform(-0.7, 0.7))
        across, down = np.abs(x - centre_x) * aspect, np.abs(y - centre_y) / aspect
        return np.asarray(np.maximum(across, down))
    if shape == "blob":
        centres, radii = rng.random((4, 2)), rng.uniform(0.5, 1.0, 4)
        parts = [np.hypot(x - c[0], y - c[1]) / r for c, r in zip(centres, radii, strict=True)]
        return np.asarray(np.minimum.reduce(parts))
    angle, period, phase = rng.normal(0, 0.3), rng.uniform(0.5, 1.2), rng.random()
    if rng.random() < 0.3:
        x, y = y, x
    along = (x * np.cos(angle) + y * np.sin(angle)) / period + phase
    return np.asarray(np.abs(along - np.floor(along) - 0.5))


def cut_out(
    image: Pixels,
    low: Int64,
    high: Int64,
    mode: Literal["edge", "symmetric"],
) -> Pixels:
    """Pixels (height, width, 3) from low (y, x) to high, excluded.

    Outside the image its border pixels are repeated ("edge"), or its mirror image ("symmetric").
    """
    for axis in (0, 1):
        size = image.shape[axis]
        place = np.arange(low[axis], high[axis])
        if place[0] >= 0 and place[-1] < size:
            inside = slice(low[axis], high[axis])
            image = image[inside] if axis == 0 else image[:, inside]
            continue
        if mode == "symmetric":
            place %= 2 * size
            place = np.minimum(place, 2 * size - 1 - place)
        image = image.take(np.clip(place, 0, size - 1), axis)
    return image
