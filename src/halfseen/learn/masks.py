"""Learning which blocks are hidden, from boxes alone: the mask head of a trained model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.features.colour import lab
from halfseen.infer.figure import RING, Surroundings, cut_figures
from halfseen.infer.grouping import group
from halfseen.infer.masks import Bools, reluctant, verdict_on
from halfseen.infer.missing import hide_missing, not_surely_hidden
from halfseen.learn.mask_fit import Floats, Shrinkage, fit_blocks
from halfseen.learn.mask_samples import Samples, collect_samples
from halfseen.model.grouping import shipped_grouping
from halfseen.model.mask_head import REACH, MaskHead
from halfseen.model.mixture import Mixture

# Fewer objects than this cannot tell how often a visible block looks hidden.
LEAST_OBJECTS = 4
# Logits beyond which no operating point is looked for.
FURTHEST = 12.0
# How often typical figures are looked for; and so many objects that nothing is known of count as
# well, so that no block is figure, or ground, for certain.
ROUNDS, DOUBT = 3, 5.0


@dataclass(frozen=True)
class MaskSettings:
    """How the mask head is learnt.

    windows       about how many windows with pasted occluders
    false_hidden  the share of the visible blocks of held-out whole objects that may be called
                  hidden: what sets the operating point
    alpha         weight of the contrast-sensitive Ising prior, in units of the logits
    grouping      whether the shipped grouping network looks at all logits of a window
    folds         each object is judged by a head that has not seen it, in so many turns
    shrinkage     of the logistic regressions
    """

    windows: int = 16000
    false_hidden: float = 0.095
    alpha: float = 1.0
    grouping: bool = True
    folds: int = 3
    shrinkage: Shrinkage = field(default_factory=Shrinkage)


def learn_masks(
    dataset: Dataset, model: Mixture, settings: MaskSettings | None = None, seed: int = 0
) -> Mixture:
    """The model with a mask head, learnt from the whole objects of its class in the dataset.

    Textures and other objects are pasted over them, so that the truth is known without any mask
    label. A model with too few whole objects for a component comes back without a head. A
    calibration is dropped: it knows other flags.
    """
    settings = settings or MaskSettings()
    parts: dict[int, list[Samples]] = {m: [] for m in range(len(model.components))}
    around: dict[int, list[Surroundings]] = {m: [] for m in range(len(model.components))}
    for m, samples, near in collect_samples(dataset, model, settings.windows, seed):
        parts[m].append(samples)
        around[m].append(near)
    if min(map(len, parts.values())) < LEAST_OBJECTS:
        return replace(model, head=None, calibration=None)
    weights, biases, cutoffs, responses, figures = [], [], [], [], []
    for m, component in enumerate(model.components):
        samples = Samples.stack(parts[m])
        fitted = fit_blocks(samples, settings.shrinkage)
        weights.append(fitted.weights.astype(np.float16))
        biases.append(fitted.bias.astype(np.float32))
        responses.append(mean_response(samples[samples.first], component.weights))
        # One of each object, as the first samples are.
        near = Surroundings(*(np.concatenate(part) for part in zip(*around[m], strict=True)))
        figures.append(typical_figure(near.some(entire(samples)[samples.first])))
        cutoffs.append(operating_point(samples, near, figures[-1], settings))
    grouping = shipped_grouping() if settings.grouping else None
    head = MaskHead(
        tuple(weights), tuple(biases), settings.alpha, tuple(cutoffs), grouping, tuple(responses),
        tuple(figures),
    )  # fmt: skip
    return replace(model, head=head, calibration=None)


def operating_point(
    samples: Samples, around: Surroundings, typical: Floats, settings: MaskSettings
) -> float:
    """The logit above which a block counts as hidden, from held-out objects.

    around    of each object, in their order
    typical   (rows, cols) their typical figure
    Each object is judged by a head fitted to others, but knows the figure typical of all. The
    smallest logit is taken at which, after the cut and a second look, at most `false_hidden` of
    the blocks of whole objects are called hidden.
    """
    whole, values = held_out(samples, entire(samples), settings)
    around = around.some(np.searchsorted(samples.object[samples.first], whole.object))
    colours = lab(whole.quarters.astype(np.float32))
    if settings.grouping:
        values = group(shipped_grouping(), values, colours, whole.outside)
    low, high = -FURTHEST, FURTHEST
    for _ in range(16):
        middle = (low + high) / 2
        logits = reluctant(values - np.float32(middle), whole.outside)
        flags = looked_at_twice(logits, colours, whole.outside, around, typical, settings.alpha)
        if false_hidden(flags, whole) > settings.false_hidden:
            low = middle
        else:
            high = middle
    return high


def looked_at_twice(
    logits: Floats, quarters: Floats, outside: Bools, around: Surroundings, typical: Floats,
    alpha: float,
) -> Bools:  # fmt: skip
    """(N, rows, cols) flags of windows, as detections have them."""
    verdict = verdict_on(logits, quarters, outside, alpha)
    flags = verdict.cut()
    usual = np.broadcast_to(typical, flags.shape)
    shown = not_surely_hidden(verdict, flags)
    figure = cut_figures(around, shown, usual).within(shown)
    return hide_missing(verdict, flags, figure, usual)


def entire(samples: Samples) -> Bools:
    """(N,) the windows of objects as they are that the border does not cut; if these are too few,
    of all objects. One that is cut off is not whole, and looks stranger to the head.
    """
    inside = samples.first & ~samples.outside.any((1, 2))
    return inside if inside.sum() >= LEAST_OBJECTS else samples.first


def typical_figure(around: Surroundings) -> Floats:
    """(rows, cols): the share of whole objects in which a block is figure.

    Figures are told by colours, at first with no more knowledge than that the box's middle is
    mostly figure; where they mostly are then helps to tell them again. What one object's colours
    leave open the others know.
    """
    count, rows, cols = around.box.shape
    flags = np.ones((count, rows - 2 * RING, cols - 2 * RING), np.bool_)
    typical = None
    for _ in range(ROUNDS):
        seen = cut_figures(around, flags, typical)
        grids = seen.within(flags)[seen.believed]
        share = (grids.sum(0) + DOUBT / 2) / (len(grids) + DOUBT)
        typical = np.broadcast_to(share.astype(np.float32), flags.shape)
    return np.asarray(share, np.float32)


def mean_response(whole: Samples, weights: Floats) -> Floats:
    """(rows, cols): the mean of w_i . B_i over windows of whole objects, where they are inside."""
    blocks = whole.features[:, REACH:-REACH, REACH:-REACH].astype(np.float32)
    inside = ~whole.outside
    total = ((blocks * weights).sum(-1) * inside).sum(0)
    return np.asarray(total / np.maximum(inside.sum(0), 1), np.float32)


def held_out(samples: Samples, wanted: Bools, settings: MaskSettings) -> tuple[Samples, Floats]:
    """The wanted samples, and their logits by heads fitted to other objects."""
    objects = np.unique(samples.object)
    fold = np.searchsorted(objects, samples.object) % min(settings.folds, len(objects))
    kept, logits = [], []
    for k in np.unique(fold):
        held = samples[(fold == k) & wanted]
        if not len(held):
            continue
        kept.append(held)
        logits.append(fit_blocks(samples[fold != k], settings.shrinkage)(held))
    return Samples.stack(kept), np.concatenate(logits)


def false_hidden(flags: Bools, samples: Samples) -> float:
    """Share of the judged visible blocks that are called hidden."""
    visible = samples.judged & ~samples.hidden
    return float((visible & ~flags).sum() / max(visible.sum(), 1))
