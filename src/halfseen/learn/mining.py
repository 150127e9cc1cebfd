"""Hard negatives: high-scoring windows that show no object of the class, and their store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.detect.search import ModelSearch
from halfseen.detect.view import MirrorBasis, Plane, feature_levels
from halfseen.detect.windows import gather_features, place_boxes
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import Boxes, clip, iou_matrix
from halfseen.learn.kernels import compact
from halfseen.learn.objective import Examples, Negatives
from halfseen.model.mixture import Component, Mixture


class MinedLevel(NamedTuple):
    """One level of an image to mine: features (rows, cols, channels), and its scale (x, y)."""

    features: Float32
    scale: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Keys:
    """Where N windows come from.

    rows  (N, 6) int64, with the columns that the properties name; the first four are the place
    """

    rows: Int64

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[1] != 6:
            raise ValueError(f"keys must be (N, 6), found {self.rows.shape}")

    @classmethod
    def make(cls, *columns: ArrayLike) -> Keys:
        """From image, level, y, x, component and mirrored, which broadcast."""
        rows = np.stack(np.broadcast_arrays(*columns), axis=-1)
        return cls(rows.reshape(-1, 6).astype(np.int64))

    @classmethod
    def join(cls, parts: Sequence[Keys]) -> Keys:
        return cls(np.concatenate([np.zeros((0, 6), np.int64), *(part.rows for part in parts)]))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: slice | NDArray[Any]) -> Keys:
        return Keys(self.rows[index])

    @property
    def image(self) -> Int64:
        return self.rows[:, 0]

    @property
    def level(self) -> Int64:
        return self.rows[:, 1]

    @property
    def y(self) -> Int64:
        return self.rows[:, 2]

    @property
    def x(self) -> Int64:
        return self.rows[:, 3]

    @property
    def component(self) -> Int64:
        return self.rows[:, 4]

    @property
    def mirrored(self) -> Int64:
        return self.rows[:, 5]

    @property
    def place(self) -> Int64:
        """(N, 4) image, level, y and x."""
        return self.rows[:, :4]

    def as_set(self) -> set[tuple[int, ...]]:
        return {tuple(row) for row in self.rows.tolist()}

    def by_image(self) -> list[Int64]:
        """For each image, ascending, the rows of its windows."""
        return [np.flatnonzero(self.image == i) for i in np.unique(self.image)]


@dataclass(frozen=True, eq=False)
class MiningImage:
    """The features of an image to mine, and the boxes of its objects of the class."""

    levels: tuple[MinedLevel, ...]
    size: tuple[int, int]
    boxes: Boxes

    @classmethod
    def make(
        cls,
        image: UInt8,
        boxes: Boxes,
        descriptor: Descriptor,
        pyramid: PyramidSettings,
        shapes: Sequence[tuple[int, int]],
    ) -> MiningImage:
        found = feature_levels(image, descriptor, pyramid, shapes)
        levels = tuple(MinedLevel(grid, (level.scale_x, level.scale_y)) for level, grid in found)
        return cls(levels, (image.shape[0], image.shape[1]), boxes)

    @property
    def bytes(self) -> int:
        return sum(level.features.nbytes for level in self.levels)


@dataclass(frozen=True, eq=False)
class Mined:
    """N windows found in one image, and their scores (N,)."""

    keys: Keys
    scores: Float64


def mine(
    index: int, image: MiningImage, model: Mixture, threshold: float, most: int, overlap: float
) -> Mined:
    """The windows of an image that score `threshold` or more, the `most` highest of them.

    None whose box overlaps an object of the class, difficult ones included, by more than `overlap`.
    """
    keys, scores = [], [np.zeros(0)]
    scales = np.array([level.scale for level in image.levels]).reshape(-1, 2)
    # Where an object may forbid some windows, the best others are not known before all are solved.
    best = None if len(image.boxes) else most
    basis = MirrorBasis(model.descriptor.mirror) if model.mirrored else None
    search = ModelSearch(model, threshold, basis, best)
    for level in image.levels:
        search.add(Plane.of(level.features, basis))
    for (m, mirrored, template), found in zip(model.templates(), search.windows(), strict=True):
        keep = _clear(found.y, found.x, image, model, template, scales[found.level], overlap)
        place = found.level[keep], found.y[keep], found.x[keep]
        keys.append(Keys.make(index, *place, m, int(mirrored)))
        scores.append(found.score[keep].astype(np.float64))
    return _hardest(Mined(Keys.join(keys), np.concatenate(scores)), most)


def draw_random(
    index: int, image: MiningImage, model: Mixture, count: int, overlap: float, seed: int
) -> Mined:
    """Random windows of an image, under the same rule: the negatives of the first fit."""
    random = np.random.default_rng((seed, index))
    keys = []
    templates = model.templates()
    for _ in range(count):
        number = int(random.integers(len(image.levels))) if image.levels else 0
        m, mirrored, template = templates[int(random.integers(len(templates)))]
        if not image.levels:
            continue
        features, scale = image.levels[number]
        y = random.integers(features.shape[0] + 1, size=1)
        x = random.integers(features.shape[1] + 1, size=1)
        if _clear(y, x, image, model, template, scale, overlap)[0]:
            keys.append([index, number, int(y[0]), int(x[0]), m, int(mirrored)])
    found = Keys(np.unique(np.array(keys, np.int64).reshape(-1, 6), axis=0))
    return Mined(found, np.zeros(len(found)))


def _clear(
    y: Int64,
    x: Int64,
    image: MiningImage,
    model: Mixture,
    template: Component,
    scale: ArrayLike,
    overlap: float,
) -> Bool:
    """Which places overlap no object of the class by more than `overlap`."""
    if not len(image.boxes):
        return np.ones(len(y), bool)
    boxes = clip(
        place_boxes(y, x, template.shape, template.box, model.descriptor, scale), image.size
    )
    return np.asarray(iou_matrix(boxes, image.boxes).max(1) <= overlap)


def _hardest(mined: Mined, most: int) -> Mined:
    order = np.argsort(-mined.scores, kind="stable")[:most]
    return Mined(mined.keys[order], mined.scores[order])


def take_windows(
    image: MiningImage, keys: Keys, shape: tuple[int, int], flip: NDArray[np.intp]
) -> Examples:
    """The windows that keys of one image and one component name, in the keys' order."""
    channels = image.levels[0].features.shape[2] if image.levels else 0
    features = np.empty((len(keys), *shape, channels), np.float32)
    outside = np.empty((len(keys), *shape), bool)
    for number in np.unique(keys.level):
        level = image.levels[number].features
        rows = np.flatnonzero(keys.level == number)
        y, x = keys.y[rows].copy(), keys.x[rows].copy()
        got, out = gather_features(level, *shape, y, x, 0, 0, level.shape[0], level.shape[1])
        turned = keys.mirrored[rows] == 1
        got[turned] = got[turned][:, :, ::-1][..., flip]
        out[turned] = out[turned][:, :, ::-1]
        features[rows], outside[rows] = got, out
    return Examples(features, outside)


