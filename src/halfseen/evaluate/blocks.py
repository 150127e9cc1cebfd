"""Were the right blocks called hidden? Truth for the blocks of a window, and counts over many.

A block is *counted* if at least half of it lies in the image and in the object's box: what the
detector says of blocks beside the object, or outside the image, is no claim about the object. Where
the object's outline is not known, a counted block may show background between its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from halfseen.arrays import Bool, Float64
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import Matches

HALF = 0.5
LITTLE = 0.1


@dataclass(frozen=True, eq=False)
class BlockTruth:
    """Which blocks of a window are truly hidden, and of which this is known; each (rows, cols)."""

    hidden: Bool
    counted: Bool


@dataclass(frozen=True)
class BlockCounts:
    """Judged blocks by truth and claim. Counts add up over detections: `a + b`."""

    hidden_found: int = 0
    hidden_missed: int = 0
    visible_kept: int = 0
    false_hidden: int = 0
    objects: int = 0

    def __add__(self, other: BlockCounts) -> BlockCounts:
        return BlockCounts(
            self.hidden_found + other.hidden_found,
            self.hidden_missed + other.hidden_missed,
            self.visible_kept + other.visible_kept,
            self.false_hidden + other.false_hidden,
            self.objects + other.objects,
        )

    @property
    def recall(self) -> float:
        """Share of the hidden blocks that were called hidden."""
        return _share(self.hidden_found, self.hidden_missed)

    @property
    def precision(self) -> float:
        """Share of the blocks called hidden that are."""
        return _share(self.hidden_found, self.false_hidden)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall. Calling all hidden scores well: see the others."""
        return _share(2 * self.hidden_found, self.hidden_missed + self.false_hidden)

    @property
    def false_hidden_share(self) -> float:
        """Share of the visible blocks that were called hidden."""
        return _share(self.false_hidden, self.visible_kept)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the shares of hidden and of visible blocks called right; chance is 0.5."""
        return (self.recall + 1 - self.false_hidden_share) / 2


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else float("nan")


def count_blocks(visibility: Bool, truth: BlockTruth) -> BlockCounts:
    """Counts of one detection's flags."""
    if visibility.shape != truth.hidden.shape:
        raise ValueError(f"flags of {visibility.shape} blocks, truth of {truth.hidden.shape}")
    hidden, clear = truth.counted & truth.hidden, truth.counted & ~truth.hidden
    return BlockCounts(
        int((hidden & ~visibility).sum()), int((hidden & visibility).sum()),
        int((clear & visibility).sum()), int((clear & ~visibility).sum()), 1,
    )  # fmt: skip


def block_shares(
    mask: Bool, window: ArrayLike, shape: tuple[int, int], box: ArrayLike
) -> tuple[Float64, Float64]:
    """Exact areas: how much of each block a pixel mask covers, and how much of it is in the box.

    covered   (rows, cols) share of the block's part inside image and box; 0 where there is none
    inside    (rows, cols) share of the block that lies inside image and box
    """
    height, width = mask.shape
    x1, y1, x2, y2 = np.asarray(window, dtype=np.float64)
    bx1, by1, bx2, by2 = np.asarray(box, dtype=np.float64)
    down = _lengths(height, y1, y2, shape[0], by1, by2)
    across = _lengths(width, x1, x2, shape[1], bx1, bx2)
    room = np.outer(down.sum(axis=1), across.sum(axis=1))
    shared = down @ mask @ across.T
    covered = np.divide(shared, room, out=np.zeros(shape), where=room > 0)
    return covered, room / ((y2 - y1) * (x2 - x1) / (shape[0] * shape[1]))


def _lengths(
    length: int, low: float, high: float, blocks: int, start: float, end: float
) -> Float64:
    """(blocks, length): how much of each pixel of one axis each block holds, within start..end."""
    edges = np.linspace(low, high, blocks + 1)
    pixels = np.arange(length)
    from_ = np.maximum(np.maximum(edges[:-1, None], start), pixels)
    to = np.minimum(np.minimum(edges[1:, None], end), pixels + 1)
    lengths: Float64 = np.maximum(to - from_, 0.0)
    return lengths


def covered_blocks(
    occluder: Bool, window: ArrayLike, shape: tuple[int, int], box: ArrayLike
) -> BlockTruth:
    """Truth from the pixels that cover the object: hidden if more than half of the block is."""
    covered, inside = block_shares(occluder, window, shape, box)
    return BlockTruth(covered > HALF, inside >= HALF)


def neighbour_blocks(
    truth: GroundTruth, i: int, window: ArrayLike, shape: tuple[int, int]
) -> BlockTruth | None:
    """Truth from instance masks: what another object hides of object i; None without i's mask.

    Hidden: others cover more than half of the block and the object at most a tenth. Visible: the
    object covers more than half. Nothing else is counted, because there the outline of the hidden
    part is not known. A neighbour *behind* the object that shows inside its box also counts as
    hiding: masks do not tell the order in depth, so ask it of occluded objects only.
    """
    own = truth.mask(i)
    if own is None:
        return None
    others = np.zeros_like(own)
    for j in range(len(truth)):
        mask = truth.mask(j) if j != i else None
        if mask is not None:
            others |= mask
    box = truth.full[i]
    by_others, inside = block_shares(others, window, shape, box)
    by_own, _ = block_shares(own, window, shape, box)
    hidden = (by_others > HALF) & (by_own <= LITTLE)
    return BlockTruth(hidden, (inside >= HALF) & (hidden | (by_own > HALF)))


def neighbour_counts(
    truth: Sequence[GroundTruth], found: Sequence[Detections], matches: Matches
) -> BlockCounts:
    """Counts over the right detections of occluded objects of which a neighbour hides a block.

    An object that is not marked as occluded has neighbours behind it only, and is left out. Give
    the truth with the objects of all classes: any of them may be the neighbour.
    """
    total = BlockCounts()
    for k, i, j in matches.right:
        if not truth[k].occluded[j]:
            continue
        flags = found[k].visibility[i]
        blocks = neighbour_blocks(truth[k], j, found[k].window[i], flags.shape)
        if blocks is not None and (blocks.hidden & blocks.counted).any():
            total += count_blocks(flags, blocks)
    return total


def whole_counts(
    truth: Sequence[GroundTruth], found: Sequence[Detections], matches: Matches
) -> BlockCounts:
    """Counts over the right detections of whole objects, whose every counted block is visible."""
    total = BlockCounts()
    for k, i, j in matches.right:
        if whole(truth[k])[j]:
            flags = found[k].visibility[i]
            nothing = np.zeros(found[k].size, bool)
            blocks = covered_blocks(nothing, found[k].window[i], flags.shape, truth[k].full[j])
            total += count_blocks(flags, blocks)
    return total
