"""Compiled loops of the mask head: logits of the blocks of windows, and the blocks' colours."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

# Pixels looked at along each side of a block for its mean colour.
SAMPLES = 6
# How much of the block they span: not all, so that none lies between two pixels, and a mirrored
# image has mirrored colours.
SPREAD = 0.97


@njit(cache=True, nogil=True, fastmath=True)
def hidden_logits(
    features: Floats, top: Places, left: Places, weights: Floats, bias: Floats
) -> Floats:
    """(N, rows, cols): bias_i + weights_i . (3 x 3 blocks around block i) of N windows of a level.

    `top` and `left` are the windows' first blocks. A neighbour outside the level (H, W, channels)
    is replaced by the nearest block within.
    """
    height, width, channels = features.shape
    rows, cols = bias.shape
    out = np.empty((len(top), rows, cols), np.float32)
    for n in range(len(top)):
        for i in range(rows):
            for j in range(cols):
                total = bias[i, j]
                for a in range(3):
                    y = min(max(top[n] + i + a - 1, 0), height - 1)
                    for b in range(3):
                        x = min(max(left[n] + j + b - 1, 0), width - 1)
                        around, weight = features[y, x], weights[i, j, a, b]
                        part = np.float32(0)
                        for c in range(channels):
                            part += around[c] * weight[c]
                        total += part
                out[n, i, j] = total
    return out


@njit(cache=True, nogil=True)
def block_colours(
    image: NDArray[np.uint8], windows: NDArray[np.float64], rows: int, cols: int
) -> Floats:
    """(N, rows, cols, 3): mean RGB of a grid of pixels in each block of windows (N, 4) in pixels.

    Beyond the image, its nearest pixel is taken.
    """
    height, width = image.shape[:2]
    out = np.zeros((len(windows), rows, cols, 3), np.float32)
    for n in range(len(windows)):
        unit_x = (windows[n, 2] - windows[n, 0]) / cols
        unit_y = (windows[n, 3] - windows[n, 1]) / rows
        for k in range(rows * SAMPLES):
            place = k // SAMPLES + 0.5 + SPREAD * ((k % SAMPLES + 0.5) / SAMPLES - 0.5)
            y = min(max(int(np.floor(windows[n, 1] + place * unit_y)), 0), height - 1)
            for m in range(cols * SAMPLES):
                place = m // SAMPLES + 0.5 + SPREAD * ((m % SAMPLES + 0.5) / SAMPLES - 0.5)
                x = min(max(int(np.floor(windows[n, 0] + place * unit_x)), 0), width - 1)
                for c in range(3):
                    out[n, k // SAMPLES, m // SAMPLES, c] += image[y, x, c]
    return out / np.float32(SAMPLES * SAMPLES)
