"""Which blocks of a detection are hidden, by the model's mask head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import ModelError
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import Level
from halfseen.infer.boxes import contract, extent
from halfseen.infer.visibility import infer_visibility
from halfseen.model.mixture import Mixture

# How fast the weight of an edge falls with the difference of colour, in its mean square.
CONTRAST = 3.0
# Features that are kept while an image is looked at; beyond, they are made again for the masks.
KEPT_BYTES = 64 << 20
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


class Masker:
    """Finds the flags of one model's detections; holds its mask head, made ready for the kernels.

    A detection's window tells its level and its first block, so nothing else needs to be kept of
    the search.
    """

    def __init__(self, model: Mixture) -> None:
        if model.head is None:
            raise ModelError(
                f"model {model.label!r} has no mask head; train it with masks, or ask for "
                'visibility="paper"'
            )
        self.model, self.alpha = model, model.head.alpha
        self.templates = {
            (index, mirrored): model.head.template(
                index, model.descriptor.mirror if mirrored else None
            )
            for index, mirrored, _ in model.templates()
        }

    def flags(
        self,
        found: Detections,
        features: dict[int, Floats],
        scales: NDArray[np.float64],
        pixels: NDArray[np.uint8],
    ) -> Iterator[tuple[int, Bools]]:
        """(n, flags) of each detection that lies in one of the levels whose features are given."""
        from halfseen.infer.mask_kernels import block_colours, hidden_logits

        levels = self._levels(found, scales)
        given = np.isin(levels, list(features))
        for (index, mirrored), (weights, bias) in self.templates.items():
            rows, cols = bias.shape
            mine = np.flatnonzero(given & (found.component == index) & (found.mirrored == mirrored))
            logits = np.empty((len(mine), rows, cols), np.float32)
            outside = np.empty((len(mine), rows, cols), np.bool_)
            for level in np.unique(levels[mine]):
                here = levels[mine] == level
                part = features[int(level)]
                top, left = first_blocks(
                    found.window[mine[here]], scales[level], self.model.descriptor
                )
                logits[here] = hidden_logits(part, top, left, weights, bias)
                outside[here] = beyond(top, left, (rows, cols), part.shape[:2])
            colours = block_colours(pixels, found.window[mine], rows, cols)
            yield from zip(
                mine.tolist(), cut_masks(logits, colours, outside, self.alpha), strict=True
            )

    def _levels(self, found: Detections, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        """(N,) which of the levels of these scales (L, 2) each detection comes from."""
        shapes = np.array([grid.shape for grid in found.visibility], np.float64).reshape(-1, 2)
        side = found.window[:, 2:] - found.window[:, :2]
        own = self.model.descriptor.cell * shapes[:, ::-1] / side
        return np.abs(np.log(own[:, None] / scales)).sum(2).argmin(1)


class SeenLevels:
    """The scales of an image's levels and, as long as they are small, their features."""

    def __init__(self, keep: bool) -> None:
        self.scales: list[tuple[float, float]] = []
        self._kept: dict[int, Floats] | None = {} if keep else None
        self._bytes = 0

    def add(self, scale: tuple[float, float], features: Floats) -> None:
        """The next level."""
        self._bytes += features.nbytes
        if self._bytes > KEPT_BYTES:
            self._kept = None
        if self._kept is not None:
            self._kept[len(self.scales)] = features
        self.scales.append(scale)

    def parts(
        self, again: Callable[[], Iterator[tuple[Level, Floats]]]
    ) -> Iterator[dict[int, Floats]]:
        """All levels at once if they were kept; else one after another, as `again` makes them."""
        if self._kept is not None:
            yield self._kept
        else:
            for n, (_, features) in enumerate(again()):
                yield {n: features}


def first_blocks(
    windows: NDArray[np.float64], scale: NDArray[np.float64], descriptor: Descriptor
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(top, left): the first blocks of windows (N, 4) in pixels, at a level of scale (x, y)."""
    corner = np.rint((windows[:, :2] * scale - descriptor.offset) / descriptor.cell)
    return corner[:, 1].astype(np.int64), corner[:, 0].astype(np.int64)


def beyond(
    top: NDArray[np.int64],
    left: NDArray[np.int64],
    shape: tuple[int, int],
    size: Sequence[int],
) -> Bools:
    """(N, rows, cols): which blocks of windows lie outside a level of (H, W) blocks."""
    y, x = top[:, None] + np.arange(shape[0]), left[:, None] + np.arange(shape[1])
    return ((y < 0) | (y >= size[0]))[:, :, None] | ((x < 0) | (x >= size[1]))[:, None, :]


def cut_masks(logits: Floats, colours: Floats, outside: Bools, alpha: float) -> Bools:
    """(N, rows, cols) flags: the exact optimum of the head's energy (see `MaskHead`)."""
    if not len(logits):
        return np.zeros(logits.shape, np.bool_)
    _, flags = infer_visibility(-logits, 0.0, alpha, outside, contrast_edges(colours))
    return flags


def contrast_edges(colours: Floats) -> tuple[Floats, Floats]:
    """Weights of the horizontal and vertical pairs of blocks of RGB colours (N, rows, cols, 3)."""
    lab = _lab(colours)
    across = ((lab[:, :, 1:] - lab[:, :, :-1]) ** 2).sum(-1)
    down = ((lab[:, 1:] - lab[:, :-1]) ** 2).sum(-1)
    pairs = max(across[0].size + down[0].size, 1)
    mean = (across.sum((1, 2)) + down.sum((1, 2)))[:, None, None] / pairs + 1e-6
    return np.exp(-CONTRAST * across / mean), np.exp(-CONTRAST * down / mean)


# From linear RGB (sRGB's primaries) to XYZ relative to the white D65.
_XYZ = np.array(
    [[0.4339, 0.3763, 0.1898], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8727]], np.float32
)
_LAB = np.array([[0, 116, 0], [500, -500, 0], [0, 200, -200]], np.float32)


def _lab(rgb: Floats) -> Floats:
    """CIE Lab (but for the constant of L) of sRGB colours in 0..255."""
    value = rgb / np.float32(255)
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    xyz = linear.astype(np.float32) @ _XYZ.T
    return np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116) @ _LAB.T


def with_flags(found: Detections, flags: Sequence[Bools]) -> Detections:
    """The detections with other flags, and `visible` contracted around them."""
    shapes = np.array([grid.shape for grid in flags], np.float64).reshape(-1, 2)
    unit = (found.window[:, 2:] - found.window[:, :2]) / shapes[:, ::-1]
    blocks = np.array([extent(grid[None])[0] for grid in flags]).reshape(-1, 4)
    seen = np.tile(found.window[:, :2], 2) + blocks * np.tile(unit, 2)
    return replace(found, visibility=tuple(flags), visible=contract(found.full, seen, found.size))
