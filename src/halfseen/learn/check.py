"""Before training: what cannot be read, what cannot be learnt, and what the rest will cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import available_cores, map_images
from halfseen.data.dataset import Dataset
from halfseen.errors import HalfseenError, ImageError
from halfseen.learn.latent import reachable_places
from halfseen.learn.plan import Plan, fit_pyramid, make_plan
from halfseen.learn.settings import TrainSettings

# Measured by `benchmarks/training.py --costs`: seconds of one core, of a busy machine, for
FEATURES = 1.3e-6  # each block of a pyramid, its pixels read and resized
MINING = 4.8e-10  # each product of a window's block with a template's, a channel
FITTING = 1.4e-9  # each number of a stored window, in each evaluation of the energy
# Windows that are stored for each mining image, and evaluations of the energy in a fit: typical.
STORED, EVALUATIONS = 70, 85
# What the process holds before any data: the interpreter, the libraries and compiled kernels.
BASE_BYTES = 350 << 20


@dataclass(frozen=True)
class Unreached:
    """An object that no window overlaps enough, so that nothing is learnt from it."""

    image: str
    file: str
    box: tuple[float, ...]
    overlap: float


@dataclass(frozen=True)
class Planned:
    """A component that would be made: its window in blocks and in pixels, and its whole objects."""

    rows: int
    cols: int
    smallest: tuple[float, float]
    objects: int


@dataclass(frozen=True)
class Check:
    """All that `check` found out.

    problems    files that cannot be used: one line each
    unreadable  their places in the dataset, as far as they are in it
    read        how many images training reads
    memory      bytes at most, about
    seconds     of all `cores` together, about: within a factor of two or so
    """

    label: str
    images: int
    read: int
    objects: int
    whole: int
    problems: tuple[str, ...]
    unreadable: tuple[int, ...]
    unreached: tuple[Unreached, ...]
    components: tuple[Planned, ...]
    memory: int
    seconds: float
    cores: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check(
    dataset: Dataset,
    label: str,
    settings: TrainSettings | None = None,
    *,
    cores: int | None = None,
    cluster: str | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> Check:
    """Looks at the data as training will, without learning anything.

    Every image that training would read is decoded; overlaps come from the geometry of the pyramid
    alone. `on_done` is called with how many images are done, and how many there are.
    SettingsError for an unknown class, TrainingError where there is too little to learn from.
    """
    given = settings or TrainSettings()
    settings = fit_pyramid(dataset, label, given)
    plan = make_plan(dataset, label, settings)
    look = partial(_unreadable, dataset, cores=cores, cluster=cluster, on_done=on_done)
    first = _images(dataset, plan, settings)
    broken, read = look(first), set(first)
    while broken:
        # Without them training draws others.
        kept = [i for i in range(len(dataset)) if i not in broken]
        rest = dataset[kept]
        try:
            drawn = make_plan(rest, label, fit_pyramid(rest, label, given))
        except HalfseenError:
            break  # too little is left: training will say so
        new = {kept[i] for i in _images(rest, drawn, settings)} - read
        found = look(sorted(new))
        read |= new
        if not found:
            break
        broken |= found
    best = best_overlaps(dataset, plan, settings)
    missed = np.flatnonzero(best < settings.positive_overlap)
    objects = plan.objects
    count = cores or available_cores()
    largest = settings.pyramid.largest
    return Check(
        label,
        len(dataset),
        len(plan.images),
        len(objects),
        int(objects.whole.sum()),
        (*dataset.problems, *broken.values()),
        tuple(broken),
        tuple(_unreached(dataset, int(objects.image[n]), objects.box[n], best[n]) for n in missed),
        tuple(
            Planned(
                rows, cols, (cols * settings.cell / largest, rows * settings.cell / largest), len(s)
            )
            for (rows, cols), s in zip(plan.shapes, plan.starts, strict=True)
        ),
        estimate_memory(dataset, plan, settings),
        estimate_seconds(dataset, plan, settings) / count,
        count,
    )


def _images(dataset: Dataset, plan: Plan, settings: TrainSettings) -> list[int]:
    """What training reads: for masks and calibrations, any of them."""
    return list(range(len(dataset))) if settings.masks or settings.calibrate else plan.images


def _unreadable(
    dataset: Dataset,
    images: list[int],
    *,
    cores: int | None,
    cluster: str | None,
    on_done: Callable[[int, int], None] | None,
) -> dict[int, str]:
    """Images that cannot be decoded, or are not of the annotated size, and why."""

    def advance(done: int) -> None:
        if on_done is not None:
            on_done(done, len(images))

    ones = (dataset[i : i + 1] for i in images)
    found = zip(images, map_images(_fault, ones, cores, advance, cluster), strict=True)
    return {i: reason for i, reason in found if reason is not None}


def _fault(one: Dataset) -> str | None:
    try:
        one.image(0)
    except ImageError as error:
        return str(error)
    return None


def _unreached(
    dataset: Dataset, i: int, box: NDArray[np.float64], overlap: float
) -> Unreached:  # fmt: skip
    truth = dataset[i]
    file = truth.source if isinstance(truth.source, str) else truth.image
    return Unreached(truth.image, file, tuple(float(v) for v in box), float(overlap))


def best_overlaps(dataset: Dataset, plan: Plan, settings: TrainSettings) -> NDArray[np.float64]:
    """For each object the largest IoU that any window has with it. No image is read."""
    best = np.zeros(len(plan.objects))
    for n, (i, box) in enumerate(zip(plan.objects.image, plan.objects.box, strict=True)):
        image_size = dataset[int(i)].size
        for size, scale in _levels(image_size, plan, settings):
            for rows, cols in plan.shapes:
                window = np.array([0.0, 0.0, cols, rows])
                places = reachable_places(
                    box, image_size, (rows, cols), window, plan.descriptor, size, scale
                )
                best[n] = max(best[n], places.max())
    return best


def _levels(
    image_size: tuple[int, int], plan: Plan, settings: TrainSettings
) -> list[tuple[tuple[int, int], tuple[float, float]]]:
    """((rows, cols) of blocks, scale (x, y)) of each level of an image of this size."""
    grid = plan.descriptor.grid

    def fits(height: int, width: int) -> bool:
        rows, cols = grid(height, width)
        return any(r <= rows and c <= cols for r, c in plan.shapes)

    return [
        (grid(height, width), (width / image_size[1], height / image_size[0]))
        for height, width in settings.pyramid.sizes(image_size, fits)
    ]


def _blocks(dataset: Dataset, images: list[int], plan: Plan, settings: TrainSettings) -> int:
    """Blocks of the pyramids of these images."""

    @lru_cache
    def count(size: tuple[int, int]) -> int:
        return sum(rows * cols for (rows, cols), _ in _levels(size, plan, settings))

    return sum(count(dataset[i].size) for i in images)


def estimate_memory(dataset: Dataset, plan: Plan, settings: TrainSettings) -> int:
    """Bytes at most: cached pyramids, stored negatives, and what is kept around the positives."""
    block = 4 * plan.descriptor.channels
    cached = _blocks(dataset, list(plan.mining), plan, settings) * block
    window = max(rows * cols for rows, cols in plan.shapes) * block
    # A window fits an object at about four levels, each with as much again around it.
    positives = len(plan.objects) * window * (4 * 2 + 1)
    stored = min(settings.store_bytes, len(plan.mining) * settings.per_image * window)
    return BASE_BYTES + min(cached, settings.cache_bytes) + stored + positives


def estimate_seconds(dataset: Dataset, plan: Plan, settings: TrainSettings) -> float:
    """Seconds of one core, from measured costs; all rounds are counted as if none were spared."""
    channels = plan.descriptor.channels
    templates = sum(rows * cols for rows, cols in plan.shapes) * (1 + settings.mirrored)
    mined = _blocks(dataset, list(plan.mining), plan, settings)
    read = mined + _blocks(dataset, sorted(set(plan.objects.image.tolist())), plan, settings)
    windows = len(plan.objects) + STORED * len(plan.mining)
    numbers = windows * max(rows * cols for rows, cols in plan.shapes) * channels
    rounds = (settings.updates + 1) * settings.rounds
    evaluations = min(EVALUATIONS, 1.5 * settings.iterations)
    return (
        FEATURES * read
        + rounds * MINING * mined * templates * channels
        + rounds * FITTING * numbers * evaluations
    )
