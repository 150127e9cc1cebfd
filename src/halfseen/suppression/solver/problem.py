"""The covering problem as the kernels take it.

    maximise  F(S) = sum_a w_a max_{k in S, a in C_k} v_k - price |S|   over independent sets S

Atoms are the pieces into which the outlines of all candidates cut the plane, those that lie in the
same candidates taken together. C_k, the atoms that candidate k covers, is
atoms[start[k]:start[k + 1]]. Candidates are sorted by falling value v.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from halfseen.arrays import Float64, Int64
from halfseen.suppression.candidates import Shapes
from halfseen.suppression.overlap_kernels import Graph

Bits = NDArray[np.uint64]


DENSE = 8
"""Positions for each run up to which a table of all positions is faster than a sorted list."""


class Cover(NamedTuple):
    """What each candidate covers: value (N,) > 0, weight (A,) of the atoms, start and atoms."""

    value: Float64
    weight: Float64
    start: Int64
    atoms: Int64


class Problem(NamedTuple):
    """A problem of some candidates: what each covers, what it excludes, and its price.

    conflict  (N, (N + 63) // 64) bits, symmetric: bit l of row k says that k excludes l
    """

    value: Float64
    weight: Float64
    start: Int64
    atoms: Int64
    conflict: Bits
    price: float


@njit(cache=True, nogil=True)
def get_bit(bits: Bits, b: int) -> bool:
    """Whether bit b % 64 of word b // 64 is set."""
    is_set: bool = (bits[b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != np.uint64(0)
    return is_set


@njit(cache=True, nogil=True)
def set_bit(bits: Bits, b: int) -> None:
    """Sets bit b % 64 of word b // 64."""
    bits[b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@njit(cache=True, nogil=True)
def count_pieces(s: Shapes) -> float:
    """How many pieces `cut` makes of each region, summed over the regions."""
    total = 0.0
    if s.runs:
        edges = np.unique(np.concatenate((s.first, s.last)))
        for i in range(len(s.first)):
            total += np.searchsorted(edges, s.last[i]) - np.searchsorted(edges, s.first[i])
        return total
    xs, ys = _sides(s.rect, 0), _sides(s.rect, 1)
    for i in range(len(s.rect)):
        x1, x2, y1, y2 = _between(s.rect[i], xs, ys)
        total += float(x2 - x1) * (y2 - y1)
    return total + float(len(xs)) * len(ys)


@njit(cache=True, nogil=True)
def cut(s: Shapes) -> tuple[Float64, Int64, Int64]:
    """The pieces between the outlines of all regions: (weight, start, pieces of each region)."""
    return _cut_runs(s) if s.runs else _cut_rects(s)


@njit(cache=True, nogil=True)
def _cut_runs(s: Shapes) -> tuple[Float64, Int64, Int64]:
    parts = len(s.first)
    low, high = 0, 0
    if parts:
        low, high = s.first.min(), s.last.max()
    begin, end = np.empty(parts, np.int64), np.empty(parts, np.int64)
    if high - low <= DENSE * parts:
        place = np.zeros(high - low + 1, np.int64)
        for i in range(parts):
            place[s.first[i] - low], place[s.last[i] - low] = 1, 1
        edges = np.flatnonzero(place) + low
        place = np.cumsum(place) - 1
        for i in range(parts):
            begin[i], end[i] = place[s.first[i] - low], place[s.last[i] - low]
    else:
        edges = np.unique(np.concatenate((s.first, s.last)))
        for i in range(parts):
            begin[i] = np.searchsorted(edges, s.first[i])
            end[i] = np.searchsorted(edges, s.last[i])
    start = np.zeros(len(s.start), np.int64)
    pieces, used = np.empty(int((end - begin).sum()), np.int64), 0
    for k in range(len(s.start) - 1):
        for i in range(s.start[k], s.start[k + 1]):
            for piece in range(begin[i], end[i]):
                pieces[used] = piece
                used += 1
        start[k + 1] = used
    return np.diff(edges).astype(np.float64), start, pieces


@njit(cache=True, nogil=True)
def _cut_rects(s: Shapes) -> tuple[Float64, Int64, Int64]:
    xs, ys = _sides(s.rect, 0), _sides(s.rect, 1)
    high = max(len(ys) - 1, 0)
    weight = np.empty(max(len(xs) - 1, 0) * high)
    for x in range(len(xs) - 1):
        for y in range(high):
            weight[x * high + y] = (xs[x + 1] - xs[x]) * (ys[y + 1] - ys[y])
    total = 0
    for i in range(len(s.rect)):
        x1, x2, y1, y2 = _between(s.rect[i], xs, ys)
        total += (x2 - x1) * (y2 - y1)
    start = np.zeros(len(s.start), np.int64)
    pieces, used = np.empty(total, np.int64), 0
    for k in range(len(s.start) - 1):
        for i in range(s.start[k], s.start[k + 1]):
            x1, x2, y1, y2 = _between(s.rect[i], xs, ys)
            for x in range(x1, x2):
                for y in range(y1, y2):
                    pieces[used] = x * high + y
                    used += 1
        start[k + 1] = used
    return weight, start, pieces


@njit(cache=True, nogil=True)
def _sides(rect: Float64, d: int) -> Float64:
    return np.unique(np.concatenate((rect[:, d], rect[:, d + 2])))


@njit(cache=True, nogil=True)
def _between(rect: Float64, xs: Float64, ys: Float64) -> tuple[int, int, int, int]:
    """The columns x1 to x2 and rows y1 to y2 of pieces in a rectangle; none of a reversed one."""
    x1, y1 = np.searchsorted(xs, rect[0]), np.searchsorted(ys, rect[1])
    x2, y2 = np.searchsorted(xs, rect[2]), np.searchsorted(ys, rect[3])
    return x1, max(x1, x2), y1, max(y1, y2)


@njit(cache=True, nogil=True)
def merge_atoms(area: Float64, start: Int64, pieces: Int64) -> tuple[Float64, Int64, Int64]:
    """Merges pieces that lie in the same candidates into atoms: (weight, start, atoms).

    Candidate k has pieces[start[k]:start[k + 1]]; an atom weighs as much as its pieces. Refines a
    partition of the pieces, candidate by candidate: exact, in time linear in their number.
    """
    count, size = len(start) - 1, len(area)
    atom = np.zeros(size, np.int64)
    held = np.zeros(size + 1, np.int64)
    held[0] = size + 1  # atom 0: in no candidate so far, and never emptied
    met = np.zeros(size + 1, np.int64)  # the last candidate, from 1, that an atom was met in
    inside = np.zeros(size + 1, np.int64)
    child = np.zeros(size + 1, np.int64)
    atoms = 1
    for n in range(count):
        for i in range(start[n], start[n + 1]):
            a = atom[pieces[i]]
            if met[a] != n + 1:
                met[a], inside[a], child[a] = n + 1, 0, -1
            inside[a] += 1
        for i in range(start[n], start[n + 1]):
            a = atom[pieces[i]]
            if child[a] < 0:
                if inside[a] == held[a]:
                    child[a] = a
                else:
                    child[a] = atoms
                    held[atoms] = inside[a]
                    held[a] -= inside[a]
                    atoms += 1
            atom[pieces[i]] = child[a]
    weight = np.zeros(atoms)
    for p in range(size):
        weight[atom[p]] += area[p]
    own_start, own = np.zeros(count + 1, np.int64), np.empty(len(pieces), np.int64)
    fill = 0
    for n in range(count):
        for i in range(start[n], start[n + 1]):
            a = atom[pieces[i]]
            if met[a] != count + n + 1:
                met[a] = count + n + 1
                own[fill] = a - 1
                fill += 1
        own_start[n + 1] = fill
    return weight[1:], own_start, own[:fill].copy()


@njit(cache=True, nogil=True)
def extract(members: Int64, cover: Cover, conflict: Graph, price: float, number: Int64) -> Problem:
    """The problem of some candidates (ascending), with its own numbering.

    number  room for one number an atom, all 0 before and after
    """
    count = len(members)
    start = np.zeros(count + 1, np.int64)
    for i in range(count):
        start[i + 1] = start[i] + cover.start[members[i] + 1] - cover.start[members[i]]
    atoms = np.empty(start[count], np.int64)
    weight = np.empty(min(start[count], len(cover.weight)))
    pieces, fill = 0, 0  # atoms are numbered from 1; 0 for one not met yet
    for i in range(count):
        for j in range(cover.start[members[i]], cover.start[members[i] + 1]):
            a = cover.atoms[j]
            if number[a] == 0:
                weight[pieces] = cover.weight[a]
                pieces += 1
                number[a] = pieces
            atoms[fill] = number[a] - 1
            fill += 1
    for i in range(count):
        for j in range(cover.start[members[i]], cover.start[members[i] + 1]):
            number[cover.atoms[j]] = 0
    bits = np.zeros((count, (count + 63) // 64), np.uint64)
    value = np.empty(count)
    for i in range(count):
        value[i] = cover.value[members[i]]
        for j in range(conflict.start[members[i]], conflict.start[members[i] + 1]):
            place = np.searchsorted(members, conflict.other[j])
            if place < count and members[place] == conflict.other[j]:
                set_bit(bits[i], place)
    return Problem(value, weight[:pieces].copy(), start, atoms, bits, price)


@njit(cache=True, nogil=True)
def graph_of(p: Problem) -> Graph:
    """The conflicts of a problem as pairs."""
    count = len(p.value)
    start, pairs = np.zeros(count + 1, np.int64), 0
    other = np.empty(0, np.int64)
    for fill in range(2):  # the first time only to count
        pairs = 0
        for k in range(count):
            for n in range(count):
                if get_bit(p.conflict[k], n):
                    if fill:
                        other[pairs] = n
                    pairs += 1
            start[k + 1] = pairs
        if not fill:
            other = np.empty(pairs, np.int64)
    return Graph(start, other)


@njit(cache=True, nogil=True)
def among(members: Int64, conflict: Graph) -> tuple[Int64, Int64]:
    """The `Graph` of some candidates (ascending), with its own numbering."""
    start, other = np.zeros(len(members) + 1, np.int64), np.empty(len(conflict.other), np.int64)
    pairs = 0
    for i in range(len(members)):
        for j in range(conflict.start[members[i]], conflict.start[members[i] + 1]):
            place = np.searchsorted(members, conflict.other[j])
            if place < len(members) and members[place] == conflict.other[j]:
                other[pairs] = place
                pairs += 1
        start[i + 1] = pairs
    return start, other[:pairs].copy()
