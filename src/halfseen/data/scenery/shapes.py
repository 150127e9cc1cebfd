"""What everything in a scene is drawn with: colours, smooth outlines, canvases, sprites, texture.

Pictures are drawn several times too large and reduced, so that edges are smooth and a pixel's alpha
is the share of it that is covered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from halfseen.arrays import Bool, Float32, Float64, UInt8

Colour = tuple[int, int, int]
Point = tuple[float, float]
Rng = np.random.Generator

SUPERSAMPLING = 3


def shade(colour: Colour, factor: float) -> Colour:
    """A colour made darker (factor < 1) or lighter."""
    return tuple(int(min(255.0, max(0.0, c * factor))) for c in colour)  # type: ignore[return-value]


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """`share` of the second colour, the rest of the first."""
    return tuple(int(a + (b - a) * share) for a, b in zip(first, second, strict=True))  # type: ignore[return-value]


def pick(rng: Rng, choices: Sequence[Colour], spread: float = 0.12) -> Colour:
    """One of the colours, a little varied in brightness and hue."""
    colour = choices[int(rng.integers(len(choices)))]
    factor = rng.uniform(1 - spread, 1 + spread) * rng.uniform(0.985, 1.015, 3)
    return tuple(int(min(255.0, c * f)) for c, f in zip(colour, factor, strict=True))  # type: ignore[return-value]


def smooth(points: Sequence[Point], steps: int = 5, closed: bool = True) -> list[Point]:
    """A Catmull-Rom curve through the points, `steps` pieces between each two."""
    p = np.asarray(points, dtype=np.float64)
    padded = np.concatenate([p[-1:], p, p[:2]] if closed else [p[:1], p, p[-1:]])
    a, b, c, d = (padded[k : len(padded) - 3 + k, None] for k in range(4))
    t = (np.arange(steps) / steps)[None, :, None]
    curve = 0.5 * (
        2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3
    )
    out = [(float(x), float(y)) for x, y in curve.reshape(-1, 2)]
    return out if closed else [*out, (float(p[-1, 0]), float(p[-1, 1]))]


def circle(x: float, y: float, rx: float, ry: float | None = None, count: int = 24) -> list[Point]:
    """A polygon of an ellipse."""
    ry = rx if ry is None else ry
    angles = [2 * math.pi * k / count for k in range(count)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


def limb(joints: Sequence[Point], widths: Sequence[float]) -> list[Point]:
    """The outline of a tapering limb along its joints."""
    p = np.asarray(joints, dtype=np.float64)
    along = np.gradient(p, axis=0)
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    half = np.asarray(widths)[:, None] / 2
    outline = np.concatenate([p + normal * half, (p - normal * half)[::-1]])
    return [(float(x), float(y)) for x, y in outline]


@dataclass(frozen=True)
class Sprite:
    """A picture with alpha that stands on the ground.

    rgba    (h, w, 4) uint8
    left    where its first column lies, from the point on the ground it stands on
    top     where its first row lies, from that point; negative is up
    """

    rgba: UInt8
    left: int
    top: int

    @cached_property
    def mask(self) -> Bool:
        """(h, w): the pixels it owns, those covered by half or more."""
        return np.asarray(self.rgba[..., 3] >= 128)

    @cached_property
    def area(self) -> int:
        """How many pixels it owns."""
        return int(self.mask.sum())

    def mirrored(self) -> Sprite:
        """Facing the other way."""
        width = self.rgba.shape[1]
        return Sprite(np.ascontiguousarray(self.rgba[:, ::-1]), -self.left - width, self.top)

    def lit(self, rng: Rng, rough: float, volume: float, light: Point) -> Sprite:
        """Textured, and shaded as if round under light from `light` (x right, y down)."""
        height, width = self.rgba.shape[:2]
        factor = 1 + rough * grain(rng, height, width)
        if volume:
            radius = max(1.5, 0.05 * min(height, width) + 1)
            alpha = Image.fromarray(np.ascontiguousarray(self.rgba[..., 3]))
            blur = alpha.reduce(2).filter(ImageFilter.GaussianBlur(radius / 2)).resize(alpha.size)
            soft = np.asarray(blur, dtype=np.float32) / 255
            dx, dy = (round(part * max(1, round(radius))) for part in light)
            factor += volume * (np.roll(soft, (-dy, -dx), (0, 1)) - np.roll(soft, (dy, dx), (0, 1)))
        return self.recoloured(self.rgba[..., :3] * factor[..., None])

    def veiled(self, haze: Colour, share: float) -> Sprite:
        """Faded into the haze of distance."""
        rgb = self.rgba[..., :3].astype(np.float32)
        return self.recoloured(rgb + np.float32(share) * (np.asarray(haze, np.float32) - rgb))

    def recoloured(self, rgb: Float32) -> Sprite:
        out = self.rgba.copy()
        out[..., :3] = np.clip(rgb, 0, 255)
        return Sprite(out, self.left, self.top)


class Canvas:
    """A transparent sheet in units of `scale` pixels, origin on the ground, y up.

    squeeze   x is shortened to this share
    """

    def __init__(
        self, left: float, right: float, bottom: float, top: float, scale: float,
        factor: int = SUPERSAMPLING,
    ) -> None:  # fmt: skip
        self.scale, self.factor, self.squeeze = scale, factor, 1.0
        self.left, self.top = math.floor(left * scale) - 1, math.floor(-top * scale) - 1
        width = math.ceil(right * scale) + 1 - self.left
        height = math.ceil(-bottom * scale) + 1 - self.top
        # Alpha is all or nothing before the reduction, so these pixels are premultiplied as they
        # are, and a mode without alpha spares Pillow's conversions.
        self.image = Image.new("RGBX", (width * factor, height * factor))
        self.draw = ImageDraw.Draw(self.image)

    def points(self, points: Iterable[Point]) -> list[Point]:
        s, f = self.scale, self.factor
        sx = s * self.squeeze
        return [((x * sx - self.left) * f, (-y * s - self.top) * f) for x, y in points]

    def polygon(self, points: Iterable[Point], colour: Colour) -> None:
        self.draw.polygon(self.points(points), fill=(*colour, 255))

    def line(self, points: Iterable[Point], colour: Colour, width: float) -> None:
        thick = max(1, round(width * self.scale * self.factor))
        self.draw.line(self.points(points), fill=(*colour, 255), width=thick, joint="curve")

    def box(self, x1: float, y1: float, x2: float, y2: float, colour: Colour) -> None:
        self.polygon([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], colour)

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
        (x1, y1), (x2, y2) = self.points([(x - rx, y + ry), (x + rx, y - ry)])
        self.draw.ellipse((x1, y1, x2, y2), fill=(*colour, 255))

    def blades(
        self, xs: Float64, ys: Float64, colours: Float64,
        order: NDArray[np.intp],
    ) -> None:  # fmt: skip
        """Many small polygons at once: (n, corners) each of x and y, (n, 3) colours."""
        f = self.factor
        flat = np.empty((xs.shape[0], 2 * xs.shape[1]))
        flat[:, ::2] = (xs * self.scale * self.squeeze - self.left) * f
        flat[:, 1::2] = (-ys * self.scale - self.top) * f
        polygon = self.draw.polygon
        fills = colours[order].astype(np.int64).tolist()
        for corners, (r, g, b) in zip(flat[order].tolist(), fills, strict=True):
            polygon(corners, (r, g, b, 255))

    def clear(self, points: Iterable[Point]) -> None:
        """Cut a hole."""
        self.draw.polygon(self.points(points), fill=(0, 0, 0, 0))

    def reduced(self) -> Image.Image:
        """What was drawn at one pixel a pixel: colour times alpha, and alpha."""
        return self.image.reduce(self.factor)

    def sprite(self) -> Sprite:
        """What was drawn, reduced and cut to its extent."""
        small = self.reduced()
        extent = small.getchannel("X").getbbox() or (0, 0, 1, 1)
        cut = small.crop(extent)
        rgba = Image.frombytes("RGBa", cut.size, cut.tobytes()).convert("RGBA")
        return Sprite(np.asarray(rgba), self.left + extent[0], self.top + extent[1])


def noise(rng: Rng, height: int, width: int, octaves: int = 6, fall: float = 0.62) -> Float32:
    """Smooth random texture with a spectrum like 1/f; mean 0, deviation 1."""
    total = np.zeros((height, width), dtype=np.float32)
    weight = 1.0
    for octave in range(octaves):
        cells = 2 ** (octave + 2)
        rows = max(2, math.ceil(cells * height / max(height, width)))
        columns = max(2, math.ceil(cells * width / max(height, width)))
        grid = rng.random((rows + 1, columns + 1), dtype=np.float32) - np.float32(0.5)
        big = Image.fromarray(grid).resize((width, height), Image.Resampling.BILINEAR)
        total += np.float32(weight) * np.asarray(big)
        weight *= fall
    total -= total.mean()
    return np.asarray(total / total.std(), dtype=np.float32)


@lru_cache(maxsize=1)
def _grain() -> Float32:
    """One texture for all scenes, taken at random places: making it anew costs more than drawing.

    Four mirror images of one tile, so that it repeats without a seam.
    """
    tile = noise(np.random.default_rng(20120707), 512, 512, octaves=7, fall=0.68)
    wide = np.concatenate([tile, tile[:, ::-1]], axis=1)
    return np.concatenate([wide, wide[::-1]])


def grain(rng: Rng, height: int, width: int) -> Float32:
    """A random piece of texture; mean about 0, deviation about 1."""
    tile = _grain()
    y, x = (int(v) for v in rng.integers(0, 1024, 2))
    rows = np.arange(y, y + height) % 1024
    columns = np.arange(x, x + width) % 1024
    return np.asarray(tile[rows[:, None], columns])


def grain_at(rows: NDArray[np.int32], columns: NDArray[np.int32]) -> Float32:
    """The texture at any places; it repeats every 1024."""
    return np.asarray(_grain()[rows & 1023, columns & 1023])
