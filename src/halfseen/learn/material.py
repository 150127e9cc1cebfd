"""What training works with: the features of the objects and of the images that are mined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import available_cores
from halfseen.data.dataset import Dataset
from halfseen.errors import TrainingError
from halfseen.geometry import clip
from halfseen.infer.boxes import place_boxes
from halfseen.learn.latent import Assignment, Bag, collect_bags, windows_of
from halfseen.learn.mining import MiningImage
from halfseen.learn.objective import Examples, Parameters, Positives
from halfseen.learn.plan import make_plan
from halfseen.learn.positives import average_box, choose_flips, in_blocks, warp
from halfseen.learn.settings import TrainSettings


class Material:
    """One class of one dataset, made ready for learning: read and described once for all runs.

    bags    for each object the windows that it may take, and the best IoU of any window with it
    mining  the images that negatives come from; their features are kept within a bound
    """

    def __init__(
        self, dataset: Dataset, label: str, settings: TrainSettings, cores: int | None = None
    ) -> None:
        plan = make_plan(dataset, label, settings)
        self.dataset, self.label, self.settings = dataset, label, settings
        self.objects, self.descriptor = plan.objects, plan.descriptor
        self.starts, self.shapes, self.mining = plan.starts, plan.shapes, plan.mining
        self.cores = cores or available_cores()
        self.pool = ThreadPoolExecutor(self.cores)
        self.parameters = Parameters(tuple((*s, self.descriptor.channels) for s in self.shapes))
        with one_blas_thread():
            self.bags = self._collect_bags()
            self._check_reached()
            self._mining_cache: dict[int, MiningImage] = {}
            self._fill_mining_cache()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever ended the work, an interrupt perhaps, does not want the rest of it done.
        self.pool.shutdown(cancel_futures=True)

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

    def _map(self, function: Callable[..., Any], *items: Any) -> Iterator[Any]:
        """In order, on all cores; the kernels release the GIL."""
        return self.pool.map(function, *items)

    def _collect_bags(self) -> list[tuple[Bag, float]]:
        settings, objects = self.settings, self.objects
        images = np.unique(objects.image)

        def collect(i: int) -> list[tuple[Bag, float]]:
            mine = objects.image == i
            return collect_bags(
                self.dataset.image(int(i)), objects.box[mine], objects.seen[mine],
                objects.occluded[mine], self.shapes, self.descriptor, settings.pyramid,
                settings.positive_overlap,
            )  # fmt: skip

        # list_objects goes through the images in order, so the bags come in the objects' order.
        return [bag for bags in self._map(collect, images) for bag in bags]

    def _fill_mining_cache(self) -> None:
        used = 0
        for i, image in zip(self.mining, self._map(self._mining_image, self.mining), strict=True):
            used += image.bytes
            if used > self.settings.cache_bytes:
                break
            self._mining_cache[i] = image

    def _mining_image(self, i: int) -> MiningImage:
        if i in self._mining_cache:
            return self._mining_cache[i]
        truth = self.dataset[i]
        truth = truth[truth.label == self.label]
        return MiningImage.make(
            self.dataset.image(i), np.concatenate([truth.box, clip(truth.full, truth.size)]),
            self.descriptor, self.settings.pyramid, self.shapes,
        )  # fmt: skip

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

            def stretch(n: int, shape: tuple[int, int] = shape) -> NDArray[np.float32]:
                image = self.dataset.image(int(self.objects.image[n]))
                return warp(image, self.objects.box[n], shape, self.descriptor)

            features = np.stack(list(self._map(stretch, start)))
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
        self, rows: list[tuple[int, int, int, int, int]], flags: list[NDArray[np.bool_]]
    ) -> list[Assignment | None]:
        """Assignments from their stored numbers: component (-1 for none), mirrored, crop, y, x."""
        result: list[Assignment | None] = []
        for (bag, _), (m, mirrored, c, y, x), visible in zip(self.bags, rows, flags, strict=True):
            if m < 0:
                result.append(None)
                continue
            flip = self.descriptor.mirror if mirrored else None
            window = windows_of(bag.crops[c], self.shapes[m], np.array([y]), np.array([x]), flip)
            result.append(
                Assignment(
                    m,
                    bool(mirrored),
                    c,
                    y,
                    x,
                    visible.reshape(self.shapes[m]),
                    window.features[0],
                    window.outside[0],
                    0.0,
                )
            )
        return result


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Training brings its own threads; BLAS threads on top would fight them for the cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
