"""Compiled loops of the grouping network. Windows are taken one by one: what is found for one does
not depend, to the last bit, on the others."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@njit(cache=True, nogil=True)
def forward(
    inputs: Floats,
    enter: Floats, enter_bias: Floats, wide: Floats, wide_bias: Floats,
    pool: Floats, pool_bias: Floats, again: Floats, again_bias: Floats,
    repool: Floats, repool_bias: Floats, leave: Floats, leave_bias: Floats, gain: Floats,
) -> Floats:  # fmt: skip
    """(N, rows, cols): the network of `Grouping` on inputs (N, rows, cols, INPUTS)."""
    count, rows, cols = inputs.shape[:3]
    out = np.empty((count, rows, cols), np.float32)
    for n in range(count):
        x = inputs[n]
        alike = likeness(x)
        h = rectified(np.dot(around(x, 1), enter), enter_bias)
        h = rectified(np.dot(around(h.reshape(rows, cols, -1), 2), wide), wide_bias)
        h = rectified(np.dot(pooled(h, alike), pool), pool_bias)
        h += rectified(np.dot(around(h.reshape(rows, cols, -1), 2), again), again_bias)
        h = rectified(np.dot(pooled(h, alike), repool), repool_bias)
        logits = np.dot(around(h.reshape(rows, cols, -1), 1), leave) + leave_bias
        for i in range(rows):
            for j in range(cols):
                out[n, i, j] = logits[i * cols + j, 0] + gain[0] * x[i, j, 0]
    return out


@njit(cache=True, nogil=True)
def told_blocks(
    out: Floats,
    logits: Floats,
    quarters: Floats,
    outside: NDArray[np.bool_],
    clip: float,
    logit_scale: float,
    colour_scale: float,
) -> None:
    """Fills `out` (N, rows, cols, INPUTS): see `grouping.inputs`."""
    count, rows, cols = logits.shape
    for n in range(count):
        mean = np.zeros(3)
        for i in range(2 * rows):
            for j in range(2 * cols):
                for c in range(3):
                    mean[c] += quarters[n, i, j, c]
        mean /= max(4 * rows * cols, 1)
        for i in range(rows):
            for j in range(cols):
                block = out[n, i, j]
                block[0] = min(max(logits[n, i, j], -clip), clip) * logit_scale
                block[1] = outside[n, i, j]
                for q in range(4):
                    for c in range(3):
                        colour = quarters[n, 2 * i + q // 2, 2 * j + q % 2, c]
                        block[2 + 3 * q + c] = (colour - mean[c]) * colour_scale
                block[14] = (2 * i + 1) / rows - 1
                # Left and right are alike.
                block[15] = abs((2 * j + 1) / cols - 1)


@njit(cache=True, nogil=True)
def around(x: Floats, step: int) -> Floats:
    """(rows cols, 9 channels): 3 x 3 blocks of x `step` apart around each; zeros beyond x."""
    rows, cols, channels = x.shape
    out = np.zeros((rows * cols, 9 * channels), np.float32)
    for i in range(rows):
        for j in range(cols):
            line = out[i * cols + j]
            for a in range(3):
                y = i + (a - 1) * step
                if y < 0 or y >= rows:
                    continue
                for b in range(3):
                    z = j + (b - 1) * step
                    if z < 0 or z >= cols:
                        continue
                    start = (3 * a + b) * channels
                    for c in range(channels):
                        line[start + c] = x[y, z, c]
    return out


@njit(cache=True, nogil=True, fastmath=True)
def likeness(x: Floats) -> Floats:
    """(2 blocks, blocks): how alike the mean colours of blocks are, coarsely; and then finely.

    (1 + d^2)^-2 and (1 + d^2)^-8, each row divided by its sum: like exp(-d^2), but cheaper.
    """
    rows, cols = x.shape[:2]
    blocks = rows * cols
    mean = np.zeros((3, blocks), np.float32)
    for n in range(blocks):
        for q in range(12):
            mean[q % 3, n] += x[n // cols, n % cols, 2 + q] / np.float32(4)
    first, second, third = mean
    out = np.empty((2 * blocks, blocks), np.float32)
    for n in range(blocks):
        coarse, fine = out[n], out[blocks + n]
        light, green, blue = first[n], second[n], third[n]
        # One thing at a time: short loops are done for many blocks at once.
        for m in range(blocks):
            away = np.float32(1) + (light - first[m]) ** 2
            away += (green - second[m]) ** 2 + (blue - third[m]) ** 2
            coarse[m] = np.float32(1) / (away * away)
        all_coarse, all_fine = np.float32(0), np.float32(0)
        for m in range(blocks):
            all_coarse += coarse[m]
        for m in range(blocks):
            near = coarse[m] * coarse[m]
            fine[m] = near * near
            all_fine += fine[m]
        for m in range(blocks):
            coarse[m] /= all_coarse
        for m in range(blocks):
            fine[m] /= all_fine
    return out


@njit(cache=True, nogil=True)
def pooled(h: Floats, alike: Floats) -> Floats:
    """(blocks, 4 C): h, its means over the blocks alike, and its mean over the window."""
    blocks, channels = h.shape
    out = np.empty((blocks, 4 * channels), np.float32)
    means = np.dot(alike, h)
    mean = np.zeros(channels, np.float32)
    for n in range(blocks):
        for c in range(channels):
            mean[c] += h[n, c]
    for n in range(blocks):
        for c in range(channels):
            out[n, c] = h[n, c]
            out[n, channels + c] = means[n, c]
            out[n, 2 * channels + c] = means[blocks + n, c]
            out[n, 3 * channels + c] = mean[c] / np.float32(blocks)
    return out


@njit(cache=True, nogil=True)
def rectified(x: Floats, bias: Floats) -> Floats:
    """max(x + bias, 0), in place."""
    for n in range(len(x)):
        for c in range(len(bias)):
            x[n, c] = max(x[n, c] + bias[c], np.float32(0))
    return x
