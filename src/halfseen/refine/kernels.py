"""Compiled loops of the stages: logits, responses and colours of the blocks of windows.

And `cut`, the one way in which stages ask for a minimum cut.
"""

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.visibility.infer import best_flags

# Pixels looked at along each side of a block, or a quarter of one, for its mean colour; even, as a
# sample in the middle could lie between two pixels.
SAMPLES = 4
# How much of the block they span: not all, so that none lies between two pixels, and a mirrored
# image has mirrored colours.
SPREAD = 0.97

# From linear RGB (sRGB's primaries) to XYZ relative to the white D65.
_XYZ = np.array(
    [[0.4339, 0.3763, 0.1898], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8727]], np.float32
)
# Powers are looked up, and between two entries drawn as lines: within 0.01 of Lab's numbers.
_VALUES, _STEPS = np.arange(256) / 255, np.arange(4097) / 4096
_LINEAR = np.where(_VALUES <= 0.04045, _VALUES / 12.92, ((_VALUES + 0.055) / 1.055) ** 2.4)
_ROOTS = np.where(_STEPS > 0.008856, np.cbrt(_STEPS), 7.787 * _STEPS + 16 / 116)
_TABLES = _LINEAR.astype(np.float32), _XYZ, _ROOTS.astype(np.float32)


@njit(cache=True, nogil=True, fastmath=True)
def hidden_logits(
    features: Float32, top: Int64, left: Int64, weights: Float32, bias: Float32
) -> Float32:
    """(N, rows, cols): bias_i + weights_i . (3 x 3 blocks around block i) of N windows of a level.

    `top` and `left` are the windows' first blocks. A neighbour outside the level (H, W, channels)
    is replaced by the nearest block within.
    """
    height, width, channels = features.shape
    rows, cols = bias.shape
    out = np.empty((len(top), rows, cols), np.float32)
    # The features may lie in memory in any order; a window of them, in that of the weights.
    window = np.empty((rows + 2, cols + 2, channels), np.float32)
    lines = window.reshape(rows + 2, (cols + 2) * channels)
    three = weights.reshape(rows, cols, 3, 3 * channels)
    for n in range(len(top)):
        for i in range(rows + 2):
            y = min(max(top[n] + i - 1, 0), height - 1)
            for j in range(cols + 2):
                x = min(max(left[n] + j - 1, 0), width - 1)
                for c in range(channels):
                    window[i, j, c] = features[y, x, c]
        for i in range(rows):
            for j in range(cols):
                total = bias[i, j]
                for a in range(3):
                    around, weight = lines[i + a, j * channels :], three[i, j, a]
                    for c in range(3 * channels):
                        total += around[c] * weight[c]
                out[n, i, j] = total
    return out


@njit(cache=True, nogil=True)
def block_colours(image: UInt8, windows: Float64, rows: int, cols: int) -> Float32:
    """(N, rows, cols, 3): mean RGB of a grid of pixels in each block of windows (N, 4) in pixels.

    Beyond the image, its nearest pixel is taken.
    """
    height, width = image.shape[:2]
    out = np.empty((len(windows), rows, cols, 3), np.float32)
    share = np.float32(1 / (SAMPLES * SAMPLES))
    for n in range(len(windows)):
        y = _samples(windows[n, 1], windows[n, 3], rows, height)
        x = _samples(windows[n, 0], windows[n, 2], cols, width)
        for i in range(rows):
            for j in range(cols):
                red = green = blue = 0
                for k in range(i * SAMPLES, (i + 1) * SAMPLES):
                    for m in range(j * SAMPLES, (j + 1) * SAMPLES):
                        pixel = image[y[k], x[m]]
                        red += pixel[0]
                        green += pixel[1]
                        blue += pixel[2]
                out[n, i, j, 0], out[n, i, j, 1] = red * share, green * share
                out[n, i, j, 2] = blue * share
    return out


@njit(cache=True, nogil=True)
def _samples(low: float, high: float, count: int, size: int) -> Int64:
    """The pixels sampled along one side of a window, SAMPLES for each of its blocks."""
    unit = (high - low) / count
    out = np.empty(count * SAMPLES, np.int64)
    for k in range(count * SAMPLES):
        place = k // SAMPLES + 0.5 + SPREAD * ((k % SAMPLES + 0.5) / SAMPLES - 0.5)
        out[k] = min(max(int(np.floor(low + place * unit)), 0), size - 1)
    return out


