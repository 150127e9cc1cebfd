"""One image as a detector sees it: levels and features, made once and shared by its models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32, Float64, Int64, UInt8
from halfseen.compute.map import Map, await_kernels, free_cores, spread
from halfseen.detections import Detections
from halfseen.errors import ModelError
from halfseen.features.descriptor import Descriptor, describe
from halfseen.features.pyramid import Level, LevelPlan, PyramidSettings, plan_levels
from halfseen.model.mixture import Mixture

Shape = tuple[int, int]
# Pixels of levels that are made at once, float32: all of a photograph's.
BATCH_BYTES = 128 << 20
# Features that an image's levels keep; those beyond are made again when they are asked for.
KEPT_BYTES = 64 << 20
# Floats in the widest vector.
LANES = 16


def feature_levels(
    pixels: UInt8,
    descriptor: Descriptor,
    pyramid: PyramidSettings,
    shapes: Collection[Shape],
) -> Iterator[tuple[Level, Float32]]:
    """The levels of an image with their features, down to where no window of these shapes fits."""
    for plan in fitting_levels(pixels, descriptor, pyramid, shapes):
        level = plan.make()
        yield level, descriptor(level.pixels)


def fits(rows: int, cols: int, shapes: Collection[Shape]) -> bool:
    """Whether a level of so many blocks is large enough for a window of one of the shapes."""
    return any(r <= rows and c <= cols for r, c in shapes)


def fitting_levels(
    pixels: UInt8,
    descriptor: Descriptor,
    pyramid: PyramidSettings,
    shapes: Collection[Shape],
) -> Iterator[LevelPlan]:
    """The levels of an image, down to where no window of these shapes fits."""
    plans = plan_levels(pixels, pyramid)
    return takewhile(lambda plan: fits(*descriptor.grid(*plan.size), shapes), plans)


class MirrorBasis:
    """Splits channels into those that a mirror image keeps (even) and those it negates (odd).

    A mirror image permutes the channels, w to P w, and twice is no change; so the sums of each pair
    of channels that swap, with those that stay, and the differences of each pair are a basis in
    which w . B = w+ . B+ + w- . B- and (P w) . B = w+ . B+ - w- . B-. The same two products, each
    of half the channels, serve a template and its mirror image.

    flip        (channels,) the descriptor's `mirror`
    even, odd   (n, channels) orthonormal
    """

    def __init__(self, flip: NDArray[np.intp]) -> None:
        channel = np.arange(len(flip))
        if not np.array_equal(flip[flip], channel):
            raise ModelError(
                "a descriptor's mirror must give every channel back when it is applied twice"
            )
        self.flip = flip
        unit = np.eye(len(flip), dtype=np.float32)
        half = np.float32(np.sqrt(0.5))
        low = channel[channel < flip]
        stay = unit[channel == flip]
        both = half * (unit[low] + unit[flip[low]])
        self.even = np.concatenate([both, stay]).astype(np.float32, copy=False)
        self.odd = (half * (unit[low] - unit[flip[low]])).astype(np.float32, copy=False)


class Plane(NamedTuple):
    """The features of a level as search reads them: row by row, channel by channel.

    size      (height, width) of the level
    even      how many of the channels are even: see `MirrorBasis`; the others are odd. Without a
              mirror all are
    channels  (channels, height, lanes), 0 beyond the width: whole vectors fit into a row
    """

    size: tuple[int, int]
    even: int
    channels: Float32

    @staticmethod
    def of(features: Float32, basis: MirrorBasis | None = None) -> Plane:
        """Of a level's blocks (height, width, channels), whose channels may lie in planes."""
        height, width, channels = features.shape
        planes = features.transpose(2, 0, 1)
        even = channels
        if basis is not None:
            even = len(basis.even)
            whole = np.concatenate([basis.even, basis.odd])
            planes = (whole @ planes.reshape(channels, -1)).reshape(planes.shape)
        lanes = (width + LANES - 1) // LANES * LANES
        padded = np.zeros((channels, height, lanes), np.float32)
        padded[:, :, :width] = planes
        return Plane((height, width), even, padded)


@dataclass(frozen=True, eq=False)
class FeatureGroup:
    """Models that share features: one descriptor, and pyramids that are parts of one.

    models  by their numbers in the detector; the first has all levels of the group
    first   for each, which level of the first model's pyramid is its own first
    basis   splits features for models that also look for mirror images
    """

    descriptor: Descriptor
    pyramid: PyramidSettings
    models: dict[int, Mixture]
    first: dict[int, int]
    basis: MirrorBasis

    @cached_property
    def shapes(self) -> dict[int, set[Shape]]:
        """The window shapes of each model."""
        return {m: {c.shape for c in model.components} for m, model in self.models.items()}

    def basis_of(self, m: int) -> MirrorBasis | None:
        """The basis in which model m searches; None for features as they are."""
        return self.basis if self.models[m].mirrored else None

    @staticmethod
    def of(models: Sequence[Mixture]) -> list[FeatureGroup]:
        """The models of a detector in groups."""
        groups: dict[tuple[str, str, PyramidSettings], FeatureGroup] = {}
        for m in sorted(range(len(models)), key=lambda m: -models[m].pyramid.largest):
            descriptor, pyramid = models[m].descriptor, models[m].pyramid
            features = (descriptor.name, repr(sorted(descriptor.options().items())))
            for key, group in groups.items():
                number = key[2].find(pyramid)
                if key[:2] == features and number is not None:
                    group.models[m], group.first[m] = models[m], number
                    break
            else:
                basis = MirrorBasis(descriptor.mirror)
                groups[(*features, pyramid)] = FeatureGroup(
                    descriptor, pyramid, {m: models[m]}, {m: 0}, basis
                )
        return list(groups.values())


