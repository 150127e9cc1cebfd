"""Cars: a solid body seen by a pinhole camera from any side.

A body is its side profile drawn across the car's width, tapered towards both ends; a cabin stands
on it, narrower at the roof. Axes: x forward, y to the far side at yaw 0, z up, in metres. Yaw 0
faces right, 90 degrees faces the camera, 180 left, 270 away.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from halfseen.data.scenery.bodies import Body, profile, varied
from halfseen.data.scenery.shapes import (
    Canvas,
    Colour,
    Point,
    Rng,
    Sprite,
    circle,
    mix,
    pick,
    shade,
)

Point3 = tuple[float, float, float]

VIEWS = ("side", "three-quarter", "front", "rear")
FOCAL = 560.0  # pixels; about 48 degrees across 500 pixels
PAINTS: tuple[Colour, ...] = (
    (188, 52, 44), (226, 222, 212), (58, 84, 124), (46, 52, 60), (176, 180, 184), (214, 158, 62),
    (70, 116, 102), (120, 34, 48), (108, 148, 176), (150, 128, 104), (226, 200, 148), (84, 96, 62),
)  # fmt: skip
GLASS: Colour = (52, 66, 80)
RUBBER: Colour = (34, 34, 38)


class _Painter:
    """Projects the body's points and fills its faces by the light."""

    def __init__(self, body: Body, yaw: float, scale: float, camera: float, light: Point3) -> None:
        self.body, self.camera, self.distance = body, camera, FOCAL / scale
        self.cos, self.sin = math.cos(yaw), math.sin(yaw)
        self.light = light
        reach = 0.62 * body.length * scale + 8
        self.canvas = Canvas(-reach, reach, -0.5 * scale, body.roof * scale * 1.35 + 4, 1.0)

    def taper(self, x: float) -> float:
        return 1 - 0.14 * abs(2 * x / self.body.length) ** 4

    def project(self, point: Point3) -> Point:
        x, y, z = point
        depth = self.distance - x * self.sin + y * self.cos
        across = x * self.cos + y * self.sin
        rise = FOCAL * ((z - self.camera) / depth + self.camera / self.distance)
        return FOCAL * across / depth, rise

    def brightness(self, normal: Point3) -> float:
        x, y, z = normal
        world = (x * self.cos + y * self.sin, z, -x * self.sin + y * self.cos)
        dot = sum(a * b for a, b in zip(world, self.light, strict=True))
        return 0.66 + 0.46 * max(0.0, dot) / math.sqrt(x * x + y * y + z * z)

    def fill(self, points: list[Point3], colour: Colour) -> None:
        self.canvas.polygon([self.project(p) for p in points], colour)

    def facing(self, points: list[Point3]) -> bool:
        """Whether a face, wound anticlockwise seen from outside, looks at the camera."""
        p = np.array([self.project(q) for q in points])
        q = np.roll(p, -1, axis=0)
        return bool((p[:, 0] * q[:, 1] - q[:, 0] * p[:, 1]).sum() > 1e-6)

    def stroke(self, points: list[Point3], colour: Colour, metres: float) -> None:
        """A line on a flank, as thin as the flank is turned away."""
        width = metres * FOCAL / self.distance * abs(self.cos)
        self.canvas.line([self.project(p) for p in points], colour, width)


def _wheel(p: _Painter, x: float, side: float, spokes: int, rim: Colour) -> None:
    """A wheel's outer face, in its arch."""
    b = p.body
    y, r = side * b.width / 2 * p.taper(x), b.wheel

    def disc(radius: float, out: float = 0.0) -> list[Point3]:
        return [(u, y + side * out, v) for u, v in circle(x, r, radius)]

    p.fill([(u, y, max(v, b.clearance)) for u, v in circle(x, r, 1.18 * r)], (26, 26, 30))
    p.fill(disc(r), RUBBER)
    p.fill(disc(0.68 * r), rim)
    p.fill(disc(0.58 * r), shade(rim, 0.45))
    for k in range(spokes):
        a = 2 * math.pi * (k + 0.25) / spokes
        u, v = math.cos(a), math.sin(a)
        blade = ((0, -0.15), (0.62, -0.12), (0.62, 0.12), (0, 0.15))
        p.fill([(x + r * (i * u - j * v), y, r + r * (i * v + j * u)) for i, j in blade], rim)
    p.fill(disc(0.18 * r), shade(rim, 1.1))


def _tread(p: _Painter, x: float, side: float) -> None:
    """A wheel's depth, seen under the body."""
    outer = side * p.body.width / 2 * p.taper(x)
    inner = outer - side * 0.22
    rim = circle(x, p.body.wheel, p.body.wheel, count=14)
    p.fill([(u, inner, v) for u, v in rim], RUBBER)
    for (u1, v1), (u2, v2) in zip(rim, rim[1:] + rim[:1], strict=True):
        p.fill([(u1, inner, v1), (u2, inner, v2), (u2, outer, v2), (u1, outer, v1)], RUBBER)


