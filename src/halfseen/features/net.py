"""Blocks that a convolutional network describes: one for each cell of its output.

1. A level is padded by repeating its border: by `before` pixels at its top and left, so that each
   block looks at the middle of the square that it owns (networks that were learnt with
   TensorFlow's padding look right and down of it), and at its bottom and right to a multiple of
   the stride, so that every layer that halves its input halves all of it.
   A block depends on the padding only where its receptive field reaches beyond the level.
2. The network runs on it; a level larger than TILE runs in tiles that overlap by the reach of the
   receptive field, which gives the same blocks in bounded memory.
3. Blocks are centred, projected and scaled to the same length.

Networks are not equivariant to mirror images channel by channel. `mirror` is the identity: the
channels keep their places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError
from halfseen.features.backbone import DEFAULT, Backbone, find_backbone

# Pixels along the side of a tile: some 600 MB while the default network runs.
TILE = 1536


@dataclass(frozen=True)
class Net:
    """Blocks of a backbone: `cell` must be its stride, `sha256` its own; "" takes what is there."""

    cell: int = 16
    backbone: str = DEFAULT
    sha256: str = ""
    _found: Backbone = field(init=False, repr=False, compare=False)

    name = "net"
    offset = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.backbone, str) or not isinstance(self.sha256, str):
            raise ModelError(f"net: expected the names of a backbone and its hash, found {self}")
        found = find_backbone(self.backbone)
        if self.sha256 not in ("", found.sha256):
            raise ModelError(
                f"learnt with backbone {self.backbone!r} of SHA-256 {self.sha256[:64]}, but the "
                f"one installed has {found.sha256}; use the halfseen release, or the backbone's "
                "files, that it was learnt with"
            )
        if self.cell != found.stride:
            raise ModelError(
                f"net: cell must be the stride of backbone {self.backbone!r}, {found.stride}; "
                f"found {self.cell}"
            )
        object.__setattr__(self, "sha256", found.sha256)
        object.__setattr__(self, "_found", found)

    def __reduce__(self) -> tuple[object, ...]:
        return Net, (self.cell, self.backbone, self.sha256)

    @property
    def channels(self) -> int:
        return int(self._found.projection.shape[1])

    @cached_property
    def mirror(self) -> NDArray[np.intp]:
        """The identity."""
        return np.arange(self.channels)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        return -(-height // self.cell), -(-width // self.cell)

    def __call__(self, level: Float32) -> Float32:
        rows, cols = self.grid(*level.shape[1:])
        backbone = self._found
        out = np.empty((rows, cols, self.channels), np.float32)
        overlap = -(-backbone.reach // self.cell)
        side = TILE // self.cell if backbone.reach else max(rows, cols)
        for top, bottom, first, last in _spans(rows, side, overlap):
            for left, right, start, end in _spans(cols, side, overlap):
                blocks = network_blocks(backbone, level, top, bottom, left, right)
                used = blocks[first - top : last - top, start - left : end - left]
                out[first:last, start:end] = self._project(used)
        return out

    def _project(self, blocks: Float32) -> Float32:
        """Blocks (rows, cols, n) of the network, projected and scaled to one length."""
        backbone = self._found
        flat = blocks.reshape(-1, blocks.shape[2]) @ backbone.projection - backbone.offset
        size = np.sqrt(np.einsum("nk,nk->n", flat, flat))[:, None]
        flat *= np.float32(backbone.length) / np.maximum(size, np.float32(1e-6))
        return flat.reshape(*blocks.shape[:2], -1)

    def options(self) -> dict[str, Any]:
        return {"cell": self.cell, "backbone": self.backbone, "sha256": self.sha256}


def _spans(blocks: int, side: int, overlap: int) -> list[tuple[int, int, int, int]]:
    """Tiles of an axis: from, to of the blocks that are computed, and of those that are used."""
    if blocks <= side:
        return [(0, blocks, 0, blocks)]
    step = max(side - 2 * overlap, 1)
    starts = range(0, blocks, step)
    return [
        (max(s - overlap, 0), min(s + step + overlap, blocks), s, min(s + step, blocks))
        for s in starts
    ]


def network_blocks(
    backbone: Backbone, level: Float32, top: int, bottom: int, left: int, right: int
) -> Float32:
    """(rows, cols, channels): blocks top to bottom, left to right, by the network on their pixels.

    Pixels outside the level repeat its nearest.
    """
    stride, before = backbone.stride, backbone.before
    height, width = (-(-(stride * n + before) // stride) for n in (bottom - top, right - left))
    pixels = np.empty((3, stride * height, stride * width), np.float32)
    y, x = stride * top - before, stride * left - before
    up, first = max(-y, 0), max(-x, 0)
    inner = level[:, max(y, 0) : y + pixels.shape[1], max(x, 0) : x + pixels.shape[2]]
    down, last = up + inner.shape[1], first + inner.shape[2]
    np.subtract(inner, backbone.mean, out=pixels[:, up:down, first:last])
    pixels[:, up:down, first:last] /= backbone.scale
    pixels[:, up:down, :first] = pixels[:, up:down, first : first + 1]
    pixels[:, up:down, last:] = pixels[:, up:down, last - 1 : last]
    pixels[:, :up] = pixels[:, up : up + 1]
    pixels[:, down:] = pixels[:, down - 1 : down]
    session = backbone.session()
    try:
        found = session.run([backbone.output], {backbone.input: pixels[None]})[0]
    except Exception as error:  # onnxruntime's own have no common base
        what = " ".join(str(error).split())[:200]
        raise ModelError(f"{backbone.file}: the network cannot be run: {what}") from None
    expected = (1, len(backbone.projection), height, width)
    if found.dtype != np.float32 or found.shape != expected:
        raise ModelError(
            f"{backbone.file}: expected float32 blocks {expected} of an image of "
            f"{pixels.shape[1]} x {pixels.shape[2]} pixels, found {found.dtype} {found.shape}"
        )
    blocks: Float32 = found[0, :, : bottom - top, : right - left].transpose(1, 2, 0)
    return blocks
