"""Horses, and the cows that are taken for them: outlines bent at the joints.

Metres, facing right, feet on the ground at y = 0; the withers of a horse are about 1.55 high.
"""

from __future__ import annotations

import math

import numpy as np

from halfseen.data.scenery.shapes import (
    Canvas,
    Colour,
    Point,
    Rng,
    Sprite,
    circle,
    limb,
    mix,
    pick,
    shade,
    smooth,
)

VIEWS = ("standing", "walking", "grazing", "front", "rear")
COATS: tuple[tuple[Colour, Colour], ...] = (
    ((128, 72, 40), (112, 58, 32)), ((112, 62, 36), (30, 26, 26)),
    ((186, 182, 174), (228, 224, 214)), ((52, 44, 42), (26, 24, 26)),
    ((206, 164, 100), (238, 224, 190)), ((150, 96, 58), (46, 34, 30)),
    ((224, 216, 200), (246, 240, 226)), ((96, 84, 80), (40, 38, 42)),
)  # fmt: skip
BLANKETS: tuple[Colour, ...] = ((158, 48, 44), (48, 82, 120), (70, 98, 66), (206, 172, 84))
HOOF: Colour = (46, 40, 38)


def _leg(c: Canvas, colour: Colour, sock: Colour, joints: list[Point], widths: list[float]) -> None:
    """Upper leg to hoof; the last joint is the foot."""
    c.polygon(limb(joints, widths), colour)
    for (x, y), width in zip(joints[1:-1], widths[1:-1], strict=True):
        c.ellipse(x, y, 0.52 * width, 0.52 * width, colour)
    (x, y), shin = joints[-1], joints[-2]
    c.polygon(
        limb([(0.5 * (x + shin[0]), 0.5 * (y + shin[1])), (x, y)], [widths[-2], widths[-1]]), sock
    )
    c.polygon([(x - 0.07, y), (x + 0.10, y), (x + 0.05, y + 0.10), (x - 0.05, y + 0.10)], HOOF)


def _stride(rng: Rng, walking: bool) -> tuple[list[list[Point]], list[list[Point]]]:
    """Joints of the far and near legs: [front, hind] each."""
    swing = rng.uniform(0.22, 0.42) if walking else rng.uniform(0.0, 0.08)
    phase = 1.0 if rng.random() < 0.5 else -1.0
    legs: list[list[list[Point]]] = []
    for sign in (phase, -phase):
        a, b = sign * swing, -sign * swing * 0.9
        lift = 0.16 if walking and sign > 0 else 0.0
        front = [(0.56, 1.12), (0.58 + 0.45 * a, 0.58), (0.57 + 0.9 * a - 0.6 * lift, 0.17 + lift),
                 (0.59 + a - 0.5 * lift, lift)]  # fmt: skip
        hind = [(-0.62, 1.10), (-0.60 + 0.2 * b, 0.82), (-0.80 + 0.7 * b, 0.53), (-0.74 + b, 0.16),
                (-0.71 + 1.05 * b, 0.0)]  # fmt: skip
        legs.append([front, hind])
    return (legs[0], legs[1])


def _hair(
    c: Canvas, rng: Rng, path: list[Point], length: float, colour: Colour, drift: float
) -> None:
    """Locks hanging from a path."""
    for x, y in smooth(path, 5, closed=False):
        reach = length * rng.uniform(0.6, 1.1)
        tip = (x + drift * reach + rng.uniform(-0.04, 0.04), y - reach)
        c.polygon(
            [(x - 0.06, y + 0.03), (x + 0.06, y + 0.03), tip], shade(colour, rng.uniform(0.8, 1.15))
        )


def _patches(c: Canvas, rng: Rng, colour: Colour, count: int) -> None:
    for _ in range(count):
        x, y = rng.uniform(-0.65, 0.45), rng.uniform(1.05, 1.35)
        c.polygon(_blot(rng, x, y, rng.uniform(0.12, 0.24), rng.uniform(0.10, 0.16)), colour)


def _blot(rng: Rng, x: float, y: float, rx: float, ry: float) -> list[Point]:
    """An uneven patch of hide."""
    rough = np.array(circle(x, y, rx, ry, 8)) + rng.uniform(-0.06, 0.06, (8, 2))
    return smooth([(float(u), float(v)) for u, v in rough], 3)


