"""Learning where in its windows a class shows, and what it looks like there, from boxes alone."""

from __future__ import annotations

import numpy as np

from halfseen.arrays import Bool, Float32
from halfseen.learn.logistic import fit_logistic
from halfseen.learn.settings import MaskSettings
from halfseen.model.mask_head import FigureSettings
from halfseen.refine.figure import Surroundings, cut_figures, probable


def typical_figure(around: Surroundings, settings: MaskSettings) -> Float32:
    """(rows, cols): the share of whole objects in which a block is figure.

    Figures are found by colours, at first with no more knowledge than that the box's middle is
    mostly figure. Their mean is the knowledge with which they are found again.
    """
    how, doubt = FigureSettings(), settings.figure_doubt
    count, rows, cols = around.box.shape
    flags = np.ones((count, rows - 2 * how.ring, cols - 2 * how.ring), np.bool_)
    typical = None
    for _ in range(settings.figure_rounds):
        figures = cut_figures(around, flags, typical, how)
        grids = figures.within(flags)[figures.believed]
        share = (grids.sum(0) + doubt / 2) / (len(grids) + doubt)
        typical = np.broadcast_to(share.astype(np.float32), flags.shape)
    return np.asarray(share, np.float32)


def figure_looks(
    features: Float32, around: Surroundings, typical: Float32, settings: MaskSettings
) -> Float32:
    """(channels + 1,): what the features of a block say for figure, and last a constant.

    A logistic regression, with what is typical of the block's place known before, is fitted to the
    figures of whole objects that are found by colours. With what it says they are found again, and
    it is fitted to those. 0 where no figure is believed.

    features  (N, rows, cols, channels) of the objects' windows
    """
    how = FigureSettings()
    inner = np.s_[:, how.ring : -how.ring, how.ring : -how.ring]
    inside = around.box[inner] & around.known[inner]
    flags = np.ones(inside.shape, np.bool_)
    offset = np.broadcast_to(np.log(typical / (1 - typical)), inside.shape)
    looks = np.zeros(features.shape[3] + 1, np.float32)
    for _ in range(settings.figure_rounds):
        figures = cut_figures(around, flags, probable(typical, features, looks), how)
        chosen = inside & figures.believed[:, None, None]
        if chosen.any():
            looks = _fit_looks(features[chosen], figures.grids[chosen], offset[chosen], settings)
    return looks


def _fit_looks(features: Float32, figure: Bool, offset: Float32, settings: MaskSettings) -> Float32:
    """The regression on features (N, channels) as they are."""
    mean, spread = features.mean(0), features.std(0) + np.float32(0.01)
    fitted = fit_logistic(
        (features - mean) / spread,
        figure,
        np.full(len(figure), 1 / len(figure), np.float32),
        np.zeros(len(mean) + 1),
        settings.figure_ridge,
        offset=offset,
        iterations=settings.iterations,
    )
    weights = fitted[:-1] / spread
    return np.append(weights, fitted[-1] - weights @ mean).astype(np.float32)
