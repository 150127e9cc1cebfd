"""A part of an image enlarged, with the detections in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image

from halfseen.arrays import Pixels
from halfseen.detections import Detections, GroundTruth
from halfseen.geometry import Boxes, clip
from halfseen.report.draw import draw_detections

MARGIN = 0.35  # of the longer side around what a picture shows
WIDTH = 360  # pixels of a picture

Region = tuple[int, int, int, int]


def around(boxes: Boxes, size: tuple[int, int]) -> Region:
    """A region of 4 to 3 around boxes, as much of it as lies in an image of this size."""
    height, width = size
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    sides = (high - low) + 2 * MARGIN * (high - low).max()
    sides = np.maximum(sides, sides[::-1] * (4 / 3, 3 / 4))
    start = np.clip((low + high - sides) / 2, 0, np.maximum((width, height) - sides, 0))
    x1, y1, x2, y2 = np.rint(clip(np.append(start, start + sides), size)).astype(int).tolist()
    return x1, y1, max(x2, x1 + 1), max(y2, y1 + 1)


def close_up(
    image: Pixels, region: Region, found: Detections, truth: GroundTruth | None = None
) -> Pixels:
    """The region, `WIDTH` pixels wide, with detections and true boxes drawn."""
    x1, y1, x2, y2 = region
    zoom = WIDTH / (x2 - x1)
    size = max(1, round(zoom * (y2 - y1))), WIDTH
    cut = Image.fromarray(image[y1:y2, x1:x2])
    pixels = np.asarray(cut.resize(size[::-1], Image.Resampling.BICUBIC))

    def moved(boxes: Boxes) -> Boxes:
        return np.asarray((boxes - (x1, y1, x1, y1)) * zoom)

    # Drawn after it was resized, so that lines and letters have one size in all pictures.
    found = replace(
        found, size=size, window=moved(found.window), full=moved(found.full),
        visible=moved(found.visible),
    )  # fmt: skip
    if truth is not None:
        truth = replace(truth, size=size, box=moved(truth.box))
    return draw_detections(pixels, found, truth)
