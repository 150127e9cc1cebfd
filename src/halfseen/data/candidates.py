"""Detections of many images in one compact file: numbers only, no pictures, nothing to execute."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data.files import write_atomically
from halfseen.detections import Detections
from halfseen.errors import AnnotationError

ARRAYS = ("score", "label", "component", "mirrored", "window", "full", "visible")


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


def read_candidates(path: str | Path) -> list[Detections]:
    """Reads what `write_candidates` wrote. AnnotationError for anything else."""
    try:
        # Opened here, because numpy leaves the file of a damaged archive open.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        shapes = stored["shapes"]
        ends = np.cumsum(shapes.prod(1))
        bits = np.unpackbits(stored["flags"], count=int(ends[-1]) if len(ends) else 0).astype(bool)
        grids = (
            [
                part.reshape(shape)
                for part, shape in zip(np.split(bits, ends[:-1]), shapes, strict=True)
            ]
            if len(ends)
            else []
        )
        last = np.cumsum(stored["counts"])
        found = []
        for size, stop, count in zip(stored["sizes"], last, stored["counts"], strict=True):
            rows = slice(stop - count, stop)
            arrays = {name: stored[name][rows] for name in ARRAYS}
            for name in ("window", "full", "visible"):
                arrays[name] = arrays[name].astype(np.float64)
            height, width = (int(v) for v in size)
            found.append(Detections(**arrays, visibility=tuple(grids[rows]), size=(height, width)))
        return found
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise AnnotationError(f"{path}: expected a candidates file of halfseen: {error}") from None
