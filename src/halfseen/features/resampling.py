"""Compiled loops of the pyramid: resizing by weighted sums."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8] | NDArray[np.float32]
# Unsigned, or every look-up would first test for a negative index.
Indices = NDArray[np.uintp]


@njit(cache=True, nogil=True, fastmath=True)
def resample(
    source: Pixels, ystart: Indices, yweight: Floats, xstart: Indices, xweight: Floats, out: Floats
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
def _shrink_colours(lines: Floats, xstart: Indices, xweight: Floats, out: Floats, y: int) -> None:
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
