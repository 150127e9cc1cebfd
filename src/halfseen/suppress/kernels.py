"""Kernels over sets of scene blocks, kept as bits: row k of an (N, L) uint64 array is one set.

Block b is bit b % 64 of word b // 64. Only `rasterise` knows that blocks lie on a grid.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@njit(cache=True, nogil=True, inline="always")
def popcount(word: np.uint64) -> int:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = word & np.uint64(0x3333333333333333)
    word = pairs + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def get_bit(bits: Bits, b: int) -> bool:
    return (bits[b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != np.uint64(0)


@njit(cache=True, nogil=True)
def set_bit(bits: Bits, b: int) -> None:
    bits[b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@njit(cache=True, nogil=True)
def rasterise(
    window: Floats, flags: Bools, shape: Ints, pitch: float, rows: int, cols: int
) -> tuple[Bits, Bits]:
    """The scene blocks in every window, and those that are visible in it (nearest neighbour).

    flags holds the windows' flags one after another, row by row; shape (N, 2) their rows and
    columns. A scene block belongs to a window if its centre lies inside. A window so small that it
    holds no centre gets the block around its own centre, if that lies in the scene.
    """
    count = window.shape[0]
    words = (rows * cols + 63) // 64
    whole = np.zeros((count, words), np.uint64)
    visible = np.zeros((count, words), np.uint64)
    start = 0
    for n in range(count):
        x1, y1, x2, y2 = window[n, 0], window[n, 1], window[n, 2], window[n, 3]
        high, wide = shape[n, 0], shape[n, 1]
        if not (x2 > x1 and y2 > y1):
            start += high * wide
            continue
        left = max(0, int(np.ceil(x1 / pitch - 0.5)))
        top = max(0, int(np.ceil(y1 / pitch - 0.5)))
        right = min(cols, int(np.ceil(x2 / pitch - 0.5)))
        bottom = min(rows, int(np.ceil(y2 / pitch - 0.5)))
        if right <= left and (x2 - x1) < pitch:
            left = int(np.floor((x1 + x2) / (2 * pitch)))
            right = left + 1 if 0 <= left < cols else left
        if bottom <= top and (y2 - y1) < pitch:
            top = int(np.floor((y1 + y2) / (2 * pitch)))
            bottom = top + 1 if 0 <= top < rows else top
        for y in range(top, bottom):
            row = int(np.floor(((y + 0.5) * pitch - y1) * high / (y2 - y1)))
            row = min(max(row, 0), high - 1)
            for x in range(left, right):
                column = int(np.floor(((x + 0.5) * pitch - x1) * wide / (x2 - x1)))
                column = min(max(column, 0), wide - 1)
                set_bit(whole[n], y * cols + x)
                if flags[start + row * wide + column]:
                    set_bit(visible[n], y * cols + x)
        start += high * wide
    return whole, visible


@njit(cache=True, nogil=True)
def extents(bits: Bits) -> tuple[Ints, Ints, Ints]:
    """(size, first, last): blocks in each set, and the range of words that holds them."""
    count, words = bits.shape
    size = np.zeros(count, np.int64)
    first = np.zeros(count, np.int64)
    last = np.zeros(count, np.int64)
    for n in range(count):
        for word in range(words):
            if bits[n, word]:
                if size[n] == 0:
                    first[n] = word
                last[n] = word + 1
                size[n] += popcount(bits[n, word])
    return size, first, last


@njit(cache=True, nogil=True)
def shared_blocks(bits: Bits, k: int, others: Ints) -> Ints:
    """How many blocks set k shares with each of the others."""
    shared = np.zeros(len(others), np.int64)
    for n in range(len(others)):
        total = 0
        for word in range(bits.shape[1]):
            total += popcount(bits[k, word] & bits[others[n], word])
        shared[n] = total
    return shared


@njit(cache=True, nogil=True)
def block_conflicts(bits: Bits, limit: float) -> Bits:
    """Bit l of row k: sets k and l share more than `limit` of the blocks in either."""
    count = bits.shape[0]
    conflict = np.zeros((count, (count + 63) // 64), np.uint64)
    size, first, last = extents(bits)
    for k in range(count):
        for n in range(k + 1, count):
            # |A & B| / |A | B| is at most min / max of the sizes.
            if min(size[k], size[n]) <= limit * max(size[k], size[n]) * (1 - 1e-12):
                continue
            shared = 0
            for word in range(max(first[k], first[n]), min(last[k], last[n])):
                shared += popcount(bits[k, word] & bits[n, word])
            if shared > 0 and shared / (size[k] + size[n] - shared) > limit:
                set_bit(conflict[k], n)
                set_bit(conflict[n], k)
    return conflict


@njit(cache=True, nogil=True)
def box_conflicts(box: Floats, limit: float) -> Bits:
    """The same by intersection over union of boxes."""
    count = box.shape[0]
    conflict = np.zeros((count, (count + 63) // 64), np.uint64)
    for k in range(count):
        own = max(box[k, 2] - box[k, 0], 0.0) * max(box[k, 3] - box[k, 1], 0.0)
        for n in range(k + 1, count):
            wide = min(box[k, 2], box[n, 2]) - max(box[k, 0], box[n, 0])
            high = min(box[k, 3], box[n, 3]) - max(box[k, 1], box[n, 1])
            if wide <= 0 or high <= 0:
                continue
            other = (box[n, 2] - box[n, 0]) * (box[n, 3] - box[n, 1])
            if wide * high / (own + other - wide * high) > limit:
                set_bit(conflict[k], n)
                set_bit(conflict[n], k)
    return conflict


@njit(cache=True, nogil=True)
def list_bits(bits: Bits, members: Ints) -> int:
    """Writes the blocks of one set to `members`, ascending; their number."""
    size = 0
    for word in range(len(bits)):
        left = bits[word]
        while left:
            members[size] = word * 64 + popcount((left & (~left + np.uint64(1))) - np.uint64(1))
            left &= left - np.uint64(1)
            size += 1
    return size


@njit(cache=True, nogil=True)
def merge_atoms(bits: Bits) -> tuple[Floats, Ints, Ints]:
    """Merges blocks that lie in the same sets into atoms: (weight, start, atoms).

    Set k consists of atoms[start[k]:start[k + 1]]; weight is an atom's number of blocks. Refines a
    partition of the blocks, set by set: exact, in time linear in the sizes of the sets.
    """
    count, words = bits.shape
    atom = np.zeros(words * 64, np.int64)
    blocks = np.zeros(words * 64 + 1, np.int64)
    blocks[0] = words * 64  # atom 0: in no set so far
    seen = np.zeros(words * 64 + 1, np.int64)  # the last set, from 1, that an atom was met in
    inside = np.zeros(words * 64 + 1, np.int64)
    child = np.zeros(words * 64 + 1, np.int64)
    members = np.empty(words * 64, np.int64)
    atoms = 1
    for n in range(count):
        size = list_bits(bits[n], members)
        for i in range(size):
            a = atom[members[i]]
            if seen[a] != n + 1:
                seen[a], inside[a], child[a] = n + 1, 0, -1
            inside[a] += 1
        for i in range(size):
            a = atom[members[i]]
            if child[a] < 0:
                if a != 0 and inside[a] == blocks[a]:
                    child[a] = a
                else:
                    child[a] = atoms
                    blocks[atoms] = inside[a]
                    blocks[a] -= inside[a]
                    atoms += 1
            atom[members[i]] = child[a]
    start = np.zeros(count + 1, np.int64)
    for n in range(count):
        start[n + 1] = start[n] + _distinct(bits[n], atom, members, count + n + 1, seen)
    covered = np.empty(start[count], np.int64)
    for n in range(count):
        size = _distinct(bits[n], atom, members, 2 * count + n + 1, seen)
        for i in range(size):
            covered[start[n] + i] = members[i] - 1
    return blocks[1:atoms].astype(np.float64), start, covered


@njit(cache=True, nogil=True)
def _distinct(bits: Bits, atom: Ints, members: Ints, stamp: int, seen: Ints) -> int:
    """Writes the atoms of one set to `members`, in order of their first blocks; their number."""
    found = 0
    for i in range(list_bits(bits, members)):
        a = atom[members[i]]
        if seen[a] != stamp:
            seen[a] = stamp
            members[found] = a
            found += 1
    return found


@njit(cache=True, nogil=True)
def strongest_overlap(bits: Bits, kept: Ints) -> tuple[Ints, Floats]:
    """For every set, the one of `kept` that it overlaps most (shared over either), and how much.

    Its place in `kept`; -1 where nothing is shared.
    """
    count = bits.shape[0]
    size, first, last = extents(bits)
    who = np.empty(count, np.int64)
    most = np.zeros(count)
    for n in range(count):
        who[n] = -1
        for i in range(len(kept)):
            k = kept[i]
            shared = 0
            for word in range(max(first[k], first[n]), min(last[k], last[n])):
                shared += popcount(bits[k, word] & bits[n, word])
            overlap = shared / max(size[k] + size[n] - shared, 1)
            if overlap > most[n]:
                who[n], most[n] = i, overlap
    return who, most
