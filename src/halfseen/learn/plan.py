"""What training will work on, decided from the annotations alone, before any image is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from halfseen.arrays import Int64
from halfseen.data.dataset import Dataset
from halfseen.errors import SettingsError
from halfseen.features.descriptor import Descriptor
from halfseen.geometry import area
from halfseen.learn.positives import Objects, cluster_ratios, list_objects, window_shape
from halfseen.learn.settings import TrainSettings


@dataclass(frozen=True, eq=False)
class Plan:
    """The objects to learn from, the components to make of them, and where negatives are mined.

    settings with the pyramid that suits the objects: see `fit_pyramid`
    starts   for each component the whole objects that it starts from
    shapes   for each component (rows, cols) of its window
    mining   the images that negatives come from, ascending
    """

    dataset: Dataset
    label: str
    settings: TrainSettings
    objects: Objects
    descriptor: Descriptor
    starts: tuple[Int64, ...]
    shapes: tuple[tuple[int, int], ...]
    mining: tuple[int, ...]

    @property
    def images(self) -> list[int]:
        """Every image that training reads, ascending."""
        return sorted({*self.objects.image.tolist(), *self.mining})


def fit_pyramid(dataset: Dataset, label: str, settings: TrainSettings) -> TrainSettings:
    """The settings with a pyramid that enlarges images only if enough objects are small.

    In a window of an image that is not enlarged, an object with less than `positive_overlap` of
    the window's area cannot overlap it enough. What is left of the pyramid are its own levels from
    the first that does not enlarge: models of either kind share them.
    """
    dataset.check_class(label)
    window = settings.blocks * settings.cell**2
    small = area(list_objects(dataset, label).box) < settings.positive_overlap * window
    if settings.pyramid.largest <= 1 or small.mean() > settings.doubling:
        return settings
    largest = settings.pyramid.largest
    while largest > 1:
        largest /= settings.pyramid.factor
    return replace(settings, pyramid=replace(settings.pyramid, largest=largest))


def make_plan(dataset: Dataset, label: str, settings: TrainSettings) -> Plan:
    """Plan a training, without reading an image.

    SettingsError for a class that is not in the data, TrainingError for too few objects.
    """
    if not isinstance(dataset, Dataset):
        raise SettingsError(
            f"expected a Dataset, as of hs.read_voc or hs.read_coco, found {type(dataset).__name__}"
        )
    if not isinstance(settings, TrainSettings):
        raise SettingsError(f"expected hs.TrainSettings, found {settings!r:.80}")
    settings = fit_pyramid(dataset, label, settings)
    objects = list_objects(dataset, label)
    descriptor = settings.make_descriptor()
    whole = np.flatnonzero(objects.whole)
    _, cluster = cluster_ratios(objects.box[whole], settings.components)
    starts = tuple(whole[cluster == k] for k in range(cluster.max() + 1))
    shapes = tuple(
        window_shape(
            objects.box[s] * settings.pyramid.largest / descriptor.cell,
            settings.blocks,
            settings.positive_overlap,
        )
        for s in starts
    )
    random = np.random.default_rng(settings.seed)
    mining = np.sort(random.permutation(len(dataset))[: settings.mining_images])
    return Plan(
        dataset, label, settings, objects, descriptor, starts, shapes, tuple(mining.tolist())
    )
