"""Who stands where: objects, what hides them, and what is merely there.

Every object gets a plan (whole, occluded, cut by the border, or behind another object) and a share
of it to leave in view; what hides it is slid into the place that comes nearest to that share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from halfseen.data.scenery import cars, clutter, horses, occluders, plants
from halfseen.data.scenery.backgrounds import Stage
from halfseen.data.scenery.shapes import Rng, Sprite

VIEWS = {"car": cars.VIEWS, "horse": horses.VIEWS}
VIEW_WEIGHTS = {"car": (0.42, 0.32, 0.13, 0.13), "horse": (0.3, 0.28, 0.2, 0.11, 0.11)}
LENGTHS = {"car": 4.3, "horse": 2.4}  # metres, from the side
MOST = 4  # objects in a scene
HANGING = 0.06  # the share of occluders that hang from above
END_ON = ("front", "rear")


@dataclass(frozen=True)
class Thing:
    """A sprite on the ground at (x, y); the nearer, the larger its scale. No label: no object."""

    sprite: Sprite
    x: int
    y: int
    scale: float
    label: str = ""
    view: str = ""

    @property
    def corner(self) -> tuple[int, int]:
        """Row and column of the sprite's first pixel."""
        return self.y + self.sprite.top, self.x + self.sprite.left

    @property
    def extent(self) -> tuple[int, int, int, int]:
        """x1, y1, x2, y2 of the whole sprite, in the picture or not."""
        (row, column), (height, width) = self.corner, self.sprite.mask.shape
        return column, row, column + width, row + height

    def moved(self, x: int, y: int) -> Thing:
        return Thing(self.sprite, x, y, self.scale, self.label, self.view)


def hidden_share(back: Thing, front: Thing) -> float:
    """The share of `back` that `front` covers."""
    ax1, ay1, ax2, ay2 = back.extent
    bx1, by1, bx2, by2 = front.extent
    x1, y1, x2, y2 = max(ax1, bx1), max(ay1, by1), min(ax2, bx2), min(ay2, by2)
    if x1 >= x2 or y1 >= y2:
        return 0.0
    under = back.sprite.mask[y1 - ay1 : y2 - ay1, x1 - ax1 : x2 - ax1]
    over = front.sprite.mask[y1 - by1 : y2 - by1, x1 - bx1 : x2 - bx1]
    return float(np.count_nonzero(under & over)) / back.sprite.area


def inside_share(thing: Thing, size: tuple[int, int]) -> float:
    """The share of a thing that lies within the picture."""
    x1, y1, _, _ = thing.extent
    height, width = size
    mask = thing.sprite.mask[max(0, -y1) : max(0, height - y1), max(0, -x1) : max(0, width - x1)]
    return float(np.count_nonzero(mask)) / thing.sprite.area


