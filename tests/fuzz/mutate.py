"""Damage to a file: blind, and such as keeps its outer form, so that it reaches further in."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = (
    "0", "-1", "1", "2", "255", "256", "65535", "65536", "2147483647", "2147483648", "4294967295",
    "9223372036854775807", "18446744073709551616", "1e9", "1e308", "1e999", "-1e999", "nan", "0.5",
    "1" * 400,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 1 << 31, 1 << 63, 1 << 70, 0.5, -2.5, 1e300, "", "x", "..",
    "/etc/passwd", "../a.jpg", "\0", "\ud800", [], {}, [[]], [0] * 9, {"id": 1}, [1e308] * 8,
)  # fmt: skip
MOST = 1 << 20  # bytes of an input


def mutate(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One damaged copy of a file; `others` are files of the same kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        content = rng.choice(MUTATIONS)(content, others, rng)
    return content[:MOST]


def _flip(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    if not content:
        return b"\0"
    data = bytearray(content)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _set(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """A few bytes replaced by others that are often at fault."""
    data = bytearray(content)
    place = rng.randrange(len(data) + 1)
    width = rng.choice((1, 2, 4, 8))
    new = rng.choice((b"\0" * width, b"\xff" * width, b"\x7f" + b"\xff" * (width - 1)))
    data[place : place + width] = new if rng.random() < 0.7 else rng.randbytes(width)
    return bytes(data)


def _cut(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    if rng.random() < 0.3:
        return content[:start]
    return content[:start] + content[start + rng.randrange(1, 2 + len(content) // 4) :]


def _repeat(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    piece = content[start : start + rng.randrange(1, 64)]
    return content[:start] + piece * rng.choice((2, 3, 10, 200)) + content[start:]


def _splice(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    start, end = rng.randrange(len(content) + 1), rng.randrange(len(other) + 1)
    return content[:start] + other[end:]


def _number(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One number of a text replaced."""
    places = list(re.finditer(rb"-?\d+(\.\d+)?", content[:65536]))
    if not places:
        return _set(content, others, rng)
    place = rng.choice(places)
    return content[: place.start()] + rng.choice(NUMBERS).encode() + content[place.end() :]


def _json(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One value of a JSON tree replaced, removed or repeated."""
    try:
        tree = json.loads(content)
        return json.dumps(_graft(tree, rng)).encode()
    except (ValueError, RecursionError):
        return _number(content, others, rng)


def _graft(tree: Any, rng: random.Random) -> Any:
    if isinstance(tree, str) and tree[:1] in "{[" and tree:
        try:
            return json.dumps(_graft(json.loads(tree), rng))  # JSON within JSON
        except (ValueError, RecursionError):
            pass
    if not isinstance(tree, (dict, list)) or not tree or rng.random() < 0.1:
        return rng.choice(VALUES)
    key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
    what = rng.random()
    if what < 0.1:
        del tree[key]
    elif what < 0.15 and isinstance(tree, list):
        tree += [tree[key]] * rng.choice((1, 2, 50))
    else:
        tree[key] = _graft(tree[key], rng)
    return tree


def _safetensors(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The JSON header damaged, its length kept true."""
    length = int.from_bytes(content[:8], "little")
    if not 2 <= length <= len(content) - 8:
        return _set(content, others, rng)
    header = _json(content[8 : 8 + length], others, rng)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def _npz(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One array of an archive damaged, with true checksums."""
    target = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(target, "w") as new:
            names = old.namelist()
            chosen = rng.choice(names)
            for name in names:
                data = old.read(name)
                if name == chosen:
                    inner = rng.choice((_flip, _set, _cut, _number, _header))
                    data = inner(data, [data], rng)
                new.writestr(name, data, zipfile.ZIP_DEFLATED)
    except Exception:
        return _flip(content, others, rng)
    return target.getvalue()


def _header(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """JSON that an array holds as bytes, damaged; the array's shape kept true."""
    start = content.find(b"{", 80)
    if start < 0:
        return _set(content, others, rng)
    new = _json(content[start:], others, rng)
    shape = f"({len(content) - start},)".encode()
    head = content[:start].replace(shape, f"({len(new)},)".encode().ljust(len(shape)))
    return head + new


MUTATIONS: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip, _flip, _set, _set, _cut, _repeat, _splice, _number, _number, _json, _json,
    _safetensors, _npz,
)  # fmt: skip
