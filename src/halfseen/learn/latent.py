"""Latent variables of positives: the window and component of each, and its visible blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.detect.view import fitting_levels
from halfseen.detect.windows import first_block, gather_features, place_boxes
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import Boxes, area, clip, intersection, iou, mirror
from halfseen.learn.objective import Examples, Objective, Vector

# The least IoU of a window with the visible box of an occluded object that it completes.
COMPLETED = 0.45


@dataclass(frozen=True, eq=False)
class Crop:
    """The part of a level around one object: all that its windows may need.

    features     (h, w, channels), which starts at block (top, left) of the level
    size         (rows, cols) of blocks of the whole level
    scale        (x, y)
    level        index in the pyramid
    """

    features: Float32
    top: int
    left: int
    size: tuple[int, int]
    scale: tuple[float, float]
    level: int


@dataclass(frozen=True, eq=False)
class Bag:
    """One object with the crops of all levels at which a window may overlap it enough.

    box         the whole object where that is known, else its visible part
    visible     its visible part, as annotated
    occluded    whether something hides the rest
    reach       the largest IoU that any window has with the box
    """

    box: Float64
    visible: Float64
    occluded: bool
    image_size: tuple[int, int]
    crops: tuple[Crop, ...]
    reach: float

    @property
    def known(self) -> bool:
        """Whether the annotation distinguishes the whole object from its visible part."""
        return bool((self.box != self.visible).any())


class Fit(NamedTuple):
    """Which windows may be an object's, by what they share with its box.

    overlap     the least IoU
    completed   whether occluded objects may also take larger windows, with visibility: see
                `_completions`
    contracted  whether the box around the visible blocks must have it as well, with visibility
    """

    overlap: float
    completed: bool = True
    contracted: bool = False


class Place(NamedTuple):
    """The window of an assignment: its component, and where it lies in which crop of the bag."""

    component: int
    mirrored: int
    crop: int
    y: int
    x: int


@dataclass(frozen=True, eq=False)
class Assignment:
    """The latent variables of one object, with the window itself (flipped if mirrored)."""

    component: int
    mirrored: bool
    crop: int
    y: int
    x: int
    visible: Bool
    features: Float32
    outside: Bool
    score: float

    @property
    def place(self) -> Place:
        return Place(self.component, int(self.mirrored), self.crop, self.y, self.x)


@dataclass(frozen=True, eq=False)
class Template:
    """A component as the latent update needs it: its shape, average box and parameters."""

    shape: tuple[int, int]
    box: Float64
    weights: Vector
    bias: Vector


def reachable_places(
    box: Float64,
    image_size: tuple[int, int],
    shape: tuple[int, int],
    blocks: Float64,
    descriptor: Descriptor,
    size: tuple[int, int],
    scale: tuple[float, float],
) -> Float64:
    """(H + 1, W + 1) IoU of the box predicted at every place of a level, cut to the image.

    Boxes are products of intervals, so two vectors an axis give the whole map.
    """

    def axis(k: int, places: int) -> tuple[Float64, Float64]:
        corner = first_block(np.arange(places + 1), shape[1 - k])
        unit = descriptor.cell / scale[k]
        start = descriptor.offset / scale[k]
        limit = image_size[1 - k]
        low = np.clip(start + unit * (corner + blocks[k]), 0, limit)
        high = np.clip(start + unit * (corner + blocks[k + 2]), 0, limit)
        shared = np.maximum(np.minimum(high, box[k + 2]) - np.maximum(low, box[k]), 0)
        return high - low, shared

    (wide, across), (tall, down) = axis(0, size[1]), axis(1, size[0])
    shared = down[:, None] * across
    union = tall[:, None] * wide + (box[2] - box[0]) * (box[3] - box[1]) - shared
    overlap: Float64 = shared / union
    return overlap


def collect_bags(
    image: UInt8,
    boxes: Float64,
    visible: Float64,
    occluded: Bool,
    shapes: Sequence[tuple[int, int]],
    descriptor: Descriptor,
    pyramid: PyramidSettings,
    overlap: float,
) -> list[Bag]:
    """The bag of each box of an image.

    Levels that no window could take an object from are not described. Windows are taken to be as
    large as their boxes here; a little slack leaves room for average boxes that turn out otherwise.
    """
    image_size = (image.shape[0], image.shape[1])
    crops: list[list[Crop]] = [[] for _ in boxes]
    best = np.zeros(len(boxes))
    for index, plan in enumerate(fitting_levels(image, descriptor, pyramid, shapes)):
        size = descriptor.grid(*plan.size)
        scale = (plan.scale_x, plan.scale_y)
        features = None
        for n, box in enumerate(boxes):
            rows, cols = np.zeros(0, np.int64), np.zeros(0, np.int64)
            for shape in shapes:
                whole = np.array([0.0, 0.0, shape[1], shape[0]])
                map_ = reachable_places(box, image_size, shape, whole, descriptor, size, scale)
                best[n] = max(best[n], map_.max())
                y, x = np.nonzero(map_ >= (COMPLETED if occluded[n] else overlap - 0.1))
                if len(y):
                    first, start = first_block(y, shape[0]), first_block(x, shape[1])
                    rows = np.concatenate([rows, [first.min(), first.max() + shape[0]]])
                    cols = np.concatenate([cols, [start.min(), start.max() + shape[1]]])
            if len(rows):
                if features is None:
                    features = descriptor(plan.make().pixels)
                top, bottom = max(int(rows.min()), 0), min(int(rows.max()), size[0])
                left, right = max(int(cols.min()), 0), min(int(cols.max()), size[1])
                part = features[top:bottom, left:right].copy()
                crops[n].append(Crop(part, top, left, size, scale, index))
    return [
        Bag(boxes[n], visible[n], bool(occluded[n]), image_size, tuple(crops[n]), float(best[n]))
        for n in range(len(boxes))
    ]


def windows_of(
    crop: Crop,
    shape: tuple[int, int],
    y: Int64,
    x: Int64,
    flip: NDArray[np.intp] | None,
) -> Examples:
    """The windows at these places of a crop's level; flipped for a mirrored component."""
    features, outside = gather_features(
        crop.features, *shape, y, x, crop.top, crop.left, *crop.size
    )
    if flip is not None:
        features = np.ascontiguousarray(features[:, :, ::-1][..., flip])
        outside = np.ascontiguousarray(outside[:, :, ::-1])
    return Examples(features, outside)


