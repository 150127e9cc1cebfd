"""Things that are no object but look a little like one, and the houses behind them."""

from __future__ import annotations

import math

import numpy as np

from halfseen.data.scenery.horses import cow
from halfseen.data.scenery.occluders import BRICKS, WOODS, Draw, crates, hay
from halfseen.data.scenery.plants import bush, foliage
from halfseen.data.scenery.shapes import (
    Canvas,
    Colour,
    Rng,
    Sprite,
    circle,
    mix,
    pick,
    shade,
    smooth,
)

PLASTERS: tuple[Colour, ...] = (
    (226, 208, 176), (204, 190, 170), (190, 168, 150), (214, 196, 190), (176, 188, 190),
    (198, 160, 120),
)  # fmt: skip
ROOFS: tuple[Colour, ...] = ((150, 82, 62), (116, 78, 68), (92, 92, 100), (132, 104, 80))
PANE: Colour = (72, 88, 100)


def _spoked(c: Canvas, x: float, r: float, colour: Colour, spokes: int) -> None:
    c.polygon(circle(x, r, r, count=28), shade(colour, 0.6))
    c.clear(circle(x, r, 0.8 * r, count=28))
    for k in range(spokes):
        a = math.pi * k / spokes
        dx, dy = 0.85 * r * math.cos(a), 0.85 * r * math.sin(a)
        c.line([(x - dx, r - dy), (x + dx, r + dy)], colour, 0.07)
    c.ellipse(x, r, 0.16 * r, 0.16 * r, shade(colour, 0.7))


def cart(rng: Rng, scale: float) -> Sprite:
    """A loaded farm cart: two wheels and a box, as a car has."""
    c = Canvas(-2.4, 2.6, -0.1, 2.2, scale)
    wood, half, floor = pick(rng, WOODS), rng.uniform(1.2, 1.7), rng.uniform(0.6, 0.8)
    if rng.random() < 0.6:
        foliage(
            c,
            rng,
            0,
            floor + 0.6,
            half * 0.9,
            rng.uniform(0.35, 0.6),
            pick(rng, ((204, 174, 104), (110, 122, 66))),
            0.1,
        )
    for k in range(4):
        c.box(
            -half,
            floor + 0.16 * k,
            half,
            floor + 0.16 * k + 0.13,
            shade(wood, 0.85 + 0.08 * (k % 2)),
        )
    for x in (-half, -0.3 * half, 0.35 * half, half - 0.1):
        c.box(x, floor - 0.1, x + 0.1, floor + 0.72, shade(wood, 0.7))
    c.line([(half, floor + 0.1), (half + 0.9, 0.3)], shade(wood, 0.8), 0.09)
    spokes = int(rng.integers(4, 7))
    _spoked(c, -0.62 * half, rng.uniform(0.42, 0.6), shade(wood, 0.9), spokes)
    _spoked(c, 0.62 * half, rng.uniform(0.36, 0.5), shade(wood, 0.9), spokes)
    sprite = c.sprite()
    return sprite.mirrored() if rng.random() < 0.5 else sprite


