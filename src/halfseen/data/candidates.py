"""Detections of many images in one compact file: numbers only, no pictures, nothing to execute."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data.files import read_bounded, write_atomically
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.npz import most_bytes, read_arrays
from halfseen.detections import Detections
from halfseen.errors import AnnotationError

ARRAYS = ("score", "label", "component", "mirrored", "window", "full", "visible")
SIDE = 10_000  # blocks along a side of a window: more than any has
SPARSE = 100_000  # detections or images, of which a larger number
ROW_BYTES = 8  # must have at least so many bytes of the file each


def write_candidates(path: str | Path, found: Sequence[Detections]) -> None:
    """Writes the detections of images, in order; boxes as float32, flags as bits."""
    flags = [grid for part in found for grid in part.visibility]
    none = Detections.empty((0, 0))
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in (none, *found)]) for name in ARRAYS
    }
    for name in ("window", "full", "visible"):
        arrays[name] = arrays[name].astype(np.float32)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        counts=np.array([len(part) for part in found], np.int64),
        sizes=np.array([part.size for part in found], np.int64).reshape(-1, 2),
        shapes=np.array([grid.shape for grid in flags], np.int64).reshape(-1, 2),
        flags=np.packbits(np.concatenate([np.zeros(0, bool), *(g.ravel() for g in flags)])),
        **arrays,
    )
    write_atomically(path, content.getvalue())


def read_candidates(path: str | Path, limits: Limits = LIMITS) -> list[Detections]:
    """Reads what `write_candidates` wrote. AnnotationError for anything else."""
    content = read_bounded(path, limits.arrays_bytes)
    try:
        stored = read_arrays(content, (*ARRAYS, "counts", "sizes", "shapes", "flags"), limits)
        return _detections(stored, len(content), limits)
    except (AnnotationError, ValueError, TypeError, OverflowError, IndexError) as error:
        raise AnnotationError(f"{path}: expected a candidates file of halfseen: {error}") from None


def _check_arrays(stored: dict[str, Any], length: int) -> None:
    """Raise ValueError for arrays of the wrong kind, or of too many rows for a file's length."""
    for name in ("counts", "shapes", "sizes"):
        if stored[name].dtype.kind not in "iu":
            raise ValueError(f"{name} that are not whole numbers")
    for name in ("score", "window", "full", "visible"):
        if not np.isfinite(stored[name]).all():
            raise ValueError(f"{name} that is not finite")
    most = max(SPARSE, length // ROW_BYTES)
    for name in ("score", "sizes"):
        if len(stored[name]) > most:
            raise ValueError(f"{name} of more than {most:,} rows in {length:,} bytes")


def _detections(stored: dict[str, Any], length: int, limits: Limits) -> list[Detections]:
    _check_arrays(stored, length)
    counts, shapes = stored["counts"].astype(np.int64), stored["shapes"].astype(np.int64)
    if shapes.shape != (len(stored["score"]), 2) or (shapes < 1).any() or (shapes > SIDE).any():
        raise ValueError("shapes that no window has")
    if (counts < 0).any() or counts.sum() != len(shapes):
        raise ValueError(f"counts that do not sum to {len(shapes)}")
    ends = np.cumsum(shapes.prod(1))
    total = int(ends[-1]) if len(ends) else 0
    if total > 8 * stored["flags"].size:
        raise ValueError("fewer flags than blocks")
    if total > most_bytes(length, limits):
        raise ValueError(f"{total:,} blocks in {length:,} bytes")
    bits = np.unpackbits(stored["flags"], count=total).view(bool)
    grids = [
        bits[end - rows * cols : end].reshape(rows, cols)
        for end, (rows, cols) in zip(ends, shapes, strict=True)
    ]
    found = []
    for size, stop, count in zip(stored["sizes"], np.cumsum(counts), counts, strict=True):
        rows = slice(stop - count, stop)
        arrays = {name: stored[name][rows] for name in ARRAYS}
        for name in ("window", "full", "visible"):
            arrays[name] = arrays[name].astype(np.float64)
        height, width = (int(v) for v in size)
        found.append(Detections(**arrays, blocks=tuple(grids[rows]), size=(height, width)))
    return found