def _cabin(p: _Painter, paint: Colour, near: float) -> None:
    b = p.body
    low, high = b.width / 2 * 0.96, b.width / 2 * 0.76
    corners = (
        (b.cowl, b.belt),
        (b.roof_front, b.roof - 0.02),
        (b.roof_rear, b.roof),
        (b.tail, b.belt),
    )
    front, top, back, end = corners

    def across(a: Point, c: Point, ya: float, yc: float, trim: float) -> list[Point3]:
        """The face between two corners of the cabin, its edges trimmed by a share."""
        t = trim / 2
        a2 = (a[0] + t * (c[0] - a[0]), a[1] + t * (c[1] - a[1]))
        c2 = (c[0] - t * (c[0] - a[0]), c[1] - t * (c[1] - a[1]))
        y1, y2 = ya * (1 - trim), yc * (1 - trim)
        return [(a2[0], -y1, a2[1]), (a2[0], y1, a2[1]), (c2[0], y2, c2[1]), (c2[0], -y2, c2[1])]

    for a, c, ya, yc, glazed in ((front, top, low, high, True), (top, back, high, high, False),
                                 (back, end, high, low, True)):  # fmt: skip
        face = across(a, c, ya, yc, 0.0)
        if not p.facing(face):
            continue
        tone = p.brightness((a[1] - c[1], 0.0, c[0] - a[0]) if a is not top else (0, 0, 1.0))
        p.fill(face, shade(paint, tone))
        if glazed:
            pane = across(a, c, ya, yc, 0.13)
            p.fill(pane, shade(GLASS, 0.8 + 0.5 * tone))
            (x1, _, z1), (_, y2, _), (x3, y3, z3), (x4, y4, z4) = pane
            p.fill([(x1, 0.5 * y2, z1), (x1, 0.8 * y2, z1), (x3, 0.2 * y3, z3), (x4, 0.5 * y4, z4)],
                   mix(GLASS, (210, 225, 235), 0.38))  # fmt: skip
    side: list[Point3] = [(x, near * (low if z == b.belt else high), z) for x, z in corners]
    p.fill(side, shade(paint, p.brightness((0, near, 0.35)) * 0.94))
    _side_windows(p, near, low, high)


def _side_windows(p: _Painter, near: float, low: float, high: float) -> None:
    b = p.body
    z1, z2 = b.belt + 0.03, b.roof - 0.09

    def edge(z: float, ahead: bool) -> float:
        t = (z - b.belt) / (b.roof - b.belt)
        return (
            b.cowl + t * (b.roof_front - b.cowl) if ahead else b.tail + t * (b.roof_rear - b.tail)
        )

    def at(x: float, z: float) -> Point3:
        t = (z - b.belt) / (b.roof - b.belt)
        return (x, near * (low + t * (high - low)) * 1.002, z)

    posts = np.linspace(edge(z1, False) + 0.14, edge(z1, True) - 0.16, b.doors + 1)
    for k in range(b.doors):
        x1, x2 = posts[k] + 0.04, posts[k + 1] - 0.04
        t1, t2 = max(x1, edge(z2, False) + 0.10), min(x2, edge(z2, True) - 0.10)
        if t2 - t1 < 0.08:
            t1 = t2 = 0.5 * (t1 + t2)
        p.fill([at(x1, z1), at(x2, z1), at(t2, z2), at(t1, z2)], GLASS)
        m1, m2 = x1 + 0.25 * (x2 - x1), x1 + 0.5 * (x2 - x1)
        n1, n2 = t1 + 0.45 * (t2 - t1), t1 + 0.7 * (t2 - t1)
        p.fill([at(m1, z1), at(m2, z1), at(n2, z2), at(n1, z2)], mix(GLASS, (205, 220, 230), 0.30))


def _side_details(p: _Painter, paint: Colour, near: float) -> None:
    b = p.body
    dark = shade(paint, 0.55)

    def at(x: float, z: float) -> Point3:
        return (x, near * b.width / 2 * p.taper(x) * 1.003, z)

    for x in np.linspace(b.cowl - 0.12, b.tail + 0.55, min(b.doors, 2) + 1):
        p.stroke([at(x, b.belt), at(x + 0.04, b.clearance + 0.14)], dark, 0.03)
        p.stroke([at(x - 0.30, b.belt - 0.12), at(x - 0.14, b.belt - 0.12)], dark, 0.05)
    p.stroke([at(-0.30 * b.length, 0.56 * b.belt), at(0.30 * b.length, 0.56 * b.belt)], dark, 0.035)
    p.fill([at(-0.3 * b.length, b.clearance), at(0.3 * b.length, b.clearance),
            at(0.3 * b.length, b.clearance + 0.09), at(-0.3 * b.length, b.clearance + 0.09)],
           shade(paint, 0.4))  # fmt: skip
    mirror = circle(b.cowl - 0.16, b.belt + 0.06, 0.11, 0.07, 8)
    p.fill([(x, near * (b.width / 2 + 0.1), z) for x, z in mirror], shade(paint, 0.8))


