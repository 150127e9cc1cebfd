"""Compiled loops of masks: the head's logits of the blocks of windows, and the blocks' colours."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

# Pixels looked at along each side of a block, or a quarter of one, for its mean colour; even, as a
# sample in the middle could lie between two pixels.
SAMPLES = 4
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
def hidden_share(logits: Floats, outside: NDArray[np.bool_]) -> Floats:
    """(N,): the mean probability of being hidden of the blocks that are not outside."""
    count, rows, cols = logits.shape
    out = np.zeros(count, np.float32)
    for n in range(count):
        total, inside = 0.0, 0
        for i in range(rows):
            for j in range(cols):
                if not outside[n, i, j]:
                    total += 1 / (1 + np.exp(-np.float64(logits[n, i, j])))
                    inside += 1
        out[n] = total / max(inside, 1)
    return out


@njit(cache=True, nogil=True, fastmath=True)
def block_responses(features: Floats, top: Places, left: Places, weights: Floats) -> Floats:
    """(N, rows, cols): weights_i . block i of N windows of a level; 0 for a block beyond it."""
    height, width, channels = features.shape
    rows, cols = weights.shape[:2]
    out = np.zeros((len(top), rows, cols), np.float32)
    for n in range(len(top)):
        for i in range(max(-top[n], 0), min(rows, height - top[n])):
            for j in range(max(-left[n], 0), min(cols, width - left[n])):
                total = np.float32(0)
                for c in range(channels):
                    total += features[top[n] + i, left[n] + j, c] * weights[i, j, c]
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
def _samples(low: float, high: float, count: int, size: int) -> Places:
    """The pixels looked at along one side of a window, SAMPLES for each of its blocks."""
    unit = (high - low) / count
    out = np.empty(count * SAMPLES, np.int64)
    for k in range(count * SAMPLES):
        place = k // SAMPLES + 0.5 + SPREAD * ((k % SAMPLES + 0.5) / SAMPLES - 0.5)
        out[k] = min(max(int(np.floor(low + place * unit)), 0), size - 1)
    return out


@njit(cache=True, nogil=True)
def place_blocks(
    around: NDArray[np.float64],
    unit: NDArray[np.float64],
    boxes: NDArray[np.float64],
    height: int,
    width: int,
    near: float,
    known: NDArray[np.bool_],
    inside: NDArray[np.bool_],
    ground: NDArray[np.bool_],
    place: Floats,
) -> None:
    """Fills (K N, rows, cols), of the blocks of N grids `around` (N, 4), whose blocks have sides
    `unit` (N, 2), and of K boxes of each: see `figure.Surroundings`. `near` is in blocks.

    Ties are decided by a hair, so that a mirrored image decides them as this one.
    """
    count, rows, cols = known.shape
    for k in range(count):
        n = k % len(around)
        x, y, wide, high = around[n, 0], around[n, 1], unit[n, 0], unit[n, 1]
        in_x, near_x, share_x, place_x = _along(
            x, wide, cols, boxes[k, 0], boxes[k, 2], width, near
        )
        in_y, near_y, share_y, place_y = _along(
            y, high, rows, boxes[k, 1], boxes[k, 3], height, near
        )
        for i in range(rows):
            for j in range(cols):
                known[k, i, j] = in_y[i] and in_x[j]
                inside[k, i, j] = share_y[i] * share_x[j] > 0.501
                ground[k, i, j] = known[k, i, j] and near_y[i] and near_x[j] and not inside[k, i, j]
                place[k, i, j] = min(place_y[i], place_x[j])


@njit(cache=True, nogil=True)
def _along(
    start: float, unit: float, count: int, first: float, last: float, length: int, near: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Of a row of blocks whether each lies in an image of this length, and near the box's sides;
    its share between these, and its place, from 0 at either of them to 1 in the middle.
    """
    known, beside = np.empty(count, np.bool_), np.empty(count, np.bool_)
    share, place = np.empty(count), np.empty(count)
    middle, half = (first + last) / 2, max(last - first, 1e-6) / 2
    for i in range(count):
        low = start + unit * i
        high, centre = low + unit, low + unit / 2
        away = abs(centre - middle)
        known[i] = centre > 1e-6 and centre < length - 1e-6
        beside[i] = away < half + near * unit + 1e-6
        share[i] = max(min(high, last) - max(low, first), 0.0) / unit
        place[i] = min(max(1 - away / half, 0.0), 1.0)
    return known, beside, share, place


