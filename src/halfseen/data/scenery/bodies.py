"""The shapes that cars come in: sizes of each body style, and its side profile."""

from __future__ import annotations

from dataclasses import dataclass

from halfseen.data.scenery.shapes import Point, Rng, smooth


@dataclass(frozen=True)
class Body:
    """Sizes of one body style in metres; x of the cabin's four corners from the middle."""

    length: float
    width: float
    belt: float
    roof: float
    cowl: float
    roof_front: float
    roof_rear: float
    tail: float
    wheel: float
    clearance: float
    doors: int


STYLES = (
    Body(4.5, 1.76, 0.92, 1.42, 0.98, 0.30, -0.90, -1.60, 0.33, 0.24, 2),  # saloon
    Body(3.8, 1.68, 0.94, 1.48, 0.98, 0.35, -1.30, -1.78, 0.30, 0.24, 2),  # hatchback
    Body(4.5, 1.76, 0.94, 1.47, 0.98, 0.32, -1.80, -2.12, 0.33, 0.24, 3),  # estate
    Body(4.3, 1.84, 1.08, 1.74, 1.05, 0.55, -1.72, -2.05, 0.39, 0.36, 3),  # off-roader
    Body(4.5, 1.86, 1.16, 1.98, 1.72, 1.05, -2.10, -2.20, 0.34, 0.28, 2),  # van
    Body(4.2, 1.74, 0.84, 1.26, 0.72, 0.00, -0.62, -1.62, 0.33, 0.20, 1),  # coupe
)


def varied(rng: Rng) -> Body:
    """One of the styles with its own proportions."""
    b = STYLES[int(rng.integers(len(STYLES)))]
    along, tall, slide = rng.uniform(0.93, 1.07), rng.uniform(0.95, 1.05), rng.uniform(-0.12, 0.12)
    return Body(
        b.length * along, b.width, b.belt * tall, b.roof * tall,
        b.cowl * along + slide, b.roof_front * along + slide, b.roof_rear * along,
        max(b.tail, 0.16 - b.length / 2) * along, b.wheel * rng.uniform(0.94, 1.08),
        b.clearance, b.doors,
    )  # fmt: skip


def profile(b: Body) -> list[Point]:
    """The body's outline without cabin, from the rear's foot over the top to the front's foot."""
    half, hood = b.length / 2, b.belt - 0.10
    points = [
        (-half + 0.10, b.clearance), (-half, b.clearance + 0.16), (-half + 0.02, 0.62 * b.belt),
        (-half + 0.07, 0.94 * b.belt), (max(b.tail, -half + 0.22), b.belt), (b.cowl, b.belt + 0.02),
        (0.5 * (b.cowl + half) + 0.1, 0.5 * (b.belt + hood) + 0.03), (half - 0.16, hood - 0.04),
        (half - 0.02, 0.62 * b.belt), (half, b.clearance + 0.18), (half - 0.10, b.clearance),
    ]  # fmt: skip
    return smooth(points, 3, closed=False)