def _end(p: _Painter, rng: Rng, end: float) -> None:
    """Lamps, plate, grille and bumper of the front (end = 1) or the rear (end = -1)."""
    b = p.body
    x, half = end * (b.length / 2 + 0.005), b.width / 2 * p.taper(b.length / 2)

    def patch(
        y1: float, y2: float, z1: float, z2: float, colour: Colour, lean: float = 0.0
    ) -> None:
        p.fill(
            [(x, y1, z1), (x, y2, z1), (x - end * lean, y2, z2), (x - end * lean, y1, z2)], colour
        )

    low, lamp, top = b.clearance + 0.02, 0.62 * b.belt, 0.62 * b.belt + 0.16
    patch(-half * 0.97, half * 0.97, low, low + 0.14, (52, 54, 58))
    if end > 0:
        patch(-0.45 * half, 0.45 * half, lamp - 0.08, top, (30, 32, 36))
        for z in np.linspace(lamp - 0.04, top - 0.03, 3):
            patch(-0.42 * half, 0.42 * half, z, z + 0.022, (150, 152, 156))
        for side in (-1, 1):
            patch(side * 0.54 * half, side * 0.96 * half, lamp, top, (238, 236, 220), 0.03)
            patch(side * 0.66 * half, side * 0.84 * half, lamp + 0.03, top - 0.03, (170, 176, 184))
    else:
        for side in (-1, 1):
            patch(
                side * 0.66 * half, side * 0.97 * half, lamp + 0.02, top + 0.08, (172, 30, 30), 0.03
            )
            patch(side * 0.70 * half, side * 0.93 * half, lamp + 0.02, lamp + 0.08, (232, 170, 120))
        patch(-0.6 * half, 0.6 * half, top + 0.05, top + 0.07, (40, 40, 44))
    z = low + 0.17 if end > 0 else lamp - 0.02
    patch(-0.26, 0.26, z, z + 0.11, pick(rng, ((236, 234, 222), (236, 214, 120))))


def car(rng: Rng, view: str, width: float, camera: float, light: Point3) -> tuple[Sprite, float]:
    """A car of about `width` pixels seen from `camera` metres up, and its pixels a metre.

    light is the direction to the light: right, up, away from the camera.
    """
    body, paint = varied(rng), pick(rng, PAINTS)
    spread = rng.uniform(-1.0, 1.0)
    degrees = {
        "side": 14 * spread,
        "three-quarter": math.copysign(28 + 34 * abs(spread), spread),
        "front": 90 + 12 * spread,
        "rear": 270 + 12 * spread,
    }[view]  # fmt: skip
    if view in ("side", "three-quarter") and rng.random() < 0.5:
        degrees = 180 - degrees
    yaw = math.radians(degrees)
    across = abs(math.cos(yaw)) * body.length + abs(math.sin(yaw)) * body.width
    p = _Painter(body, yaw, width / across, camera, light)
    near = -1.0 if p.cos > 0 else 1.0
    axles = (0.31 * body.length, -0.29 * body.length)

    for x in axles:
        _tread(p, x, -near)
        _tread(p, x, near)
    outline = profile(body)
    floor: list[Point3] = [
        (x, side * body.width / 2 * p.taper(x), body.clearance)
        for side, xs in ((1, (-0.48, 0.48)), (-1, (0.48, -0.48)))
        for x in (body.length * xs[0], body.length * xs[1])
    ]
    p.fill(floor, (24, 24, 28))
    for a, c in pairwise(outline):
        ya, yc = (body.width / 2 * p.taper(q[0]) for q in (a, c))
        strip: list[Point3] = [
            (a[0], ya, a[1]),
            (a[0], -ya, a[1]),
            (c[0], -yc, c[1]),
            (c[0], yc, c[1]),
        ]
        if p.facing(strip):
            p.fill(strip, shade(paint, p.brightness((a[1] - c[1], 0.0, c[0] - a[0]))))
    flank: list[Point3] = [(x, near * body.width / 2 * p.taper(x), z) for x, z in outline]
    tone = p.brightness((0, near, 0.1))
    p.fill(flank, shade(paint, tone))
    waist = [(x, y, min(z, 0.56 * body.belt)) for x, y, z in flank]
    p.fill(waist, shade(paint, tone * 0.86))
    _cabin(p, paint, near)
    _side_details(p, paint, near)
    rim = pick(rng, ((196, 198, 202), (150, 152, 158), (110, 112, 118)))
    spokes = int(rng.integers(4, 9))
    for x in axles:
        _wheel(p, x, near, spokes, rim)
    toward = 1.0 if p.sin > 0 else -1.0
    if abs(p.sin) > 0.18:
        _end(p, rng, toward)
    return p.canvas.sprite(), width / across
