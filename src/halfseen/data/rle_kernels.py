"""Kernels of COCO's masks: compressed run lengths and outlines of polygons."""

import numpy as np
from numba import njit

from halfseen.arrays import Bool, Float64, Int64, UInt8

FIRST = 48  # the character '0' stands for zero
DIGITS = 7  # of five bits: enough for any length below 2^34
SCALE = 5  # polygons are walked in fifths of a pixel


@njit(cache=True, nogil=True)
def decompress(text: UInt8) -> tuple[Int64, bool]:
    """The run lengths of compressed text, and whether it is well formed."""
    counts, found = np.empty(len(text), np.int64), 0
    value, digits, code = 0, 0, 0
    for i in range(len(text)):
        code = int(text[i]) - FIRST
        if code < 0 or code > 63 or digits == DIGITS:
            return counts[:0], False
        value |= (code & 31) << (5 * digits)
        digits += 1
        if code & 32:
            continue
        if code & 16:  # the last digit's top bit is the sign
            value -= 1 << (5 * digits)
        counts[found] = value + counts[found - 2] if found > 2 else value
        found += 1
        value, digits = 0, 0
    return counts[:found].copy(), found > 0 and digits == 0


@njit(cache=True, nogil=True)
def runs_of(counts: Int64) -> tuple[Int64, Int64]:
    """Where the object's runs begin and end; empty ones are left out."""
    first, last = np.empty(len(counts) // 2, np.int64), np.empty(len(counts) // 2, np.int64)
    at, found = 0, 0
    for i in range(len(counts)):
        if i % 2 and counts[i]:
            first[found], last[found] = at, at + counts[i]
            found += 1
        at += counts[i]
    return first[:found].copy(), last[:found].copy()


@njit(cache=True, nogil=True)
def runs_of_mask(mask: Bool, x: int, y: int, height: int) -> tuple[Int64, Int64]:
    """Runs down the columns of a picture of this height, of which the mask is a part at (x, y)."""
    rows, columns = mask.shape
    edges = 0
    above = np.zeros(columns, np.bool_)
    for i in range(rows):
        for j in range(columns):
            edges += mask[i, j] and not above[j]
            above[j] = mask[i, j]
    first, last, found = np.empty(edges, np.int64), np.empty(edges, np.int64), 0
    for j in range(columns):
        inside, at = False, (x + j) * height + y
        for i in range(rows):
            if mask[i, j] and not inside:
                first[found] = at + i
            if inside and not mask[i, j]:
                last[found] = at + i
                found += 1
            inside = mask[i, j]
        if inside:
            last[found] = at + rows
            found += 1
    return first, last


@njit(cache=True, nogil=True)
def bounds_of(first: Int64, last: Int64, height: int) -> Float64:
    """The box x1 y1 x2 y2 around runs down the columns; zeros around none."""
    box = np.zeros(4)
    if len(first) == 0:
        return box
    top, bottom = height, 0
    for i in range(len(first)):
        if first[i] // height != (last[i] - 1) // height:
            top, bottom = 0, height
            break
        top = min(top, first[i] % height)
        bottom = max(bottom, (last[i] - 1) % height + 1)
    box[0], box[1] = first[0] // height, top
    box[2], box[3] = (last[-1] - 1) // height + 1, bottom
    return box


@njit(cache=True, nogil=True)
def walk(points: Int64, height: int, width: int) -> Int64:
    """Where an outline toggles the pixels below it, down the columns, in no order.

    points: (n + 1, 2) corners in fifths of a pixel, the first repeated at the end. Each edge is
    walked in fifths along its longer axis, from its lesser end, so that both directions round
    alike. It crosses the middle of a pixel column between two steps of which the lower x is 2
    modulo 5; the lesser y of the two says which pixels lie below.
    """
    toggles, found = np.empty(64, np.int64), 0
    for i in range(len(points) - 1):
        u1, v1, u2, v2 = points[i, 0], points[i, 1], points[i + 1, 0], points[i + 1, 1]
        wide = abs(u2 - u1) >= abs(v2 - v1)
        if u1 == u2:
            continue
        if (u1 > u2) if wide else (v1 > v2):
            u1, v1, u2, v2 = u2, v2, u1, v1
        steps = max(abs(u2 - u1), abs(v2 - v1))
        slope = ((v2 - v1) if wide else (u2 - u1)) / steps
        u, v = u1, v1
        for t in range(1, steps + 1):
            if wide:
                now_u, now_v = u1 + t, int(np.trunc(v1 + slope * t + 0.5))
            else:
                now_u, now_v = int(np.trunc(u1 + slope * t + 0.5)), v1 + t
            low = min(u, now_u) - SCALE // 2
            if u != now_u and low >= 0 and low % SCALE == 0 and low < width * SCALE:
                row = -((SCALE // 2 - min(v, now_v)) // SCALE)
                if found == len(toggles):
                    longer = np.empty(2 * found, np.int64)
                    longer[:found] = toggles
                    toggles = longer
                toggles[found] = low // SCALE * height + min(max(row, 0), height)
                found += 1
            u, v = now_u, now_v
    return toggles[:found].copy()


@njit(cache=True, nogil=True)
def toggled(toggles: Int64, pixels: int) -> tuple[Int64, Int64]:
    """The runs between sorted toggles; what is on at the last one stays on to the end."""
    first, last = np.empty(len(toggles), np.int64), np.empty(len(toggles), np.int64)
    found, i, begin = 0, 0, -1
    while i < len(toggles) and toggles[i] < pixels:
        times, at = 0, toggles[i]
        while i < len(toggles) and toggles[i] == at:
            times += 1
            i += 1
        if times % 2:
            if begin < 0:
                begin = at
            else:
                first[found], last[found] = begin, at
                begin = -1
                found += 1
    if begin >= 0:
        first[found], last[found] = begin, pixels
        found += 1
    return first[:found].copy(), last[:found].copy()


@njit(cache=True, nogil=True)
def unite(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """The union of runs, sorted by their beginnings."""
    found = 0
    first, last = first.copy(), last.copy()
    for i in range(1, len(first)):
        if first[i] <= last[found]:
            last[found] = max(last[found], last[i])
        else:
            found += 1
            first[found], last[found] = first[i], last[i]
    found = min(found + 1, len(first))
    return first[:found].copy(), last[:found].copy()