def _within(crop: Crop, shape: tuple[int, int]) -> Bool:
    """(H + 1, W + 1) whether the crop holds all that a window at this place has of the level."""

    def axis(length: int, blocks: int, start: int, stored: int) -> Bool:
        first = np.arange(length + 1) - (blocks + 1) // 2
        return (np.maximum(first, 0) >= start) & (
            np.minimum(first + blocks, length) <= start + stored
        )

    down = axis(crop.size[0], shape[0], crop.top, crop.features.shape[0])
    across = axis(crop.size[1], shape[1], crop.left, crop.features.shape[1])
    return down[:, None] & across


def update(
    bag: Bag,
    templates: Sequence[Template],
    objective: Objective,
    descriptor: Descriptor,
    mirrored: bool,
    fit: Fit,
) -> Assignment | None:
    """The best-scoring window that fits the object, or None if none does."""
    best: Assignment | None = None
    completed = fit.completed and bag.occluded and objective.visibility
    lowest = COMPLETED if completed and not bag.known else fit.overlap
    for c, crop in enumerate(bag.crops):
        for m, template in enumerate(templates):
            for flipped in (False, True) if mirrored else (False,):
                box = mirror(template.box, template.shape[1]) if flipped else template.box
                ious = reachable_places(
                    bag.box, bag.image_size, template.shape, box, descriptor, crop.size, crop.scale
                )
                y, x = np.nonzero(_within(crop, template.shape) & (ious >= lowest))
                hidden = None
                if completed:
                    near = ious[y, x] >= fit.overlap
                    keep, hidden = _completions(bag, crop, template.shape, y, x, near, descriptor)
                    y, x, hidden = y[keep], x[keep], hidden[keep]
                    hidden = hidden[:, :, ::-1] if flipped else hidden
                if not len(y):
                    continue
                flip = descriptor.mirror if flipped else None
                examples = windows_of(crop, template.shape, y, x, flip)
                scores, visible = objective.best_scores(
                    template.weights, template.bias, examples, -np.inf, hidden=hidden
                )
                if fit.contracted and objective.visibility:
                    seen = _around(visible)
                    seen = mirror(seen, template.shape[1]) if flipped else seen
                    box = place_boxes(y, x, template.shape, seen, descriptor, crop.scale)
                    fits = iou(clip(box, bag.image_size), bag.visible) >= fit.overlap
                    if not fits.any():
                        continue
                    scores = np.where(fits, scores, -np.inf)
                k = int(scores.argmax())
                if best is None or scores[k] > best.score:
                    best = Assignment(
                        m, flipped, c, int(y[k]), int(x[k]), visible[k].copy(),
                        examples.features[k].copy(), examples.outside[k].copy(), float(scores[k]),
                    )  # fmt: skip
    return best


def _around(visible: Bool) -> Boxes:
    """(N, 4) the boxes around the visible blocks of windows (N, rows, cols), in blocks."""

    def axis(across: int) -> tuple[Int64, Int64]:
        seen = np.asarray(visible.any(across))
        first, last = seen.argmax(1), seen.shape[1] - seen[:, ::-1].argmax(1)
        return first * seen.any(1), last * seen.any(1)

    (left, right), (top, bottom) = axis(1), axis(2)
    return np.stack([left, top, right, bottom], axis=1).astype(np.float64)


def _completions(
    bag: Bag, crop: Crop, shape: tuple[int, int], y: Int64, x: Int64,
    near: Bool, descriptor: Descriptor,
) -> tuple[Bool, Bool]:  # fmt: skip
    """Which windows (N,) may show an occluded object, and which blocks (N, rows, cols) are hidden.

    Where the whole object is known, every block outside its visible part is hidden. Where only the
    visible part is annotated, a larger window that contains it may be taken, with all blocks
    outside it hidden; in a window that overlaps it enough (`near`) flags are left to inference.
    """
    beyond = _beyond(bag.visible, crop, shape, y, x, descriptor)
    if bag.known:
        return np.ones(len(y), bool), beyond
    window = place_boxes(y, x, shape, [0, 0, shape[1], shape[0]], descriptor, crop.scale)
    contains = intersection(window, bag.visible) >= 0.9 * area(bag.visible)
    beyond[near] = False
    return near | contains, beyond


def _beyond(
    box: Float64, crop: Crop, shape: tuple[int, int], y: Int64,
    x: Int64, descriptor: Descriptor,
) -> Bool:  # fmt: skip
    """(N, rows, cols) blocks whose centres lie beyond a box."""

    def axis(k: int, place: Int64, blocks: int) -> Bool:
        index = place[:, None] - (blocks + 1) // 2 + np.arange(blocks) + 0.5
        centre = (descriptor.offset + descriptor.cell * index) / crop.scale[k]
        beyond: Bool = (centre < box[k]) | (centre > box[k + 2])
        return beyond

    return axis(1, y, shape[0])[:, :, None] | axis(0, x, shape[1])[:, None, :]