def _side(c: Canvas, rng: Rng, view: str, coat: Colour, mane: Colour) -> None:
    far, near = _stride(rng, view == "walking")
    dark, sock = shade(coat, 0.72), pick(rng, (coat, mane, (232, 226, 214)))
    front_widths, hind_widths = [0.24, 0.14, 0.095, 0.10], [0.34, 0.24, 0.13, 0.095, 0.10]
    tail = smooth([(-0.80, 1.42), (-0.98, 1.34), (-1.05, 1.0), (-1.00, 0.62), (-0.92, 0.45),
                   (-0.90, 0.75), (-0.88, 1.1)])  # fmt: skip
    for joints, widths in ((far[0], front_widths), (far[1], hind_widths)):
        _leg(c, dark, shade(sock, 0.72), joints, widths)
    c.polygon(tail, mane)

    angle = math.radians(rng.uniform(-52, -44) if view == "grazing" else rng.uniform(34, 58))
    nod = math.radians(rng.uniform(-74, -62) if view == "grazing" else rng.uniform(-46, -24))
    base, reach = (0.58, 1.26), 0.92 if view == "grazing" else 0.80
    poll = (base[0] + reach * math.cos(angle), base[1] + reach * math.sin(angle))
    arch = 0.07 if view != "grazing" else 0.04
    middle = (0.5 * (base[0] + poll[0]) - arch * math.sin(angle),
              0.5 * (base[1] + poll[1]) + arch * math.cos(angle))  # fmt: skip
    neck = [(0.36, 1.22), middle, poll]
    torso = [(0.48, 1.56), (0.12, 1.47), (-0.26, 1.47), (-0.58, 1.53), (-0.82, 1.42), (-0.90, 1.18),
             (-0.78, 0.94), (-0.42, 0.88), (0.0, 0.82), (0.34, 0.84), (0.66, 0.94), (0.80, 1.14),
             (0.72, 1.40)]  # fmt: skip
    c.polygon(smooth(limb(neck, [0.62, 0.36, 0.24]), 4), coat)
    c.polygon(smooth(torso), coat)

    def head(along: float, across: float) -> Point:
        u, v = math.cos(nod), math.sin(nod)
        return (poll[0] + along * u - across * v, poll[1] + along * v + across * u)

    skull = [head(-0.08, 0.06), head(0.10, 0.12), head(0.38, 0.08), head(0.56, 0.07),
             head(0.60, -0.04), head(0.50, -0.09), head(0.24, -0.15),
             head(0.02, -0.16)]  # fmt: skip
    c.polygon([head(-0.02, 0.08), head(-0.14, 0.26), head(0.08, 0.13)], dark)
    c.polygon([head(-0.08, 0.06), head(-0.22, 0.20), head(0.01, 0.12)], coat)
    c.polygon(smooth(skull), coat)
    if rng.random() < 0.4:
        c.polygon(
            [head(0.08, 0.115), head(0.5, 0.075), head(0.5, 0.02), head(0.1, 0.06)], (236, 230, 220)
        )
    c.ellipse(*head(0.16, 0.03), 0.028, 0.028, (20, 18, 18))
    c.ellipse(*head(0.54, 0.0), 0.022, 0.022, shade(coat, 0.45))
    if rng.random() < 0.5:
        strap = pick(rng, BLANKETS)
        c.line([head(0.36, 0.09), head(0.34, -0.12)], strap, 0.04)
        c.line([head(0.34, -0.02), head(0.02, -0.06)], strap, 0.035)
    crest = [(p[0] - 0.16 * math.sin(angle) * f, p[1] + 0.16 * math.cos(angle) * f)
             for p, f in ((neck[0], 1.4), (middle, 1.05), (poll, 0.6))]  # fmt: skip
    _hair(c, rng, [(crest[0][0] + 0.1, crest[0][1] + 0.05), crest[1], crest[2]], 0.26, mane, -0.25)

    for joints, widths in ((near[0], front_widths), (near[1], hind_widths)):
        _leg(c, coat, sock, joints, widths)
    c.polygon(
        smooth([(-0.86, 1.20), (-0.60, 1.44), (-0.40, 1.15), (-0.52, 0.82), (-0.70, 0.78)]), coat
    )
    if rng.random() < 0.25:
        _patches(c, rng, (236, 230, 218), int(rng.integers(2, 5)))
    if view != "grazing" and rng.random() < 0.45:
        blanket = pick(rng, BLANKETS)
        c.polygon([(0.34, 1.55), (-0.30, 1.50), (-0.34, 1.05), (0.32, 1.02)], blanket)
        c.line([(-0.33, 1.10), (0.31, 1.07)], mix(blanket, (250, 240, 210), 0.7), 0.035)
        c.polygon(
            smooth([(0.26, 1.58), (0.0, 1.50), (-0.22, 1.56), (-0.14, 1.30), (0.14, 1.28)]),
            (74, 44, 30),
        )


