"""Sky, hills and ground under one light, seen by the camera that sees the objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from halfseen.arrays import Bool, Float32
from halfseen.data.scenery.cars import FOCAL
from halfseen.data.scenery.shapes import (
    Canvas,
    Colour,
    Rng,
    grain,
    grain_at,
    mix,
    pick,
    shade,
    smooth,
)


@dataclass(frozen=True)
class Mood:
    """The hour and the weather: colours of the sky, of distance, and of the light."""

    zenith: Colour
    low: Colour
    haze: Colour
    tint: tuple[float, float, float]


MOODS = (
    Mood((112, 158, 200), (214, 226, 228), (190, 206, 212), (1.00, 1.00, 0.98)),  # noon
    Mood((134, 158, 178), (244, 214, 172), (226, 200, 170), (1.08, 0.98, 0.84)),  # golden
    Mood((166, 174, 180), (214, 216, 214), (196, 200, 202), (0.93, 0.96, 0.99)),  # overcast
    Mood((92, 104, 146), (232, 176, 160), (178, 158, 170), (0.90, 0.82, 0.90)),  # dusk
    Mood((150, 190, 206), (236, 236, 218), (214, 222, 212), (1.04, 1.03, 0.95)),  # morning
)


@dataclass(frozen=True)
class Stage:
    """Where everything stands: a level ground seen from `camera` metres above it.

    size      (height, width) in pixels
    unit      pixels of this picture for one pixel of a 500 x 375 picture
    horizon   the row of the horizon
    light     the direction to the light: right, up, away
    """

    size: tuple[int, int]
    unit: float
    horizon: float
    camera: float
    light: tuple[float, float, float]
    mood: Mood

    def ground(self, scale: float) -> float:
        """The row where a thing of `scale` pixels a metre stands."""
        return self.horizon + self.camera * scale

    def scale(self, row: float) -> float:
        """Pixels a metre of what stands at a row."""
        return (row - self.horizon) / self.camera


def make_stage(rng: Rng, size: tuple[int, int]) -> Stage:
    height, width = size
    side = rng.uniform(-0.8, 0.8)
    return Stage(
        size, ((height * width) / (375 * 500)) ** 0.5, height * rng.uniform(0.28, 0.46),
        rng.uniform(1.5, 2.5), (side, rng.uniform(0.6, 1.0), -rng.uniform(0.2, 0.7)),
        MOODS[int(rng.integers(len(MOODS)))],
    )  # fmt: skip


def backdrop(rng: Rng, stage: Stage) -> Float32:
    """(height, width, 3): the picture before anything stands in it."""
    height, width = stage.size
    top = int(np.ceil(stage.horizon))
    picture = np.empty((height, width, 3), dtype=np.float32)
    picture[:top] = _sky(rng, stage, top)
    picture[top:], bare = _ground(rng, stage, top)
    sheet = _hills(rng, stage)
    _grass(rng, stage, sheet, bare, top)
    layer = np.asarray(sheet.reduced().crop((1, 1, width + 1, height + 1)))
    picture *= 1 - layer[..., 3:] / np.float32(255)
    picture += layer[..., :3] * (1 + 0.06 * grain(rng, height, width))[..., None]
    return picture


def _sky(rng: Rng, stage: Stage, rows: int) -> Float32:
    t = np.linspace(0, 1, rows, dtype=np.float32)[:, None, None] ** 0.8
    high, low = (np.asarray(c, dtype=np.float32) for c in (stage.mood.zenith, stage.mood.low))
    sky = high + t * (low - high)
    sky = np.broadcast_to(sky, (rows, stage.size[1], 3)).copy()
    small = grain(rng, rows // 2 + 1, stage.size[1] // 4 + 1)
    puffs = np.asarray(
        Image.fromarray(small).resize((stage.size[1], rows), Image.Resampling.BICUBIC)
    )
    cover = np.clip(0.7 * (puffs - rng.uniform(-0.4, 1.0)), 0, 0.85)[..., None] * (1 - 0.5 * t)
    bright = np.asarray(mix(stage.mood.low, (255, 252, 246), 0.6), dtype=np.float32)
    return np.asarray(sky + cover * (bright - sky), dtype=np.float32)


def _hills(rng: Rng, stage: Stage) -> Canvas:
    """Ridges, the nearer the darker."""
    height, width = stage.size
    sheet = Canvas(0, width, -height, 0, 1.0, 2)
    green = pick(rng, ((98, 118, 84), (122, 128, 88), (90, 110, 104), (132, 122, 92)))
    for layer in range(int(rng.integers(1, 4))):
        rise = height * rng.uniform(0.02, 0.13) * (1 - 0.25 * layer)
        xs = np.linspace(-0.1 * width, 1.1 * width, int(rng.integers(5, 10)))
        crest = [(float(x), -stage.horizon + rise * rng.uniform(0.15, 1.0)) for x in xs]
        ridge = smooth(crest, 8, closed=False)
        foot = -stage.horizon - 2
        colour = mix(green, stage.mood.haze, 0.72 - 0.2 * layer)
        sheet.polygon([*ridge, (1.1 * width, foot), (-0.1 * width, foot)], colour)
        if rng.random() < 0.6:
            for x, y in ridge[:: int(rng.integers(1, 4))]:
                r = rng.uniform(0.004, 0.014) * height
                sheet.ellipse(x, y, 1.1 * r, r, shade(colour, rng.uniform(0.8, 0.95)))
    return sheet


def _grass(rng: Rng, stage: Stage, sheet: Canvas, bare: Bool, top: int) -> None:
    """Tufts where the ground is bare of paving."""
    height, width = stage.size
    rows = stage.horizon + 2 + (height - stage.horizon - 3) * rng.uniform(0, 1, 420) ** 1.4
    columns = rng.uniform(0, width - 1, 420)
    lean, tone = rng.uniform(-0.6, 0.6, 420), rng.uniform(0.6, 1.3, 420)
    grown = bare[np.maximum(rows.astype(np.int64) - top, 0), columns.astype(np.int64)]
    tall = np.maximum(1.5, 0.13 * (rows - stage.horizon) / stage.camera * tone)
    blade = pick(rng, ((104, 116, 66), (134, 130, 82), (86, 104, 72)))
    x, y, thick = columns, -rows, np.maximum(0.6, 0.08 * tall)
    sheet.blades(
        np.stack([x - thick, x + thick, x + lean * tall], axis=1)[grown],
        np.stack([y, y, y + tall], axis=1)[grown],
        np.clip(np.asarray(blade) * tone[:, None], 0, 255)[grown],
        np.argsort(rows[grown]),
    )


def _ground(rng: Rng, stage: Stage, top: int) -> tuple[Float32, Bool]:
    """The ground from row `top` down, and where it is soil."""
    height, width = stage.size
    row = np.arange(top, height, dtype=np.float32)[:, None] + np.float32(0.5)
    scale = np.maximum(row - np.float32(stage.horizon), 0.7) / np.float32(stage.camera)
    depth = FOCAL * stage.unit / scale
    across = (
        np.arange(width, dtype=np.float32) - np.float32(rng.uniform(0.1, 0.9) * width)
    ) / scale
    turn = np.float32(rng.uniform(-0.5, 0.5))
    u, v = across + turn * depth, depth - turn * across
    soil = pick(
        rng, ((122, 134, 84), (146, 146, 98), (166, 148, 112), (108, 124, 88), (150, 142, 128))
    )
    colour = np.broadcast_to(np.asarray(soil, dtype=np.float32), (*u.shape, 3)).copy()
    sharp = np.clip(scale / 22, 0.12, 1.0)
    kind = rng.random()
    if kind < 0.45:
        bare = _street(rng, colour, across, depth)
    elif kind < 0.75:
        bare = _street(rng, colour, depth, across + np.float32(rng.uniform(-0.25, 0.25)) * depth)
    elif kind < 0.9:
        bare = _cobbles(rng, colour, u, v, sharp)
    else:
        bare = np.ones(u.shape, dtype=bool)
    y, x = (np.floor(c * 46).astype(np.int32) for c in (v, u))
    texture = 0.13 * sharp * grain_at(y, x) + 0.07 * grain_at(y >> 3, x >> 3)
    colour *= 1 + texture[..., None]
    veil = np.clip(0.75 - scale / 14, 0, 0.75)[..., None]
    colour += veil * (np.asarray(stage.mood.haze, dtype=np.float32) - colour)
    return colour, bare


def _street(rng: Rng, colour: Float32, along: Float32, across: Float32) -> Bool:
    """Asphalt between two kerbs, with a broken line; returns where the ground stays bare."""
    middle, half = float(np.median(across)) * rng.uniform(0.6, 1.2), rng.uniform(2.6, 4.2)
    tar = np.asarray(pick(rng, ((120, 120, 122), (98, 98, 104), (140, 132, 124))), dtype=np.float32)
    off = np.broadcast_to(np.abs(across - np.float32(middle)), colour.shape[:2])
    bare = np.asarray(off > half + 0.22)
    colour[~bare] = tar * 1.45
    colour[off < half] = tar
    colour[(off < 0.10) & ((along % 4.0) < 2.2)] = (226, 222, 206)
    return bare


def _cobbles(rng: Rng, colour: Float32, u: Float32, v: Float32, sharp: Float32) -> Bool:
    """Paving stones in rows; returns where the ground stays bare: nowhere."""
    size = np.float32(rng.uniform(0.35, 0.7))
    course = np.floor(v / size)
    joint = ((v / size) % 1.0 < 0.12) | ((u / size + 0.5 * (course % 2)) % 1.0 < 0.10)
    colour[:] = pick(rng, ((158, 150, 138), (140, 138, 136), (172, 154, 132)))
    colour *= 1 - np.float32(0.45) * (joint * sharp)[..., None]
    return np.zeros(u.shape, dtype=bool)
