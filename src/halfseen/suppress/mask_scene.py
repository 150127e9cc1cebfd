"""Masks of any kind as candidates on the block grid of a scene."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import AnnotationError, SettingsError
from halfseen.geometry import Boxes, clip
from halfseen.suppress.scene import Bits, Scene, scene_of

Bools = NDArray[np.bool_]


def scene_of_masks(
    masks: Iterable[Any], count: int, full: Boxes | None, grid: int
) -> tuple[Scene, Boxes]:
    """The scene of masks, read one by one, and the boxes of the whole objects."""
    shape: tuple[int, ...] | None = None
    rows: list[Bits] = []
    boxes: list[tuple[float, float, float, float]] = []
    for number, given in enumerate(masks):
        if number >= count:
            raise SettingsError(f"masks: expected {count} as scores, found more")
        mask = _as_mask(given, number)
        if shape is not None and mask.shape != shape:
            raise AnnotationError(
                f"mask {number} has shape {mask.shape}, expected {shape} as mask 0;"
                " all masks must be of one image"
            )
        shape = mask.shape
        cells, box = _reduce(mask, grid)
        rows.append(_pack(cells))
        boxes.append(box)
    if len(rows) < count:
        raise SettingsError(f"masks: expected {count} as scores, found {len(rows)}")
    if shape is None:
        nothing, nowhere = np.zeros((0, 0), np.uint64), np.zeros((0, 4))
        return Scene(nothing, nothing, nowhere, nothing), nowhere
    visible, tight = np.stack(rows), np.array(boxes)
    if full is None:
        return Scene(visible, visible, tight, visible), tight
    edges = [_edges(side, grid) for side in shape]
    whole = np.stack([_pack(_cells_in(box, *edges)) for box in full]) | visible
    content = np.hstack([full.view(np.uint64), visible])
    return Scene(visible, whole, clip(full, (shape[0], shape[1])), content), full


def scene_of_grids(
    grids: Iterable[Any], windows: Boxes, full: Boxes | None, grid: int
) -> tuple[Scene, Boxes]:
    """The scene of grids of flags within windows."""
    count = len(windows)
    flags = [_as_mask(given, number) for number, given in enumerate(grids)]
    if len(flags) != count:
        raise SettingsError(f"masks: expected {count} as windows, found {len(flags)}")
    boxes = windows if full is None else full
    corner = windows[:, :2].min(axis=0, initial=np.inf)
    corner = np.tile(np.where(np.isfinite(corner), corner, 0), 2)
    span = np.maximum((windows - corner)[:, 2:].max(axis=0, initial=1), 1)
    size = (int(np.ceil(span[1])), int(np.ceil(span[0])))
    found = Detections(
        np.zeros(count), np.zeros(count, np.str_), np.zeros(count, np.int64), np.zeros(count, bool),
        windows - corner, boxes - corner, boxes - corner, tuple(flags), size,
    )  # fmt: skip
    return scene_of(found, max(max(size) / grid, 1.0)), boxes


def _as_mask(given: Any, number: int) -> Bools:
    """A (height, width) bool array from one, from numbers 0 and 1, or from run lengths."""
    if isinstance(given, dict):
        from halfseen.data.rle import decode

        try:
            return decode(given)
        except AnnotationError as error:
            raise AnnotationError(f"mask {number}: {error}") from None
    mask = np.asarray(given)
    if mask.ndim != 2 or mask.size == 0 or mask.dtype.kind not in "biuf":
        raise AnnotationError(
            f"mask {number}: expected (height, width) booleans or COCO run lengths,"
            f" found {type(given).__name__} of shape {mask.shape}"
        )
    return mask if mask.dtype == bool else mask != 0


def _edges(side: int, grid: int) -> NDArray[np.int64]:
    """Where the cells along a side begin, and its end; as many cells as pixels, or `grid`."""
    return np.linspace(0, side, min(side, grid) + 1).round().astype(np.int64)


def _reduce(mask: Bools, grid: int) -> tuple[Bools, tuple[float, float, float, float]]:
    """The cells of a mask and the box around its pixels (all 0 for none)."""
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(ys):
        return np.zeros([min(side, grid) for side in mask.shape], dtype=bool), (0, 0, 0, 0)
    box = (float(xs[0]), float(ys[0]), float(xs[-1] + 1), float(ys[-1] + 1))
    if max(mask.shape) <= grid:
        return mask, box
    rows, columns = (_edges(side, grid) for side in mask.shape)
    count = np.add.reduceat(mask, rows[:-1], axis=0, dtype=np.int32)
    count = np.add.reduceat(count, columns[:-1], axis=1)
    share = count / (np.diff(rows)[:, None] * np.diff(columns))
    cells = share >= 0.5
    if not cells.any():
        cells.flat[share.argmax()] = True
    return cells, box


def _cells_in(box: Boxes, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Bools:
    """The cells whose centres lie in a box."""
    y, x = (rows[1:] + rows[:-1]) / 2, (columns[1:] + columns[:-1]) / 2
    return ((y >= box[1]) & (y < box[3]))[:, None] & ((x >= box[0]) & (x < box[2]))


def _pack(cells: Bools) -> Bits:
    """One row of bits, as `kernels` takes them."""
    packed = np.packbits(cells.ravel(), bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)
