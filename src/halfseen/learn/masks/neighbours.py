"""Occluders that are objects: those that stand before others in the training images.

Riders hide horses and cars hide cars, and each in its own way. Boxes tell where an object's
neighbours overlap it, and of what class they are; pictures of random objects of that class are
pasted there. Nobody marked what is object in these boxes, so the middle is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfseen.arrays import Bool, Float64, Pixels
from halfseen.data.dataset import Dataset
from halfseen.detections import GroundTruth
from halfseen.features.pyramid import resize
from halfseen.learn.settings import MaskSettings


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Where neighbours overlap the objects of a class, and what they look like.

    labels    (N,) the class of each neighbour
    places    (N, 4) its box, in the sides of the box of the object that it overlaps
    pictures  for each class (3, height, width) uint8
    move      how far a neighbour is moved from where one stood, in sides of the object's box
    """

    labels: tuple[str, ...]
    places: Float64
    pictures: dict[str, tuple[Pixels, ...]]
    move: float

    @classmethod
    def draw(
        cls,
        dataset: Dataset,
        label: str,
        settings: MaskSettings,
        rng: np.random.Generator,
    ) -> Neighbours:
        """The neighbours of a class whose boxes cover a share of an object's within `shares`."""
        low, high = settings.shares
        labels: list[str] = []
        places = [np.zeros((0, 4))]
        for truth in dataset:
            for i in np.flatnonzero((truth.label == label) & ~truth.difficult & ~truth.crowd):
                boxes = relative(truth.box, truth.box[i])
                inside = np.clip(boxes, 0, 1)
                covered = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
                near = (covered >= low) & (covered <= high) & _clear(truth)
                near[i] = False
                places.append(boxes[near])
                labels.extend(truth.label[near].tolist())
        pictures = draw_pictures(dataset, set(labels), settings, rng)
        shown = np.array([name in pictures for name in labels], bool)
        kept = tuple(name for name, keep in zip(labels, shown, strict=True) if keep)
        return cls(kept, np.concatenate(places)[shown], pictures, settings.move)

    def __len__(self) -> int:
        return len(self.labels)

    def cover(
        self,
        window: tuple[float, float, float, float],
        size: tuple[int, int],
        rng: np.random.Generator,
    ) -> tuple[Pixels, Bool]:
        """Pixels (3, height, width) of a neighbour of the object in the window, and its mask."""
        n = int(rng.integers(len(self)))
        pictures = self.pictures[self.labels[n]]
        picture = pictures[int(rng.integers(len(pictures)))]
        place = self.places[n] + rng.normal(0, self.move, 4)
        if rng.random() < 0.5:
            picture = picture[:, :, ::-1]
        if rng.random() < 0.5:
            place = np.array([1 - place[2], place[1], 1 - place[0], place[3]])
        power, scale = rng.uniform(2, 5), rng.uniform(0.8, 1.0)
        indices, outline = [], []
        for k in (1, 0):
            start, length = window[k], window[k + 2] - window[k]
            low, high = start + length * place[k], start + length * place[k + 2]
            high = max(high, low + length / 10)
            # From -1 at one end of the neighbour's box to 1 at the other.
            along = (2 * np.arange(size[1 - k]) + 1 - low - high) / (high - low)
            count = picture.shape[2 - k]
            indices.append(np.clip((along + 1) / 2 * count, 0, count - 1).astype(np.intp))
            outline.append(np.minimum(np.abs(along / scale), 2) ** power)
        return picture[:, indices[0][:, None], indices[1]], outline[0][:, None] + outline[1] < 1


def draw_pictures(
    dataset: Dataset, labels: set[str], settings: MaskSettings, rng: np.random.Generator
) -> dict[str, tuple[Pixels, ...]]:
    """Objects of these classes that, as far as annotated, nothing hides, from random images."""
    found: dict[str, list[Pixels]] = {label: [] for label in sorted(labels)}
    for i in rng.permutation(len(dataset)).tolist():
        if all(len(pictures) >= settings.pictures for pictures in found.values()):
            break
        truth = dataset[i]
        side = (truth.box[:, 2:] - truth.box[:, :2]).min(axis=1)
        good = _clear(truth) & ~truth.occluded & (side >= settings.least_side)
        image = None
        for j in np.flatnonzero(good).tolist():
            pictures = found.get(truth.label[j])
            if pictures is not None and len(pictures) < settings.pictures:
                image = dataset.image(i) if image is None else image
                pictures.append(_picture(image, truth.box[j], settings.picture_side))
    return {label: tuple(pictures) for label, pictures in found.items() if pictures}


def _picture(image: Pixels, box: Float64, longest: int) -> Pixels:
    x1, y1, x2, y2 = np.rint(np.maximum(box, 0)).astype(int)
    part = np.ascontiguousarray(image[y1:y2, x1:x2].transpose(2, 0, 1))
    shrink = min(longest / max(part.shape[1:]), 1.0)
    size = max(round(shrink * part.shape[1]), 1), max(round(shrink * part.shape[2]), 1)
    return np.clip(np.rint(resize(part, size)), 0, 255).astype(np.uint8)


def _clear(truth: GroundTruth) -> Bool:
    return ~truth.difficult & ~truth.crowd


def relative(boxes: Float64, box: Float64) -> Float64:
    """Boxes (N, 4) in the sides of another: what equals it is 0, 0, 1, 1."""
    sides = np.maximum(box[2:] - box[:2], 1e-9)
    shares: Float64 = (boxes - np.tile(box[:2], 2)) / np.tile(sides, 2)
    return shares
