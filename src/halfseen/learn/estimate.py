"""What a training will take: seconds and bytes of each step, from the annotations alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Bool
from halfseen.detect.view import fits
from halfseen.errors import HalfseenError
from halfseen.learn.folds import all_but, split_folds
from halfseen.learn.masks.samples import MARGIN
from halfseen.learn.plan import Plan, make_plan
from halfseen.model.mask_head import SIDE

# Measured by `benchmarks/training.py --costs`: seconds of one core, of a busy machine, for
FEATURES = 8e-7  # each block of a pyramid, its pixels read and resized
NETWORK = 3e-5  # each block that a network describes: `benchmarks/net.py`
MINING = 5e-11  # each product of a window's block with a template's, a channel
FITTING = 7e-10  # each number of a stored window, in each evaluation of the energy
PASTING = 2e-6  # each block of a window with its margin, cut out, pasted over and described
REGRESSION = 1e-9  # each number of a block's neighbourhood, in each iteration of its regression
# Windows that are stored for each mining image, and evaluations of the energy in a fit: typical.
STORED, EVALUATIONS = 120, 70
# What the process holds before any data: the interpreter, the libraries and compiled kernels.
BASE_BYTES = 350 << 20


class Cost(NamedTuple):
    """What one step of a training takes: seconds of one core, and bytes at most."""

    step: str
    seconds: float
    memory: int


def estimate(plan: Plan) -> list[Cost]:
    """The costs of all steps that the settings ask for, in their order."""
    costs = [Cost("detector", detector_seconds(plan), detector_memory(plan))]
    if plan.settings.with_head:
        costs.append(Cost("mask head", head_seconds(plan), head_memory(plan)))
    if plan.settings.calibrate:
        costs.append(calibration_cost(plan))
    return costs


def detector_memory(plan: Plan) -> int:
    """Bytes at most: cached pyramids, stored negatives, and the surroundings of positives."""
    settings = plan.settings
    block = 4 * plan.descriptor.channels
    cached = count_blocks(plan, plan.mining) * block
    window = max(rows * cols for rows, cols in plan.shapes) * block
    # A window fits an object at about four levels, each with as much again around it.
    positives = len(plan.objects) * window * (4 * 2 + 1)
    stored = min(settings.store_bytes, len(plan.mining) * settings.per_image * window)
    return BASE_BYTES + min(cached, settings.cache_bytes) + stored + positives


def detector_seconds(plan: Plan) -> float:
    """Seconds of one core; all rounds are counted as if none were spared."""
    settings = plan.settings
    channels = plan.descriptor.channels
    templates = sum(rows * cols for rows, cols in plan.shapes) * (1 + settings.mirrored)
    mined = count_blocks(plan, plan.mining)
    read = mined + count_blocks(plan, sorted(set(plan.objects.image.tolist())))
    windows = len(plan.objects) + STORED * len(plan.mining)
    numbers = windows * max(rows * cols for rows, cols in plan.shapes) * channels
    rounds = (settings.updates + 1) * settings.rounds
    evaluations = min(EVALUATIONS, 1.5 * settings.iterations)
    return (
        block_seconds(plan) * read
        + rounds * MINING * mined * templates * channels
        + rounds * FITTING * numbers * evaluations
    )


def block_seconds(plan: Plan) -> float:
    """Seconds of one core to describe a block."""
    return NETWORK if plan.descriptor.name == "net" else FEATURES


def head_seconds(plan: Plan) -> float:
    """Seconds of one core: windows with pasted occluders, then regressions for all blocks."""
    how, channels = plan.settings.mask_head, plan.descriptor.channels
    windows, objects = _head_windows(plan)
    pasted = float(np.mean([(r + 2 * MARGIN) * (c + 2 * MARGIN) for r, c in plan.shapes]))
    blocks = float(np.mean([rows * cols for rows, cols in plan.shapes]))
    # A regression to all objects, and one a fold to all others.
    own = windows * blocks * how.folds
    shared = how.shared_blocks * (1 + how.folds) * len(plan.shapes)
    numbers = (own + min(shared, own)) * SIDE * SIDE * channels
    return float(
        block_seconds(plan) * count_blocks(plan, np.unique(plan.objects.image[objects]).tolist())
        + max(PASTING, block_seconds(plan)) * windows * pasted
        + REGRESSION * numbers * how.iterations
    )


def head_memory(plan: Plan) -> int:
    """Bytes at most: all samples, those of one component once more, and textures."""
    windows, _ = _head_windows(plan)
    channels = plan.descriptor.channels
    window = max(
        2 * (rows + 2) * (cols + 2) * channels + 28 * rows * cols for rows, cols in plan.shapes
    )
    textures = plan.settings.mask_head.textures
    images = sorted((3 * h * w for h, w in (t.size for t in plan.dataset)), reverse=True)
    shared = plan.settings.mask_head.shared_blocks * 4 * SIDE * SIDE * channels * 2
    samples = windows * window * (1 + 1 / len(plan.shapes))
    return BASE_BYTES + round(samples) + sum(images[:textures]) + shared


def _head_windows(plan: Plan) -> tuple[int, Bool]:
    """How many windows the head is learnt from, and which objects they show."""
    chosen = ~plan.objects.occluded
    count = int(chosen.sum())
    return count * (plan.settings.mask_head.count(count) + 1), chosen


def calibration_cost(plan: Plan) -> Cost:
    """A model of each fold's other images, and detections in the fold."""
    settings, label = replace(plan.settings, masks=False, calibrate=False), plan.label
    how = settings.calibration
    folds = split_folds(plan.dataset, label, how.folds, settings.seed)
    seconds, memory, images = 0.0, 0, []
    for k, held in enumerate(folds):
        try:
            half = make_plan(plan.dataset[all_but(folds, k)], label, settings)
        except HalfseenError:
            break  # too little to learn from: there will be no calibration
        costs = estimate(half)
        seconds += sum(cost.seconds for cost in costs)
        memory = max(memory, *(cost.memory for cost in costs))
        shows = np.array([bool((plan.dataset[i].label == label).any()) for i in held], bool)
        images = [*np.repeat(held[shows], 2), *held[~shows][:: how.sparse]]
        seconds += detection_seconds(plan, images)
    return Cost("calibration", seconds + detection_seconds(plan, images), memory)


def detection_seconds(plan: Plan, images: Sequence[int]) -> float:
    """Seconds of one core to detect in these images."""
    templates = sum(rows * cols for rows, cols in plan.shapes) * (1 + plan.settings.mirrored)
    each = block_seconds(plan) + MINING * templates * plan.descriptor.channels
    return count_blocks(plan, images) * each


class LevelSize(NamedTuple):
    """One level of an image's pyramid: (rows, cols) of blocks, and its scale (x, y)."""

    grid: tuple[int, int]
    scale: tuple[float, float]


def level_sizes(plan: Plan, image_size: tuple[int, int]) -> list[LevelSize]:
    """The levels of an image of this size. No image is read."""
    found = []
    for height, width in plan.settings.pyramid.sizes(image_size):
        grid = plan.descriptor.grid(height, width)
        if not fits(*grid, plan.shapes):
            break
        found.append(LevelSize(grid, (width / image_size[1], height / image_size[0])))
    return found


def count_blocks(plan: Plan, images: Iterable[int]) -> int:
    """Blocks of the pyramids of these images."""

    @lru_cache
    def count(size: tuple[int, int]) -> int:
        return sum(rows * cols for (rows, cols), _ in level_sizes(plan, size))

    return sum(count(plan.dataset[i].size) for i in images)
