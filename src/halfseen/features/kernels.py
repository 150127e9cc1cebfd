"""Compiled loops of the features: resizing, gradients, cell histograms, block normalisation.

All take planar float32 levels (channels, height, width), so that the inner loop over x vectorises.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
# Unsigned, or every look-up would first test for a negative index.
Indices = NDArray[np.uintp]


@njit(cache=True, nogil=True)
def to_planar(image: NDArray[np.uint8]) -> Floats:
    """(height, width, channels) uint8 to (channels, height, width) float32."""
    height, width, channels = image.shape
    planar = np.empty((channels, height, width), np.float32)
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                planar[c, y, x] = image[y, x, c]
    return planar


@njit(cache=True, nogil=True, fastmath=True)
def resample(
    source: Floats, ystart: Indices, yweight: Floats, xstart: Indices, xweight: Floats
) -> Floats:
    """out[y, x] = sum_ij yweight[i, y] xweight[j, x] source[ystart[y] + i, xstart[x] + j]."""
    channels, _, width_in = source.shape
    height, width = ystart.shape[0], xstart.shape[0]
    out = np.empty((channels, height, width), np.float32)
    line = np.empty(width_in, np.float32)
    for c in range(channels):
        for y in range(height):
            for i in range(yweight.shape[0]):
                weight = yweight[i, y]
                row = source[c, ystart[y] + np.uintp(i)]
                if i == 0:
                    for x in range(width_in):
                        line[x] = weight * row[x]
                elif weight != 0:
                    for x in range(width_in):
                        line[x] += weight * row[x]
            target = out[c, y]
            if xweight.shape[0] == 3:
                for x in range(width):
                    k = xstart[x]
                    target[x] = (
                        xweight[0, x] * line[k]
                        + xweight[1, x] * line[k + np.uintp(1)]
                        + xweight[2, x] * line[k + np.uintp(2)]
                    )
            else:
                for x in range(width):
                    total = np.float32(0)
                    for j in range(xweight.shape[0]):
                        total += xweight[j, x] * line[xstart[x] + np.uintp(j)]
                    target[x] = total
    return out


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _gradient_row(level: Floats, y: int, dx: Floats, dy: Floats, best: Floats) -> None:
    """Central differences of row y in the channel with the largest magnitude; `best` is squared.

    At the border the missing neighbour is the pixel itself, and the difference is not doubled.
    """
    channels, height, width = level.shape
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    for c in range(channels):
        row, up, down = level[c, y], level[c, above], level[c, below]
        if c == 0:
            for x in range(1, width - 1):
                dx[x] = row[x + 1] - row[x - 1]
                dy[x] = down[x] - up[x]
                best[x] = dx[x] * dx[x] + dy[x] * dy[x]
        else:
            for x in range(1, width - 1):
                gx = row[x + 1] - row[x - 1]
                gy = down[x] - up[x]
                size = gx * gx + gy * gy
                more = size > best[x]
                dx[x] = gx if more else dx[x]
                dy[x] = gy if more else dy[x]
                best[x] = size if more else best[x]
        for x in (0, width - 1):
            gx = row[min(x + 1, width - 1)] - row[max(x - 1, 0)]
            gy = down[x] - up[x]
            size = gx * gx + gy * gy
            if c == 0 or size > best[x]:
                dx[x], dy[x], best[x] = gx, gy, size


@njit(cache=True, nogil=True, fastmath=True)
def soft_histograms(level: Floats, cell: int, bins: int) -> Floats:
    """(rows, cols, bins) histograms of unsigned orientation, interpolated in angle and in place.

    A pixel's magnitude is shared linearly between the two nearest bins and bilinearly between the
    four nearest cells. Bin k is centred at (k + 0.5) pi / bins. Pixels beyond the last whole cell
    do not vote.
    """
    _, height, width = level.shape
    rows, cols = height // cell, width // cell
    used = cols * cell
    # One cell of margin all around takes the votes of the border pixels' outer halves.
    hist = np.zeros((rows + 2, cols + 2, bins), np.float32)
    flat = hist.reshape((rows + 2, (cols + 2) * bins))
    line = np.zeros((cols + 2) * bins, np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    best = np.empty(width, np.float32)
    low_vote, high_vote = np.empty(width, np.float32), np.empty(width, np.float32)
    low_bin = np.empty(width, np.int32)
    base, near = np.empty(used, np.uintp), np.empty(used, np.float32)
    for x in range(used):
        place = (x + 0.5) / cell - 0.5
        left = math.floor(place)
        base[x] = (left + 1) * bins
        near[x] = 1 - (place - left)
    step = np.uintp(bins)
    per_radian = np.float32(bins / math.pi)
    half = np.float32(0.5)
    for y in range(rows * cell):
        _gradient_row(level, y, dx, dy, best)
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
            place_bin = angle * per_radian - half
            whole = math.floor(place_bin)
            part = place_bin - whole
            size = math.sqrt(best[x])
            high_vote[x] = size * part
            low_vote[x] = size - size * part
            low_bin[x] = np.int32(whole)
        line[:] = 0
        for x in range(used):
            low = low_bin[x]
            low_place = base[x] + np.uintp(low if low >= 0 else bins - 1)
            high_place = base[x] + np.uintp(low + 1 if low + 1 < bins else 0)
            share = near[x]
            first, second = low_vote[x], high_vote[x]
            line[low_place] += share * first
            line[high_place] += share * second
            line[low_place + step] += first - share * first
            line[high_place + step] += second - share * second
        place_y = (y + 0.5) / cell - 0.5
        top = math.floor(place_y)
        part_y = np.float32(place_y - top)
        upper, lower = flat[top + 1], flat[top + 2]
        for k in range(line.shape[0]):
            upper[k] += (1 - part_y) * line[k]
            lower[k] += part_y * line[k]
    return hist[1:-1, 1:-1].copy()


@njit(cache=True, nogil=True, fastmath=True)
def hard_histograms(level: Floats, cell: int, bins: int) -> Floats:
    """(rows, cols, bins) histograms of unsigned orientation with no interpolation at all."""
    _, height, width = level.shape
    rows, cols = height // cell, width // cell
    hist = np.zeros((rows, cols, bins), np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    best = np.empty(width, np.float32)
    for y in range(rows * cell):
        _gradient_row(level, y, dx, dy, best)
        for x in range(cols * cell):
            angle = math.atan2(dy[x], dx[x]) % math.pi
            k = min(int(angle * bins / math.pi), bins - 1)
            hist[y // cell, x // cell, k] += math.sqrt(best[x])
    return hist


@njit(cache=True, nogil=True, fastmath=True)
def normalise_blocks(hist: Floats, clip: float, epsilon: float) -> Floats:
    """L2-Hys over 2x2 cells: (rows - 1, cols - 1, 4 bins).

    v / sqrt(|v|^2 + eps^2), clipped, and normalised once more the same way.
    """
    rows, cols, bins = hist.shape
    blocks = np.empty((rows - 1, cols - 1, 4 * bins), np.float32)
    limit = np.float32(clip)
    square = np.float32(epsilon * epsilon)
    energy = np.zeros((2, cols), np.float32)
    for c in range(cols):
        for k in range(bins):
            energy[0, c] += hist[0, c, k] * hist[0, c, k]
    for r in range(rows - 1):
        upper, lower = energy[r % 2], energy[(r + 1) % 2]
        for c in range(cols):
            total = np.float32(0)
            for k in range(bins):
                total += hist[r + 1, c, k] * hist[r + 1, c, k]
            lower[c] = total
        for c in range(cols - 1):
            scale = 1 / math.sqrt(upper[c] + upper[c + 1] + lower[c] + lower[c + 1] + square)
            block = blocks[r, c]
            for k in range(bins):
                block[k] = min(scale * hist[r, c, k], limit)
                block[bins + k] = min(scale * hist[r, c + 1, k], limit)
                block[2 * bins + k] = min(scale * hist[r + 1, c, k], limit)
                block[3 * bins + k] = min(scale * hist[r + 1, c + 1, k], limit)
            total = np.float32(0)
            for k in range(4 * bins):
                total += block[k] * block[k]
            scale = 1 / math.sqrt(total + square)
            for k in range(4 * bins):
                block[k] *= scale
    return blocks


@njit(cache=True, nogil=True, fastmath=True)
def signed_histograms(level: Floats, cell: int, directions: Floats) -> Floats:
    """(rows, cols, 2 n) histograms of signed orientation: hard in angle, bilinear in place.

    `directions` (2, n) are the unit vectors of the n unsigned orientations; bins n..2n-1 are the
    opposite ones. The last cells may be partly filled: every pixel votes.
    """
    _, height, width = level.shape
    count = directions.shape[1]
    bins = 2 * count
    rows, cols = -(-height // cell), -(-width // cell)
    hist = np.zeros((rows + 2, cols + 2, bins), np.float32)
    flat = hist.reshape((rows + 2, (cols + 2) * bins))
    line = np.zeros((cols + 2) * bins, np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    best = np.empty(width, np.float32)
    top_dot = np.empty(width, np.float32)
    index = np.empty(width, np.int32)
    base, near = np.empty(width, np.uintp), np.empty(width, np.float32)
    step = np.uintp(bins)
    for x in range(width):
        place = (x + 0.5) / cell - 0.5
        left = math.floor(place)
        base[x] = (left + 1) * bins
        near[x] = 1 - (place - left)
    nudge = np.float32(1e-4)
    for y in range(height):
        _gradient_row(level, y, dx, dy, best)
        for x in range(width):
            top_dot[x] = 0
            index[x] = 0
        for o in range(count):
            ux, uy = directions[0, o], directions[1, o]
            for x in range(width):
                # A level gradient lies between two bins: the nudge sends it to the one that points
                # down, on either side, so that a mirror image gives mirrored votes.
                dot = ux * dx[x] + uy * (dy[x] + nudge)
                take = abs(dot) > top_dot[x]
                index[x] = (o if dot > 0 else o + count) if take else index[x]
                top_dot[x] = abs(dot) if take else top_dot[x]
        for x in range(width):
            best[x] = math.sqrt(best[x])
        line[:] = 0
        for x in range(width):
            place_x = base[x] + np.uintp(index[x])
            share = near[x] * best[x]
            line[place_x] += share
            line[place_x + step] += best[x] - share
        place_y = (y + 0.5) / cell - 0.5
        top = math.floor(place_y)
        part_y = np.float32(place_y - top)
        upper, lower = flat[top + 1], flat[top + 2]
        for k in range(line.shape[0]):
            upper[k] += (1 - part_y) * line[k]
            lower[k] += part_y * line[k]
    return hist[1:-1, 1:-1].copy()


@njit(cache=True, nogil=True, fastmath=True)
def felzenszwalb_channels(hist: Floats, clip: float, epsilon: float) -> Floats:
    """(rows, cols, 3 n + 4): n signed pairs, their unsigned sums, and four texture energies.

    Each cell is normalised by the four 2x2 neighbourhoods that hold it; at the border the missing
    cells repeat the nearest ones.
    """
    rows, cols, bins = hist.shape
    count = bins // 2
    energy = np.empty((rows + 2, cols + 2), np.float32)
    for r in range(rows):
        for c in range(cols):
            total = np.float32(0)
            for k in range(count):
                both = hist[r, c, k] + hist[r, c, k + count]
                total += both * both
            energy[r + 1, c + 1] = total
    energy[0, 1:-1] = energy[1, 1:-1]
    energy[-1, 1:-1] = energy[-2, 1:-1]
    energy[:, 0] = energy[:, 1]
    energy[:, -1] = energy[:, -2]
    out = np.empty((rows, cols, bins + count + 4), np.float32)
    limit, tiny = np.float32(clip), np.float32(epsilon)
    half = np.float32(0.5)
    scale = np.empty(4, np.float32)
    for r in range(rows):
        for c in range(cols):
            for corner in range(4):
                i, j = r + corner // 2, c + corner % 2
                total = energy[i, j] + energy[i, j + 1] + energy[i + 1, j] + energy[i + 1, j + 1]
                scale[corner] = 1 / math.sqrt(total + tiny)
            s0, s1, s2, s3 = scale[0], scale[1], scale[2], scale[3]
            t0, t1, t2, t3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            cell_out = out[r, c]
            for k in range(bins):
                value = hist[r, c, k]
                a, b = min(s0 * value, limit), min(s1 * value, limit)
                d, e = min(s2 * value, limit), min(s3 * value, limit)
                cell_out[k] = half * (a + b + d + e)
                t0 += a
                t1 += b
                t2 += d
                t3 += e
            for k in range(count):
                value = hist[r, c, k] + hist[r, c, k + count]
                cell_out[bins + k] = half * (
                    min(s0 * value, limit) + min(s1 * value, limit)
                    + min(s2 * value, limit) + min(s3 * value, limit)
                )  # fmt: skip
            weight = np.float32(1 / math.sqrt(bins))
            cell_out[bins + count] = weight * t0
            cell_out[bins + count + 1] = weight * t1
            cell_out[bins + count + 2] = weight * t2
            cell_out[bins + count + 3] = weight * t3
    return out
