"""What training works with: the objects of a class, and the images that are mined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import Workplace, available_cores
from halfseen.data.dataset import Dataset
from halfseen.errors import TrainingError
from halfseen.infer.boxes import place_boxes
from halfseen.learn.image_work import ImageWork, Picture, Place, home
from halfseen.learn.latent import Assignment, Bag
from halfseen.learn.objective import Examples, Parameters, Positives
from halfseen.learn.plan import fit_pyramid, make_plan
from halfseen.learn.positives import average_box, choose_flips, in_blocks
from halfseen.learn.settings import TrainSettings

if TYPE_CHECKING:
    from distributed import Client


class Material:
    """One class of one dataset, made ready for learning: read and described once for all runs.

    bags    for each object the windows that it may take, without their features, and the best IoU
            of any window with it
    mining  the images that negatives come from
    work    what is done with one image; it keeps features, within a bound, where it is done
    """

    def __init__(
        self,
        dataset: Dataset,
        label: str,
        settings: TrainSettings,
        cores: int | None = None,
        cluster: str | Client | None = None,
    ) -> None:
        settings = fit_pyramid(dataset, label, settings)
        plan = make_plan(dataset, label, settings)
        self.dataset, self.label, self.settings = dataset, label, settings
        self.objects, self.descriptor = plan.objects, plan.descriptor
        self.starts, self.shapes, self.mining = plan.starts, plan.shapes, plan.mining
        self.parameters = Parameters(tuple((*s, self.descriptor.channels) for s in self.shapes))
        self.pictures = {i: Picture.make(dataset, i, label, plan.objects) for i in plan.images}
        self.work = ImageWork.make(plan, settings)
        self.place = Workplace(cores, cluster, kept=self.work)
        # Fits run here: their windows are in this memory.
        self.pool = ThreadPoolExecutor(cores or available_cores())
        try:
            self.bags = self._collect_bags()
            self._check_reached()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever ended the work, an interrupt perhaps, does not want the rest of it done.
        self.pool.shutdown(cancel_futures=True)
        self.place.__exit__()

    def _check_reached(self) -> None:
        missed = self.unreached()
        if len(self.objects) - len(missed) < 2:
            best = max(overlap for _, overlap in missed)
            raise TrainingError(
                f"expected at least 2 objects of class {self.label!r} that some window overlaps by "
                f"{self.settings.positive_overlap}, found {len(self.objects) - len(missed)} of "
                f"{len(self.objects)} (best overlap {best:.2f}): they are too small or of too many "
                "shapes; take larger pictures, or set a smaller `cell`, fewer `blocks` or more "
                "`components`"
            )

    def unreached(self) -> list[tuple[int, float]]:
        """Objects that no window overlaps enough: (object, best IoU of any window)."""
        return [
            (n, best)
            for n, (bag, best) in enumerate(self.bags)
            if best < self.settings.positive_overlap
        ]

    def _map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """A function of pictures, or of tuples that begin with one, in order."""
        return self.place.map(function, items, home)

    @property
    def _with_objects(self) -> list[Picture]:
        # list_objects goes through the images in order, so these hold the objects in their order.
        return [self.pictures[int(i)] for i in np.unique(self.objects.image)]

    def _collect_bags(self) -> list[tuple[Bag, float]]:
        return [b for bags in self._map(self.work.outlines, self._with_objects) for b in bags]

    def positives(self, stage: int, assignments: list[Assignment | None]) -> list[Positives]:
        """The positive windows by component: warped whole objects at first, then the assigned."""
        if stage == 0:
            return self._warped
        batches = []
        for m, (rows, cols) in enumerate(self.shapes):
            chosen = [a for a in assignments if a is not None and a.component == m]
            empty = np.zeros((0, rows, cols, self.descriptor.channels), np.float32)
            flags = np.zeros((0, rows, cols), bool)
            examples = Examples(
                np.stack([a.features for a in chosen]) if chosen else empty,
                np.stack([a.outside for a in chosen]) if chosen else flags,
            )
            batches.append(
                Positives(examples, np.stack([a.visible for a in chosen]) if chosen else flags)
            )
        return batches

    @cached_property
    def _warped(self) -> list[Positives]:
        batches = []
        for start, shape in zip(self.starts, self.shapes, strict=True):
            items = [
                (self.pictures[int(self.objects.image[n])], self.objects.box[n]) for n in start
            ]
            features = np.stack(list(self._map(partial(self.work.warped, shape), items)))
            if self.settings.mirrored:
                flips = choose_flips(features, self.descriptor.mirror)
                features[flips] = features[flips][:, :, ::-1][..., self.descriptor.mirror]
            outside = np.zeros(features.shape[:3], bool)
            batches.append(Positives(Examples(features, outside), ~outside))
        return batches

    def hidden_maps(self, assignments: list[Assignment | None]) -> list[list[list[float]]]:
        """For each component, the share of its positives in which a block is hidden."""
        maps = []
        for p in self.positives(1, assignments):
            hidden = (~p.visible & ~p.examples.outside).sum(0)
            inside = np.maximum((~p.examples.outside).sum(0), 1)
            maps.append(np.round(hidden / inside, 4).tolist())
        return maps

    def average_box(self, m: int, assignments: list[Assignment | None]) -> NDArray[np.float64]:
        """The box that overlaps best with the whole objects assigned to a component."""
        rows, cols = self.shapes[m]
        window = np.array([0.0, 0.0, cols, rows])
        boxes, windows, mirrored = [], [], []
        for (bag, _), a, whole in zip(self.bags, assignments, self.objects.whole, strict=True):
            if a is None or a.component != m or not whole:
                continue
            place = (np.array([a.y]), np.array([a.x]))
            scale = bag.crops[a.crop].scale
            boxes.append(bag.box)
            windows.append(place_boxes(*place, (rows, cols), window, self.descriptor, scale)[0])
            mirrored.append(a.mirrored)
        if not boxes:
            return window
        blocks = in_blocks(np.array(boxes), np.array(windows), (rows, cols), np.array(mirrored))
        return average_box(blocks, window)

    def reassign(
        self, rows: list[Place], flags: list[NDArray[np.bool_]]
    ) -> list[Assignment | None]:
        """Assignments from their stored numbers and flags."""
        if not len(rows) == len(flags) == len(self.objects):
            raise ValueError(f"{len(rows)} assignments of {len(self.objects)} objects")
        items = [(p, [rows[n] for n in p.numbers]) for p in self._with_objects]
        windows = [w for found in self._map(self.work.assigned, items) for w in found]
        result: list[Assignment | None] = []
        for window, (m, mirrored, c, y, x), visible in zip(windows, rows, flags, strict=True):
            if window is None:
                result.append(None)
                continue
            shaped = visible.reshape(self.shapes[m])
            features, outside = window.features[0], window.outside[0]
            result.append(Assignment(m, bool(mirrored), c, y, x, shaped, features, outside, 0.0))
        return result


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Training brings its own threads; BLAS threads on top would fight them for the cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
