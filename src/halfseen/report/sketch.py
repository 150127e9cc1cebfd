"""Lines, boxes and labels over a picture, smooth and legible on any ground."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from halfseen.arrays import Float32, Pixels
from halfseen.geometry import Boxes, intersection
from halfseen.report.palette import BLACK, Colour, ink

Point = tuple[float, float]

HALO = (*BLACK, 120)  # around lines, so that they show on a ground of their own colour
TEXT = 11.5  # height of letters, in units


def unit(size: tuple[int, int]) -> float:
    """The width of a thin line in pixels: 1 at 500 x 375, as visible on larger pictures."""
    return float(np.clip((size[0] * size[1] / (500 * 375)) ** 0.5, 1, 12))


class Sketch:
    """A transparent layer over a picture of (height, width); points and boxes are in its pixels.

    It is drawn at twice the size, unless that would ask for much memory, and made small again.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.unit = unit(size)
        self.zoom = 2 if size[0] * size[1] <= 4_000_000 else 1
        self._layer = Image.new("RGBA", (size[1] * self.zoom, size[0] * self.zoom))
        self._pen = ImageDraw.Draw(self._layer)
        self._texts: list[tuple[Point, str, Colour]] = []
        self._taken = np.zeros((0, 4))
        self._objects = np.zeros((0, 4))

    def line(self, start: Point, end: Point, tone: Colour, weight: float) -> None:
        """A straight line, `weight` units wide."""
        self._line(start, end, (*tone, 255), weight * self.unit)

    def box(self, box: Boxes, tone: Colour, weight: float, halo: bool = True) -> None:
        """A solid box; one that touches the border is drawn within it."""
        half = weight * self.unit / 2
        height, width = self.size
        inside = np.clip(box, half, np.array([width, height, width, height]) - half)
        box = np.where((box >= 0) & (box <= [width, height, width, height]), inside, box)
        if halo:
            self._rectangle(box, HALO, 2 * half + 1.6 * self.unit)
        self._rectangle(box, (*tone, 255), 2 * half)

    def dashed_box(self, box: Boxes, tone: Colour, weight: float) -> None:
        x1, y1, x2, y2 = box
        corners = [(x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1)]
        dashes = [
            dash for start, end in pairwise(corners) for dash in _dashes(start, end, 5 * self.unit)
        ]
        for ink_, extra in ((HALO, 1.6), ((*tone, 255), 0.0)):
            for start, end in dashes:
                self._line(start, end, ink_, (weight + extra) * self.unit)

    def dot(self, centre: Point, tone: Colour) -> None:
        r = 2 * self.unit
        corners = [(v + d) * self.zoom for d in (-r, r) for v in centre]
        self._pen.ellipse(corners, fill=(*tone, 255))

    def keep_clear(self, boxes: Boxes) -> None:
        """Labels are put over these boxes only where there is no other place."""
        self._objects = np.concatenate([self._objects, boxes])

    def label(self, box: Boxes, text: str, tone: Colour) -> None:
        """A label beside the box, where it hides least; the first labels have the choice."""
        left, _, right, _ = _font(self._letters).getbbox(text)
        pad = round(3 * self.unit)
        wide, high = right - left + 2 * pad, self._letters + 2 * pad
        height, width = self.size
        x1, y1, x2, y2 = box
        gap = 2 * self.unit
        above, below = y1 - high - gap, y2 + gap
        left_of, right_of = x1 - wide - gap, x2 + gap
        places = [(x1, above), (x1, below), (x2 - wide, above), (x2 - wide, below)]
        places += [
            (x, y) for y in (y1, y2 - high, (y1 + y2 - high) / 2) for x in (right_of, left_of)
        ]
        places += [(x, y) for y in (y1, y2 - high) for x in (x1, x2 - wide)]
        places += [(x1, y1 + k * high) for k in range(1, 6)]
        # Outside the picture a place is worth nothing; inside it, the free ones come first.
        fitting = [p for p in places if 0 <= p[0] <= width - wide and 0 <= p[1] <= height - high]
        fitting = fitting or [
            (np.clip(x1, 0, max(width - wide, 0)), np.clip(y1, 0, max(height - high, 0)))
        ]
        chips = [np.array([x, y, x + wide, y + high]) for x, y in fitting]
        # A label that lies on another cannot be read: worse than one that hides an object.
        covered = [
            float(4 * intersection(chip, self._taken).sum())
            + float(intersection(chip, self._objects).sum())
            for chip in chips
        ]
        chip = chips[int(np.argmin(covered))]
        self._taken = np.concatenate([self._taken, chip[None]])
        self._pen.rounded_rectangle(
            [float(v) * self.zoom for v in chip], 2 * self.unit * self.zoom, fill=(*tone, 235)
        )
        self._texts.append(
            ((chip[0] + pad - left, chip[1] + pad - 0.22 * self._letters), text, tone)
        )

    def over(self, picture: Float32) -> Pixels:
        """The picture (H, W, 3) in 0..255 with the layer on top."""
        base = Image.fromarray(np.clip(np.rint(picture), 0, 255).astype(np.uint8)).convert("RGBA")
        layer = self._layer if self.zoom == 1 else self._layer.reduce(self.zoom)
        base.alpha_composite(layer)
        pen = ImageDraw.Draw(base)
        for place, text, tone in self._texts:
            pen.text(place, text, fill=(*ink(tone), 255), font=_font(self._letters))
        return np.array(base.convert("RGB"), np.uint8)

    @property
    def _letters(self) -> int:
        return round(TEXT * self.unit)

    def _line(self, start: Point, end: Point, fill: tuple[int, ...], width: float) -> None:
        points = [v * self.zoom for point in (start, end) for v in point]
        self._pen.line(points, fill, max(1, round(width * self.zoom)))

    def _rectangle(self, box: Boxes, outline: tuple[int, ...], width: float) -> None:
        """Pillow's lines lie within the corners it is given."""
        pen = max(1, round(width * self.zoom))
        corners = np.rint(box * self.zoom + np.array([-1, -1, 1, 1]) * pen / 2)
        corners[2:] = np.maximum(corners[2:] - 1, corners[:2])
        self._pen.rectangle(corners.tolist(), outline=outline, width=pen)


def _dashes(start: Point, end: Point, dash: float) -> Iterator[tuple[Point, Point]]:
    """Dashes and gaps of equal length, with half a dash at either end, so that corners close."""
    first, last = np.array(start), np.array(end)
    length = float(np.hypot(*(last - first)))
    count = max(1, min(round(length / (2 * dash)), 2000))
    for k in range(count + 1):
        a, b = max(0.0, (k - 0.25) / count), min(1.0, (k + 0.25) / count)
        yield tuple(first + a * (last - first)), tuple(first + b * (last - first))


@lru_cache(maxsize=16)
def _font(letters: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(letters * 1.12)
