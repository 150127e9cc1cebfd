"""Compiled loops of the paper's HOG: cell histograms and block normalisation."""

import math

import numpy as np
from numba import njit

from halfseen.arrays import Float32
from halfseen.features.kernels import gradient_row


@njit(cache=True, nogil=True, fastmath=True)
def soft_histograms(level: Float32, cell: int, bins: int) -> Float32:
    """(bins, rows, cols) histograms of unsigned orientation, interpolated in angle and in place.

    A pixel's magnitude is shared linearly between the two nearest bins and bilinearly between the
    four nearest cells. Bin k is centred at (k + 0.5) pi / bins. Pixels beyond the last whole cell
    do not vote.

    Votes are gathered by gap, which is what lies between the centres of two neighbouring cells of a
    row: for each gap and bin one number for the cell on its left and one for that on its right, so
    that a pixel's four votes are neighbours in memory. A bin too many takes the votes that wrap.
    """
    _, height, width = level.shape
    rows, cols = height // cell, width // cell
    used = cols * cell
    stride = 2 * (bins + 1)
    # Two more at the end: an angle just below the first bin's centre may round to the bin too many,
    # and then gives the bin after it a vote of 0.
    length = (cols + 1) * stride + 2
    gaps, line = np.zeros((rows + 1, length), np.float32), np.zeros(length, np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    best = np.empty(width, np.float32)
    low_vote, high_vote = np.empty(width, np.float32), np.empty(width, np.float32)
    low_place = np.empty(width, np.uint32)
    per_radian = np.float32(bins / math.pi)
    half, one, turn = np.float32(0.5), np.float32(1), np.float32(bins)
    for y in range(rows * cell):
        gradient_row(level, y, dx, dy, best)
        for x in range(used):
            # arctan of the smaller over the larger side by a polynomial (error below 2e-6 rad),
            # unfolded to [0, pi).
            ax, ay = abs(dx[x]), abs(dy[x])
            small, large = min(ax, ay), max(ax, ay)
            ratio = small / max(large, np.float32(1e-12))
            square = ratio * ratio
            angle = ratio * (
                np.float32(0.99997726)
                + square * (np.float32(-0.33262347) + square * (np.float32(0.19354346)
                + square * (np.float32(-0.11643287) + square * (np.float32(0.05265332)
                + square * np.float32(-0.01172120)))))
            )  # fmt: skip
            angle = np.float32(math.pi / 2) - angle if ay > ax else angle
            angle = np.float32(math.pi) - angle if dx[x] * dy[x] < 0 else angle
            place = angle * per_radian - half
            place = place + turn if place < 0 else place
            low = np.int32(place)
            size = math.sqrt(best[x])
            high_vote[x] = size * (place - np.float32(low))
            low_vote[x] = size - high_vote[x]
            low_place[x] = np.uint32(2 * low)
        # Pixels one cell apart in turn: neighbours would wait for each other's sums.
        for start in range(cell):
            centre = (start + 0.5) / cell - 0.5
            gap = math.floor(centre)
            right = np.float32(centre - gap)
            left = one - right
            base, pixel = np.uintp((gap + 1) * stride), np.uintp(start)
            for _ in range(cols):
                low_k = base + np.uintp(low_place[pixel])
                high_k = low_k + np.uintp(2)
                votes, more = low_vote[pixel], high_vote[pixel]
                low_left = line[low_k] + left * votes
                low_right = line[low_k + np.uintp(1)] + right * votes
                high_left = line[high_k] + left * more
                high_right = line[high_k + np.uintp(1)] + right * more
                line[low_k] = low_left
                line[low_k + np.uintp(1)] = low_right
                line[high_k] = high_left
                line[high_k + np.uintp(1)] = high_right
                base += np.uintp(stride)
                pixel += np.uintp(cell)
        centre = (y + 0.5) / cell - 0.5
        top = math.floor(centre)
        below = np.float32(centre - top)
        above = one - below if top >= 0 else np.float32(0)
        upper, lower = gaps[max(top, 0)], gaps[top + 1]
        for k in range(length):
            upper[k] += above * line[k]
            lower[k] += below * line[k]
            line[k] = 0
    hist = np.empty((bins, rows, cols), np.float32)
    for r in range(rows):
        # Cell c lies right of gap c and left of gap c + 1.
        before, after = gaps[r, 1:], gaps[r, stride:]
        for k in range(bins):
            for c in range(cols):
                hist[k, r, c] = before[c * stride + 2 * k] + after[c * stride + 2 * k]
        for c in range(cols):
            hist[0, r, c] += before[c * stride + 2 * bins] + after[c * stride + 2 * bins]
    return hist


@njit(cache=True, nogil=True, fastmath=True)
def hard_histograms(level: Float32, cell: int, bins: int) -> Float32:
    """(bins, rows, cols) histograms of unsigned orientation with no interpolation at all."""
    _, height, width = level.shape
    rows, cols = height // cell, width // cell
    hist = np.zeros((bins, rows, cols), np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    best = np.empty(width, np.float32)
    for y in range(rows * cell):
        gradient_row(level, y, dx, dy, best)
        for x in range(cols * cell):
            angle = math.atan2(dy[x], dx[x]) % math.pi
            k = min(int(angle * bins / math.pi), bins - 1)
            hist[k, y // cell, x // cell] += math.sqrt(best[x])
    return hist


@njit(cache=True, nogil=True, fastmath=True)
def normalise_blocks(hist: Float32, clip: float, epsilon: float, blocks: Float32) -> None:
    """L2-Hys over 2x2 cells of (bins, rows, cols): fills blocks (4 bins, rows - 1, cols - 1).

    v / sqrt(|v|^2 + eps^2), clipped, and normalised once more the same way.
    """
    bins, rows, cols = hist.shape
    limit = np.float32(clip)
    square = np.float32(epsilon * epsilon)
    energy = np.zeros((2, cols), np.float32)
    scale, total = np.empty(cols - 1, np.float32), np.empty(cols - 1, np.float32)
    for r in range(rows):
        upper, lower = energy[(r + 1) % 2], energy[r % 2]
        lower[:] = 0
        for k in range(bins):
            for c in range(cols):
                lower[c] += hist[k, r, c] * hist[k, r, c]
        if r == 0:
            continue
        for c in range(cols - 1):
            scale[c] = 1 / math.sqrt(upper[c] + upper[c + 1] + lower[c] + lower[c + 1] + square)
        total[:] = 0
        for corner in range(4):
            for k in range(bins):
                cells = hist[k, r - 1 + corner // 2, corner % 2 :]
                block = blocks[corner * bins + k, r - 1]
                for c in range(cols - 1):
                    value = min(scale[c] * cells[c], limit)
                    block[c] = value
                    total[c] += value * value
        for c in range(cols - 1):
            scale[c] = 1 / math.sqrt(total[c] + square)
        for k in range(4 * bins):
            block = blocks[k, r - 1]
            for c in range(cols - 1):
                block[c] *= scale[c]
