"""The objects to learn from: components by ratio, window sizes, warped starts, average boxes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.data.dataset import Dataset
from halfseen.detections import GroundTruth
from halfseen.errors import TrainingError
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import resize
from halfseen.geometry import Boxes, clip, iou, mirror

# Cells around a warped object that give its border blocks their true neighbours.
MARGIN = 2
# Share of a component's whole objects that its window is made small enough for.
REACHED = 0.7


@dataclass(frozen=True, eq=False)
class Objects:
    """All objects of the class that count as positives, in the data's order.

    image   (N,) index of its image in the dataset
    box     (N, 4) the whole object where that is known, else as annotated; cut to the image
    visible (N, 4) the box of its visible part, as annotated
    whole   (N,) neither truncated nor occluded, so fit for the start and for the average box
    occluded  (N,) hidden in part by something
    """

    image: Int64
    box: Boxes
    visible: Boxes
    whole: Bool
    occluded: Bool

    @classmethod
    def of(cls, i: int, truth: GroundTruth, label: str) -> Objects:
        """The objects of a class in one image."""
        objects = truth[(truth.label == label) & ~truth.difficult & ~truth.crowd]
        whole = ~(objects.truncated | objects.occluded)
        box = clip(objects.full, objects.size)
        return cls(np.full(len(objects), i), box, objects.box, whole, objects.occluded)

    def __len__(self) -> int:
        return len(self.image)


def list_objects(dataset: Dataset, label: str) -> Objects:
    """The objects of a class but difficult ones and crowds. TrainingError if none can start."""
    parts = [Objects.of(i, dataset[i], label) for i in range(len(dataset))]
    if not parts:
        raise TrainingError(f"expected images with objects of class {label!r}, found no image")
    objects = Objects(
        *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Objects))
    )
    if objects.whole.sum() < 2:
        raise TrainingError(
            f"expected at least 2 objects of class {label!r} that are neither truncated, occluded "
            f"nor difficult, found {int(objects.whole.sum())} among {len(objects)}; label more, or "
            "correct the flags of those that are wholly visible"
        )
    return objects


def cluster_ratios(boxes: Boxes, count: int) -> tuple[Float64, Int64]:
    """k-means on log(height / width): centres, ascending, and the cluster of each box."""
    ratio = np.log((boxes[:, 3] - boxes[:, 1]) / (boxes[:, 2] - boxes[:, 0]))
    centres = np.unique(np.quantile(ratio, (np.arange(count) + 0.5) / count))
    for _ in range(100):
        cluster = np.abs(ratio[:, None] - centres).argmin(1)
        kept = [k for k in range(len(centres)) if (cluster == k).any()]
        moved = np.array([ratio[cluster == k].mean() for k in kept])
        if len(moved) == len(centres) and np.allclose(moved, centres):
            break
        centres = moved
    return centres, np.abs(ratio[:, None] - centres).argmin(1)


def window_shape(boxes: Boxes, blocks: int, overlap: float) -> tuple[int, int]:
    """(rows, cols) for a component: the median ratio of boxes (in blocks), about `blocks` blocks.

    Fewer where REACHED of the boxes would not be, since a box with less than `overlap` of the
    window's area cannot overlap it so much; but not under a third of `blocks`.
    """
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    reachable = np.quantile(width * height, 1 - REACHED) / overlap
    area = float(np.clip(reachable, blocks / 3, blocks))
    ratio = float(np.exp(np.median(np.log(height / width))))
    rows = max(round(np.sqrt(area * ratio)), 2)
    cols = max(round(area / rows), 2)
    return rows, cols


def warp(
    image: UInt8,
    box: Float64,
    shape: tuple[int, int],
    descriptor: Descriptor,
) -> Float32:
    """Features (rows, cols, channels) of a box stretched to a window of this shape.

    Border pixels are repeated where the margin reaches beyond the image.
    """
    rows, cols = shape
    margin = descriptor.offset + MARGIN * descriptor.cell
    height, width = rows * descriptor.cell + 2 * margin, cols * descriptor.cell + 2 * margin
    step_x = (box[2] - box[0]) / (cols * descriptor.cell)
    step_y = (box[3] - box[1]) / (rows * descriptor.cell)
    x = np.arange(round(box[0] - margin * step_x), round(box[2] + margin * step_x))
    y = np.arange(round(box[1] - margin * step_y), round(box[3] + margin * step_y))
    x = np.clip(x, 0, image.shape[1] - 1)
    y = np.clip(y, 0, image.shape[0] - 1)
    patch = np.ascontiguousarray(image[np.ix_(y, x)].transpose(2, 0, 1), dtype=np.float32)
    features = descriptor(resize(patch, (round(height), round(width))))
    return np.ascontiguousarray(features[MARGIN : MARGIN + rows, MARGIN : MARGIN + cols])


def choose_flips(features: Float32, channels: NDArray[np.intp]) -> Bool:
    """Which of N warped objects to flip so that all face one way.

    Signs s_n that make |sum s_n a_n| large, a_n being the part of the features that changes sign
    under the flip: the largest eigenvector gives the start, then each follows the majority.
    """
    flipped = features[:, :, ::-1][..., channels]
    odd = (features - flipped).reshape(len(features), -1).astype(np.float64)
    gram = odd @ odd.T
    sign = np.where(np.linalg.eigh(gram)[1][:, -1] >= 0, 1.0, -1.0)
    for _ in range(50):
        moved = np.where(gram @ sign - np.diag(gram) * sign >= 0, 1.0, -1.0)
        if (moved == sign).all():
            break
        sign = moved
    return np.asarray(sign < 0)


def average_box(boxes: Boxes, start: Float64) -> Float64:
    """The box (4,) of largest mean IoU with `boxes` (N, 4), all in blocks of their windows."""
    from scipy.optimize import minimize

    def loss(box: Float64) -> float:
        return -float(iou(box, boxes).mean())

    best = start if len(boxes) == 0 else np.median(boxes, axis=0)
    if len(boxes):
        best = minimize(loss, best, method="Nelder-Mead", options={"xatol": 1e-3}).x
    return best if best[2] > best[0] and best[3] > best[1] else start


def in_blocks(boxes: Boxes, windows: Boxes, shape: tuple[int, int], mirrored: Bool) -> Boxes:
    """Boxes in pixels as blocks of their windows; those of mirrored windows are flipped."""
    rows, cols = shape
    corner = np.concatenate([windows[:, :2], windows[:, :2]], axis=1)
    side = np.concatenate([windows[:, 2:] - windows[:, :2]] * 2, axis=1)
    blocks = (boxes - corner) / side * [cols, rows, cols, rows]
    return np.where(mirrored[:, None], mirror(blocks, cols), blocks)