@njit(cache=True, nogil=True, fastmath=True)
def colour_evidence(
    colours: Floats,
    figure: Floats,
    ground: NDArray[np.bool_],
    asked: NDArray[np.bool_],
    width: float,
    unseen: float,
) -> Floats:
    """(K N, rows, cols): log of the density of a block's colour in the figure over the ground's.

    The densities are means of exp(-d^2 / (2 width^2)) over the other blocks, weighted by `figure`
    and `ground`, plus `unseen`; 0 where not asked. d is the distance of colours (N, rows, cols, 3):
    of each window there are K figures and grounds, first one of all windows, then another of all.
    """
    windows, rows, cols = colours.shape[:3]
    size, count = rows * cols, len(figure) // max(len(colours), 1)
    # (1 - y + y^2 / 2 - y^3 / 6)^64 with y = x / 64 for exp(-x): good to 3e-6, and six squarings
    # are done for many blocks at once.
    scale = np.float32(1 / (2 * width * width * 64))
    out = np.zeros((count * windows, rows, cols), np.float32)
    first, second, third, alike = np.empty((4, size), np.float32)
    weight, behind = np.empty((count, size), np.float32), np.empty((count, size), np.float32)
    total, number = np.empty(count, np.float32), np.empty(count, np.float32)
    for n in range(windows):
        # Blocks that are neither have no say.
        counted = 0
        total[:], number[:] = 0, 0
        for i in range(rows):
            for j in range(cols):
                some = False
                for k in range(count):
                    m = k * windows + n
                    weight[k, counted], behind[k, counted] = figure[m, i, j], ground[m, i, j]
                    total[k] += weight[k, counted]
                    number[k] += behind[k, counted]
                    some |= figure[m, i, j] > 0 or ground[m, i, j]
                if some:
                    first[counted], second[counted], third[counted] = colours[n, i, j]
                    counted += 1
        for p in range(size):
            i, j = p // cols, p % cols
            wanted = False
            for k in range(count):
                wanted |= asked[k * windows + n, i, j]
            if not wanted:
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
            for k in range(count):
                m = k * windows + n
                if not asked[m, i, j]:
                    continue
                # The block itself does not count.
                near, far = -figure[m, i, j], -np.float32(ground[m, i, j])
                for q in range(counted):
                    near += alike[q] * weight[k, q]
                    far += alike[q] * behind[k, q]
                here = max(far, np.float32(0)) / max(number[k], np.float32(1))
                there = max(near, np.float32(0)) / max(total[k], np.float32(1e-6))
                out[m, i, j] = np.log((there + unseen) / (here + unseen))
    return out


@njit(cache=True, nogil=True)
def edge_weights(colours: Floats, contrast: float) -> tuple[Floats, Floats]:
    """(N, rows, cols - 1) and (N, rows - 1, cols): see `contrast_edges`."""
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


@njit(cache=True, nogil=True)
def mean_on_outline(
    grids: NDArray[np.bool_], neither: NDArray[np.bool_], horizontal: Floats, vertical: Floats
) -> NDArray[np.float64]:
    """(N,): the mean weight of the pairs of blocks of which one is in the grid and one is not; NaN
    where there is none. Pairs with a block that is `neither` do not count. The pairs' weights are
    those of `edge_weights`.
    """
    count, rows, cols = grids.shape
    out = np.zeros(count)
    for n in range(count):
        total, pairs = 0.0, 0
        for i in range(rows):
            for j in range(cols):
                if neither[n, i, j]:
                    continue
                own = grids[n, i, j]
                if j + 1 < cols and grids[n, i, j + 1] != own and not neither[n, i, j + 1]:
                    total += horizontal[n, i, j]
                    pairs += 1
                if i + 1 < rows and grids[n, i + 1, j] != own and not neither[n, i + 1, j]:
                    total += vertical[n, i, j]
                    pairs += 1
        out[n] = total / pairs if pairs else np.nan
    return out


@njit(cache=True, nogil=True)
def wide_extents(grids: NDArray[np.bool_], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, 4, S), in blocks: the box from the first to the last row and column of each grid that
    hold at least each of these shares of what the fullest one does; NaN for an empty grid.
    """
    count, rows, cols = grids.shape
    out = np.full((count, 4, len(shares)), np.nan)
    for n in range(count):
        down, across = np.zeros(rows, np.int64), np.zeros(cols, np.int64)
        for i in range(rows):
            for j in range(cols):
                down[i] += grids[n, i, j]
                across[j] += grids[n, i, j]
        if down.max() == 0:
            continue
        for k, held in enumerate((across, down)):
            for m, share in enumerate(shares):
                least = max(share * held.max(), 1e-9)
                first, last = 0, len(held) - 1
                while held[first] < least:
                    first += 1
                while held[last] < least:
                    last -= 1
                out[n, k, m], out[n, k + 2, m] = first, last + 1
    return out
