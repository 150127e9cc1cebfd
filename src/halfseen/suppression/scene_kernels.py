"""Kernels that put windows on the block grid of a scene."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64
from halfseen.suppression.overlap_kernels import doubled

PRIME = np.uint64(1099511628211)
"""Of the FNV hash."""


@njit(cache=True, nogil=True)
def place_windows(window: Float64, pitch: float, height: float, width: float) -> Int64:
    """(N, 4) left, top, right, bottom: the scene blocks whose centres lie in each window.

    The scene has as many blocks along a side as fit into it, rounded, and at least one. An empty
    window, or one beyond the image, has left = right or top = bottom.
    """
    places = np.zeros((len(window), 4), np.int64)
    for n in range(len(window)):
        for d in range(2):
            side = height if d else width
            blocks = max(np.floor(side / pitch + 0.5), 1.0)
            low, high = window[n, d], window[n, d + 2]
            if not (high > low and high > 0 and low < side):
                continue
            first = max(np.ceil(low / pitch - 0.5), 0.0)
            last = min(np.ceil(high / pitch - 0.5), blocks)
            if last <= first:
                middle = (max(low, 0.0) + min(high, side)) / 2
                first = min(np.floor(middle / pitch), blocks - 1)
                last = first + 1
            places[n, d], places[n, d + 2] = int(first), int(last)
    return places


@njit(cache=True, nogil=True)
def rasterise(
    window: Float64, flags: Bool, shape: Int64, places: Int64, pitch: float
) -> tuple[Int64, Int64, Int64, Float64, NDArray[np.uint64]]:
    """Runs of the scene blocks that are visible in every window: first, last, start, area, digest.

    area    (N,) blocks of each window that are visible
    digest  (N,) numbers that tell windows with other blocks apart
    flags   the windows' flags one after another, row by row; of no length: all blocks are visible
    shape   (N, 2) rows and columns of the flags of each window
    """
    count = len(window)
    left, top, wide = 0, 0, 0
    if count:
        left, top = places[:, 0].min(), places[:, 1].min()
        wide = places[:, 2].max() - left
    columns = np.empty(wide, np.int64)
    first, last = np.empty(64, np.int64), np.empty(64, np.int64)
    start = np.zeros(count + 1, np.int64)
    area, digest = np.zeros(count), np.zeros(count, np.uint64)
    runs, offset = 0, 0
    for n in range(count):
        x1, y1, x2, y2 = window[n, 0], window[n, 1], window[n, 2], window[n, 3]
        high, across = shape[n, 0], shape[n, 1]
        begin, end = places[n, 0], places[n, 2]
        if places[n, 3] > places[n, 1]:
            for x in range(begin, end):
                column = int(np.floor(((x + 0.5) * pitch - x1) * across / (x2 - x1)))
                columns[x - left] = min(max(column, 0), across - 1)
        for y in range(places[n, 1], places[n, 3]):
            row = int(np.floor(((y + 0.5) * pitch - y1) * high / (y2 - y1)))
            row = min(max(row, 0), high - 1)
            inside = False
            for x in range(begin, end):
                shown = len(flags) == 0 or flags[offset + row * across + columns[x - left]]
                if shown and not inside:
                    if runs == len(first):
                        first, last = doubled(first), doubled(last)
                    first[runs] = (y - top) * wide + x - left
                    runs += 1
                if shown:
                    last[runs - 1] = (y - top) * wide + x - left + 1
                inside = shown
        offset += high * across
        start[n + 1] = runs
        for i in range(start[n], runs):
            area[n] += last[i] - first[i]
            for end in (first[i], last[i]):
                digest[n] = (digest[n] ^ np.uint64(end)) * PRIME
    return first[:runs].copy(), last[:runs].copy(), start, area, digest


@njit(cache=True, nogil=True)
def rects_of_flags(flags: Bool, window: Float64) -> Float64:
    """The rectangles of the True blocks of a grid that spans a window.

    A rectangle is a run of a row; equal runs in rows below each other are one rectangle.
    """
    rows, columns = flags.shape
    wide, high = (window[2] - window[0]) / columns, (window[3] - window[1]) / rows
    rects = np.empty((rows * (columns + 1) // 2, 4))
    found, above = 0, 0  # rects[above:found] end at the present row
    for i in range(rows):
        begin, fresh = -1, found
        for j in range(columns + 1):
            on = j < columns and flags[i, j]
            if on and begin < 0:
                begin = j
            if begin >= 0 and not on:
                rects[fresh, 0] = window[0] + begin * wide
                rects[fresh, 1] = window[1] + i * high
                rects[fresh, 2] = window[2] if j == columns else window[0] + j * wide
                rects[fresh, 3] = window[3] if i + 1 == rows else window[1] + (i + 1) * high
                fresh += 1
                begin = -1
        alike = fresh - found == found - above
        for k in range(found, fresh):
            other = above + k - found
            alike = alike and rects[other, 0] == rects[k, 0] and rects[other, 2] == rects[k, 2]
        if alike and fresh > found:
            for k in range(above, found):
                rects[k, 3] = rects[found, 3]
        else:
            above, found = found, fresh
    return rects[:found].copy()
