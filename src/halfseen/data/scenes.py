"""Built-in scenes, drawn by this package from a seed, with the exact visible mask of every object.

Cars and horses stand on a country road or in a village among things that look a little like them.
About half of the objects are whole; the others are cut by the border of the picture, or stand
behind poles, people, leaves, walls, fences and each other. Nearer is lower and larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from halfseen.arrays import Bool, UInt8
from halfseen.data.dataset import Dataset
from halfseen.data.scenery.backgrounds import Stage, backdrop, make_stage
from halfseen.data.scenery.finish import finish
from halfseen.data.scenery.layout import VIEWS, Layout, Thing, inside_share
from halfseen.detections import GroundTruth
from halfseen.errors import SettingsError, suggest

CLASSES = tuple(VIEWS)
OCCLUDED = 0.05  # hidden by something within the picture, as a share of the object
TRUNCATED = 0.01  # outside the picture, as a share of the object
DIFFICULT = 0.15  # in view, as a share of the object; less is difficult
TINY = 16.0  # pixels; a visible box thinner than this is difficult


@dataclass(frozen=True)
class Masks:
    """The visible pixels of a scene's objects: `owner` is 0 for none, i + 1 for object i."""

    owner: UInt8

    def read(self, i: int) -> Bool:
        """(height, width) bool of object i."""
        return np.asarray(self.owner == i + 1)


@dataclass(frozen=True)
class Scene:
    """One scene: its picture and truth, and the view of each object of the truth."""

    truth: GroundTruth
    views: tuple[str, ...]


def render_scenes(
    count: int,
    seed: int = 0,
    classes: Sequence[str] | None = None,
    size: tuple[int, int] = (375, 500),
    on_done: Callable[[int], None] | None = None,
) -> Dataset:
    """Draw `count` scenes of (height, width) with objects of `classes` (default: all of `CLASSES`).

    Scene i depends only on the seed, i, the classes and the size: the first ten of 300 are the ten
    of 10. In the truth, `box` is tight around the visible pixels, `full` around the whole object,
    and masks of different objects are disjoint. An object is `occluded` where more than 5% of it
    is hidden by something in the picture, `truncated` where more than 1% lies outside, and
    `difficult` where less than 15% is in view or its visible box is under 16 pixels wide or high.
    An object of which nothing can be seen is not in the truth. `on_done` is called after each scene
    with the number of them so far.

    Raises SettingsError for a count or seed below 0, a size outside 96 to 4096 pixels a side or an
    unknown class.
    """
    chosen = _check(count, seed, classes, size)
    truths = []
    for i in range(count):
        truths.append(render_scene(seed, i, chosen, size).truth)
        if on_done is not None:
            on_done(i + 1)
    return Dataset(f"scenes, seed {seed}", chosen, tuple(truths))


def _check(
    count: int, seed: int, classes: Sequence[str] | None, size: tuple[int, int]
) -> tuple[str, ...]:
    for name, value in (("count", count), ("seed", seed)):
        if not isinstance(value, (int, np.integer)) or value < 0:
            raise SettingsError(
                f"render_scenes: {name} must be a whole number from 0, found {value!r}"
            )
    if len(size) != 2 or any(not 96 <= side <= 4096 for side in size):
        raise SettingsError(
            f"render_scenes: size must be (height, width) of 96 to 4096, found {size}"
        )
    if isinstance(classes, str):
        classes = (classes,)
    chosen = CLASSES if classes is None else tuple(dict.fromkeys(classes))
    if not chosen:
        raise SettingsError(f"render_scenes: no classes given; known: {', '.join(CLASSES)}")
    for name in chosen:
        if name not in CLASSES:
            raise SettingsError(f"render_scenes: no class '{name}'; {suggest(name, CLASSES)}")
    return chosen


