"""Leaves: bushes, hedges, trees and branches, ragged at every edge.

Each function draws one plant at `scale` pixels a metre, standing on the ground at its middle.
"""

from __future__ import annotations

import math

import numpy as np

from halfseen.data.scenery.shapes import Canvas, Colour, Rng, Sprite, limb, pick, shade

GREENS: tuple[Colour, ...] = (
    (74, 102, 58), (96, 118, 58), (58, 88, 64), (120, 128, 66), (140, 110, 52), (84, 112, 82),
)  # fmt: skip
BARK: tuple[Colour, ...] = ((92, 74, 60), (112, 98, 84), (74, 64, 58), (186, 182, 172))


def foliage(
    c: Canvas, rng: Rng, x: float, y: float, rx: float, ry: float, colour: Colour, leaf: float
) -> None:
    """A ragged mass of leaves, dark within and below, light above."""
    count = int(min(300, 40 + 2.4 * rx * ry / leaf**2))
    for dark in (True, False):
        n = count // 3 if dark else count
        angle, radius = rng.uniform(0, 2 * math.pi, n), np.sqrt(rng.uniform(0, 1, n))
        radius *= (0.86 if dark else 1.0) * (
            1 + 0.16 * np.sin(3 * angle + rx) + 0.10 * np.sin(7 * angle + ry)
        )
        u, v = radius * np.cos(angle), radius * np.sin(angle)
        size = leaf * rng.uniform(0.7, 1.5, n) * (2.2 if dark else 1.0)
        turn = rng.uniform(0, math.pi, n)
        tone = (0.55 + 0.1 * v if dark else 0.84 + 0.26 * v) + rng.uniform(-0.16, 0.16, n)
        dx, dy = size * np.cos(turn), size * np.sin(turn)
        px, py = x + rx * u, y + ry * v
        c.blades(
            np.stack([px - dx, px + 0.5 * dy, px + dx, px - 0.5 * dy], axis=1),
            np.stack([py - dy, py - 0.5 * dx, py + dy, py + 0.5 * dx], axis=1),
            np.clip(np.asarray(colour) * tone[:, None], 0, 255),
            np.argsort(v),
        )


def bush(rng: Rng, scale: float, height: float | None = None) -> Sprite:
    height = rng.uniform(0.9, 2.2) if height is None else height
    half = rng.uniform(0.5, 1.3)
    c = Canvas(-half * 1.6, half * 1.6, -0.2, height * 1.4, scale, 2)
    colour = pick(rng, GREENS)
    foliage(c, rng, 0, height / 2, half, height / 2, colour, max(0.07, 2.0 / scale))
    for _ in range(2):
        foliage(
            c,
            rng,
            rng.uniform(-0.5, 0.5) * half,
            0.3 * height,
            0.6 * half,
            0.3 * height,
            colour,
            max(0.07, 2 / scale),
        )
    return c.sprite()


def hedge(rng: Rng, scale: float, height: float | None = None) -> Sprite:
    height = rng.uniform(0.6, 1.2) if height is None else height
    half = rng.uniform(2.4, 3.8)
    c = Canvas(-half - 0.5, half + 0.5, -0.2, height * 1.4 + 0.2, scale, 2)
    colour, leaf = pick(rng, GREENS), max(0.07, 2.2 / scale)
    c.box(-half, 0, half, 0.8 * height, shade(colour, 0.55))
    for x in np.arange(-half, half, 0.55):
        foliage(c, rng, x, 0.55 * height, 0.5, 0.5 * height, colour, leaf)
    return c.sprite()


def tree(rng: Rng, scale: float) -> Sprite:
    width, colour, bark = rng.uniform(0.35, 0.8), pick(rng, GREENS), pick(rng, BARK)
    fork, top = rng.uniform(2.0, 3.2), rng.uniform(4.2, 5.5)
    c = Canvas(-2.6, 2.6, -0.2, top + 1.4, scale, 2)
    lean = rng.uniform(-0.25, 0.25)
    trunk = [(0.0, 0.0), (0.3 * lean, 0.3), (0.6 * lean, 0.5 * fork), (lean, fork + 0.8)]
    c.polygon(limb(trunk, [1.5 * width, width, 0.85 * width, 0.6 * width]), bark)
    for _ in range(int(width * 50)):
        x, y, length = (
            rng.uniform(-0.45, 0.45) * width,
            rng.uniform(0, fork + 0.4),
            rng.uniform(0.1, 0.5),
        )
        x += lean * y / fork * 0.8
        c.line(
            [(x, y), (x + rng.uniform(-0.04, 0.04), y + length)],
            shade(bark, rng.uniform(0.55, 1.35)),
            0.045,
        )
    for side in (-1, 1):
        c.polygon(
            limb([(lean, fork), (lean + side * 1.1, fork + 1.0)], [0.45 * width, 0.15 * width]),
            shade(bark, 0.9),
        )
    middle = 0.5 * (fork + top) + 0.3
    for x in (-1.0, 1.0, rng.uniform(-0.7, 0.7), rng.uniform(-0.4, 0.4)):
        y = middle + rng.uniform(-0.3, 0.6) - 0.2 * abs(x)
        rx, ry = rng.uniform(0.9, 1.3), rng.uniform(0.7, 1.0)
        foliage(c, rng, lean + x, y, rx, ry, colour, max(0.12, 2.4 / scale))
    return c.sprite()


def branch(rng: Rng, scale: float, reach: float) -> Sprite:
    """Leaves that hang into the picture from `reach` metres up; its anchor is the lowest leaf."""
    half, colour = rng.uniform(1.2, 2.0), pick(rng, GREENS)
    c = Canvas(-half * 2, half * 2, -0.4, reach, scale, 2)
    leaf = max(0.1, 2.2 / scale)
    for _ in range(3):
        x = rng.uniform(-1, 1) * half
        c.line([(x, 0.8), (0.7 * x, reach)], (84, 70, 58), 0.08)
    for y in np.arange(reach, 0.2, -0.65):
        for x in rng.uniform(-0.9, 0.9, 2) * half * min(1.0, 0.35 + 0.25 * y):
            foliage(c, rng, x, y, rng.uniform(0.5, 0.9), rng.uniform(0.4, 0.6), colour, leaf)
    return c.sprite()