class NegativeStore:
    """The negatives of each component, within a fixed number of bytes.

    Memory is reserved at once and used as it fills. When it is full, the easiest give way.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], channels: int, most_bytes: int) -> None:
        self.features: list[Float32] = []
        self.outside: list[Bool] = []
        self.keys = [Keys.join([]) for _ in shapes]
        for rows, cols in shapes:
            one = rows * cols * (4 * channels + 1)
            capacity = max(most_bytes // len(shapes) // one, 64)
            self.features.append(np.empty((capacity, rows, cols, channels), np.float32))
            self.outside.append(np.empty((capacity, rows, cols), bool))

    def __len__(self) -> int:
        return sum(len(keys) for keys in self.keys)

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(len(k) * f[0].nbytes for k, f in zip(self.keys, self.features, strict=True))

    def room(self, component: int) -> int:
        return len(self.features[component]) - len(self.keys[component])

    def known(self) -> set[tuple[int, ...]]:
        """The keys of all stored windows."""
        return Keys.join(self.keys).as_set()

    def add(self, component: int, examples: Examples, keys: Keys) -> None:
        """Appends windows of a component; as many as there is room for."""
        start = len(self.keys[component])
        count = min(len(keys), self.room(component))
        self.features[component][start : start + count] = examples.features[:count]
        self.outside[component][start : start + count] = examples.outside[:count]
        self.keys[component] = Keys.join([self.keys[component], keys[:count]])

    def keep(self, component: int, chosen: Bool) -> None:
        """Drops what is not chosen; the order of the rest stays."""
        index = np.flatnonzero(chosen)
        compact(self.features[component], index)
        compact(self.outside[component], index)
        self.keys[component] = self.keys[component][index]

    def negatives(self) -> list[Negatives]:
        """The stored windows as the objective takes them, numbered by place."""
        places = Keys.join(self.keys).place
        _, place = np.unique(places, axis=0, return_inverse=True)
        parts = np.split(place.reshape(-1), np.cumsum([len(k) for k in self.keys])[:-1])
        return [
            Negatives(Examples(f[: len(p)], o[: len(p)]), p)
            for f, o, p in zip(self.features, self.outside, parts, strict=True)
        ]
