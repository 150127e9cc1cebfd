"""Hard negatives: high-scoring windows that show no object of the class, and their store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import Boxes, clip, iou_matrix
from halfseen.infer.boxes import place_boxes
from halfseen.infer.levels import feature_levels
from halfseen.infer.planes import MirrorBasis, Planes
from halfseen.infer.responses import ModelSearch
from halfseen.infer.windows import gather_features
from halfseen.learn.kernels import compact
from halfseen.learn.objective import Examples, Negatives
from halfseen.model.mixture import Mixture

# Columns of a key: where a window comes from. The first four name its place.
KEY = ("image", "level", "y", "x", "component", "mirrored")


@dataclass(frozen=True, eq=False)
class MiningImage:
    """The features of an image to mine, and the boxes of its objects of the class."""

    levels: tuple[tuple[NDArray[np.float32], tuple[float, float]], ...]
    size: tuple[int, int]
    boxes: Boxes

    @classmethod
    def make(
        cls,
        image: NDArray[np.uint8],
        boxes: Boxes,
        descriptor: Descriptor,
        pyramid: PyramidSettings,
        shapes: Sequence[tuple[int, int]],
    ) -> MiningImage:
        found = feature_levels(image, descriptor, pyramid, shapes)
        levels = tuple((features, (level.scale_x, level.scale_y)) for level, features in found)
        return cls(levels, (image.shape[0], image.shape[1]), boxes)

    @property
    def bytes(self) -> int:
        return sum(features.nbytes for features, _ in self.levels)


@dataclass(frozen=True, eq=False)
class Mined:
    """Windows found in one image: keys (N, 6), scores (N,), and the windows by component."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float64]


def mine(
    index: int, image: MiningImage, model: Mixture, threshold: float, most: int, overlap: float
) -> Mined:
    """The windows of an image that score `threshold` or more, the `most` highest of them.

    None whose box overlaps an object of the class, difficult ones included, by more than `overlap`.
    """
    keys, scores = [np.zeros((0, 6), np.int64)], [np.zeros(0)]
    scales = np.array([scale for _, scale in image.levels]).reshape(-1, 2)
    # Where an object may forbid some windows, the best others are not known before all are solved.
    best = None if len(image.boxes) else most
    basis = MirrorBasis(model.descriptor.mirror) if model.mirrored else None
    search = ModelSearch(model, threshold, basis, best)
    for features, _ in image.levels:
        search.look(Planes.of(features, basis))
    for (m, mirrored, template), found in zip(model.templates(), search.windows(), strict=True):
        keep = _clear(
            found.y, found.x, image, model, template.shape, template.box, scales[found.level],
            overlap,
        )  # fmt: skip
        columns = (index, found.level[keep], found.y[keep], found.x[keep], m, int(mirrored))
        keys.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))
        scores.append(found.score[keep].astype(np.float64))
    return _hardest(Mined(np.concatenate(keys), np.concatenate(scores)), most)


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
        if _clear(y, x, image, model, template.shape, template.box, scale, overlap)[0]:
            keys.append([index, number, int(y[0]), int(x[0]), m, int(mirrored)])
    found = np.unique(np.array(keys, np.int64).reshape(-1, 6), axis=0)
    return Mined(found, np.zeros(len(found)))


def _clear(
    y: NDArray[np.int64],
    x: NDArray[np.int64],
    image: MiningImage,
    model: Mixture,
    shape: tuple[int, int],
    box: NDArray[np.float64],
    scale: ArrayLike,
    overlap: float,
) -> NDArray[np.bool_]:
    if not len(image.boxes):
        return np.ones(len(y), bool)
    boxes = clip(place_boxes(y, x, shape, box, model.descriptor, scale), image.size)
    return np.asarray(iou_matrix(boxes, image.boxes).max(1) <= overlap)


def _hardest(mined: Mined, most: int) -> Mined:
    order = np.argsort(-mined.scores, kind="stable")[:most]
    return Mined(mined.keys[order], mined.scores[order])


def take_windows(
    image: MiningImage, keys: NDArray[np.int64], shape: tuple[int, int], flip: NDArray[np.intp]
) -> Examples:
    """The windows that keys of one image and one component name, in the keys' order."""
    count = len(keys)
    channels = image.levels[0][0].shape[2] if image.levels else 0
    features = np.empty((count, *shape, channels), np.float32)
    outside = np.empty((count, *shape), bool)
    for number in np.unique(keys[:, 1]):
        level = image.levels[number][0]
        rows = np.flatnonzero(keys[:, 1] == number)
        y, x = keys[rows, 2].copy(), keys[rows, 3].copy()
        got, out = gather_features(level, *shape, y, x, 0, 0, level.shape[0], level.shape[1])
        turned = keys[rows, 5] == 1
        got[turned] = got[turned][:, :, ::-1][..., flip]
        out[turned] = out[turned][:, :, ::-1]
        features[rows], outside[rows] = got, out
    return Examples(features, outside)


class NegativeStore:
    """The negatives of each component, within a fixed number of bytes.

    Memory is reserved at once and used as it fills. When it is full, the easiest give way.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], channels: int, most_bytes: int) -> None:
        self.features: list[NDArray[np.float32]] = []
        self.outside: list[NDArray[np.bool_]] = []
        self.keys: list[NDArray[np.int64]] = [np.zeros((0, 6), np.int64) for _ in shapes]
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
        return {tuple(key) for keys in self.keys for key in keys.tolist()}

    def add(self, component: int, examples: Examples, keys: NDArray[np.int64]) -> None:
        """Appends windows of a component; as many as there is room for."""
        start = len(self.keys[component])
        count = min(len(keys), self.room(component))
        self.features[component][start : start + count] = examples.features[:count]
        self.outside[component][start : start + count] = examples.outside[:count]
        self.keys[component] = np.concatenate([self.keys[component], keys[:count]])

    def keep(self, component: int, chosen: NDArray[np.bool_]) -> None:
        """Drops what is not chosen; the order of the rest stays."""
        index = np.flatnonzero(chosen)
        compact(self.features[component], index)
        compact(self.outside[component], index)
        self.keys[component] = self.keys[component][index]

    def negatives(self) -> list[Negatives]:
        """The stored windows as the objective takes them, numbered by place."""
        keys = np.concatenate(self.keys)
        _, place = np.unique(keys[:, :4], axis=0, return_inverse=True)
        parts = np.split(place.reshape(-1), np.cumsum([len(k) for k in self.keys])[:-1])
        return [
            Negatives(Examples(f[: len(p)], o[: len(p)]), p)
            for f, o, p in zip(self.features, self.outside, parts, strict=True)
        ]