def render_scene(
    seed: int, index: int, classes: Sequence[str] = CLASSES, size: tuple[int, int] = (375, 500)
) -> Scene:
    """One scene of `render_scenes`, with the views of its objects."""
    rng = np.random.default_rng([seed, index])
    stage = make_stage(rng, size)
    things = Layout(rng, stage, classes).things
    picture = Image.fromarray(np.clip(backdrop(rng, stage), 0, 255).astype(np.uint8))
    picture = _shadowed(picture, things, stage)
    for thing in things:
        top, left = thing.corner
        sprite = Image.fromarray(thing.sprite.rgba)
        picture.paste(sprite.convert("RGB"), (left, top), sprite.getchannel("A"))
    pixels = finish(rng, stage, picture)
    truth, views = _truth(f"scene-{seed}-{index:05d}", pixels, things)
    return Scene(truth, views)


def _shadowed(picture: Image.Image, things: list[Thing], stage: Stage) -> Image.Image:
    """Soft shadows on the ground, away from the light."""
    height, width = stage.size
    shadow = Image.new("L", (width // 2, height // 2))
    draw = ImageDraw.Draw(shadow)
    for thing in things:
        x1, _, x2, _ = thing.extent
        deep = 0.22 * thing.scale
        shift = -0.3 * thing.scale * stage.light[0]
        # Leaves may hang above the ground that their shadow falls on.
        y = thing.y if thing.label else max(thing.y, stage.ground(thing.scale))
        box = (x1 + shift, y - deep, x2 + shift, y + 1.2 * deep)
        draw.ellipse([c / 2 for c in box], fill=125)
    soft = shadow.filter(ImageFilter.GaussianBlur(2.2 * stage.unit)).resize((width, height))
    dark = Image.new("RGB", (width, height), (24, 26, 36))
    return Image.composite(dark, picture, soft)


def _truth(name: str, pixels: UInt8, things: list[Thing]) -> tuple[GroundTruth, tuple[str, ...]]:
    """Who is seen where, by letting the nearer things take the pixels of the farther."""
    height, width = pixels.shape[:2]
    owner = np.zeros((height, width), dtype=np.uint8)
    objects = [thing for thing in things if thing.label]
    number = 0
    for thing in things:
        number += bool(thing.label)
        x1, y1, x2, y2 = thing.extent
        top, left, bottom, right = max(0, y1), max(0, x1), min(height, y2), min(width, x2)
        if top < bottom and left < right:
            mask = thing.sprite.mask[top - y1 : bottom - y1, left - x1 : right - x1]
            owner[top:bottom, left:right][mask] = number if thing.label else 0
    areas = np.bincount(owner.ravel(), minlength=len(objects) + 1)[1:]
    shown = np.flatnonzero(areas)
    renumber = np.zeros(len(objects) + 1, dtype=np.uint8)
    renumber[shown + 1] = np.arange(1, len(shown) + 1)
    masks = Masks(renumber[owner])
    own = [objects[k] for k in shown]
    box = np.array([_tight(masks.read(i)) for i in range(len(own))]).reshape(-1, 4)
    inside = np.array([inside_share(thing, (height, width)) for thing in own])
    visible = np.array([areas[k] / objects[k].sprite.area for k in shown])
    thin = np.minimum(box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]) < TINY
    truth = GroundTruth.make(
        name, pixels, (height, width), [thing.label for thing in own], box,
        difficult=(visible < DIFFICULT) | thin,
        truncated=1 - inside > TRUNCATED,
        occluded=inside - visible > OCCLUDED,
        full=[_whole(thing) for thing in own],
        visible_fraction=visible,
        read_mask=masks.read,
    )  # fmt: skip
    return truth, tuple(thing.view for thing in own)


def _tight(mask: Bool) -> tuple[int, int, int, int]:
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _whole(thing: Thing) -> tuple[int, int, int, int]:
    """The extent of all the pixels that the object would own."""
    x1, y1, x2, y2 = _tight(thing.sprite.mask)
    top, left = thing.corner
    return left + x1, top + y1, left + x2, top + y2