class Layout:
    """A scene being arranged; `things` from far to near when done."""

    def __init__(self, rng: Rng, stage: Stage, classes: Sequence[str]) -> None:
        self.rng, self.stage, self.classes = rng, stage, classes
        self.things: list[Thing] = []
        self._houses_and_trees()
        self._objects()
        self._lookalikes()
        self.things.sort(key=lambda thing: thing.scale)

    def _lit(self, sprite: Sprite, scale: float, rough: float, volume: float) -> Sprite:
        light = self.stage.light
        norm = float(np.hypot(light[0], light[1]))
        sprite = sprite.lit(self.rng, rough, volume, (light[0] / norm, -light[1] / norm))
        veil = float(np.clip(0.5 - scale / (36 * self.stage.unit), 0, 0.5))
        return sprite.veiled(self.stage.mood.haze, veil) if veil > 0.02 else sprite

    def _standing(self, sprite: Sprite, scale: float, x: float) -> Thing:
        return Thing(sprite, round(x), round(self.stage.ground(scale)), scale)

    def _houses_and_trees(self) -> None:
        """The far row: a village, a wood, or scattered trees."""
        rng, (_, width) = self.rng, self.stage.size
        village = rng.random()
        scale = rng.uniform(9, 15) * self.stage.unit
        x = rng.uniform(-60, 60) * self.stage.unit
        while x < width:
            gap = rng.uniform(10, 120) * self.stage.unit
            draw = clutter.house if rng.random() < village else (
                plants.tree if rng.random() < 0.6 else plants.bush)  # fmt: skip
            size = scale * rng.uniform(0.8, 1.2)
            sprite = self._lit(draw(rng, size), size, 0.09, 0.0)
            x += sprite.rgba.shape[1] / 2
            self.things.append(self._standing(sprite, size, x))
            x += sprite.rgba.shape[1] / 2 + gap

    def _objects(self) -> None:
        rng = self.rng
        count = int(rng.choice(5, p=(0.08, 0.30, 0.30, 0.20, 0.12)))
        company = rng.choice(3, p=(0.36, 0.30, 0.34))
        for _ in range(count):
            label = ("car", "horse")[int(rng.integers(2)) if company == 2 else int(company)]
            if label not in self.classes:
                continue
            plan = str(
                rng.choice(["whole", "occluded", "cut", "behind"], p=(0.32, 0.40, 0.13, 0.15))
            )
            share = rng.uniform(0.38, 0.62) if rng.random() < 0.3 else rng.uniform(0.25, 0.95)
            crowd = sum(bool(thing.label) for thing in self.things)
            if crowd < MOST - (plan == "behind"):
                self._add(label, plan, float(share))

    def _object(self, label: str, low: float, high: float) -> Thing:
        """An object not yet placed, `low` to `high` pixels wide if seen from the side."""
        rng, stage = self.rng, self.stage
        view = str(rng.choice(VIEWS[label], p=VIEW_WEIGHTS[label]))
        width = float(np.exp(rng.uniform(np.log(low), np.log(high)))) * stage.unit
        if view in END_ON:
            width *= 0.62 if label == "car" else 0.42
            width = max(width, 34 * stage.unit)
        if label == "car":
            sprite, scale = cars.car(rng, view, width, stage.camera, stage.light)
            sprite = self._lit(sprite, scale, 0.05, 0.10)
        else:
            sprite, scale = horses.horse(rng, view, width)
            sprite = self._lit(sprite, scale, 0.06, 0.42)
        y = min(round(stage.ground(scale)), stage.size[0] - 4)
        return Thing(sprite, 0, y, scale, label, view)

    def _add(self, label: str, plan: str, share: float) -> None:
        thing = self._object(label, 62, 200 if plan == "behind" else 255)
        if plan == "cut":
            placed = self._cut(thing, share)
        else:
            placed = self._free(thing)
        if placed is None:
            return
        self.things.append(placed)
        if plan == "occluded":
            self._occlude(placed, share)
        elif plan == "cut" and share > 0.6 and self.rng.random() < 0.5:
            self._occlude(placed, 0.75)
        elif plan == "behind":
            self._hide_behind(placed, share)

    def _hide_behind(self, back: Thing, share: float) -> None:
        """Stand a nearer object before another; something else where it would be too large."""
        other = back.label if self.rng.random() < 0.65 else str(self.rng.choice(self.classes))
        width = LENGTHS[other] * back.scale / self.stage.unit
        if width > 240:
            self._occlude(back, share)
            return
        front = self._object(other, max(62, 1.05 * width), min(1.4 * width + 62, 280))
        if front.scale > back.scale:
            self._slide(front, back, share)

    def _harm(self, thing: Thing, spare: Thing | None = None) -> float:
        """How much of any object is newly hidden, this one included."""
        harm = 0.0
        for other in self.things:
            if other is spare:
                continue
            if other.label and other.scale <= thing.scale:
                harm = max(harm, hidden_share(other, thing))
            elif thing.label and other.scale > thing.scale:
                harm = max(harm, hidden_share(thing, other))
        return harm

    def _free(self, thing: Thing) -> Thing | None:
        """A place where the thing is whole and hides nothing, if a few tries find one."""
        width = thing.sprite.rgba.shape[1]
        low, high = -thing.sprite.left + 3, self.stage.size[1] - thing.sprite.left - width - 3
        if high <= low:
            return None
        for _ in range(14):
            placed = thing.moved(int(self.rng.integers(low, high)), thing.y)
            if self._harm(placed) < 0.02:
                return placed
        return None

    def _cut(self, thing: Thing, share: float) -> Thing | None:
        """A place where the border leaves the share in view."""
        height, width = self.stage.size
        tall, wide = thing.sprite.mask.shape
        steps = np.linspace(0, 1, 30)
        if self.rng.random() < 0.15:
            x = int(self.rng.integers(wide // 2, max(wide // 2 + 1, width - wide // 2)))
            places = [thing.moved(x, round(height + t * tall)) for t in steps]
        else:
            edge = (-thing.sprite.left if self.rng.random() < 0.5 else
                    width - thing.sprite.left - wide)  # fmt: skip
            outward = -wide if edge == -thing.sprite.left else wide
            places = [thing.moved(round(edge + t * outward), thing.y) for t in steps]
        best = min(places, key=lambda p: abs(inside_share(p, self.stage.size) - share))
        return best if self._harm(best) < 0.02 else None

    def _occlude(self, back: Thing, share: float) -> None:
        """Stand something before an object so that about the share of it stays in view."""
        rng, stage = self.rng, self.stage
        for _ in range(3):
            scale = back.scale * rng.uniform(1.04, 1.35)
            y = round(stage.ground(scale)) if back.y < stage.size[0] - 5 else back.y + 4
            kind = rng.random()
            if kind < HANGING:
                sprite, y = plants.branch(rng, scale, back.y / scale + 0.5), back.y
            elif kind < 0.36:
                drop = y - back.y
                height = ((1 - share) * back.sprite.mask.shape[0] * 1.05 + drop) / scale
                draw = occluders.LOW[int(rng.integers(len(occluders.LOW)))]
                sprite = draw(rng, scale, height)
            else:
                upright = occluders.UPRIGHT[int(rng.integers(len(occluders.UPRIGHT)))]
                sprite = upright(rng, scale)
            front = Thing(self._lit(sprite, scale, 0.10, 0.22), 0, y, scale)
            if self._slide(front, back, share, hanging=kind < HANGING):
                return

    def _slide(self, front: Thing, back: Thing, share: float, hanging: bool = False) -> bool:
        """Move `front` to where `share` of `back` stays in view and others are left alone."""
        x1, y1, x2, y2 = back.extent
        wide = front.sprite.mask.shape[1]
        shift = self.rng.uniform(-0.3, 0.3) * (x2 - x1)
        places = []
        for t in np.linspace(0, 1, 26):
            if hanging:
                x, y = round((x1 + x2) / 2 + shift), round(y1 + t * (y2 - y1))
            else:
                x, y = round(x1 - wide - front.sprite.left + t * (x2 - x1 + wide)), front.y
            places.append(front.moved(x, y))
        errors = [abs(1 - hidden_share(back, place) - share) for place in places]
        for k in np.argsort(np.asarray(errors) + self.rng.uniform(0, 0.03, len(errors)))[:8]:
            if errors[k] < 0.13 and self._harm(places[k], spare=back) < 0.04:
                self.things.append(places[k])
                return True
        return False

    def _lookalikes(self) -> None:
        rng, stage = self.rng, self.stage
        for _ in range(int(rng.integers(4, 10))):
            draw = clutter.LOOKALIKES[int(rng.integers(len(clutter.LOOKALIKES)))]
            if rng.random() < 0.4:
                others = occluders.UPRIGHT + occluders.LOW
                draw = others[int(rng.integers(len(others)))]
            scale = float(np.exp(rng.uniform(np.log(16), np.log(64)))) * stage.unit
            sprite = self._lit(draw(rng, scale), scale, 0.08, 0.22)
            for _ in range(6):
                placed = self._standing(sprite, scale, rng.uniform(0, stage.size[1]))
                if self._harm(placed) < 0.02:
                    self.things.append(placed)
                    break
