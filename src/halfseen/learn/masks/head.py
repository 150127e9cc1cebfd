"""Learning which blocks are hidden, from boxes alone: the mask head of a trained model."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32
from halfseen.compute.libraries import one_blas_thread
from halfseen.data.dataset import Dataset
from halfseen.learn.checkpoint import Saved
from halfseen.learn.masks.figure import figure_looks, typical_figure
from halfseen.learn.masks.fit import fit_blocks
from halfseen.learn.masks.samples import COLLECTING, ObjectSamples, Samples, collect_samples
from halfseen.learn.progress import Run
from halfseen.learn.settings import MaskSettings
from halfseen.model.mask_head import REACH, HiddenSettings, MaskHead, shipped_grouping
from halfseen.model.mixture import Mixture
from halfseen.refine.figure import Surroundings
from halfseen.refine.grouping import group
from halfseen.refine.hidden import cut_hidden
from halfseen.refine.kernels import lab

# Logits beyond which no operating point is sought, and the halvings of that range.
FURTHEST, HALVINGS = 12.0, 16


class ComponentHead(NamedTuple):
    """The mask head of one component: see `MaskHead`."""

    weights: NDArray[np.float16]
    bias: Float32
    figure: Float32
    looks: Float32
    cutoff: float

    def pack(self) -> Saved:
        """As a checkpoint keeps it."""
        return Saved(
            {"cutoff": self.cutoff},
            {name: getattr(self, name) for name in ("weights", "bias", "figure", "looks")},
        )

    @classmethod
    def unpack(cls, saved: Saved) -> ComponentHead:
        return cls(**saved.arrays, cutoff=float(saved.header["cutoff"]))


@one_blas_thread()
def learn_masks(
    dataset: Dataset,
    model: Mixture,
    settings: MaskSettings | None = None,
    seed: int = 0,
    run: Run | None = None,
) -> Mixture:
    """The model with a mask head, learnt from the whole objects of its class in the dataset.

    Textures and other objects are pasted over them, so that the hidden blocks are known without any
    mask label. A model with too few whole objects for a component comes back without a head.
    """
    settings, run = settings or MaskSettings(), run or Run()
    run.report(0.0)
    names = [f"component {m}" for m in range(len(model.components))]
    heads = [run.checkpoint.get(name, ComponentHead.unpack) for name in names]
    if None in heads:
        parts: list[list[ObjectSamples]] = [[] for _ in names]
        for part in collect_samples(dataset, model, settings, seed, run):
            parts[part.component].append(part)
        if min(map(len, parts)) < settings.least_objects:
            run.report(1.0)
            return replace(model, head=None)
        share = (1 - COLLECTING) / len(names)
        for m in range(len(model.components)):
            if heads[m] is None:
                first = COLLECTING + m * share
                step = run.part(names[m], first, first + share)
                learnt = _learn_component(parts[m], settings, step)
                run.checkpoint.put(names[m], learnt.pack())
                heads[m] = learnt
    run.report(1.0)
    weights, bias, figure, looks, cutoff = zip(*(h for h in heads if h is not None), strict=True)
    grouping = shipped_grouping() if settings.grouping else None
    head = MaskHead(weights, bias, settings.alpha, cutoff, grouping, figure, looks)
    return replace(model, head=head)


def _learn_component(parts: list[ObjectSamples], settings: MaskSettings, run: Run) -> ComponentHead:
    """The head of one component, from the samples of its objects."""
    samples = Samples.stack([part.samples for part in parts])
    # One of each object, as the first samples are.
    around = Surroundings(
        *(np.concatenate(rows) for rows in zip(*(part.around for part in parts), strict=True))
    )
    parts.clear()  # samples fill the memory
    fitted = fit_blocks(samples, settings, run.cores)
    run.report(1 / (settings.folds + 1))
    return ComponentHead(
        fitted.weights.astype(np.float16),
        fitted.bias.astype(np.float32),
        *learn_figure(samples, around, settings),
        operating_point(samples, settings, run),
    )


def learn_figure(
    samples: Samples, around: Surroundings, settings: MaskSettings
) -> tuple[Float32, Float32]:
    """`MaskHead.figure` and `looks` of a component, from its whole objects as they are."""
    chosen = entire(samples, settings)
    whole = around.some(chosen[samples.first])
    typical = typical_figure(whole, settings)
    blocks = samples.features[chosen][:, REACH:-REACH, REACH:-REACH].astype(np.float32)
    return typical, figure_looks(blocks, whole, typical, settings)


def operating_point(samples: Samples, settings: MaskSettings, run: Run) -> float:
    """The logit above which a block counts as hidden, from held-out objects.

    Each object is decided by a head fitted to others. The smallest logit is taken at which at most
    `false_hidden` of the blocks of whole objects are called hidden after the cut.
    """
    whole, values = held_out(samples, entire(samples, settings), settings, run)
    hidden = HiddenSettings()
    colours = lab(whole.quarters.astype(np.float32))
    if settings.grouping:
        values = group(shipped_grouping().ready, values, colours, whole.outside, hidden)
    low, high = -FURTHEST, FURTHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        logits = values - np.float32(middle)
        alpha = np.array(settings.alpha)
        flags = cut_hidden(logits, colours, whole.outside, alpha, hidden.contrast)
        if false_hidden(flags, whole) > settings.false_hidden:
            low = middle
        else:
            high = middle
    return high


def entire(samples: Samples, settings: MaskSettings) -> Bool:
    """(N,) which windows are unmodified and show an object that lies inside the image.

    If there are fewer than `least_objects`, all unmodified windows. An object that the border cuts
    looks hidden to the head.
    """
    inside = samples.first & ~samples.outside.any((1, 2))
    return inside if inside.sum() >= settings.least_objects else samples.first


def held_out(
    samples: Samples, wanted: Bool, settings: MaskSettings, run: Run | None = None
) -> tuple[Samples, Float32]:
    """The wanted samples, and their logits by heads fitted to other objects."""
    run = run or Run()
    objects = np.unique(samples.object)
    fold = np.searchsorted(objects, samples.object) % min(settings.folds, len(objects))
    kept, logits = [], []
    for k in np.unique(fold):
        held = samples[(fold == k) & wanted]
        if len(held):
            kept.append(held)
            logits.append(fit_blocks(samples[fold != k], settings, run.cores)(held))
        # Of as many regressions as there are folds, and one for what follows.
        done = 1 + (k + 1) * (settings.folds - 1) / settings.folds
        run.report(done / (settings.folds + 1))
    return Samples.stack(kept), np.concatenate(logits)


def false_hidden(flags: Bool, samples: Samples) -> float:
    """Share of the visible blocks that count which are called hidden."""
    visible = samples.counted & ~samples.hidden
    return float((visible & ~flags).sum() / max(visible.sum(), 1))
