"""The levels of an image that models look at: which, how they are shared, and their features."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from halfseen.features.descriptor import Descriptor
from halfseen.features.hog import Hog
from halfseen.features.pyramid import Level, LevelPlan, PyramidSettings, plan_levels
from halfseen.model.mixture import Mixture

Shape = tuple[int, int]
# Pixels of levels that are made at once, float32: all of a photo's.
BATCH_BYTES = 128 << 20


def feature_levels(
    pixels: NDArray[np.uint8],
    descriptor: Descriptor,
    pyramid: PyramidSettings,
    shapes: Collection[Shape],
) -> Iterator[tuple[Level, NDArray[np.float32]]]:
    """The levels of an image with their features, down to where no window of these shapes fits."""
    for plan in fitting_levels(pixels, descriptor, pyramid, shapes):
        level = plan.make()
        yield level, descriptor(level.pixels)


def fitting_levels(
    pixels: NDArray[np.uint8],
    descriptor: Descriptor,
    pyramid: PyramidSettings,
    shapes: Collection[Shape],
) -> Iterator[LevelPlan]:
    """The levels of an image, down to where no window of these shapes fits."""
    return plan_levels(pixels, pyramid, lambda h, w: fits(*descriptor.grid(h, w), shapes))


def fits(rows: int, cols: int, shapes: Collection[Shape]) -> bool:
    """Whether a level of so many blocks is large enough for a window of one of the shapes."""
    return any(r <= rows and c <= cols for r, c in shapes)


def describe(descriptor: Descriptor, level: Level) -> NDArray[np.float32]:
    """A level's features (height, width, channels), whose channels may lie in planes."""
    if isinstance(descriptor, Hog):
        return descriptor.planes(level.pixels).transpose(1, 2, 0)
    return descriptor(level.pixels)


def batches(plans: Iterator[LevelPlan]) -> Iterator[list[LevelPlan]]:
    """Runs of levels: of a photo all of them, of a larger image no more than memory allows."""
    batch: list[LevelPlan] = []
    held = 0
    for plan in plans:
        size = 4 * len(plan.source) * plan.size[0] * plan.size[1]
        if batch and held + size > BATCH_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(plan)
        held += size
    if batch:
        yield batch


def shared_features(models: Sequence[Mixture]) -> tuple[list[list[int]], dict[int, int]]:
    """Indices of the models that share levels, and which of these is the first for each model.

    The first of a group has all its levels.
    """
    groups: dict[tuple[str, str, PyramidSettings], list[int]] = {}
    first = {}
    for m in sorted(range(len(models)), key=lambda m: -models[m].pyramid.largest):
        descriptor, pyramid = models[m].descriptor, models[m].pyramid
        features = (descriptor.name, repr(sorted(descriptor.options().items())))
        for key, group in groups.items():
            number = key[2].find(pyramid)
            if key[:2] == features and number is not None:
                group.append(m)
                first[m] = number
                break
        else:
            groups[(*features, pyramid)] = [m]
            first[m] = 0
    return list(groups.values()), first
