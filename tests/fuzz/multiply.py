"""Files that ask for much more than they hold: long names, many objects, huge sizes, padding.

Where `mutate` damages, these keep a file's form and let parts of it grow, up to 2 MiB.
"""

from __future__ import annotations

import io
import json
import math
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

MOST = 2 << 20  # bytes of an input
TIMES = (10, 100, 1_000, 10_000, 100_000)
SIDES = (10_000, 30_000, 65_535, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 10**30)
ZEROS = 200 << 20  # bytes of an array
LENGTHS = (300, 5_000, 100_000, 1_000_000)


def multiply(content: bytes, rng: random.Random) -> bytes:
    """Return a file in which one to three parts have grown."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(WAYS)(content, rng)[:MOST]
    return content


def _grow_json(content: bytes, rng: random.Random) -> bytes:
    """Repeat rows, lengthen texts and enlarge numbers of a JSON tree."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return _grow_lines(content, rng)
    text = content.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 2, 3))):
        places = list(_places(tree))
        if not places or len(text) > MOST // 2:
            break
        holder, key = rng.choice(places)
        holder[key] = _grown(holder[key], rng)
        text = json.dumps(tree)
        tree = json.loads(text)  # rows that were repeated are now their own
    return content if len(text) > MOST else text.encode("utf-8", "replace")


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where the values of a tree lie, as (dictionary or list, key)."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _grown(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list) and value:
        size = len(json.dumps(value))
        return value * min(rng.choice(TIMES), max(MOST // (2 * size), 1))
    if isinstance(value, str):
        return (value or "n") * min(rng.choice(LENGTHS), MOST // (4 * max(len(value), 1)))
    if isinstance(value, dict):
        many = min(rng.choice(TIMES), MOST // (4 * (len(json.dumps(value)) + 8)))
        return value | {f"{n}": value for n in range(many)}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return rng.choice((*SIDES, 1e15, 1e308, float(2**53)))
    return value


def _grow_lines(content: bytes, rng: random.Random) -> bytes:
    """Repeat lines, or a part of one, of a text."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    n = rng.randrange(len(lines))
    times = min(rng.choice(TIMES), MOST // (len(lines[n]) + 1) + 1)
    if rng.random() < 0.6:
        return b"".join([*lines[:n], lines[n] * times, *lines[n + 1 :]])
    words = re.split(rb"([\s,;:])", lines[n])
    k = rng.randrange(len(words))
    words[k] = (words[k] or b"n") * min(rng.choice(LENGTHS), MOST // (len(words[k]) + 1))
    return b"".join([*lines[:n], b"".join(words), *lines[n + 1 :]])


def _grow_elements(content: bytes, rng: random.Random) -> bytes:
    """Repeat an XML element, or lengthen the text in one."""
    found = list(re.finditer(rb"<(\w+)>(.*?)</\1>", content[: 1 << 16], re.DOTALL))
    if not found:
        return _grow_json(content, rng)
    place = rng.choice(found)
    times = min(rng.choice(TIMES), MOST // len(place[0]) + 1)
    new = place[0] * times
    if rng.random() < 0.4 and b"<" not in place[2]:
        tag = place[1]
        length = min(rng.choice(LENGTHS), MOST // 2)
        new = b"<%s>%s</%s>" % (tag, rng.choice((b"n", b"9", b" ")) * length, tag)
    return content[: place.start()] + new + content[place.end() :]


def _grow_number(content: bytes, rng: random.Random) -> bytes:
    """Enlarge one number of a text."""
    found = list(re.finditer(rb"\d+", content[: 1 << 16]))
    if not found:
        return _pad(content, rng)
    place = rng.choice(found)
    return content[: place.start()] + str(rng.choice(SIDES)).encode() + content[place.end() :]


def _pad(content: bytes, rng: random.Random) -> bytes:
    """Insert a long run of one byte, or of a few."""
    place = rng.choice((2, rng.randrange(len(content) + 1)))
    piece = rng.choice((b"\0", b"\xff", b" ", b"#", b"\n", rng.randbytes(rng.randrange(1, 16))))
    return content[:place] + piece * (rng.choice(LENGTHS) // len(piece)) + content[place:]


def many_cells(count: int) -> bytes:
    """A MATLAB file of as many structs as CityPersons' cells, all empty: a byte holds hundreds."""
    names = b"im_name\0bbs".ljust(16, b"\0")
    head = (
        struct.pack("<4I", 6, 8, 2, 0)  # an array of structs,
        + struct.pack("<2I2i", 5, 8, 1, count)  # of this shape,
        + struct.pack("<2I", 1, 1) + b"x".ljust(8, b"\0")  # of this name,
        + struct.pack("<HHI", 5, 4, 8) + struct.pack("<2I", 1, len(names)) + names  # and fields
    )  # fmt: skip
    cells = struct.pack("<2I", 14, 0) * (2 * count)
    body = zlib.compress(struct.pack("<2I", 14, len(head + cells)) + head + cells)
    start = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"
    return start + struct.pack("<2I", 15, len(body)) + body


def _multiply_packed(content: bytes, rng: random.Random) -> bytes:
    """Grow what a file holds compressed, where it does."""
    if content.startswith(b"MATLAB"):
        return many_cells(rng.choice(TIMES))
    return (_multiply_arrays if content.startswith(b"PK") else _grow_json)(content, rng)


def _multiply_arrays(content: bytes, rng: random.Random) -> bytes:
    """Give an array of an .npz file many rows of zeros, which compress to almost nothing."""
    target = io.BytesIO()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        name = rng.choice(sorted(arrays))
        rows = (rng.choice((*TIMES, 10_000_000)), *arrays[name].shape[1:])
        if not arrays[name].ndim or math.prod(rows) * arrays[name].itemsize > ZEROS:
            return content
        arrays[name] = np.zeros(rows, arrays[name].dtype)
        np.savez_compressed(target, **arrays)
    except Exception:
        return _pad(content, rng)
    return target.getvalue()


def _enlarge_image(content: bytes, rng: random.Random) -> bytes:
    """Let an image's header claim more pixels, with a right checksum where there is one."""
    wide, high = (rng.choice((5_000, 9_000, 16_383, 30_000, 65_535)) for _ in range(2))
    if content.startswith(b"\x89PNG") and len(content) > 33:
        head = b"IHDR" + struct.pack(">II", wide, high) + content[24:29]
        return content[:12] + head + struct.pack(">I", zlib.crc32(head)) + content[33:]
    if content.startswith(b"GIF8"):
        data = bytearray(content)
        data[6:10] = struct.pack("<HH", wide, high)
        frame = data.find(b",\0\0\0\0", 13)
        if frame > 0:
            data[frame + 5 : frame + 9] = struct.pack("<HH", wide, high)
        return bytes(data)
    if content.startswith(b"\xff\xd8"):
        place = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
        if place > 0:
            return content[: place + 5] + struct.pack(">HH", high, wide) + content[place + 9 :]
    if content.startswith(b"BM") and len(content) > 26:
        return content[:18] + struct.pack("<II", wide, high) + content[26:]
    return _grow_number(content, rng)


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _grow_json, _grow_json, _grow_lines, _grow_elements, _grow_number, _pad, _enlarge_image,
    _multiply_packed,
)  # fmt: skip
