"""Compiled loops of the pyramid and of the features: resizing, gradients, cell histograms.

Levels are planar float32 (channels, height, width), so that the inner loop over x vectorises.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Float32

# Unsigned, or every look-up would first test for a negative index.
Starts = NDArray[np.uintp]
Cells = tuple[Starts, Float32]


@njit(cache=True, nogil=True, fastmath=True)
def resample(
    source: Float32,
    rows: tuple[int, int, int],
    ystart: Starts,
    yweight: Float32,
    xstart: Starts,
    xweight: Float32,
    out: Float32,
) -> None:
    """out[y, x] = sum_ij yweight[i, y] xweight[j, x] source[ystart[y] + i, xstart[x] + j].

    Of three channels, by three taps: they share the look-ups.

    rows   which row of the whole picture is the first of `source`, and the rows of `out` to fill,
           from one to another
    """
    width = source.shape[2]
    lines = np.empty((3, width), np.float32)
    red, green, blue = lines[0], lines[1], lines[2]
    for y in range(rows[1], rows[2]):
        start = ystart[y] - np.uintp(rows[0])
        a, b, c = yweight[0, y], yweight[1, y], yweight[2, y]
        for k in range(3):
            line = lines[k]
            upper, middle = source[k, start], source[k, start + np.uintp(1)]
            lower = source[k, start + np.uintp(2)]
            for x in range(width):
                line[x] = a * upper[x] + b * middle[x] + c * lower[x]
        red_out, green_out, blue_out = out[0, y], out[1, y], out[2, y]
        for x in range(len(xstart)):
            i = xstart[x]
            j, k = i + np.uintp(1), i + np.uintp(2)
            a, b, c = xweight[0, x], xweight[1, x], xweight[2, x]
            red_out[x] = a * red[i] + b * red[j] + c * red[k]
            green_out[x] = a * green[i] + b * green[j] + c * green[k]
            blue_out[x] = a * blue[i] + b * blue[j] + c * blue[k]


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def gradient_row(level: Float32, y: int, dx: Float32, dy: Float32, best: Float32) -> None:
    """Central differences of row y in the channel with the largest magnitude; `best` is squared.

    At the border the missing neighbour is the pixel itself, and the difference is not doubled.
    """
    channels, height, width = level.shape
    best[:] = np.float32(-1)
    for k in range(channels):
        row = level[k, y]
        up, down = level[k, max(y - 1, 0)], level[k, min(y + 1, height - 1)]
        for x in range(1, width - 1):
            gx, gy = row[x + 1] - row[x - 1], down[x] - up[x]
            size = gx * gx + gy * gy
            more = size > best[x]
            dx[x] = gx if more else dx[x]
            dy[x] = gy if more else dy[x]
            best[x] = size if more else best[x]
        for end in range(2):
            x = end * (width - 1)
            gx, gy = row[min(x + 1, width - 1)] - row[max(x - 1, 0)], down[x] - up[x]
            size = gx * gx + gy * gy
            if size > best[x]:
                dx[x], dy[x], best[x] = gx, gy, size


@njit(cache=True, nogil=True, fastmath=True)
def signed_histograms(
    level: Float32,
    directions: Float32,
    across: tuple[Starts, Float32],
    down: tuple[Starts, Float32],
) -> Float32:
    """(rows + 2, cols + 2, 2 n) histograms of signed orientation: hard in angle, bilinear in place.

    `directions` (2, n) are the unit vectors of the n unsigned orientations; bins n..2n-1 are the
    opposite ones. A border of one cell takes what pixels give to cells beyond the level.

    across, down   of each column and row of pixels the first of its two cells, and the share of
                   the second
    """
    _, height, width = level.shape
    count = directions.shape[1]
    bins = 2 * count
    first, second = across
    rows, cols = int(down[0][height - 1]) + 2, int(first[width - 1]) + 2
    hist = np.zeros((rows, cols * bins), np.float32)
    line = np.empty(cols * bins, np.float32)
    values = np.empty((4, width), np.float32)
    dx, dy, best, top_dot = values[0], values[1], values[2], values[3]
    index = np.empty(width, np.int32)
    step, zero, nudge = np.uintp(bins), np.float32(0), np.float32(1e-4)
    for y in range(height):
        gradient_row(level, y, dx, dy, best)
        for x in range(width):
            best[x] = math.sqrt(best[x])
            dy[x] += nudge
            top_dot[x] = zero
            index[x] = 0
        for o in range(count):
            ux, uy = directions[0, o], directions[1, o]
            for x in range(width):
                # A level gradient lies between two bins: the nudge sends it to the one that points
                # down, on either side, so that a mirror image gives mirrored votes.
                dot = ux * dx[x] + uy * dy[x]
                take = abs(dot) > top_dot[x]
                index[x] = (o if dot > zero else o + count) if take else index[x]
                top_dot[x] = abs(dot) if take else top_dot[x]
        line[:] = zero
        for x in range(width):
            place = first[x] * step + np.uintp(index[x])
            share = second[x] * best[x]
            line[place] += best[x] - share
            line[place + step] += share
        top, part = down[0][y], down[1][y]
        upper, lower = hist[top], hist[top + np.uintp(1)]
        for k in range(len(line)):
            upper[k] += (np.float32(1) - part) * line[k]
            lower[k] += part * line[k]
    return hist.reshape(rows, cols, bins)


@njit(cache=True, nogil=True, fastmath=True)
def felzenszwalb_channels(hist: Float32, clip: float, epsilon: float, out: Float32) -> None:
    """Fills out (rows, cols, 3 n + 4): n signed pairs, their unsigned sums, four texture energies.

    hist (rows + 2, cols + 2, 2 n) has a border of one cell, which does not count.

    Each cell is normalised by the four 2x2 neighbourhoods that hold it; at the border the missing
    cells repeat the nearest ones.
    """
    rows, cols, _ = out.shape
    bins = hist.shape[2]
    count = bins // 2
    energy = np.empty((rows + 2, cols + 2), np.float32)
    for r in range(1, rows + 1):
        for c in range(1, cols + 1):
            total = np.float32(0)
            for k in range(count):
                both = hist[r, c, k] + hist[r, c, k + count]
                total += both * both
            energy[r, c] = total
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
            cell, cell_out = hist[r + 1, c + 1], out[r, c]
            for k in range(bins):
                value = cell[k]
                a, b = min(s0 * value, limit), min(s1 * value, limit)
                d, e = min(s2 * value, limit), min(s3 * value, limit)
                cell_out[k] = half * (a + b + d + e)
                t0 += a
                t1 += b
                t2 += d
                t3 += e
            for k in range(count):
                value = cell[k] + cell[k + count]
                cell_out[bins + k] = half * (
                    min(s0 * value, limit)
                    + min(s1 * value, limit)
                    + min(s2 * value, limit)
                    + min(s3 * value, limit)
                )
            weight = np.float32(1 / math.sqrt(bins))
            cell_out[bins + count] = weight * t0
            cell_out[bins + count + 1] = weight * t1
            cell_out[bins + count + 2] = weight * t2
            cell_out[bins + count + 3] = weight * t3
