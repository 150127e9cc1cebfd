"""Which visible blocks show the object rather than its background: by colours and by features.

As GrabCut does, started from the box, but on blocks, in one round and with the exact cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float32, Int64, UInt8
from halfseen.detect.view import Levels, View
from halfseen.detections import Block, Detections, parts_alike
from halfseen.geometry import Boxes
from halfseen.model.mask_head import FigureSettings
from halfseen.model.mixture import Mixture
from halfseen.refine.hidden import nearest_levels
from halfseen.refine.kernels import block_colours, colour_evidence, cut, lab, place_blocks

# Larger than what four neighbours can say for a block.
NEVER = 100.0
# Of a logit of "figure": no block is figure, or ground, for certain.
SUREST = 6.0


class FigureGround:
    """Stage: tell object from ground among the visible blocks, for models with a mask head.

    Where colours tell nothing apart, all that is visible stays object.
    """

    def __init__(self, models: Sequence[Mixture]) -> None:
        self._models = models

    def __call__(self, view: View, found: Detections) -> Detections:
        """The detections, with ground where their visible blocks do not show the object."""
        blocks = list(found.blocks)
        headed = [n for n, m in enumerate(found.model.tolist()) if self._models[m].head]
        typical = self._typical(view, found, headed)

        def tell(rows: Int64) -> None:
            for some, settings in self._alike(found, rows, typical):
                known = np.stack([typical[n] for n in some]) if some[0] in typical else None
                visible = np.stack([found.visibility[n] for n in some])
                around = surroundings(
                    view.pixels, found.window[some], found.full[some], visible.shape[1:], settings
                )
                figures = cut_figures(around, visible, known, settings).within(visible)
                ground = visible & ~figures
                for n, grid in zip(some, ground, strict=True):
                    blocks[n] = np.where(grid, np.uint8(Block.GROUND), found.blocks[n])

        with view.spread() as each:
            each(tell, parts_alike(found, np.array(headed, np.int64), view.cores))
        return replace(found, blocks=tuple(blocks))

    def _alike(
        self, found: Detections, rows: Int64, typical: dict[int, Float32]
    ) -> list[tuple[list[int], FigureSettings]]:
        """Detections of one shape and settings, whose typical figures are all known, or none."""
        batches: dict[Any, list[int]] = {}
        for n in rows.tolist():
            head = self._models[int(found.model[n])].head
            assert head is not None
            batches.setdefault((found.blocks[n].shape, n in typical, head.figures), []).append(n)
        return [(some, settings) for (_, _, settings), some in batches.items()]

    def _typical(self, view: View, found: Detections, rows: list[int]) -> dict[int, Float32]:
        """(rows, cols) of detections: how probably each block shows the object, as far as known.

        In what share of its kind it does, and what its features say.
        """
        typical: dict[int, Float32] = {}
        looking = []
        for n in rows:
            head = self._models[int(found.model[n])].head
            assert head is not None
            if head.figure:
                side = -1 if found.mirrored[n] else 1
                typical[n] = head.figure[int(found.component[n])][:, ::side]
                if head.looks:
                    looking.append(n)
        for levels in view.levels:
            own = np.array([n for n in looking if found.model[n] in levels.group.models], np.int64)
            if len(own):
                for n, window in _features(levels, found, own):
                    model = self._models[int(found.model[n])]
                    assert model.head is not None
                    looks = model.head.looks[int(found.component[n])]
                    if found.mirrored[n]:  # from the component's side
                        window = window[..., model.descriptor.mirror]
                    typical[n] = probable(typical[n], window, looks)
        return typical


def _features(levels: Levels, found: Detections, rows: Int64) -> Iterator[tuple[int, Float32]]:
    """Detections, and the features (rows, cols, channels) of each one's blocks.

    Beyond the level, of the nearest block within.
    """
    level = nearest_levels(levels, found, rows)
    corners = np.column_stack(levels.first_blocks(found.window[rows], level)).tolist()
    for features in levels.portions(np.unique(level).tolist()):
        for n, k, (top, left) in zip(rows.tolist(), level.tolist(), corners, strict=True):
            if k in features:
                places = (
                    np.clip(np.arange(first, first + count), 0, size - 1)
                    for first, count, size in zip(
                        (top, left), found.blocks[n].shape, features[k].shape[:2], strict=True
                    )
                )
                yield n, features[k][np.ix_(*places)]


def probable(typical: Float32, features: Float32, looks: Float32) -> Float32:
    """How probably blocks (..., rows, cols) show the object: a share in (0, 1).

    typical   (rows, cols): in what share of whole objects each does
    features  (..., rows, cols, channels) of the blocks
    looks     (channels + 1,): see `MaskHead`
    """
    logits = np.log(typical / (1 - typical)) + features @ looks[:-1] + looks[-1]
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -SUREST, SUREST))), np.float32)


class Surroundings(NamedTuple):
    """The blocks of N windows in their boxes, and of a ring around: (N, rows + 2 ring, cols + ...).

    colours  (N, ..., 3): mean colours in Lab
    known    bool: within the image
    box      bool: mostly within the window's box
    ground   bool: near the box, but not in it
    place    1 at the box's centre, 0 at its sides and beyond
    """

    colours: Float32
    known: Bool
    box: Bool
    ground: Bool
    place: Float32

    def some(self, index: Int64 | Bool) -> Surroundings:
        """Those of some of the windows."""
        parts: list[Any] = [part[index] for part in self]
        return Surroundings(*parts)

    def mirrored(self) -> Surroundings:
        """Those of the same windows in the mirrored image."""
        parts: list[Any] = [part[:, :, ::-1] for part in self]
        return Surroundings(*parts)


class Figures(NamedTuple):
    """Figures of N windows.

    grids     (N, rows, cols): True where a block shows the object
    believed  (N,) whether anything was told apart
    """

    grids: Bool
    believed: Bool

    def within(self, visible: Bool) -> Bool:
        """The figures; all that is visible where one is not believed."""
        return np.where(self.believed[:, None, None], self.grids, visible)


def surroundings(
    pixels: UInt8,
    windows: Boxes,
    boxes: Boxes,
    shape: tuple[int, ...],
    settings: FigureSettings,
) -> Surroundings:
    """The surroundings of windows (N, 4) of (rows, cols) blocks in boxes (N, 4)."""
    ring = settings.ring
    rows, cols = shape[0] + 2 * ring, shape[1] + 2 * ring
    unit = (windows[:, 2:] - windows[:, :2]) / shape[::-1]
    around = windows + ring * np.hstack([-unit, unit])
    colours = lab(block_colours(pixels, around, rows, cols))
    size = (pixels.shape[0], pixels.shape[1])
    placed = place_blocks(around, unit, boxes, (rows, cols), size, settings.near)
    return Surroundings(colours, *placed)


def cut_figures(
    around: Surroundings, visible: Bool, typical: Float32 | None, settings: FigureSettings
) -> Figures:
    """The figures of windows with visible blocks (N, rows, cols).

    Hidden blocks show none, and their colours count for neither side.

    typical   (N, rows, cols): in what share of its kind a block is figure. None: it is only known
              that the box's middle mostly is
    """
    ring = settings.ring
    inner = np.s_[:, ring:-ring, ring:-ring]
    hidden = np.zeros_like(around.box)
    hidden[inner] = ~visible
    neither = ~around.known | (hidden & around.box)
    inside = around.box & ~neither
    if typical is None:
        share, prior = around.place, settings.place * (around.place - settings.neutral)
    else:
        share, prior = np.zeros_like(around.place), np.zeros_like(around.place)
        share[inner], prior[inner] = typical, np.log(typical / (1 - typical))
    unary = colour_evidence(
        around.colours,
        np.where(inside, share, np.float32(0)),
        around.ground,
        inside,
        settings.width,
        settings.unseen,
    )
    unary += np.where(around.box, prior, -NEVER)
    grids = cut(unary, neither, around.colours, settings.contrast, settings.alpha)
    enough = grids.sum((1, 2)) > settings.least * inside.sum((1, 2))
    return Figures(grids[inner], enough & around.ground.any((1, 2)))
