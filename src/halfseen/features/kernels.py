"""Compiled loops of the features: gradients, cell histograms, block normalisation; and of colours.

Those of features take planar float32 levels (channels, height, width), so that the inner loop over
x vectorises.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _gradient_row(level: Floats, y: int, dx: Floats, dy: Floats, best: Floats) -> None:
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
def soft_histograms(level: Floats, cell: int, bins: int) -> Floats:
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
def hard_histograms(level: Floats, cell: int, bins: int) -> Floats:
    """(bins, rows, cols) histograms of unsigned orientation with no interpolation at all."""
    _, height, width = level.shape
    rows, cols = height // cell, width // cell
    hist = np.zeros((bins, rows, cols), np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    best = np.empty(width, np.float32)
    for y in range(rows * cell):
        _gradient_row(level, y, dx, dy, best)
        for x in range(cols * cell):
            angle = math.atan2(dy[x], dx[x]) % math.pi
            k = min(int(angle * bins / math.pi), bins - 1)
            hist[k, y // cell, x // cell] += math.sqrt(best[x])
    return hist


@njit(cache=True, nogil=True, fastmath=True)
def normalise_blocks(hist: Floats, clip: float, epsilon: float, blocks: Floats) -> None:
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
def felzenszwalb_channels(hist: Floats, clip: float, epsilon: float, out: Floats) -> None:
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
    energy[0, 1:-1] = energy[1, 1:-1]
    energy[-1, 1:-1] = energy[-2, 1:-1]
    energy[:, 0] = energy[:, 1]
    energy[:, -1] = energy[:, -2]
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


@njit(cache=True, nogil=True)
def lab_colours(rgb: Floats, linear: Floats, xyz: Floats, roots: Floats) -> Floats:
    """(N, 3): Lab of colours (N, 3) in 0..255, by tables of both powers: see `colour.lab`."""
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
