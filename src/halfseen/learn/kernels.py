"""Compiled loops of the objective: responses of stored windows, and sums of their features."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64


@njit(cache=True, nogil=True, fastmath=True)
def window_responses(features: Float32, weights: Float32, out: Float32) -> None:
    """out (N, blocks) = w_i . B_i for features (N, blocks, channels)."""
    count, blocks, channels = features.shape
    for n in range(count):
        for i in range(blocks):
            total = np.float32(0)
            for k in range(channels):
                total += features[n, i, k] * weights[i, k]
            out[n, i] = total


@njit(cache=True, nogil=True, fastmath=True)
def add_visible(features: Float32, visible: Bool, factor: Float64, out: Float64) -> None:
    """out (blocks, channels) += sum_n factor_n v_ni B_ni; windows with factor 0 are passed over."""
    count, blocks, channels = features.shape
    for n in range(count):
        scale = factor[n]
        if scale == 0:
            continue
        for i in range(blocks):
            if visible[n, i]:
                for k in range(channels):
                    out[i, k] += scale * features[n, i, k]


@njit(cache=True, nogil=True)
def block_sums(responses: Float32, outside: Bool, floor: float, out: Float64) -> None:
    """out (N,) = sum of max(response, floor) over the blocks inside: Eqn 3 less its constants."""
    count, blocks = responses.shape
    for n in range(count):
        total = 0.0
        for i in range(blocks):
            if not outside[n, i]:
                total += max(responses[n, i], floor)
        out[n] = total


@njit(cache=True, nogil=True)
def boundary_length(flags: Bool, outside: Bool) -> Int64:
    """(N,) how many neighbouring pairs of inside blocks differ in their flag: Eqn 1's last sum."""
    count, rows, cols = flags.shape
    length = np.zeros(count, np.int64)
    for n in range(count):
        for i in range(rows):
            for j in range(cols):
                if outside[n, i, j]:
                    continue
                if i + 1 < rows and not outside[n, i + 1, j]:
                    length[n] += flags[n, i, j] != flags[n, i + 1, j]
                if j + 1 < cols and not outside[n, i, j + 1]:
                    length[n] += flags[n, i, j] != flags[n, i, j + 1]
    return length


@njit(cache=True, nogil=True)
def compact(array: NDArray[Any], index: Int64) -> None:
    """Moves the rows `index` (ascending) to the front of an array, in place and in order."""
    for n in range(len(index)):
        if index[n] != n:
            array[n] = array[index[n]]
