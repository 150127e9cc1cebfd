"""Fitting the mask head: a ridge logistic regression for each block of a component."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float32, Float64
from halfseen.compute.map import map_images
from halfseen.learn.logistic import fit_logistic
from halfseen.learn.masks.samples import Samples
from halfseen.learn.settings import MaskSettings
from halfseen.model.mask_head import SIDE


@dataclass(frozen=True, eq=False)
class BlockLogits:
    """weights (rows, cols, 3, 3, channels) and bias (rows, cols) on features as they are."""

    weights: Float32
    bias: Float32

    def __call__(self, samples: Samples) -> Float32:
        """(N, rows, cols) logits of "hidden"."""
        rows, cols = self.bias.shape
        out = np.empty((len(samples), rows, cols), np.float32)
        for i in range(rows):
            for j in range(cols):
                around = neighbourhood(samples, i, j)
                out[:, i, j] = around @ self.weights[i, j].ravel() + self.bias[i, j]
        return out


def neighbourhood(samples: Samples, i: int, j: int) -> Float32:
    """(N, 9 channels) of the 3 x 3 blocks around block (i, j)."""
    part = samples.features[:, i : i + SIDE, j : j + SIDE]
    size = SIDE * SIDE * part.shape[3]
    return part.reshape(len(samples), size).astype(np.float32)


class OneBlock(NamedTuple):
    """What is known of one block: mean and spread of its features, and standardised examples."""

    mean: Float32
    spread: Float32
    inputs: Float32
    hidden: Bool


def fit_blocks(samples: Samples, settings: MaskSettings, cores: int | None = 1) -> BlockLogits:
    """Class-balanced logistic regression of "hidden" for each block, shrunk to a common one.

    On features standardised block by block, w_i = w + d_i minimises

        mean loss + shared_ridge / 2 |w|^2,  then, with w fixed,  mean loss + own_ridge / 2 |d_i|^2

    so that a block with few examples of its own is decided like the others.
    """
    count, rows, cols = samples.hidden.shape
    places = list(np.ndindex(rows, cols))
    step = max(count * rows * cols // settings.shared_blocks, 1)
    few = list(map_images(partial(_standardised, samples, step), places, cores))
    size = few[0].inputs.shape[1]
    common = _fit(
        np.concatenate([block.inputs for block in few]),
        np.concatenate([block.hidden for block in few]),
        np.zeros(size + 1),
        settings.shared_ridge,
        settings.iterations,
    )
    del few
    fitted = list(map_images(partial(_fit_block, samples, common, settings), places, cores))
    weights = np.array([w for w, _ in fitted], np.float32)
    bias = np.array([b for _, b in fitted], np.float32).reshape(rows, cols)
    return BlockLogits(weights.reshape(rows, cols, SIDE, SIDE, -1), bias)


def _standardised(samples: Samples, step: int, place: tuple[int, int]) -> OneBlock:
    """One block, with every step-th of the examples in which it is known."""
    around = neighbourhood(samples, *place)
    mean, spread = around.mean(0), around.std(0) + np.float32(0.01)
    chosen = np.flatnonzero(samples.known[:, *place])[::step]
    return OneBlock(mean, spread, (around[chosen] - mean) / spread, samples.hidden[chosen, *place])


def _fit_block(
    samples: Samples, common: Float64, settings: MaskSettings, place: tuple[int, int]
) -> tuple[Float32, np.float32]:
    """Weights and bias of one block on features as they are."""
    block = _standardised(samples, 1, place)
    fitted = _fit(block.inputs, block.hidden, common, settings.own_ridge, settings.iterations)
    weights = (fitted[:-1] / block.spread).astype(np.float32)
    return weights, np.float32(fitted[-1] - weights @ block.mean)


def _fit(
    inputs: Float32,
    hidden: Bool,
    centre: Float64,
    ridge: float,
    iterations: int,
) -> Float64:
    """Weights and, last, bias; hidden and visible blocks weigh the same in all."""
    counts = max(int(hidden.sum()), 1), max(int((~hidden).sum()), 1)
    weight = np.where(hidden, 0.5 / counts[0], 0.5 / counts[1]).astype(np.float32)
    return fit_logistic(inputs, hidden, weight, centre, ridge, iterations=iterations)