def caravan(rng: Rng, scale: float) -> Sprite:
    """A trailer: a car's side with one wheel or two and no bonnet."""
    c = Canvas(-2.3, 3.0, -0.1, 2.6, scale)
    paint, stripe = (
        pick(rng, ((232, 226, 212), (206, 214, 210), (222, 204, 170))),
        pick(rng, BRICKS),
    )
    shell = smooth(
        [
            (-1.9, 0.45),
            (-2.0, 1.2),
            (-1.7, 2.1),
            (-0.5, 2.3),
            (0.9, 2.28),
            (1.7, 2.0),
            (1.95, 1.2),
            (1.85, 0.45),
        ],
        4,
    )
    c.polygon(shell, paint)
    c.box(-1.95, 0.95, 1.9, 1.12, stripe)
    c.box(-1.8, 0.42, 1.8, 0.52, shade(paint, 0.5))
    for x in (-1.45, -0.35):
        c.box(x - 0.04, 1.26, x + 0.84, 1.92, shade(paint, 0.65))
        c.box(x, 1.3, x + 0.8, 1.88, PANE)
        c.polygon(
            [(x + 0.1, 1.3), (x + 0.3, 1.3), (x + 0.6, 1.88), (x + 0.4, 1.88)], shade(PANE, 1.4)
        )
    c.line([(0.8, 0.55), (0.8, 2.0), (1.4, 2.0), (1.4, 0.55)], shade(paint, 0.6), 0.04)
    c.box(0.9, 1.4, 1.3, 1.9, PANE)
    c.line([(1.8, 0.5), (2.7, 0.5)], (60, 62, 66), 0.09)
    for x in (0.0,) if rng.random() < 0.5 else (-1.05, 1.05):
        c.polygon(circle(x, 0.42, 0.46), (30, 30, 34))
        c.ellipse(x, 0.33, 0.33, 0.33, (38, 38, 42))
        c.ellipse(x, 0.33, 0.18, 0.18, (180, 182, 186))
    sprite = c.sprite()
    return sprite.mirrored() if rng.random() < 0.5 else sprite


def kiosk(rng: Rng, scale: float) -> Sprite:
    """A low cabinet with two round lamps and a grille: nearly the front of a car."""
    c = Canvas(-1.4, 1.4, -0.1, 2.0, scale)
    paint, half, top = (
        pick(rng, (*PLASTERS, (96, 116, 104), (110, 120, 140))),
        rng.uniform(0.7, 1.1),
        rng.uniform(1.0, 1.6),
    )
    c.box(-half, 0, half, top, paint)
    c.polygon(
        [
            (-half - 0.1, top),
            (half + 0.1, top),
            (half - 0.1, top + 0.22),
            (-half + 0.1, top + 0.22),
        ],
        shade(paint, 0.65),
    )
    for x in (-0.62 * half, 0.62 * half):
        c.ellipse(x, 0.6 * top, 0.17, 0.17, shade(paint, 0.5))
        c.ellipse(x, 0.6 * top, 0.12, 0.12, (240, 232, 200))
    for y in np.arange(0.15 * top, 0.42 * top, 0.09):
        c.box(-0.7 * half, y, 0.7 * half, y + 0.045, shade(paint, 0.5))
    c.box(-half, 0, half, 0.08, (60, 58, 56))
    return c.sprite()


def tyres(rng: Rng, scale: float) -> Sprite:
    """Wheels leaning side by side."""
    c = Canvas(-1.6, 1.6, -0.1, 1.6, scale)
    for x in rng.uniform(-1.1, 1.1, int(rng.integers(2, 5))):
        r = rng.uniform(0.3, 0.4)
        c.ellipse(x, r, r, r, (38, 38, 42))
        c.ellipse(x, r, 0.6 * r, 0.6 * r, pick(rng, ((150, 152, 156), (80, 82, 86), (170, 90, 60))))
        c.ellipse(x, r, 0.25 * r, 0.25 * r, (50, 50, 54))
    return c.sprite()


def table(rng: Rng, scale: float) -> Sprite:
    """A trestle table with things on it: four legs under a long body."""
    c = Canvas(-1.6, 1.6, -0.1, 2.2, scale)
    wood, half, top = pick(rng, WOODS), rng.uniform(0.7, 1.2), rng.uniform(0.85, 1.15)
    for x, lean in ((-0.8, -0.12), (-0.66, 0.12), (0.66, -0.12), (0.8, 0.12)):
        c.line([(x * half, top), (x * half + lean, 0)], shade(wood, 0.8), 0.10)
    c.box(-half, top - 0.08, half, top + 0.06, wood)
    cloth = pick(rng, ((170, 62, 52), (226, 214, 190), (84, 110, 120), (140, 92, 60)))
    if rng.random() < 0.6:
        for k in range(8):
            c.box(
                -half + k * half / 4,
                top - 0.36,
                -half + (k + 1) * half / 4,
                top + 0.07,
                shade(cloth, 1.1 if k % 2 else 0.75),
            )
    for x in rng.uniform(-0.8, 0.7, 3):
        c.box(
            x * half,
            top + 0.06,
            x * half + 0.22,
            top + rng.uniform(0.2, 0.5),
            pick(rng, (*BRICKS, *PLASTERS)),
        )
    return c.sprite()


