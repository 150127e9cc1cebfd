"""Where a template's window lies in the image, and the boxes it predicts there."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.detections import Detections
from halfseen.features.descriptor import Descriptor
from halfseen.geometry import Boxes, clip
from halfseen.model.mixture import Mixture


def place_boxes(
    y: NDArray[np.int64],
    x: NDArray[np.int64],
    shape: tuple[int, int],
    blocks: ArrayLike,
    descriptor: Descriptor,
    scale: ArrayLike,
) -> Boxes:
    """Pixels (..., N, 4) of boxes given in blocks from the corner of N windows at these places.

    shape   (rows, cols) of the template
    blocks  (4,) or (..., N, 4)
    scale   (x, y) of the level, or (N, 2) of each window's
    """
    top = y[:, None] - (shape[0] + 1) // 2
    left = x[:, None] - (shape[1] + 1) // 2
    corner = np.concatenate([left, top, left, top], axis=1)
    pixels = descriptor.offset + descriptor.cell * (corner + np.asarray(blocks, np.float64))
    return np.asarray(pixels / np.concatenate([scale, scale], axis=-1))


def predicted_boxes(model: Mixture, found: Detections) -> Boxes:
    """(N, 4): the boxes that the components predict in the windows of detections."""
    boxes = found.full.copy()
    for index, mirrored, component in model.templates():
        mine = (found.component == index) & (found.mirrored == mirrored)
        corner, end = found.window[mine, :2], found.window[mine, 2:]
        unit = np.tile((end - corner) / component.shape[::-1], 2)
        boxes[mine] = np.tile(corner, 2) + unit * component.box
    return boxes


def contract(full: Boxes, seen: Boxes, size: tuple[int, int]) -> Boxes:
    """`full` cut to the extent of what is seen and to the image; never reversed."""
    low = np.maximum(full[:, :2], seen[:, :2])
    high = np.minimum(full[:, 2:], seen[:, 2:])
    return clip(np.concatenate([low, np.maximum(low, high)], axis=1), size)


def extent(flags: NDArray[np.bool_]) -> Boxes:
    """The box (N, 4), in blocks, around each grid's True blocks; empty and central if none is."""
    from halfseen.infer.mask_kernels import wide_extents

    _, rows, cols = flags.shape
    box = wide_extents(flags, np.zeros(1))[:, :, 0]
    empty = np.isnan(box[:, 0])
    if empty.any():
        box[empty] = [cols / 2, rows / 2, cols / 2, rows / 2]
    return box