def _end_on(c: Canvas, rng: Rng, view: str, coat: Colour, mane: Colour) -> None:
    """From the front or the rear."""
    dark, sway = shade(coat, 0.7), rng.uniform(-0.05, 0.05)
    for x in (-0.15, 0.17):
        _leg(
            c,
            dark,
            dark,
            [(x, 0.9), (x * 0.95, 0.55), (x * 0.9, 0.22), (x, 0.06)],
            [0.2, 0.13, 0.1, 0.1],
        )
    c.polygon(smooth([(0, 1.62), (0.30, 1.42), (0.36, 1.15), (0.26, 0.86), (0, 0.80), (-0.26, 0.86),
                      (-0.36, 1.15), (-0.30, 1.42)]), coat)  # fmt: skip
    for x in (-0.21, 0.21):
        feet = [(x, 1.05), (x * 1.02, 0.60), (x * 0.95 + sway, 0.20), (x * 0.95 + sway, 0.0)]
        _leg(c, shade(coat, 0.92), coat, feet, [0.28, 0.17, 0.11, 0.12])
    if view == "rear":
        c.line([(0, 1.5), (0, 0.86)], shade(coat, 0.6), 0.03)
        for k in range(9):
            x = -0.08 + 0.02 * k
            c.line([(0.5 * x, 1.48), (x * 1.1, 1.1), (x * 0.9 + sway, rng.uniform(0.42, 0.6))],
                   shade(mane, rng.uniform(0.8, 1.2)), 0.045)  # fmt: skip
        ears = rng.uniform(-0.12, 0.12)
        c.polygon(
            smooth(
                [(ears - 0.13, 1.5), (ears - 0.12, 1.84), (ears + 0.12, 1.84), (ears + 0.13, 1.5)]
            ),
            dark,
        )
        for x in (ears - 0.09, ears + 0.09):
            c.polygon([(x - 0.045, 1.84), (x, 2.0), (x + 0.045, 1.84)], dark)
        c.polygon(
            smooth([(0, 1.63), (0.28, 1.46), (0.30, 1.2), (0, 1.1), (-0.30, 1.2), (-0.28, 1.46)]),
            coat,
        )
        c.line([(0, 1.5), (0.02, 0.8)], mane, 0.09)
        return
    turn = rng.uniform(-0.16, 0.16)
    c.polygon(
        smooth([(-0.2, 1.2), (turn - 0.13, 1.85), (turn + 0.13, 1.85), (0.2, 1.2), (0, 1.05)]),
        shade(coat, 0.86),
    )
    _hair(c, rng, [(turn - 0.10, 1.92), (turn + 0.10, 1.92)], 0.34, mane, 0.1)
    for x in (turn - 0.10, turn + 0.10):
        c.polygon([(x - 0.05, 1.88), (x * 1.0, 2.10), (x + 0.05, 1.88)], coat)
    halves = ((0.13, 1.0, 1.88), (0.13, 1.0, 1.68), (0.075, 1.3, 1.42), (0.07, 1.4, 1.30))
    face = [(turn * far + half, y) for half, far, y in halves]
    face += [(turn * far - half, y) for half, far, y in reversed(halves)]
    c.polygon(smooth(face, 3), shade(coat, 1.08))
    if rng.random() < 0.6:
        c.polygon(
            [
                (turn - 0.03, 1.8),
                (turn + 0.03, 1.8),
                (turn * 1.35 + 0.03, 1.4),
                (turn * 1.35 - 0.03, 1.4),
            ],
            (238, 232, 222),
        )
    for x in (turn - 0.115, turn + 0.115):
        c.ellipse(x, 1.73, 0.025, 0.03, (18, 16, 16))
    for side in (-0.035, 0.035):
        c.ellipse(turn * 1.4 + side, 1.35, 0.018, 0.022, shade(coat, 0.4))