def topiary(rng: Rng, scale: float) -> Sprite:
    """A bush with the outline of a car."""
    c = Canvas(-2.3, 2.3, -0.2, 2.0, scale, 2)
    green = pick(rng, ((74, 102, 58), (96, 118, 58), (58, 88, 64)))
    for x, y, rx, ry in (
        (-1.1, 0.5, 0.7, 0.45),
        (0, 0.5, 0.8, 0.5),
        (1.1, 0.5, 0.7, 0.42),
        (-0.1, 1.05, 0.8, 0.4),
    ):
        foliage(c, rng, x, y, rx, ry, green, max(0.08, 2.2 / scale))
    return c.sprite()


LOOKALIKES: tuple[Draw, ...] = (
    cart,
    caravan,
    kiosk,
    tyres,
    table,
    topiary,
    cow,
    cow,
    bush,
    hay,
    crates,
)


def house(rng: Rng, scale: float) -> Sprite:
    half, eaves, storeys = rng.uniform(2.6, 5.0), rng.uniform(2.7, 3.2), int(rng.integers(1, 3))
    wall, roof = pick(rng, (*PLASTERS, *BRICKS)), pick(rng, ROOFS)
    top = eaves * storeys
    ridge = top + rng.uniform(1.2, 2.2)
    c = Canvas(-half - 0.6, half + 0.6, -0.1, ridge + 1.2, scale)
    c.box(-half, 0, half, top, wall)
    if rng.random() < 0.5:
        for y in np.arange(0.2, top, 0.3):
            c.box(-half, y, half, y + 0.05, shade(wall, rng.uniform(0.82, 0.95)))
    c.box(-half, 0, half, 0.4, shade(wall, 0.7))
    chimney = rng.uniform(-0.5, 0.3) * half
    c.box(chimney, top, chimney + 0.6, ridge + 0.6, pick(rng, BRICKS))
    gable = rng.uniform(0.0, 0.5) * half
    c.polygon(
        [(-half - 0.35, top), (half + 0.35, top), (half - gable, ridge), (-half + gable, ridge)],
        roof,
    )
    for t in np.arange(0.08, 1, 0.12):
        y, inset = top + t * (ridge - top), 0.35 - t * (gable + 0.35)
        c.line([(-half - inset, y), (half + inset, y)], shade(roof, 0.78), 0.06)
    frame, columns = (
        pick(rng, ((236, 230, 218), (110, 84, 64), (86, 104, 98))),
        max(2, int(half * 2 / rng.uniform(1.6, 2.4))),
    )
    door = int(rng.integers(columns))
    step = 2 * half / columns
    for storey in range(storeys):
        for k in range(columns):
            x, y = -half + (k + 0.5) * step, storey * eaves
            if storey == 0 and k == door:
                c.box(x - 0.55, 0, x + 0.55, 2.2, frame)
                c.box(x - 0.45, 0, x + 0.45, 2.1, pick(rng, (*WOODS, (96, 60, 54), (66, 86, 80))))
                continue
            _window(c, x, y + 0.9, min(1.1, 0.6 * step), 1.3, frame)
    return c.sprite()


def _window(c: Canvas, x: float, y: float, width: float, height: float, frame: Colour) -> None:
    half = width / 2
    c.box(x - half - 0.1, y - 0.1, x + half + 0.1, y + height + 0.1, frame)
    c.box(x - half, y, x + half, y + height, PANE)
    c.polygon(
        [(x - half, y + 0.3), (x + half, y + height), (x - half, y + height)],
        mix(PANE, (206, 220, 228), 0.35),
    )
    c.box(x - 0.04, y, x + 0.04, y + height, frame)
    c.box(x - half, y + 0.58 * height, x + half, y + 0.64 * height, frame)
