"""Which blocks of a detection are hidden: a stage that asks the models' mask heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Int64, UInt8
from halfseen.detect.view import Levels, View
from halfseen.detect.windows import find_outside, place_of
from halfseen.detections import Detections, as_blocks, parts_alike
from halfseen.errors import SettingsError
from halfseen.model.mask_head import MaskHead
from halfseen.model.mixture import Mixture
from halfseen.refine.grouping import group
from halfseen.refine.kernels import block_colours, cut, hidden_logits, lab

# Windows that are worked on at once, so that many candidates do not fill the memory.
CHUNK = 1024


class HiddenBlocks:
    """Stage: mark the blocks that are hidden by the mask head of each detection's model.

    Rows of models without a head stay as they are.
    """

    def __init__(self, models: Sequence[Mixture]) -> None:
        self._heads = [None if model.head is None else _Head(model) for model in models]

    def __call__(self, view: View, found: Detections) -> Detections:
        """The detections with blocks that are hidden, or visible, by their mask heads."""
        blocks = list(found.blocks)

        def mark(levels: Levels, features: dict[int, Float32], rows: Int64) -> None:
            for some in self._alike(found, rows):
                own = [self._heads[m] for m in found.model[some].tolist()]
                heads = [head for head in own if head is not None]
                grids = _mark(view, levels, features, found[some], heads)
                for n, grid in zip(some, grids, strict=True):
                    blocks[n] = grid

        with view.spread() as each:
            for levels in view.levels:
                rows = self._rows(found, levels)
                if not len(rows):
                    continue
                level = np.full(len(found), -1)
                level[rows] = nearest_levels(levels, found, rows)
                for features in levels.portions(np.unique(level[rows]).tolist()):
                    here = rows[np.isin(level[rows], list(features))]
                    each(partial(mark, levels, features), parts_alike(found, here, view.cores))
        return found.with_blocks(blocks)

    def _rows(self, found: Detections, levels: Levels) -> Int64:
        """The detections of models with a head that share these levels, checked."""
        rows = []
        for n, m in enumerate(found.model.tolist()):
            if m not in range(len(self._heads)):
                raise SettingsError(
                    f"a detection of model {m}, but the detector has {len(self._heads)}"
                )
            head = self._heads[m]
            if head is not None and m in levels.group.models:
                head.check(found, n)
                rows.append(n)
        if rows and not levels.plans:
            raise SettingsError("no window fits into this image: it is too small")
        return np.array(rows, np.int64)

    def _alike(self, found: Detections, rows: Int64) -> Iterator[list[int]]:
        """Detections that one call can work on: of one shape, one network, one set of settings."""
        batches: dict[Any, list[int]] = {}
        for n in rows.tolist():
            head = self._heads[int(found.model[n])]
            assert head is not None
            batches.setdefault((found.blocks[n].shape, head.kind), []).append(n)
        for batch in batches.values():
            for start in range(0, len(batch), CHUNK):
                yield batch[start : start + CHUNK]


class _Template(NamedTuple):
    """A component's head, or that of its mirror image, as the kernels take it.

    weights  (rows, cols, 3, 3, channels) and
    bias     (rows, cols) of the head
    """

    weights: Float32
    bias: Float32


class _Head:
    """One model's mask head, made ready for the kernels."""

    def __init__(self, model: Mixture) -> None:
        assert model.head is not None
        self.model, self.head = model, model.head
        self.templates = {
            (index, mirrored): _Template(
                *model.head.template(index, model.descriptor.mirror if mirrored else None)
            )
            for index, mirrored, _ in model.templates()
        }
        # Most heads hold the same network, and windows of all of them are worked on at once.
        network = model.head.grouping
        parts = () if network is None else network.tensors().values()
        self.kind = (b"".join(part.tobytes() for part in parts), model.head.settings)

    def check(self, found: Detections, n: int) -> None:
        """SettingsError unless detection n is a window of this model."""
        template = self.templates.get((int(found.component[n]), bool(found.mirrored[n])))
        if template is None or template.bias.shape != found.blocks[n].shape:
            shapes = [component.shape for component in self.model.components]
            raise SettingsError(
                f"a {'mirrored ' if found.mirrored[n] else ''}window of component "
                f"{found.component[n]} with {found.blocks[n].shape} blocks is not of this model, "
                f"whose components have {shapes}"
            )
        if not (found.window[n, :2] < found.window[n, 2:]).all():
            raise SettingsError("a window of a detection is empty")


