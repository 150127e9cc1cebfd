"""The training set: the objects of a class with the windows they may take, and images to mine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from halfseen.arrays import Bool, Float64, Int64
from halfseen.compute.libraries import available_cores
from halfseen.compute.map import Workplace
from halfseen.data.dataset import Dataset
from halfseen.detect.windows import place_boxes
from halfseen.errors import TrainingError
from halfseen.learn.latent import Assignment, Bag, Place, Template
from halfseen.learn.mining import Keys
from halfseen.learn.objective import Examples, Objective, Parameters, Positives
from halfseen.learn.per_image import ImageWork, Picture, home
from halfseen.learn.plan import make_plan
from halfseen.learn.positives import average_box, choose_flips, in_blocks
from halfseen.learn.settings import TrainSettings
from halfseen.model.mixture import Mixture

if TYPE_CHECKING:
    from distributed import Client


class TrainingSet:
    """One class of one dataset, read and described once for all trainers that learn from it.

    bags    for each object the windows that it may take, without their features
    mining  the images that negatives come from
    work    what is done with one image; it caches features where it is done
    pool    threads for fits, which run here: their windows are in this memory
    """

    def __init__(
        self,
        dataset: Dataset,
        label: str,
        settings: TrainSettings | None = None,
        cores: int | None = None,
        cluster: str | Client | None = None,
    ) -> None:
        plan = make_plan(dataset, label, settings or TrainSettings())
        self.dataset, self.label, self.settings = dataset, label, plan.settings
        self.objects, self.descriptor = plan.objects, plan.descriptor
        self.starts, self.shapes, self.mining = plan.starts, plan.shapes, plan.mining
        self.parameters = Parameters(tuple((*s, self.descriptor.channels) for s in self.shapes))
        self.pictures = {i: Picture.make(dataset, i, label, plan.objects) for i in plan.images}
        self.work = ImageWork.make(plan)
        self.place = Workplace(cores, cluster, kept=self.work)
        self.pool = ThreadPoolExecutor(cores or available_cores())
        try:
            self.bags: list[Bag] = self._by_object(self.work.outlines)
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
        reached = len(self.objects) - len(self.unreached())
        if reached < 2:
            best = max(bag.reach for bag in self.bags)
            raise TrainingError(
                f"expected at least 2 objects of class {self.label!r} that some window overlaps by "
                f"{self.settings.positive_overlap}, found {reached} of {len(self.objects)} (best "
                f"overlap {best:.2f}): they are too small or of too many shapes; take larger "
                "pictures, or set a smaller `cell`, fewer `blocks` or more `components`"
            )

    def unreached(self) -> list[int]:
        """The objects that no window overlaps enough."""
        least = self.settings.positive_overlap
        return [n for n, bag in enumerate(self.bags) if bag.reach < least]

    def _map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """A function of pictures, or of tuples that begin with one, in order."""
        return self.place.map(function, items, home)

    @property
    def _with_objects(self) -> list[Picture]:
        # list_objects goes through the images in order, so these hold the objects in their order.
        return [self.pictures[int(i)] for i in np.unique(self.objects.image)]

    def _by_object(self, function: Callable[[Picture], list[Any]]) -> list[Any]:
        """A function that gives one result for each object of a picture, for all objects."""
        return [value for values in self._map(function, self._with_objects) for value in values]

    def mine(self, function: Callable[[Picture], Any]) -> list[Any]:
        """Apply a function to each image that is mined, and list the results."""
        return list(self._map(function, [self.pictures[i] for i in self.mining]))

    def draw_negatives(self, model: Mixture, count: int) -> Keys:
        """`count` random windows of each image that is mined, away from its objects."""
        overlap, seed = self.settings.negative_overlap, self.settings.seed
        drawn = self.mine(partial(self.work.draw, model, count, overlap, seed))
        return Keys.join([mined.keys for mined in drawn])

    def take(self, keys: Keys) -> Iterator[tuple[Int64, Examples]]:
        """The windows of one component that keys name: image by image, and their rows."""
        rows = keys.by_image()
        items = [(self.pictures[int(keys.image[at[0]])], keys[at]) for at in rows]
        return zip(rows, self._map(self.work.take, items), strict=True)

    def assign(self, templates: list[Template], objective: Objective) -> list[Assignment | None]:
        """The latent update: the best window of each object."""
        return self._by_object(
            partial(self.work.improve, templates, objective, self.settings.mirrored)
        )

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

    def average_box(self, m: int, assignments: list[Assignment | None]) -> Float64:
        """The box that overlaps best with the whole objects assigned to a component."""
        rows, cols = self.shapes[m]
        window = np.array([0.0, 0.0, cols, rows])
        boxes, windows, mirrored = [], [], []
        for bag, a, whole in zip(self.bags, assignments, self.objects.whole, strict=True):
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

    def reassign(self, places: list[Place | None], flags: list[Bool]) -> list[Assignment | None]:
        """Assignments from their places and flags; ValueError unless there is one an object."""
        if not len(places) == len(flags) == len(self.objects):
            raise ValueError(f"{len(places)} assignments of {len(self.objects)} objects")
        items = [(p, [places[n] for n in p.numbers]) for p in self._with_objects]
        windows = [w for found in self._map(self.work.assigned, items) for w in found]
        result: list[Assignment | None] = []
        for window, place, visible in zip(windows, places, flags, strict=True):
            if window is None or place is None:
                result.append(None)
                continue
            shaped = visible.reshape(self.shapes[place.component])
            m, mirrored, crop, y, x = place
            features, outside = window.features[0], window.outside[0]
            result.append(Assignment(m, bool(mirrored), crop, y, x, shaped, features, outside, 0.0))
        return result