def horse(rng: Rng, view: str, width: float) -> tuple[Sprite, float]:
    """A horse of about `width` pixels, and its pixels a metre."""
    coat, mane = COATS[int(rng.integers(len(COATS)))]
    coat = pick(rng, (coat,))
    turned = rng.uniform(0.78, 1.0)  # a body turned away is shorter, not lower
    extent = {"front": 0.74, "rear": 0.74, "grazing": 2.45}.get(view, 2.55)
    if view in ("front", "rear"):
        c = Canvas(-0.6, 0.6, -0.1, 2.3, width / extent)
        _end_on(c, rng, view, coat, mane)
    else:
        c = Canvas(-1.3, 2.0, -0.1, 2.5, width / (extent * turned))
        c.squeeze = turned
        _side(c, rng, view, coat, mane)
    sprite = c.sprite()
    return (sprite.mirrored() if rng.random() < 0.5 else sprite), c.scale


def cow(rng: Rng, scale: float) -> Sprite:
    """A cow: a horse's legs under a longer, square body with a low head and horns."""
    c = Canvas(-1.4, 1.8, -0.1, 1.8, scale)
    hide = pick(rng, ((234, 228, 218), (120, 70, 44), (60, 50, 48), (196, 160, 120)))
    spot = pick(rng, ((44, 40, 40), (104, 62, 40), (236, 230, 220)))
    for tone, offset in ((0.72, 0.10), (1.0, -0.02)):
        for x in (-0.78, 0.56):
            x += offset + rng.uniform(-0.05, 0.05)
            joints = [(x, 0.85), (x + 0.02, 0.45), (x, 0.15), (x + 0.01, 0.0)]
            _leg(c, shade(hide, tone), shade(hide, tone), joints, [0.30, 0.15, 0.11, 0.11])
    trunk = [(0.72, 1.34), (0.3, 1.36), (-0.3, 1.33), (-0.88, 1.36), (-1.02, 1.2), (-1.0, 0.8),
             (-0.6, 0.66), (0.0, 0.56), (0.5, 0.58), (0.84, 0.72), (0.92, 1.05)]  # fmt: skip
    c.polygon(smooth(trunk), hide)
    droop = rng.uniform(-0.5, 0.1)
    x, y = 1.16, 1.18 + 0.5 * droop
    c.polygon(limb([(0.7, 1.05), (x, y)], [0.5, 0.3]), hide)
    muzzle = [(x - 0.12, y + 0.18), (x + 0.12, y + 0.16), (x + 0.36, y - 0.12),
              (x + 0.30, y - 0.24), (x + 0.05, y - 0.16), (x - 0.10, y - 0.06)]  # fmt: skip
    c.polygon(smooth(muzzle), shade(hide, 1.05))
    c.line([(x, y + 0.16), (x + 0.06, y + 0.30), (x + 0.14, y + 0.34)], (226, 216, 196), 0.05)
    c.polygon([(x - 0.06, y + 0.12), (x - 0.26, y + 0.10), (x - 0.06, y + 0.02)], shade(hide, 0.8))
    c.line([(-1.0, 1.28), (-1.08, 0.9), (-1.06, 0.5)], shade(hide, 0.8), 0.05)
    for _ in range(int(rng.integers(3, 7))):
        px, py = rng.uniform(-0.85, 0.6), rng.uniform(0.8, 1.2)
        c.polygon(_blot(rng, px, py, rng.uniform(0.1, 0.26), rng.uniform(0.08, 0.15)), spot)
    sprite = c.sprite()
    return sprite.mirrored() if rng.random() < 0.5 else sprite
