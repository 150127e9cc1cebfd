"""Which blocks of a detection are hidden, by the model's mask head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import ModelError
from halfseen.features.colour import lab
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import Level
from halfseen.geometry import Boxes
from halfseen.infer.boxes import contract, extent
from halfseen.infer.grouping import group
from halfseen.infer.visibility import best_flags
from halfseen.model.grouping import Grouping
from halfseen.model.mixture import Mixture

# How fast the weight of an edge falls with the difference of colour, in its mean square.
CONTRAST = 3.0
# Features that are kept while an image is looked at; beyond, they are made again for the masks.
KEPT_BYTES = 64 << 20
# Windows judged at once, so that many candidates do not fill the memory.
CHUNK = 1024
# Logits beyond which a block is hidden, or visible, for certain.
FAR = 30.0
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


class Verdict(NamedTuple):
    """What a mask head says of the blocks of one detection; or of N, each array with N in front.

    logits   (rows, cols), above 0 where they look hidden, NaN outside the level
    across   (rows, cols - 1), what it costs that of two neighbours side by side one is hidden
    down     (rows - 1, cols), the same of two that lie one above the other
    """

    logits: Floats
    across: Floats
    down: Floats

    def cut(self, more: Floats | float = 0.0) -> Bools:
        """(N, rows, cols) flags of N detections, where logits are so much greater: the optimum."""
        outside = np.isnan(self.logits)
        unary = -(np.where(outside, np.float32(0), self.logits) + np.float32(more))
        return best_flags(unary, 1.0, outside, (self.across, self.down))


class Masker:
    """One model's mask head, made ready for the kernels."""

    def __init__(self, model: Mixture) -> None:
        if model.head is None:
            raise ModelError(
                f"model {model.label!r} has no mask head; train it with masks, or ask for "
                'visibility="paper"'
            )
        self.model, self.head = model, model.head
        self.templates = {
            (index, mirrored): (
                *model.head.template(index, model.descriptor.mirror if mirrored else None),
                component.weights.astype(np.float32),
            )
            for index, mirrored, component in model.templates()
        }
        # Most heads hold the same network, and windows of all of them are judged at once.
        network = model.head.grouping
        parts = () if network is None else network.tensors().values()
        self.network = b"".join(part.tobytes() for part in parts)

    def typical_figure(self, component: int, mirrored: bool) -> Floats | None:
        """(rows, cols): in what share of whole objects a block is figure; None if unknown."""
        if not self.head.figure:
            return None
        return self.head.figure[component][:, :: -1 if mirrored else 1]


def find_masks(
    pixels: NDArray[np.uint8],
    found: Detections,
    maskers: Sequence[Masker],
    features: dict[int, Floats],
    scales: NDArray[np.float64],
    asked: bool = False,
) -> Iterator[tuple[int, Bools, float, Verdict]]:
    """(n, flags, evidence, verdict) of each detection that lies in one of the levels whose features
    are given: what is visible of it; if that is asked, what this says for the object, else 0; and
    what the flags were cut from.

    maskers   of each detection that of its model; all have one descriptor
    scales    (L, 2) of all levels
    A detection's window tells its level and its first block, so nothing else needs to be kept of
    the search.
    """
    if not len(found):
        return
    descriptor = maskers[0].model.descriptor
    levels = _levels(found, scales, descriptor)
    places = np.column_stack([levels, *first_blocks(found.window, scales[levels], descriptor)])
    batches: dict[Any, list[int]] = {}
    for n, (level, masker) in enumerate(zip(levels.tolist(), maskers, strict=True)):
        if level in features:
            batches.setdefault((found.visibility[n].shape, masker.network), []).append(n)
    for rows in batches.values():
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            own = found[some] if len(some) < len(found) else found
            chosen = [maskers[n] for n in some]
            told = _judge_alike(pixels, own, chosen, features, places[some], asked)
            yield from zip(some, *told, strict=True)


def _judge_alike(
    pixels: NDArray[np.uint8],
    found: Detections,
    maskers: Sequence[Masker],
    features: dict[int, Floats],
    places: NDArray[np.int64],
    asked: bool,
) -> tuple[Bools, list[float], Iterator[Verdict]]:
    """Flags, evidence and verdicts of windows of one shape and network at places (N, 3): level, top
    and left.
    """
    from halfseen.infer.mask_kernels import block_colours, block_responses, hidden_logits

    heads, shape = [masker.head for masker in maskers], found.visibility[0].shape
    components, mirrored = found.component.tolist(), found.mirrored.tolist()
    logits = np.empty((len(found), *shape), np.float32)
    excess = np.zeros_like(logits)
    same: dict[Any, list[int]] = {}
    for n, masker in enumerate(maskers):
        same.setdefault((id(masker), components[n], mirrored[n], places[n, 0]), []).append(n)
    for (_, component, turned, level), mine in same.items():
        weights, bias, template = maskers[mine[0]].templates[component, turned]
        # A mirror image is judged from the component's side, here and below.
        side = np.s_[:, :, :: -1 if turned else 1]
        windows = features[level], places[mine, 1], places[mine, 2]
        logits[mine] = hidden_logits(*windows, weights, bias)[side]
        if asked:
            responses = block_responses(*windows, template)[side]
            excess[mine] = responses - heads[mine[0]].response[component]
    sizes = np.array([features[level].shape[:2] for level in places[:, 0].tolist()])
    turn = partial(_turned, turned=np.flatnonzero(found.mirrored))
    outside = turn(beyond(places[:, 1], places[:, 2], shape, sizes))
    quarters = turn(lab(block_colours(pixels, found.window, *(2 * count for count in shape))))
    cutoffs = np.array([head.cutoff[m] for head, m in zip(heads, components, strict=True)])
    judged = judge(heads[0].grouping, cutoffs, logits, quarters, outside)
    says = visible_evidence(judged, excess, outside) if asked else np.zeros(len(found))
    verdict = verdict_on(judged, quarters, outside, np.array([head.alpha for head in heads]))
    flags = turn(verdict.cut())
    return flags, says.tolist(), map(Verdict, *(turn(part) for part in verdict))


