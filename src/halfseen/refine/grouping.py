"""Applies the grouping network to the logits of a mask head: compiled loops.

Windows are taken one by one: the result of one does not depend, to the last bit, on the others.
"""

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float32
from halfseen.model.mask_head import INPUTS, HiddenSettings, Network


def group(
    network: Network,
    logits: Float32,
    quarters: Float32,
    outside: Bool,
    settings: HiddenSettings,
) -> Float32:
    """New logits (N, rows, cols), each decided with those of the whole window.

    quarters   (N, 2 rows, 2 cols, 3): Lab colours of the quarters of the blocks
    """
    if not len(logits):
        return logits
    return forward(inputs(logits, quarters, outside, settings), network)


def inputs(logits: Float32, quarters: Float32, outside: Bool, settings: HiddenSettings) -> Float32:
    """(N, rows, cols, INPUTS): what the network knows of each block.

    Its logit, whether it is outside, how its quarters' colours differ from the window's mean, its
    row and its column.
    """
    out = np.empty((*logits.shape, INPUTS), np.float32)
    units = (1 / settings.logit_unit, 1 / settings.colour_unit)
    block_inputs(out, logits, quarters, outside, settings.clip, *units)
    return out


@njit(cache=True, nogil=True)
def forward(inputs: Float32, net: Network) -> Float32:
    """(N, rows, cols): the network `net` of `Grouping` on inputs (N, rows, cols, INPUTS)."""
    count, rows, cols = inputs.shape[:3]
    out = np.empty((count, rows, cols), np.float32)
    for n in range(count):
        x = inputs[n]
        alike = likeness(x)
        h = rectified(np.dot(around(x, 1), net.enter), net.enter_bias)
        h = rectified(np.dot(around(h.reshape(rows, cols, -1), 2), net.wide), net.wide_bias)
        h = rectified(np.dot(pooled(h, alike), net.pool), net.pool_bias)
        h += rectified(np.dot(around(h.reshape(rows, cols, -1), 2), net.again), net.again_bias)
        h = rectified(np.dot(pooled(h, alike), net.repool), net.repool_bias)
        logits = np.dot(around(h.reshape(rows, cols, -1), 1), net.leave) + net.leave_bias
        for i in range(rows):
            for j in range(cols):
                out[n, i, j] = logits[i * cols + j, 0] + net.gain[0] * x[i, j, 0]
    return out


@njit(cache=True, nogil=True)
def block_inputs(
    out: Float32,
    logits: Float32,
    quarters: Float32,
    outside: Bool,
    clip: float,
    logit_scale: float,
    colour_scale: float,
) -> None:
    """Fills `out` (N, rows, cols, INPUTS): see `inputs`."""
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
def around(x: Float32, step: int) -> Float32:
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
def likeness(x: Float32) -> Float32:
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
            distance = np.float32(1) + (light - first[m]) ** 2
            distance += (green - second[m]) ** 2 + (blue - third[m]) ** 2
            coarse[m] = np.float32(1) / (distance * distance)
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
def pooled(h: Float32, alike: Float32) -> Float32:
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
def rectified(x: Float32, bias: Float32) -> Float32:
    """max(x + bias, 0), in place."""
    for n in range(len(x)):
        for c in range(len(bias)):
            x[n, c] = max(x[n, c] + bias[c], np.float32(0))
    return x
