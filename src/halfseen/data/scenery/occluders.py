"""What stands in front of objects: full of edges, so that it speaks against what it hides.

Each function draws one thing at `scale` pixels a metre, standing on the ground at its middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from halfseen.data.scenery.plants import bush, hedge, tree
from halfseen.data.scenery.shapes import Canvas, Colour, Rng, Sprite, limb, mix, pick, shade, smooth

WOODS: tuple[Colour, ...] = ((134, 102, 70), (108, 82, 60), (168, 138, 100), (96, 84, 74))
BRICKS: tuple[Colour, ...] = ((150, 84, 66), (172, 112, 84), (128, 92, 82), (186, 164, 140))
STONES: tuple[Colour, ...] = ((146, 142, 132), (126, 124, 120), (164, 154, 136))
CLOTHES: tuple[Colour, ...] = (
    (178, 60, 52), (58, 86, 120), (222, 214, 196), (72, 74, 78), (196, 154, 70), (90, 118, 96),
)  # fmt: skip
SKINS: tuple[Colour, ...] = ((224, 184, 152), (190, 142, 108), (132, 92, 68), (96, 66, 52))


def pole(rng: Rng, scale: float) -> Sprite:
    """A lamp post, a road sign or a striped post."""
    width, height = rng.uniform(0.10, 0.26), rng.uniform(2.6, 4.2)
    c = Canvas(-1.0, 1.0, -0.2, height + 0.8, scale)
    colour = pick(rng, ((70, 74, 78), (96, 84, 70), (150, 152, 150), (58, 78, 70)))
    c.polygon(
        [(-0.7 * width, 0), (0.7 * width, 0), (0.42 * width, height), (-0.42 * width, height)],
        colour,
    )
    c.box(-0.42 * width, 0, -0.1 * width, height, shade(colour, 1.35))
    c.box(-width, 0, width, 0.28, shade(colour, 0.7))
    kind = rng.integers(3)
    if kind == 0:
        c.polygon(
            [
                (-0.24, height + 0.1),
                (0.24, height + 0.1),
                (0.34, height + 0.6),
                (-0.34, height + 0.6),
            ],
            (236, 224, 178),
        )
        c.polygon(
            [(-0.4, height + 0.58), (0.4, height + 0.58), (0, height + 0.8)], shade(colour, 0.8)
        )
        c.box(-0.3, height, 0.3, height + 0.12, colour)
    elif kind == 1:
        c.ellipse(0, height, 0.40, 0.40, (190, 44, 40))
        c.ellipse(0, height, 0.29, 0.29, (238, 236, 228))
        c.box(-0.2, height - 0.05, 0.2, height + 0.05, (40, 42, 46))
    else:
        for k in range(int(height / 0.5)):
            if k % 2:
                c.box(-0.55 * width, 0.5 * k, 0.55 * width, 0.5 * k + 0.5, (222, 216, 200))
        c.box(
            -0.5,
            height - 0.2,
            0.5,
            height + 0.3,
            pick(rng, ((60, 96, 128), (74, 110, 80), (206, 168, 70))),
        )
        c.box(-0.4, height - 0.02, 0.4, height + 0.06, (236, 234, 226))
    return c.sprite()


def brick_wall(rng: Rng, scale: float, height: float | None = None) -> Sprite:
    half = rng.uniform(0.8, 1.8) if height is None else rng.uniform(2.4, 3.6)
    height = rng.uniform(1.3, 2.4) if height is None else height
    c = Canvas(-half - 0.2, half + 0.2, -0.1, height + 0.3, scale)
    brick = pick(rng, BRICKS)
    c.box(-half, 0, half, height, mix(brick, (206, 200, 188), 0.55))
    tall, long, gap = 0.15, 0.42, 0.03
    for row in range(math.ceil(height / tall)):
        y1, y2 = row * tall, min(height, (row + 1) * tall) - gap
        tones = rng.uniform(0.72, 1.15, math.ceil(2 * half / long) + 2)
        for k, tone in enumerate(tones):
            x1 = -half + (k - 0.5 * (row % 2)) * long
            x2 = min(half, x1 + long - gap)
            if x2 > -half and x1 < half and y2 > y1:
                c.box(max(-half, x1), y1, x2, y2, shade(brick, tone))
    c.box(-half - 0.08, height, half + 0.08, height + 0.12, pick(rng, STONES))
    return c.sprite()


def stone_wall(rng: Rng, scale: float, height: float | None = None) -> Sprite:
    height = rng.uniform(0.7, 1.2) if height is None else height
    half = rng.uniform(2.2, 3.6)
    c = Canvas(-half - 0.3, half + 0.3, -0.1, height + 0.4, scale)
    stone = pick(rng, STONES)
    c.box(-half, 0, half, 0.94 * height, shade(stone, 0.5))
    rows = max(2, round(height / 0.26))
    for row in range(rows):
        x = -half + rng.uniform(-0.2, 0)
        while x < half:
            w, h = rng.uniform(0.25, 0.6), height / rows
            y = row * h
            corner = rng.uniform(-0.03, 0.03, (4, 2))
            shape = [(x, y), (x + w - 0.03, y), (x + w - 0.03, y + h - 0.03), (x, y + h - 0.03)]
            c.polygon(
                [(a + d, b + e) for (a, b), (d, e) in zip(shape, corner, strict=True)],
                shade(stone, rng.uniform(0.75, 1.2)),
            )
            x += w
    return c.sprite()


def fence(rng: Rng, scale: float, height: float | None = None) -> Sprite:
    """Pickets or rails, with gaps to look through."""
    height = rng.uniform(0.8, 1.4) if height is None else height
    half = rng.uniform(2.4, 3.8)
    c = Canvas(-half - 0.2, half + 0.2, -0.1, height + 0.3, scale)
    wood = pick(rng, (*WOODS, (228, 224, 214)))
    for y in (0.25, 0.72):
        c.box(-half, y * height - 0.06, half, y * height + 0.06, shade(wood, 0.8))
    rails = rng.random() < 0.35
    step = 1.3 if rails else rng.uniform(0.20, 0.34)
    width = 0.16 if rails else step * rng.uniform(0.45, 0.8)
    if rails:
        c.box(-half, 0.48 * height - 0.05, half, 0.48 * height + 0.06, wood)
    for x in np.arange(-half, half, step):
        top = height + rng.uniform(-0.04, 0.04)
        c.polygon(
            [
                (x, 0),
                (x + width, 0),
                (x + width, top - 0.08),
                (x + width / 2, top),
                (x, top - 0.08),
            ],
            shade(wood, rng.uniform(0.85, 1.12)),
        )
    return c.sprite()


def crates(rng: Rng, scale: float) -> Sprite:
    c = Canvas(-1.7, 1.7, -0.1, 3.0, scale)
    columns = int(rng.integers(1, 3))
    for k in range(columns):
        x, y = (k - columns / 2) * 1.05, 0.0
        for _ in range(int(rng.integers(1, 3))):
            size, wood = rng.uniform(0.75, 1.02), pick(rng, WOODS)
            _crate(c, x, y, size, wood, rng.random() < 0.6)
            y += size
    return c.sprite()


def _crate(c: Canvas, x: float, y: float, size: float, wood: Colour, braced: bool) -> None:
    c.box(x, y, x + size, y + size, shade(wood, 0.6))
    for k in range(5):
        low = y + size * k / 5
        c.box(x, low, x + size, low + 0.17 * size, shade(wood, 0.9 + 0.06 * (k % 3)))
    if braced:
        c.line([(x + 0.06, y + 0.06), (x + size - 0.06, y + size - 0.06)], shade(wood, 1.15), 0.11)
    for x1, y1, x2, y2 in ((0, 0, 0.12, 1), (0.88, 0, 1, 1), (0, 0, 1, 0.12), (0, 0.88, 1, 1)):
        c.box(x + x1 * size, y + y1 * size, x + x2 * size, y + y2 * size, shade(wood, 1.22))


def hay(rng: Rng, scale: float) -> Sprite:
    """Bales of straw, round or square."""
    c = Canvas(-1.3, 1.3, -0.1, 2.2, scale)
    straw, r = pick(rng, ((206, 176, 104), (188, 160, 96))), rng.uniform(0.6, 0.85)
    if rng.random() < 0.5:
        c.ellipse(0, r, r, r, shade(straw, 0.8))
        for k in range(90):
            a, q = 2.4 * k, r * math.sqrt(k / 90)
            x, y = q * math.cos(a), r + q * math.sin(a)
            c.line(
                [(x, y), (x - 0.16 * math.sin(a), y + 0.16 * math.cos(a))],
                shade(straw, rng.uniform(0.6, 1.3)),
                0.04,
            )
        return c.sprite()
    for x, y in ((-0.95, 0), (0.0, 0), (-0.45, 0.62))[: int(rng.integers(1, 4))]:
        c.box(x, y, x + 0.92, y + 0.6, shade(straw, 0.85))
        for _ in range(60):
            u, v = x + rng.uniform(0, 0.9), y + rng.uniform(0, 0.58)
            c.line(
                [(u, v), (u + rng.uniform(-0.2, 0.2), v + rng.uniform(-0.06, 0.06))],
                shade(straw, rng.uniform(0.6, 1.3)),
                0.03,
            )
        for u in (0.25, 0.67):
            c.box(x + u, y, x + u + 0.03, y + 0.6, (120, 86, 60))
    return c.sprite()


def person(rng: Rng, scale: float) -> Sprite:
    """One to three people walking side by side."""
    c = Canvas(-1.2, 1.2, -0.1, 2.1, scale)
    count = int(rng.integers(1, 4))
    for k in range(count):
        _figure(
            c, rng, (k - (count - 1) / 2) * 0.55 + rng.uniform(-0.06, 0.06), rng.uniform(0.9, 1.06)
        )
    return c.sprite()


def _figure(c: Canvas, rng: Rng, x: float, size: float) -> None:
    top, legs, skin = pick(rng, CLOTHES), pick(rng, CLOTHES), pick(rng, SKINS)
    step, s = rng.uniform(-0.22, 0.22), size
    for side in (-1, 1):
        foot = x + side * step
        c.polygon(
            limb(
                [
                    (x + 0.06 * side, 0.9 * s),
                    (x + 0.05 * side + 0.5 * side * step, 0.48 * s),
                    (foot, 0.06),
                ],
                [0.19, 0.15, 0.11],
            ),
            shade(legs, 0.9 + 0.1 * side),
        )
        c.polygon(
            smooth(
                [(foot - 0.07, 0.0), (foot + 0.15, 0.0), (foot + 0.06, 0.10), (foot - 0.07, 0.11)],
                3,
            ),
            (44, 38, 36),
        )
        c.polygon(
            limb(
                [
                    (x + 0.2 * side, 1.42 * s),
                    (x + 0.27 * side, 1.12 * s),
                    (x + 0.24 * side + step, 0.86 * s),
                ],
                [0.13, 0.11, 0.08],
            ),
            shade(top, 0.8),
        )
    c.polygon(
        smooth(
            [
                (x - 0.22, 1.46 * s),
                (x + 0.22, 1.46 * s),
                (x + 0.19, 0.86 * s),
                (x - 0.19, 0.86 * s),
            ],
            4,
        ),
        top,
    )
    if rng.random() < 0.5:
        for y in np.arange(0.95, 1.42, 0.13):
            c.box(x - 0.19, y * s, x + 0.19, (y + 0.05) * s, mix(top, (246, 240, 226), 0.65))
    c.box(x - 0.05, 1.44 * s, x + 0.05, 1.55 * s, shade(skin, 0.85))
    c.ellipse(x, 1.63 * s, 0.105, 0.13, skin)
    hair = pick(rng, ((48, 36, 30), (104, 72, 44), (190, 150, 90), (70, 68, 70)))
    c.polygon(
        smooth(
            [
                (x - 0.12, 1.64 * s),
                (x - 0.09, 1.77 * s),
                (x + 0.09, 1.77 * s),
                (x + 0.12, 1.64 * s),
                (x, 1.71 * s),
            ],
            3,
        ),
        hair,
    )


def board(rng: Rng, scale: float) -> Sprite:
    """A notice board with a poster."""
    c = Canvas(-1.2, 1.2, -0.1, 2.4, scale)
    wood, half = pick(rng, WOODS), rng.uniform(0.5, 0.95)
    for x in (-0.8 * half, 0.8 * half):
        c.box(x - 0.06, 0, x + 0.06, 1.9, wood)
    c.box(-half, 0.7, half, 2.0, shade(wood, 0.8))
    paper = pick(rng, ((236, 226, 200), (200, 90, 70), (90, 130, 140), (226, 190, 96)))
    c.box(-half + 0.08, 0.78, half - 0.08, 1.92, paper)
    ink = shade(paper, 0.4)
    for y in np.arange(0.9, 1.45, 0.11):
        c.box(-half + 0.18, y, half * rng.uniform(0.2, 0.8), y + 0.045, ink)
    c.ellipse(0, 1.65, 0.2, 0.16, shade(ink, 1.3))
    c.polygon([(-half - 0.15, 2.0), (half + 0.15, 2.0), (0, 2.3)], shade(wood, 1.15))
    return c.sprite()


Draw = Callable[[Rng, float], Sprite]
UPRIGHT: tuple[Draw, ...] = (
    bush,
    tree,
    tree,
    brick_wall,
    crates,
    hay,
    person,
    person,
    board,
    pole,
    bush,
)
LOW = (hedge, brick_wall, stone_wall, fence, fence)