def nearest_levels(levels: Levels, found: Detections, rows: Int64) -> Int64:
    """The level of each of the rows."""
    shapes = np.array([found.blocks[n].shape for n in rows.tolist()], np.float64).reshape(-1, 2)
    return levels.nearest(found.window[rows], shapes)


def _mark(
    view: View,
    levels: Levels,
    features: dict[int, Float32],
    found: Detections,
    heads: Sequence[_Head],
) -> UInt8:
    """Block grids (N, rows, cols) of detections alike, each with its head."""
    shape = found.blocks[0].shape
    level = nearest_levels(levels, found, np.arange(len(found)))
    top, left = levels.first_blocks(found.window, level)
    logits = np.empty((len(found), *shape), np.float32)
    same: dict[Any, list[int]] = {}
    keys = zip(found.component.tolist(), found.mirrored.tolist(), level.tolist(), strict=True)
    for n, (head, key) in enumerate(zip(heads, keys, strict=True)):
        same.setdefault((id(head), *key), []).append(n)
    for (_, component, mirrored, k), rows in same.items():
        head = heads[rows[0]]
        template = head.templates[component, mirrored]
        # A mirror image is seen from the component's side, here and below.
        side = np.s_[:, :, :: -1 if mirrored else 1]
        windows = features[k], top[rows], left[rows]
        logits[rows] = hidden_logits(*windows, template.weights, template.bias)[side]
    sizes = np.array([features[k].shape[:2] for k in level.tolist()])
    outside = find_outside(place_of(top, shape[0]), place_of(left, shape[1]), sizes, *shape)
    turned = np.flatnonzero(found.mirrored)
    quarters = lab(block_colours(view.pixels, found.window, *(2 * count for count in shape)))
    _turn(outside, turned)
    _turn(quarters, turned)
    cutoffs = [h.head.cutoff[m] for h, m in zip(heads, found.component.tolist(), strict=True)]
    logits = grouped_logits(heads[0].head, logits, quarters, outside)
    logits -= np.array(cutoffs, np.float32)[:, None, None]
    alpha = np.array([h.head.alpha for h in heads], np.float32)
    visible = cut_hidden(logits, quarters, outside, alpha, heads[0].head.settings.contrast)
    _turn(visible, turned)
    _turn(outside, turned)
    return as_blocks(visible, outside)


def _turn(grids: NDArray[Any], which: Int64) -> None:
    """Mirror some of the grids (N, rows, cols, ...) in place."""
    grids[which] = grids[which, :, ::-1]


def grouped_logits(head: MaskHead, logits: Float32, quarters: Float32, outside: Bool) -> Float32:
    """(N, rows, cols): logits of "hidden" after the head's grouping network, if it has one.

    quarters   (N, 2 rows, 2 cols, 3): Lab colours of the quarters of the blocks
    """
    if head.grouping is None:
        return logits
    return group(head.grouping.ready, logits, quarters, outside, head.settings)


def cut_hidden(
    logits: Float32, quarters: Float32, outside: Bool, alpha: NDArray[Any], contrast: float
) -> Bool:
    """(N, rows, cols) True where a block is visible: the minimum of the head's energy.

    See `MaskHead` for the energy.

    logits     above 0 where a block looks hidden
    quarters   (N, 2 rows, 2 cols, 3): Lab colours of the quarters of the blocks
    alpha      (N,), or one for all
    """
    upper, lower = quarters[:, ::2], quarters[:, 1::2]
    colours = (
        upper[:, :, ::2] + upper[:, :, 1::2] + lower[:, :, ::2] + lower[:, :, 1::2]
    ) * np.float32(0.25)
    return cut(-np.where(outside, np.float32(0), logits), outside, colours, contrast, alpha)