class Levels:
    """The levels of one image for one group of models, with features made on demand.

    group   the models that share them
    plans   the levels, largest first
    scales  (L, 2) of the levels, x and y
    """

    def __init__(self, pixels: UInt8, group: FeatureGroup) -> None:
        self.group = group
        shapes = set().union(*group.shapes.values())
        self.plans = list(fitting_levels(pixels, group.descriptor, group.pyramid, shapes))
        scales = [(plan.scale_x, plan.scale_y) for plan in self.plans]
        self.scales = np.array(scales, np.float64).reshape(-1, 2)
        self._left_out = group.pyramid.left_out((pixels.shape[0], pixels.shape[1]))
        self._kept: dict[int, Float32] = {}
        self._bytes = 0

    def features(self, k: int) -> Float32:
        """(rows, cols, channels) float32 of level k; the channels may lie in planes."""
        known = self._kept.get(k)
        if known is not None:
            return known
        features = describe(self.group.descriptor, self.plans[k].make().pixels)
        if self._bytes + features.nbytes <= KEPT_BYTES:
            self._bytes += features.nbytes
            self._kept[k] = features
        return features

    def portions(self, wanted: Sequence[int]) -> Iterator[dict[int, Float32]]:
        """Features of the wanted levels: all at once if they are kept, else one after another."""
        if all(k in self._kept for k in wanted):
            yield {k: self._kept[k] for k in wanted}
        else:
            for k in wanted:
                yield {k: self.features(k)}

    def batches(self) -> Iterator[range]:
        """Runs of levels: all of a photograph's, of a larger image as many as memory allows."""
        start, held = 0, 0
        for k, plan in enumerate(self.plans):
            size = 4 * len(plan.source) * plan.size[0] * plan.size[1]
            if k > start and held + size > BATCH_BYTES:
                yield range(start, k)
                start, held = k, 0
            held += size
        if self.plans:
            yield range(start, len(self.plans))

    def first(self, m: int) -> int:
        """The first level that model m searches. Another model may begin with a larger one."""
        return max(self.group.first[m] - self._left_out, 0)

    def of_model(self, m: int) -> list[int]:
        """The levels that model m searches: a run of the group's, without those too small."""
        grid, shapes = self.group.descriptor.grid, self.group.shapes[m]
        return [
            k
            for k in range(self.first(m), len(self.plans))
            if fits(*grid(*self.plans[k].size), shapes)
        ]

    def nearest(self, window: Float64, shapes: Float64) -> Int64:
        """(N,) the level that each window (N, 4) of (N, 2) rows and columns comes from."""
        side = window[:, 2:] - window[:, :2]
        own = self.group.descriptor.cell * shapes[:, ::-1] / side
        distance = np.abs(np.log(own[:, None] / self.scales)).sum(2)
        return np.asarray(distance.argmin(1), np.int64)

    def first_blocks(self, window: Float64, level: Int64) -> tuple[Int64, Int64]:
        """(top, left): the first blocks of windows (N, 4) in pixels, at levels (N,)."""
        descriptor = self.group.descriptor
        corner = window[:, :2] * self.scales[level] - descriptor.offset
        left, top = np.rint(corner / descriptor.cell).astype(np.int64).T
        return top, left


class View:
    """One image as a detector sees it. Made by `Detector.view`; all that the detector does asks it.

    pixels      (height, width, 3) uint8
    levels      one `Levels` for each group of models that share features
    cores       among how many the work on it is shared out; None for those that are free
    kernels     modules whose kernels are compiled ahead, where none is compiled yet
    candidates  what the last search of it found, and
    searched    the lowest score that was searched for; infinite before
    """

    def __init__(
        self,
        pixels: UInt8,
        groups: Sequence[FeatureGroup],
        cores: int | None,
        kernels: Sequence[str] = (),
    ) -> None:
        self.pixels, self.kernels = pixels, kernels
        # One model needs one.
        self.cores = min(cores or free_cores(), sum(len(group.models) for group in groups))
        self.levels = [Levels(pixels, group) for group in groups]
        self.candidates = Detections.empty(self.size)
        self.searched = float("inf")

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def spread(self) -> AbstractContextManager[Map]:
        """Provide a `map` that shares out parts of the work on this image over its cores."""
        return spread(self.cores, self.kernels)

    def await_kernels(self) -> None:
        """Wait for the kernels that are compiled ahead, where any are."""
        await_kernels()

    def levels_of(self, m: int) -> Levels:
        """The levels that model m shares."""
        return next(levels for levels in self.levels if m in levels.group.models)
