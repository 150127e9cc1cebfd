"""Candidate detections of many images in one small file, without their images.

An .npz of plain arrays: name (), the class; image (M,) ids; size (M, 2) heights and widths;
start (M + 1,): image m has the detections start[m]:start[m + 1]; score (N,), window and full (N, 4)
float32; component (N,) uint8; mirrored (N,) bool; shape (N, 2) uint8, the rows and columns of the
flags; flags, all of them one after another, packed into bits.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from halfseen.detections import Detections


def save(path: str | Path, name: str, images: Iterable[tuple[str, Detections]]) -> None:
    """Writes the candidates of one class, image by image; `visible` is not kept."""
    ids, found = zip(*images, strict=True)
    every = [grid for one in found for grid in one.visibility]
    np.savez_compressed(
        path,
        name=np.array(name),
        image=np.array(ids, dtype=np.str_),
        size=np.array([one.size for one in found], dtype=np.int32),
        start=np.cumsum([0, *map(len, found)], dtype=np.int32),
        score=np.concatenate([one.score for one in found]).astype(np.float32),
        window=np.concatenate([one.window for one in found]).astype(np.float32),
        full=np.concatenate([one.full for one in found]).astype(np.float32),
        component=np.concatenate([one.component for one in found]).astype(np.uint8),
        mirrored=np.concatenate([one.mirrored for one in found]),
        shape=np.array([grid.shape for grid in every], dtype=np.uint8).reshape(-1, 2),
        flags=np.packbits(np.concatenate([np.zeros(0, bool), *map(np.ravel, every)])),
    )


def load(path: str | Path) -> tuple[str, list[tuple[str, Detections]]]:
    """(class, [(image id, its candidates)]); `visible` is given as `full`."""
    with np.load(path, allow_pickle=False) as stored:
        data = {key: stored[key] for key in stored.files}
    cells = data["shape"].astype(np.int64).prod(axis=1)
    flags = np.unpackbits(data["flags"])[: cells.sum()].astype(bool)
    grids = [
        part.reshape(shape)
        for part, shape in zip(np.split(flags, cells.cumsum()[:-1]), data["shape"], strict=True)
    ]
    window, full = data["window"].astype(np.float64), data["full"].astype(np.float64)
    name = str(data["name"])
    images = []
    for m, image in enumerate(data["image"]):
        own = slice(data["start"][m], data["start"][m + 1])
        size = (int(data["size"][m, 0]), int(data["size"][m, 1]))
        score = data["score"][own].astype(np.float64)
        found = Detections(
            score, np.full(len(score), name), data["component"][own].astype(np.int64),
            data["mirrored"][own], window[own], full[own], full[own], tuple(grids[own]), size,
        )  # fmt: skip
        images.append((str(image), found))
    return name, images
