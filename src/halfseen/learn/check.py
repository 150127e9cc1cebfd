"""Before training: which files cannot be read, which objects cannot be learnt, and the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from halfseen.arrays import Float64
from halfseen.compute.libraries import available_cores
from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.errors import HalfseenError, ImageError
from halfseen.learn.estimate import Cost, estimate, level_sizes
from halfseen.learn.latent import reachable_places
from halfseen.learn.plan import Plan, make_plan
from halfseen.learn.settings import TrainSettings


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
    overlap     that some window must have with an object, by IoU
    costs       of each step that the settings ask for
    cores       that will work on it
    """

    label: str
    images: int
    read: int
    objects: int
    whole: int
    problems: tuple[str, ...]
    unreadable: tuple[int, ...]
    unreached: tuple[Unreached, ...]
    overlap: float
    components: tuple[Planned, ...]
    costs: tuple[Cost, ...]
    cores: int

    @property
    def memory(self) -> int:
        """Bytes at most, about: steps come one after another."""
        return max(cost.memory for cost in self.costs)

    @property
    def seconds(self) -> float:
        """Seconds of all steps on all cores, about: within a factor of two or so."""
        return sum(cost.seconds for cost in self.costs) / self.cores

    def as_json(self) -> dict[str, Any]:
        costs = [cost._asdict() for cost in self.costs]
        return asdict(self) | {"costs": costs, "memory": self.memory, "seconds": self.seconds}


def check(
    dataset: Dataset,
    label: str,
    settings: TrainSettings | None = None,
    *,
    cores: int | None = None,
    cluster: str | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> Check:
    """Look at the data as training will, without learning anything.

    Every image that training would read is decoded; overlaps come from the geometry of the pyramid
    alone. `on_done` is called with how many images are done, and how many there are.
    SettingsError for an unknown class, TrainingError where there is too little to learn from.
    """
    settings = settings or TrainSettings()
    plan = make_plan(dataset, label, settings)
    find_broken = partial(_unreadable, dataset, cores=cores, cluster=cluster, on_done=on_done)
    first = _images(plan)
    broken, read = find_broken(first), set(first)
    while broken:
        # Without them training draws others.
        kept = [i for i in range(len(dataset)) if i not in broken]
        try:
            drawn = make_plan(dataset[kept], label, settings)
        except HalfseenError:
            break  # too little is left: training will say so
        new = {kept[i] for i in _images(drawn)} - read
        found = find_broken(sorted(new))
        read |= new
        if not found:
            break
        broken |= found
    best = best_overlaps(plan)
    missed = np.flatnonzero(best < settings.positive_overlap)
    objects = plan.objects
    return Check(
        label,
        len(dataset),
        len(_images(plan)),
        len(objects),
        int(objects.whole.sum()),
        (*dataset.problems, *broken.values()),
        tuple(broken),
        tuple(_unreached(dataset, int(objects.image[n]), objects.box[n], best[n]) for n in missed),
        settings.positive_overlap,
        _components(plan),
        tuple(estimate(plan)),
        cores or available_cores(),
    )


def _images(plan: Plan) -> list[int]:
    """The images that training reads; mask heads and calibrations may read any."""
    if plan.settings.masks or plan.settings.calibrate:
        return list(range(len(plan.dataset)))
    return plan.images


def _components(plan: Plan) -> tuple[Planned, ...]:
    pixels = plan.settings.cell / plan.settings.pyramid.largest
    return tuple(
        Planned(rows, cols, (cols * pixels, rows * pixels), len(start))
        for (rows, cols), start in zip(plan.shapes, plan.starts, strict=True)
    )


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


def _unreached(dataset: Dataset, i: int, box: Float64, overlap: float) -> Unreached:
    truth = dataset[i]
    file = truth.source if isinstance(truth.source, str) else truth.image
    return Unreached(truth.image, file, tuple(float(v) for v in box), float(overlap))


def best_overlaps(plan: Plan) -> Float64:
    """For each object the largest IoU that any window has with it. No image is read."""
    best = np.zeros(len(plan.objects))
    for n, (i, box) in enumerate(zip(plan.objects.image, plan.objects.box, strict=True)):
        image_size = plan.dataset[int(i)].size
        for level in level_sizes(plan, image_size):
            for rows, cols in plan.shapes:
                window = np.array([0.0, 0.0, cols, rows])
                places = reachable_places(
                    box, image_size, (rows, cols), window, plan.descriptor, *level
                )
                best[n] = max(best[n], places.max())
    return best
