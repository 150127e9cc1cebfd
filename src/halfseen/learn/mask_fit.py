"""Fitting the mask head: a ridge logistic regression for each block of a component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfseen.learn.mask_samples import Samples
from halfseen.model.mask_head import SIDE

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Shrinkage:
    """Ridge weights: of what all blocks of a component share, and of how far each departs."""

    shared: float = 0.01
    own: float = 0.3
    iterations: int = 25


@dataclass(frozen=True, eq=False)
class BlockLogits:
    """weights (rows, cols, 3, 3, channels) and bias (rows, cols) on features as they are."""

    weights: Floats
    bias: Floats

    def __call__(self, samples: Samples) -> Floats:
        """(N, rows, cols)"""
        rows, cols = self.bias.shape
        out = np.empty((len(samples), rows, cols), np.float32)
        for i in range(rows):
            for j in range(cols):
                around = neighbourhood(samples, i, j)
                out[:, i, j] = around @ self.weights[i, j].ravel() + self.bias[i, j]
        return out


def neighbourhood(samples: Samples, i: int, j: int) -> Floats:
    """(N, 9 channels) of the 3 x 3 blocks around block (i, j)."""
    part = samples.features[:, i : i + SIDE, j : j + SIDE]
    size = SIDE * SIDE * part.shape[3]
    return part.reshape(len(samples), size).astype(np.float32)


def fit_blocks(samples: Samples, shrinkage: Shrinkage) -> BlockLogits:
    """Class-balanced logistic regression of "hidden" for each block, shrunk to a common one.

    On features standardised block by block, w_i = w + d_i minimises

        mean loss + shared / 2 |w|^2,  then, with w fixed,  mean loss + own / 2 |d_i|^2

    so that a block with little evidence of its own is judged like the others.
    """
    count, rows, cols = samples.hidden.shape
    size = SIDE * SIDE * samples.features.shape[3]
    mean, spread = (
        np.empty((rows, cols, size), np.float32),
        np.empty((rows, cols, size), np.float32),
    )
    for i in range(rows):
        for j in range(cols):
            around = neighbourhood(samples, i, j)
            mean[i, j], spread[i, j] = around.mean(0), around.std(0) + 0.01

    def block(i: int, j: int, step: int = 1) -> tuple[Floats, NDArray[np.bool_]]:
        chosen = np.flatnonzero(samples.known[:, i, j])[::step]
        around = (neighbourhood(samples[chosen], i, j) - mean[i, j]) / spread[i, j]
        return around, samples.hidden[chosen, i, j]

    step = max(count * rows * cols // 60_000, 1)
    parts = [block(i, j, step) for i in range(rows) for j in range(cols)]
    common = logistic(
        np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]),
        np.zeros(size + 1), shrinkage.shared, shrinkage.iterations,
    )  # fmt: skip
    weights = np.empty((rows, cols, size), np.float32)
    bias = np.empty((rows, cols), np.float32)
    for i in range(rows):
        for j in range(cols):
            around, hidden = block(i, j)
            fitted = logistic(around, hidden, common, shrinkage.own, shrinkage.iterations)
            weights[i, j] = fitted[:-1] / spread[i, j]
            bias[i, j] = fitted[-1] - weights[i, j] @ mean[i, j]
    return BlockLogits(weights.reshape(rows, cols, SIDE, SIDE, -1), bias)


def logistic(
    features: Floats, hidden: NDArray[np.bool_], start: NDArray[np.float64], ridge: float,
    iterations: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Weights and, last, bias, from `start`, towards which the ridge pulls all but the bias.

    Hidden and visible blocks weigh the same in all.
    """
    from scipy.optimize import minimize

    sign = np.where(hidden, 1.0, -1.0).astype(np.float32)
    counts = max(int(hidden.sum()), 1), max(int((~hidden).sum()), 1)
    weight = np.where(hidden, 0.5 / counts[0], 0.5 / counts[1]).astype(np.float32)

    def loss(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (features @ vector[:-1].astype(np.float32) + np.float32(vector[-1]))
        value = float(weight @ np.logaddexp(0, -margin))
        slope = -weight * sign / (1 + np.exp(np.minimum(margin, 30)))
        away = vector - start
        away[-1] = 0
        gradient = np.append(features.T @ slope, slope.sum()).astype(np.float64)
        return value + ridge / 2 * float(away @ away), gradient + ridge * away

    return np.asarray(
        minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x
    )