@njit(cache=True, nogil=True)
def place_blocks(
    around: Float64,
    unit: Float64,
    boxes: Float64,
    shape: tuple[int, int],
    size: tuple[int, int],
    near: float,
) -> tuple[Bool, Bool, Bool, Float32]:
    """Four arrays (N, rows, cols) of the blocks of N grids: see `figure.Surroundings`.

    The grids `around` (N, 4) have blocks with sides `unit` (N, 2), in an image of (height, width)
    `size`, around `boxes` (N, 4). `near` is in blocks. Ties are decided by a hair, so that a
    mirrored image decides them as this one.
    """
    rows, cols = shape
    height, width = size
    known = np.empty((len(boxes), rows, cols), np.bool_)
    inside, ground = np.empty_like(known), np.empty_like(known)
    place = np.empty((len(boxes), rows, cols), np.float32)
    for n in range(len(boxes)):
        x, y, wide, high = around[n, 0], around[n, 1], unit[n, 0], unit[n, 1]
        in_x, near_x, share_x, place_x = _along(
            x, wide, cols, boxes[n, 0], boxes[n, 2], width, near
        )
        in_y, near_y, share_y, place_y = _along(
            y, high, rows, boxes[n, 1], boxes[n, 3], height, near
        )
        for i in range(rows):
            for j in range(cols):
                known[n, i, j] = in_y[i] and in_x[j]
                inside[n, i, j] = share_y[i] * share_x[j] > 0.501
                ground[n, i, j] = known[n, i, j] and near_y[i] and near_x[j] and not inside[n, i, j]
                place[n, i, j] = min(place_y[i], place_x[j])
    return known, inside, ground, place


@njit(cache=True, nogil=True)
def _along(
    start: float, unit: float, count: int, first: float, last: float, length: int, near: float
) -> tuple[Bool, Bool, Float64, Float64]:
    """Return four arrays of a row of blocks.

    Whether each lies in an image of this length, and near the box's sides; its share between these,
    and its place, from 0 at either of them to 1 in the middle.
    """
    known, beside = np.empty(count, np.bool_), np.empty(count, np.bool_)
    share, place = np.empty(count), np.empty(count)
    middle, half = (first + last) / 2, max(last - first, 1e-6) / 2
    for i in range(count):
        low = start + unit * i
        high, centre = low + unit, low + unit / 2
        distance = abs(centre - middle)
        known[i] = centre > 1e-6 and centre < length - 1e-6
        beside[i] = distance < half + near * unit + 1e-6
        share[i] = max(min(high, last) - max(low, first), 0.0) / unit
        place[i] = min(max(1 - distance / half, 0.0), 1.0)
    return known, beside, share, place


@njit(cache=True, nogil=True, fastmath=True)
def colour_evidence(
    colours: Float32,
    figure: Float32,
    ground: Bool,
    wanted: Bool,
    width: float,
    unseen: float,
) -> Float32:
    """(N, rows, cols): log of the density of a block's colour in the figure over the ground's.

    The densities are means of exp(-d^2 / (2 width^2)) over the other blocks, weighted by `figure`
    and `ground`, plus `unseen`; 0 where not wanted. d is the distance of two `colours`.
    """
    count, rows, cols = colours.shape[:3]
    size = rows * cols
    # (1 - y + y^2 / 2 - y^3 / 6)^64 with y = x / 64 for exp(-x): good to 3e-6, and six squarings
    # are done for many blocks at once.
    scale = np.float32(1 / (2 * width * width * 64))
    out = np.zeros((count, rows, cols), np.float32)
    first, second, third, alike, weight, behind = np.empty((6, size), np.float32)
    for n in range(count):
        # Blocks that are neither have no say.
        counted = 0
        total, number = np.float32(0), np.float32(0)
        for i in range(rows):
            for j in range(cols):
                if figure[n, i, j] > 0 or ground[n, i, j]:
                    first[counted], second[counted], third[counted] = colours[n, i, j]
                    weight[counted], behind[counted] = figure[n, i, j], ground[n, i, j]
                    total += weight[counted]
                    number += behind[counted]
                    counted += 1
        for p in range(size):
            i, j = p // cols, p % cols
            if not wanted[n, i, j]:
                continue
            light, green, blue = colours[n, i, j]
            for q in range(counted):
                y = scale * (
                    (light - first[q]) ** 2 + (green - second[q]) ** 2 + (blue - third[q]) ** 2
                )
                y = min(y, np.float32(1))
                like = np.float32(1) - y * (
                    np.float32(1) - y * (np.float32(1 / 2) - y * np.float32(1 / 6))
                )
                like *= like
                like *= like
                like *= like
                like *= like
                like *= like
                like *= like
                alike[q] = like
            # The block itself does not count.
            near, far = -figure[n, i, j], -np.float32(ground[n, i, j])
            for q in range(counted):
                near += alike[q] * weight[q]
                far += alike[q] * behind[q]
            here = max(far, np.float32(0)) / max(number, np.float32(1))
            there = max(near, np.float32(0)) / max(total, np.float32(1e-6))
            out[n, i, j] = np.log((there + unseen) / (here + unseen))
    return out