def _turned(grids: NDArray[Any], turned: NDArray[np.int64]) -> NDArray[Any]:
    """Grids (N, rows, cols, ...), in which some are mirrored in place."""
    grids[turned] = grids[turned, :, ::-1]
    return grids


def _levels(
    found: Detections, scales: NDArray[np.float64], descriptor: Descriptor
) -> NDArray[np.int64]:
    """(N,) which of the levels of these scales (L, 2) each detection comes from."""
    shapes = np.array([grid.shape for grid in found.visibility], np.float64).reshape(-1, 2)
    side = found.window[:, 2:] - found.window[:, :2]
    own = descriptor.cell * shapes[:, ::-1] / side
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
    windows: NDArray[np.float64], scales: NDArray[np.float64], descriptor: Descriptor
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(top, left): the first blocks of windows (N, 4) in pixels, at levels of scales (N, 2)."""
    corner = np.rint((windows[:, :2] * scales - descriptor.offset) / descriptor.cell)
    return corner[:, 1].astype(np.int64), corner[:, 0].astype(np.int64)


def beyond(
    top: NDArray[np.int64],
    left: NDArray[np.int64],
    shape: tuple[int, int],
    sizes: NDArray[np.int64],
) -> Bools:
    """(N, rows, cols): which blocks of windows lie outside levels of (N, 2) blocks."""
    y, x = top[:, None] + np.arange(shape[0]), left[:, None] + np.arange(shape[1])
    above, beside = (y < 0) | (y >= sizes[:, :1]), (x < 0) | (x >= sizes[:, 1:])
    return above[:, :, None] | beside[:, None, :]


def judge(
    grouping: Grouping | None,
    cutoffs: NDArray[np.float64],
    logits: Floats,
    quarters: Floats,
    outside: Bools,
) -> Floats:
    """(N, rows, cols) for windows, none mirrored: the blocks' logits made of their own, above 0
    where they look hidden.

    cutoffs    (N,) of the components that they are windows of
    quarters   (N, 2 rows, 2 cols, 3): Lab colours of the quarters of the blocks
    """
    if grouping is not None:
        logits = group(grouping, logits, quarters, outside)
    return reluctant(logits - cutoffs.astype(np.float32)[:, None, None], outside)


def reluctant(logits: Floats, outside: Bools) -> Floats:
    """Logits (N, rows, cols), less the share of the window that they hold for hidden.

    Where much looks hidden the head is also more often wrong: each block has to show a little more.
    """
    from halfseen.infer.mask_kernels import hidden_share

    return logits - hidden_share(logits, outside)[:, None, None]


def visible_evidence(judged: Floats, excess: Floats, outside: Bools) -> NDArray[np.float64]:
    """(N,) what the blocks of windows say for the object, each as far as it is visible.

    judged   (N, rows, cols) their logits of being hidden, of which each makes a probability
    excess   how much more they respond than the same blocks of whole objects do
    """
    seen = ~outside / (1 + np.exp(np.clip(judged, -FAR, FAR).astype(np.float64)))
    return np.asarray((seen * excess).sum((1, 2)))


def verdict_on(
    logits: Floats, quarters: Floats, outside: Bools, alpha: float | NDArray[np.float64]
) -> Verdict:
    """The verdict on N windows, from the logits of `judge`: what the head's energy is made of (see
    `MaskHead`). They have one alpha or (N,).
    """
    upper, lower = quarters[:, ::2], quarters[:, 1::2]
    colours = (
        upper[:, :, ::2] + upper[:, :, 1::2] + lower[:, :, ::2] + lower[:, :, 1::2]
    ) * np.float32(0.25)
    weight = np.asarray(alpha, np.float32).reshape(-1, 1, 1)
    across, down = (weight * edges for edges in contrast_edges(colours))
    return Verdict(np.where(outside, np.float32(np.nan), logits), across, down)


def contrast_edges(colours: Floats) -> tuple[Floats, Floats]:
    """Weights of the horizontal and vertical pairs of blocks of Lab colours (N, rows, cols, 3):
    exp(-CONTRAST d^2 / mean d^2), d the distance of their colours, and the mean over the window.
    """
    from halfseen.infer.mask_kernels import edge_weights

    return edge_weights(colours, CONTRAST)


def with_flags(
    found: Detections,
    flags: Sequence[Bools],
    full: Boxes | None = None,
    figure: tuple[Bools, ...] | None = None,
) -> Detections:
    """The detections with other flags, boxes and figures, and `visible` contracted around all that
    is visible or figure.
    """
    full = found.full if full is None else full
    grids = flags if figure is None else [a | b for a, b in zip(flags, figure, strict=True)]
    shapes = np.array([grid.shape for grid in flags], np.float64).reshape(-1, 2)
    unit = (found.window[:, 2:] - found.window[:, :2]) / shapes[:, ::-1]
    blocks = np.empty((len(flags), 4))
    for shape in {grid.shape for grid in grids}:
        mine = [n for n, grid in enumerate(grids) if grid.shape == shape]
        blocks[mine] = extent(np.stack([grids[n] for n in mine]))
    seen = np.tile(found.window[:, :2], 2) + blocks * np.tile(unit, 2)
    visible = contract(full, seen, found.size)
    figure = found.figure if figure is None else figure
    return replace(found, visibility=tuple(flags), full=full, visible=visible, figure=figure)
