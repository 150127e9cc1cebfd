"""Compiled loops of the pyramid and of the features: resizing, gradients, cell histograms.

Levels are planar float32 (channels, height, width), so that the inner loop over x vectorises.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Float32, UInt8

Channels = UInt8 | Float32
# Unsigned, or every look-up would first test for a negative index.
Starts = NDArray[np.uintp]


@njit(cache=True, nogil=True, fastmath=True)
def resample(
    source: Channels,
    ystart: Starts,
    yweight: Float32,
    xstart: Starts,
    xweight: Float32,
    out: Float32,
) -> None:
    """out[y, x] = sum_ij yweight[i, y] xweight[j, x] source[ystart[y] + i, xstart[x] + j]."""
    channels, _, width_in = source.shape
    height, width = ystart.shape[0], xstart.shape[0]
    lines = np.empty((channels, width_in), np.float32)
    for y in range(height):
        for c in range(channels):
            line = lines[c]
            start = ystart[y]
            if yweight.shape[0] == 3:
                a, b, d = yweight[0, y], yweight[1, y], yweight[2, y]
                upper, middle = source[c, start], source[c, start + np.uintp(1)]
                lower = source[c, start + np.uintp(2)]
                for x in range(width_in):
                    line[x] = a * upper[x] + b * middle[x] + d * lower[x]
            else:
                line[:] = 0
                for i in range(yweight.shape[0]):
                    row = source[c, start + np.uintp(i)]
                    for x in range(width_in):
                        line[x] += yweight[i, y] * row[x]
        if channels == 3 and xweight.shape[0] == 3:
            _shrink_colours(lines, xstart, xweight, out, y)
        else:
            for c in range(channels):
                for x in range(width):
                    total = np.float32(0)
                    for j in range(xweight.shape[0]):
                        total += xweight[j, x] * lines[c, xstart[x] + np.uintp(j)]
                    out[c, y, x] = total


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _shrink_colours(lines: Float32, xstart: Starts, xweight: Float32, out: Float32, y: int) -> None:
    """A row of three channels by three taps, most of a pyramid's work: they share the look-ups."""
    first, second, third = xweight[0], xweight[1], xweight[2]
    red, green, blue = lines[0], lines[1], lines[2]
    red_out, green_out, blue_out = out[0, y], out[1, y], out[2, y]
    for x in range(xstart.shape[0]):
        i = xstart[x]
        j, k = i + np.uintp(1), i + np.uintp(2)
        a, b, c = first[x], second[x], third[x]
        red_out[x] = a * red[i] + b * red[j] + c * red[k]
        green_out[x] = a * green[i] + b * green[j] + c * green[k]
        blue_out[x] = a * blue[i] + b * blue[j] + c * blue[k]


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def gradient_row(level: Float32, y: int, dx: Float32, dy: Float32, best: Float32) -> None:
    """Central differences of row y in the channel with the largest magnitude; `best` is squared.

    At the border the missing neighbour is the pixel itself, and the difference is not doubled.
    """
    channels, height, width = level.shape
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    # Three channels in one pass; of a grey level all three are the same.
    row_a, up_a, down_a = level[0, y], level[0, above], level[0, below]
    b, c = min(1, channels - 1), min(2, channels - 1)
    row_b, up_b, down_b = level[b, y], level[b, above], level[b, below]
    row_c, up_c, down_c = level[c, y], level[c, above], level[c, below]
    for x in range(1, width - 1):
        gx, gy = row_a[x + 1] - row_a[x - 1], down_a[x] - up_a[x]
        size = gx * gx + gy * gy
        other_x, other_y = row_b[x + 1] - row_b[x - 1], down_b[x] - up_b[x]
        other = other_x * other_x + other_y * other_y
        more = other > size
        gx = other_x if more else gx
        gy = other_y if more else gy
        size = other if more else size
        other_x, other_y = row_c[x + 1] - row_c[x - 1], down_c[x] - up_c[x]
        other = other_x * other_x + other_y * other_y
        more = other > size
        dx[x] = other_x if more else gx
        dy[x] = other_y if more else gy
        best[x] = other if more else size
    for x in (0, width - 1):
        for k in range(channels):
            gx = level[k, y, min(x + 1, width - 1)] - level[k, y, max(x - 1, 0)]
            gy = level[k, below, x] - level[k, above, x]
            size = gx * gx + gy * gy
            if k == 0 or size > best[x]:
                dx[x], dy[x], best[x] = gx, gy, size


@njit(cache=True, nogil=True, fastmath=True)
def signed_histograms(level: Float32, cell: int, directions: Float32) -> Float32:
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
        gradient_row(level, y, dx, dy, best)
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
def felzenszwalb_channels(hist: Float32, clip: float, epsilon: float, out: Float32) -> None:
    """Fills out (rows, cols, 3 n + 4): n signed pairs, their unsigned sums, four texture energies.

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
    # One by one: an assignment of slices takes seconds to compile.
    for c in range(1, cols + 1):
        energy[0, c], energy[rows + 1, c] = energy[1, c], energy[rows, c]
    for r in range(rows + 2):
        energy[r, 0], energy[r, cols + 1] = energy[r, 1], energy[r, cols]
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