def cut(unary: Float32, out: Bool, colours: Float32, contrast: float, alpha: ArrayLike) -> Bool:
    """(N, rows, cols) True where a block belongs to what `unary` speaks for: the exact optimum.

    unary     (N, rows, cols): above 0 where a block by itself belongs to it
    out       (N, rows, cols) blocks that take no part: False in the result
    colours   (N, rows, cols, 3) in Lab: neighbours of like colours are hard to part
    contrast  how hard: see `contrast_edges`
    alpha     the Ising weight, (N,) or one for all
    """
    weight = np.asarray(alpha, np.float32).reshape(-1, 1, 1)
    across, down = contrast_edges(colours, contrast)
    return best_flags(unary, out, (weight * across, weight * down))


@njit(cache=True, nogil=True)
def contrast_edges(colours: Float32, contrast: float) -> tuple[Float32, Float32]:
    """Weights of the horizontal and vertical pairs of blocks of Lab colours (N, rows, cols, 3).

    exp(-contrast d^2 / mean d^2), d the distance of their colours, and the mean over the window:
    (N, rows, cols - 1) and (N, rows - 1, cols).
    """
    count, rows, cols = colours.shape[:3]
    across = np.zeros((count, rows, cols - 1), np.float32)
    down = np.zeros((count, rows - 1, cols), np.float32)
    pairs = max(rows * (cols - 1) + (rows - 1) * cols, 1)
    for n in range(count):
        total = 0.0
        for i in range(rows):
            for j in range(cols):
                for c in range(3):
                    here = colours[n, i, j, c]
                    if j + 1 < cols:
                        across[n, i, j] += (colours[n, i, j + 1, c] - here) ** 2
                    if i + 1 < rows:
                        down[n, i, j] += (colours[n, i + 1, j, c] - here) ** 2
                if j + 1 < cols:
                    total += across[n, i, j]
                if i + 1 < rows:
                    total += down[n, i, j]
        fall = np.float32(-contrast / (total / pairs + 1e-6))
        for edges in (across[n], down[n]):
            for i in range(edges.shape[0]):
                for j in range(edges.shape[1]):
                    edges[i, j] = np.exp(fall * edges[i, j])
    return across, down


def lab(rgb: Float32) -> Float32:
    """CIE Lab (but for the constant of L) of sRGB colours (..., 3) in 0..255."""
    return _lab_colours(rgb.reshape(-1, 3), *_TABLES).reshape(rgb.shape)


@njit(cache=True, nogil=True)
def _lab_colours(rgb: Float32, linear: Float32, xyz: Float32, roots: Float32) -> Float32:
    """(N, 3): Lab of colours (N, 3) in 0..255, by tables of both powers: see `lab`."""
    out = np.empty(rgb.shape, np.float32)
    light, cube = np.empty(3, np.float32), np.empty(3, np.float32)
    last, steps = len(linear) - 2, len(roots) - 1
    for n in range(len(rgb)):
        for c in range(3):
            value = rgb[n, c]
            k = min(max(int(value), 0), last)
            light[c] = linear[k] + (value - k) * (linear[k + 1] - linear[k])
        for c in range(3):
            value = steps * (xyz[c, 0] * light[0] + xyz[c, 1] * light[1] + xyz[c, 2] * light[2])
            k = min(int(value), steps - 1)
            cube[c] = roots[k] + (value - k) * (roots[k + 1] - roots[k])
        out[n, 0] = 116 * cube[1]
        out[n, 1] = 500 * (cube[0] - cube[1])
        out[n, 2] = 200 * (cube[1] - cube[2])
    return out
