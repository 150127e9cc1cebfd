"""Masks of any kind as regions: pixels as runs, grids of flags within windows as rectangles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from halfseen.arrays import Bool, Int64
from halfseen.data.rle import Runs, mask_runs, read_runs
from halfseen.errors import AnnotationError, SettingsError
from halfseen.geometry import Boxes
from halfseen.suppression.candidates import Shapes, of_rects, of_runs


def shapes_of_masks(masks: Iterable[Any], images: Int64) -> Shapes:
    """The regions of masks, read one by one; those of one image must be of one size."""
    count = len(images)
    sizes: dict[int, tuple[int, int]] = {}
    every: list[Runs] = []
    for number, given in enumerate(masks):
        if number >= count:
            raise SettingsError(f"masks: expected {count} as scores, found more")
        runs = _as_runs(given, number)
        expected = sizes.setdefault(int(images[number]), runs.size)
        if runs.size != expected:
            raise AnnotationError(
                f"mask {number} has shape {runs.size}, expected {expected} as the first of its"
                " image; all masks of an image must be of one size"
            )
        every.append(runs)
    if len(every) < count:
        raise SettingsError(f"masks: expected {count} as scores, found {len(every)}")
    none = np.zeros(0, np.int64)
    first, last = (np.concatenate([none, *(runs[i] for runs in every)]) for i in range(2))
    start = np.concatenate([[0], np.cumsum([len(runs.first) for runs in every], dtype=np.int64)])
    area = np.array([float((runs.last - runs.first).sum()) for runs in every])
    box = np.array([runs.box for runs in every]).reshape(-1, 4)
    return of_runs(box, first, last, start, area)


def shapes_of_grids(grids: Iterable[Any], windows: Boxes) -> Shapes:
    """The regions of grids of flags, each of which spans its window."""
    from halfseen.suppression.scene_kernels import rects_of_flags

    rects, number = [np.zeros((0, 4))], -1
    for number, given in enumerate(grids):
        if number >= len(windows):
            break
        rects.append(rects_of_flags(np.ascontiguousarray(as_flags(given, number)), windows[number]))
    if number + 1 != len(windows):
        found = "more" if number >= len(windows) else str(number + 1)
        raise SettingsError(f"masks: expected {len(windows)} as windows, found {found}")
    start = np.cumsum([len(part) for part in rects], dtype=np.int64)
    return of_rects(np.concatenate(rects), start)


def _as_runs(given: Any, number: int) -> Runs:
    if isinstance(given, Runs):
        return given
    if isinstance(given, dict):
        try:
            return read_runs(given, None)
        except AnnotationError as error:
            raise AnnotationError(f"mask {number}: {error}") from None
    return mask_runs(as_flags(given, number))


def as_flags(given: Any, number: int) -> Bool:
    """A (height, width) bool array from one, or from numbers that are 0 and 1, or 0 and 255."""
    flags = np.asarray(given)
    if flags.ndim != 2 or flags.size == 0 or flags.dtype.kind not in "biuf":
        raise AnnotationError(
            f"mask {number}: expected (height, width) booleans or COCO run lengths,"
            f" found {type(given).__name__} of shape {flags.shape}"
        )
    if flags.dtype == bool:
        return flags
    mask: Bool = flags != 0
    top = flags.max()
    if top not in (0, 1, 255) or (mask & (flags != top)).any():
        other = flags[mask & (flags != (top if top in (1, 255) else 1))][0]
        raise AnnotationError(
            f"mask {number}: expected booleans, or numbers that are 0 and 1, found {other};"
            " threshold the masks first, as in masks > 0.5"
        )
    return mask
