"""Latent variables of the positives: which window of which component, and what is visible in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import area, intersection, mirror
from halfseen.infer.boxes import place_boxes
from halfseen.infer.detector import feature_levels
from halfseen.infer.windows import gather_features
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

    features: NDArray[np.float32]
    top: int
    left: int
    size: tuple[int, int]
    scale: tuple[float, float]
    level: int


@dataclass(frozen=True, eq=False)
class Bag:
    """One object with the crops of all levels at which a window may overlap it enough.

    `occluded` objects are annotated by what is seen of them; a window may then be larger than the
    box, with all that lies beyond the box hidden.
    """

    box: NDArray[np.float64]
    image_size: tuple[int, int]
    crops: tuple[Crop, ...]
    occluded: bool = False


@dataclass(frozen=True, eq=False)
class Assignment:
    """The latent variables of one object, with the window itself (flipped if mirrored)."""

    component: int
    mirrored: bool
    crop: int
    y: int
    x: int
    visible: NDArray[np.bool_]
    features: NDArray[np.float32]
    outside: NDArray[np.bool_]
    score: float


@dataclass(frozen=True, eq=False)
class Template:
    """A component as the latent update needs it: its shape, average box and parameters."""

    shape: tuple[int, int]
    box: NDArray[np.float64]
    weights: Vector
    bias: Vector


def reachable_places(
    box: NDArray[np.float64],
    image_size: tuple[int, int],
    shape: tuple[int, int],
    blocks: NDArray[np.float64],
    descriptor: Descriptor,
    size: tuple[int, int],
    scale: tuple[float, float],
) -> NDArray[np.float64]:
    """(H + 1, W + 1) IoU of the box predicted at every place of a level, cut to the image.

    Boxes are products of intervals, so two vectors an axis give the whole map.
    """

    def axis(k: int, places: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        corner = np.arange(places + 1) - (shape[1 - k] + 1) // 2
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
    return shared / union


def collect_bags(
    image: NDArray[np.uint8],
    boxes: NDArray[np.float64],
    occluded: NDArray[np.bool_],
    shapes: Sequence[tuple[int, int]],
    descriptor: Descriptor,
    pyramid: PyramidSettings,
    overlap: float,
) -> list[tuple[Bag, float]]:
    """The bag of each box of an image, and the best IoU that any window has with it.

    Windows are taken as wide as their boxes here; a little slack leaves room for average boxes
    that turn out otherwise.
    """
    image_size = (image.shape[0], image.shape[1])
    crops: list[list[Crop]] = [[] for _ in boxes]
    best = np.zeros(len(boxes))
    for index, (level, features) in enumerate(feature_levels(image, descriptor, pyramid, shapes)):
        size = (features.shape[0], features.shape[1])
        scale = (level.scale_x, level.scale_y)
        for n, box in enumerate(boxes):
            rows, cols = np.zeros(0, np.int64), np.zeros(0, np.int64)
            for shape in shapes:
                whole = np.array([0.0, 0.0, shape[1], shape[0]])
                map_ = reachable_places(box, image_size, shape, whole, descriptor, size, scale)
                best[n] = max(best[n], map_.max())
                y, x = np.nonzero(map_ >= (COMPLETED if occluded[n] else overlap - 0.1))
                if len(y):
                    first, start = y - (shape[0] + 1) // 2, x - (shape[1] + 1) // 2
                    rows = np.concatenate([rows, [first.min(), first.max() + shape[0]]])
                    cols = np.concatenate([cols, [start.min(), start.max() + shape[1]]])
            if len(rows):
                top, bottom = max(int(rows.min()), 0), min(int(rows.max()), size[0])
                left, right = max(int(cols.min()), 0), min(int(cols.max()), size[1])
                part = features[top:bottom, left:right].copy()
                crops[n].append(Crop(part, top, left, size, scale, index))
    return [
        (Bag(box, image_size, tuple(parts), bool(hidden)), float(value))
        for box, parts, hidden, value in zip(boxes, crops, occluded, best, strict=True)
    ]


def windows_of(
    crop: Crop,
    shape: tuple[int, int],
    y: NDArray[np.int64],
    x: NDArray[np.int64],
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


def _within(crop: Crop, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """(H + 1, W + 1) whether the crop holds all that a window at this place has of the level."""

    def axis(length: int, blocks: int, start: int, stored: int) -> NDArray[np.bool_]:
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
    overlap: float,
) -> Assignment | None:
    """The best-scoring window whose box overlaps the object by `overlap`, or None if none does.

    With visibility, an occluded object may also take a larger window that contains its box and
    overlaps it by `COMPLETED`: the box shows what is seen, so every block beyond it is hidden.
    """
    best: Assignment | None = None
    completed = bag.occluded and objective.visibility
    for c, crop in enumerate(bag.crops):
        for m, template in enumerate(templates):
            for flipped in (False, True) if mirrored else (False,):
                box = mirror(template.box, template.shape[1]) if flipped else template.box
                ious = reachable_places(
                    bag.box, bag.image_size, template.shape, box, descriptor, crop.size, crop.scale
                )
                lowest = COMPLETED if completed else overlap
                y, x = np.nonzero(_within(crop, template.shape) & (ious >= lowest))
                if not len(y):
                    continue
                flip = descriptor.mirror if flipped else None
                examples = windows_of(crop, template.shape, y, x, flip)
                beyond = np.zeros(examples.outside.shape, bool)
                if completed:
                    beyond = _beyond(bag, crop, template.shape, y, x, descriptor)
                    beyond[ious[y, x] >= overlap] = False
                    kept = (ious[y, x] >= overlap) | _contains(
                        bag, crop, template.shape, y, x, descriptor
                    )
                    if flipped:
                        beyond = beyond[:, :, ::-1]
                    examples = Examples(examples.features[kept], examples.outside[kept])
                    beyond, y, x = beyond[kept], y[kept], x[kept]
                    if not len(y):
                        continue
                scores, visible = objective.best_scores(
                    template.weights, template.bias, examples, -np.inf, hidden=beyond
                )
                k = int(scores.argmax())
                if best is None or scores[k] > best.score:
                    best = Assignment(
                        m, flipped, c, int(y[k]), int(x[k]), visible[k].copy(),
                        examples.features[k].copy(), examples.outside[k].copy(), float(scores[k]),
                    )  # fmt: skip
    return best


def _beyond(
    bag: Bag, crop: Crop, shape: tuple[int, int], y: NDArray[np.int64], x: NDArray[np.int64],
    descriptor: Descriptor,
) -> NDArray[np.bool_]:  # fmt: skip
    """(N, rows, cols) blocks whose centres lie beyond the object's box."""

    def axis(k: int, place: NDArray[np.int64], blocks: int) -> NDArray[np.bool_]:
        index = place[:, None] - (blocks + 1) // 2 + np.arange(blocks) + 0.5
        centre = (descriptor.offset + descriptor.cell * index) / crop.scale[k]
        return (centre < bag.box[k]) | (centre > bag.box[k + 2])

    return axis(1, y, shape[0])[:, :, None] | axis(0, x, shape[1])[:, None, :]


def _contains(
    bag: Bag, crop: Crop, shape: tuple[int, int], y: NDArray[np.int64], x: NDArray[np.int64],
    descriptor: Descriptor,
) -> NDArray[np.bool_]:  # fmt: skip
    """(N,) whether the window holds nearly all of the object's box."""
    window = place_boxes(y, x, shape, [0, 0, shape[1], shape[0]], descriptor, crop.scale)
    return np.asarray(intersection(window, bag.box) >= 0.9 * area(bag.box))
