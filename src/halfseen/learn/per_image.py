"""The work of training on one image at a time, and the features that it caches.

`ImageWork` is sent, with a model or templates, to wherever images are worked on; what is sent for
each image is a `Picture`: the name of its file and its boxes. Results are windows and numbers.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.data.dataset import Dataset
from halfseen.errors import SettingsError
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import Boxes, clip
from halfseen.learn.latent import (
    Assignment,
    Bag,
    Fit,
    Place,
    Template,
    collect_bags,
    update,
    windows_of,
)
from halfseen.learn.mining import Keys, Mined, MiningImage, draw_random, mine, take_windows
from halfseen.learn.objective import Examples, Objective
from halfseen.learn.plan import Plan
from halfseen.learn.positives import Objects, warp
from halfseen.model.mixture import Mixture

Value = TypeVar("Value")


class FeatureCache(Generic[Value]):
    """Features by image, made once in a process and kept up to a number of bytes.

    It travels as its name alone: unpickled in another process, it is that process's own cache of
    the name, which lives as long as anything there refers to it.
    """

    def __init__(self, most_bytes: float, name: str | None = None) -> None:
        self.most_bytes = most_bytes
        self.name = name or secrets.token_hex(8)
        self._used = 0
        self._kept: dict[int, Value] = {}
        self._lock = threading.Lock()
        _caches[self.name] = self

    def __reduce__(self) -> tuple[object, ...]:
        return _arrive, (self.most_bytes, self.name)

    def get(self, index: int, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value of an image; `make` gives it where it is not kept, `size` its bytes."""
        if index in self._kept:
            return self._kept[index]
        value = make()
        with self._lock:
            if index not in self._kept and self._used + size(value) <= self.most_bytes:
                self._used += size(value)
                self._kept[index] = value
        return value


_caches: WeakValueDictionary[str, FeatureCache[Any]] = WeakValueDictionary()


def _arrive(most_bytes: float, name: str) -> FeatureCache[Any]:
    return _caches.get(name) or FeatureCache(most_bytes, name)


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as work is sent.

    one       the dataset of this image alone, without masks
    spared    boxes that no negative may overlap: all objects of the class
    numbers   which of all objects to learn from are in it, with box, visible and occluded of each
    """

    index: int
    one: Dataset
    spared: Boxes
    numbers: Int64
    box: Boxes
    visible: Boxes
    occluded: Bool

    @classmethod
    def make(cls, dataset: Dataset, index: int, label: str, objects: Objects) -> Picture:
        truth = dataset[index]
        own = truth[truth.label == label]
        bare = replace(own[:0], read_mask=None)
        numbers = np.flatnonzero(objects.image == index)
        return cls(
            index, Dataset(dataset.name, (), (bare,), limits=dataset.limits),
            np.concatenate([own.box, clip(own.full, own.size)]),
            numbers, objects.box[numbers], objects.visible[numbers], objects.occluded[numbers],
        )  # fmt: skip

    def __reduce__(self) -> tuple[object, ...]:
        source = self.one[0].source
        if not isinstance(source, str):
            raise SettingsError(
                f"{self.one[0].image}: its pixels are in memory, and pictures are not sent to a "
                "cluster; write the data to a folder that all workers see, and train from there"
            )
        return Picture, (
            self.index, self.one, self.spared, self.numbers, self.box, self.visible, self.occluded,
        )  # fmt: skip

    def pixels(self) -> UInt8:
        return self.one.image(0)


def home(item: Picture | tuple[Picture, Any]) -> int:
    """Work on the same image goes where its features are."""
    return item.index if isinstance(item, Picture) else item[0].index


@dataclass(frozen=True, eq=False)
class ImageWork:
    """The work on one picture at a time, for the windows of a mixture, with the features it needs.

    fit  which windows may be an object's
    """

    descriptor: Descriptor
    pyramid: PyramidSettings
    shapes: tuple[tuple[int, int], ...]
    fit: Fit
    bag_cache: FeatureCache[list[Bag]]
    mining_cache: FeatureCache[MiningImage]

    @classmethod
    def make(cls, plan: Plan) -> ImageWork:
        settings = plan.settings
        return cls(
            plan.descriptor, settings.pyramid, plan.shapes, settings.fit,
            FeatureCache(math.inf), FeatureCache(settings.cache_bytes),
        )  # fmt: skip

    def bags(self, picture: Picture) -> list[Bag]:
        """For each object the windows that it may take."""

        def make() -> list[Bag]:
            return collect_bags(
                picture.pixels(), picture.box, picture.visible, picture.occluded, self.shapes,
                self.descriptor, self.pyramid, self.fit.overlap,
            )  # fmt: skip

        return self.bag_cache.get(picture.index, make, _bag_bytes)

    def outlines(self, picture: Picture) -> list[Bag]:
        """The bags without their features, which stay here."""
        return [
            replace(bag, crops=tuple(replace(c, features=c.features[:0]) for c in bag.crops))
            for bag in self.bags(picture)
        ]

    def improve(
        self, templates: list[Template], objective: Objective, mirrored: bool, picture: Picture
    ) -> list[Assignment | None]:
        """The latent update of each object."""
        return [
            update(bag, templates, objective, self.descriptor, mirrored, self.fit)
            for bag in self.bags(picture)
        ]

    def assigned(self, item: tuple[Picture, list[Place | None]]) -> list[Examples | None]:
        """For each object the window that it was assigned, if any."""
        picture, places = item
        found: list[Examples | None] = []
        for bag, place in zip(self.bags(picture), places, strict=True):
            if place is None:
                found.append(None)
                continue
            flip = self.descriptor.mirror if place.mirrored else None
            shape, crop = self.shapes[place.component], bag.crops[place.crop]
            found.append(windows_of(crop, shape, np.array([place.y]), np.array([place.x]), flip))
        return found

    def warped(self, shape: tuple[int, int], item: tuple[Picture, Float64]) -> Float32:
        """The features of a box, stretched to a window."""
        picture, box = item
        return warp(picture.pixels(), box, shape, self.descriptor)

    def mining(self, picture: Picture) -> MiningImage:
        def make() -> MiningImage:
            return MiningImage.make(
                picture.pixels(), picture.spared, self.descriptor, self.pyramid, self.shapes
            )

        return self.mining_cache.get(picture.index, make, lambda image: image.bytes)

    def draw(
        self, model: Mixture, count: int, overlap: float, seed: int, picture: Picture
    ) -> Mined:
        return draw_random(picture.index, self.mining(picture), model, count, overlap, seed)

    def search(
        self, model: Mixture, threshold: float, most: int, overlap: float, picture: Picture
    ) -> Mined:
        return mine(picture.index, self.mining(picture), model, threshold, most, overlap)

    def take(self, item: tuple[Picture, Keys]) -> Examples:
        """The windows that keys of one picture and one component name."""
        picture, keys = item
        shape = self.shapes[int(keys.component[0])]
        return take_windows(self.mining(picture), keys, shape, self.descriptor.mirror)


def _bag_bytes(bags: list[Bag]) -> int:
    return sum(crop.features.nbytes for bag in bags for crop in bag.crops)
