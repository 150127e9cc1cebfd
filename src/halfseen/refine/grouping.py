"""Applies the grouping network to the logits of a mask head.

Windows are taken one by one: the result of one does not depend, to the last bit, on the others.
"""

import numpy as np
from numba import njit
from numpy.lib.stride_tricks import as_strided

from halfseen.arrays import Bool, Float32
from halfseen.model.mask_head import INPUTS, HiddenSettings

# Windows that the caches hold.
AT_ONCE = 4


def group(
    network: dict[str, Float32],
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


def forward(inputs: Float32, net: dict[str, Float32]) -> Float32:
    """(N, rows, cols): the network of a `Grouping` on inputs (N, rows, cols, INPUTS)."""
    out = np.empty(inputs.shape[:3], np.float32)
    for start in range(0, len(inputs), AT_ONCE):
        run = slice(start, start + AT_ONCE)
        out[run] = _forward(inputs[run], net)
    return out


def _forward(inputs: Float32, net: dict[str, Float32]) -> Float32:
    shape = inputs.shape[:3]
    alike = likeness(inputs)
    h = _rectified(_around(inputs, 1), net["enter"], net["enter_bias"])
    h = _rectified(_around(h.reshape(*shape, -1), 2), net["wide"], net["wide_bias"])
    h = _rectified(_pooled(h, alike), net["pool"], net["pool_bias"])
    h += _rectified(_around(h.reshape(*shape, -1), 2), net["again"], net["again_bias"])
    h = _rectified(_pooled(h, alike), net["repool"], net["repool_bias"])
    logits = _around(h.reshape(*shape, -1), 1) @ net["leave"] + net["leave_bias"]
    return np.asarray(logits.reshape(shape) + net["gain"] * inputs[..., 0], np.float32)


def _rectified(x: Float32, weights: Float32, bias: Float32) -> Float32:
    """max(x weights + bias, 0): a product for each window, so that it is its own affair."""
    h: Float32 = x @ weights
    h += bias
    return np.maximum(h, np.float32(0), out=h)


def _around(x: Float32, step: int) -> Float32:
    """(N, rows cols, 9 channels): 3 x 3 blocks of x `step` apart around each; zeros beyond x."""
    count, rows, cols, channels = x.shape
    wide = np.zeros((count, rows + 2 * step, cols + 2 * step, channels), np.float32)
    wide[:, step:-step, step:-step] = x
    far, down, right, next_one = wide.strides
    nine = as_strided(
        wide,
        (count, rows, cols, 3, 3, channels),
        (far, down, right, step * down, step * right, next_one),
        writeable=False,
    )
    return nine.reshape(count, rows * cols, 9 * channels)


def _pooled(h: Float32, alike: Float32) -> Float32:
    """(N, blocks, 4 C): h, its means over the blocks alike, and its mean over the window."""
    count, blocks, channels = h.shape
    out = np.empty((count, blocks, 4, channels), np.float32)
    out[:, :, 0] = h
    means = (alike @ h).reshape(count, 2, blocks, channels)
    out[:, :, 1:3] = means.transpose(0, 2, 1, 3)
    out[:, :, 3] = h.mean(1, keepdims=True)
    return out.reshape(count, blocks, 4 * channels)


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


@njit(cache=True, nogil=True, fastmath=True)
def likeness(x: Float32) -> Float32:
    """(N, 2 blocks, blocks): how alike the mean colours of blocks are, coarsely; and then finely.

    (1 + d^2)^-2 and (1 + d^2)^-8, each row divided by its sum: like exp(-d^2), but cheaper.
    """
    count, rows, cols = x.shape[:3]
    blocks = rows * cols
    mean = np.empty((3, blocks), np.float32)
    out = np.empty((count, 2 * blocks, blocks), np.float32)
    one, quarter = np.float32(1), np.float32(0.25)
    first, second, third = mean[0], mean[1], mean[2]
    for k in range(count):
        for n in range(blocks):
            own = x[k, n // cols, n % cols]
            for c in range(3):
                mean[c, n] = quarter * (own[2 + c] + own[5 + c] + own[8 + c] + own[11 + c])
        for n in range(blocks):
            coarse, fine = out[k, n], out[k, blocks + n]
            light, green, blue = first[n], second[n], third[n]
            # One thing at a time: short loops are done for many blocks at once.
            all_coarse, all_fine = np.float32(0), np.float32(0)
            for m in range(blocks):
                a, b, c = light - first[m], green - second[m], blue - third[m]
                distance = one + a * a + b * b + c * c
                near = one / (distance * distance)
                coarse[m] = near
                all_coarse += near
                near *= near
                near *= near
                fine[m] = near
                all_fine += near
            all_coarse, all_fine = one / all_coarse, one / all_fine
            for m in range(blocks):
                coarse[m] *= all_coarse
                fine[m] *= all_fine
    return out
