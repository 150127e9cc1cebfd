"""Checks of an image file before and while Pillow decodes it.

Pillow parses headers in Python, piece by piece, and believes the lengths it finds there. A small
file may so ask for hours or for all memory: padding that is read byte by byte, tags that each
refer to the same megabyte, passes over the whole picture that take a few bytes each.
"""

from __future__ import annotations

import io
import os
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Int64
from halfseen.data.files import FilePath
from halfseen.errors import ImageError

SEGMENTS = 10_000  # of a JPEG file before its pixels; profiles and previews need some hundreds
SCANNED_PIXELS = 1_500_000_000  # pixels times passes of a JPEG file
OPEN_READS = 20_000  # pieces of a header
LOAD_READS = 50_000  # pieces of the pixels, and one more for each LOAD_PIECE bytes
LOAD_PIECE = 256
STRIPS = 1_000_000
PLAIN_PPM_BYTES = 32 << 20  # of pixels written as decimal numbers, which Python parses

_MARKER = re.compile(rb"\xff([\x01-\xfe])")
_BARE_MARKERS = {0x01, *range(0xD0, 0xD9)}  # markers without content
_PIXELS_FOLLOW = {0xD9, 0xDA}
_ORIENTATION = 0x0112
_OFFSETS = (273, 324)  # where the strips or tiles of a TIFF file lie
_UNIT = np.array([1, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4], np.int64)  # bytes, by type of tag
_IN_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


class _Metered:
    """A stream that raises ImageError when it is read in too many pieces, or too often."""

    _size = 0
    _reads = OPEN_READS
    _bytes = 0

    def _begin(self, size: int) -> None:
        self._size = size
        self._bytes = 2 * size + (1 << 20)

    def allow_pixels(self) -> None:
        """Start anew with what decoding the pixels may take."""
        self._reads = LOAD_READS + self._size // LOAD_PIECE
        self._bytes = 2 * self._size + (1 << 20)

    def _count(self, part: bytes) -> bytes:
        self._reads -= 1
        self._bytes -= len(part)
        if self._reads < 0 or self._bytes < 0:
            raise ImageError("the file is padded, or cut into too many small pieces")
        return part


class MeteredStream(_Metered, io.BytesIO):
    """A file in memory that is metered."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._begin(len(content))

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as BytesIO does."""
        return self._count(super().read(size))


class MeteredFile(_Metered, io.BufferedReader):
    """A file on disk that is metered."""

    def __init__(self, path: FilePath) -> None:
        super().__init__(io.FileIO(path))
        self._begin(os.fstat(self.fileno()).st_size)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as BufferedReader does."""
        return self._count(super().read(size))


class Tags(NamedTuple):
    """The first directory of TIFF or EXIF data, as parallel arrays."""

    number: NDArray[np.uint16]
    kind: NDArray[np.uint16]
    length: NDArray[np.uint32]
    value: NDArray[np.uint16]

    @property
    def sizes(self) -> Int64:
        """Bytes of each tag's content, from its length and kind."""
        units = _UNIT[np.minimum(self.kind, len(_UNIT) - 1)]
        return np.multiply(self.length, units, dtype=np.int64)


def read_tags(content: bytes) -> Tags | None:
    """Return the first directory of TIFF or EXIF data, or None where there is none."""
    content = content.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(content[:4])
    if order is None:
        return None
    start = int(np.frombuffer(content[4:8].ljust(4, b"\0"), f"{order}u4")[0])
    head = content[start : start + 2]
    if len(head) < 2:
        return None
    count = min(int(np.frombuffer(head, f"{order}u2")[0]), (len(content) - start - 2) // 12)
    entry = np.dtype(
        [
            ("number", f"{order}u2"),
            ("kind", f"{order}u2"),
            ("length", f"{order}u4"),
            ("value", f"{order}u2"),
            ("more", f"{order}u2"),
        ]
    )
    rows = np.frombuffer(content, entry, count, start + 2)
    return Tags(rows["number"], rows["kind"], rows["length"], rows["value"])


def check_before(content: bytes) -> None:
    """Raise ImageError for headers that would take Pillow too much time or memory."""
    if content[:2] == b"\xff\xd8":
        parts = list(_segments(content))
        _check_tags(b"".join(p[6:] for m, p in parts if m == 0xE1 and p.startswith(b"Exif\0\0")))
        for marker, part in parts:
            if marker == 0xE2 and part.startswith(b"MPF\0"):
                _check_tags(part[4:])
    elif content[:2] in (b"P1", b"P2", b"P3"):
        if len(content) > PLAIN_PPM_BYTES:
            raise ImageError(
                f"a plain PPM file of {len(content):,} bytes, expected at most "
                f"{PLAIN_PPM_BYTES:,}; convert it to binary PPM"
            )
    else:
        _check_tags(content)


def _check_tags(content: bytes) -> None:
    tags = read_tags(content)
    if tags is None:
        return
    sizes = tags.sizes
    if sizes[sizes <= len(content)].sum() > 2 * len(content) + (1 << 20):
        raise ImageError("damaged image: its tags overlap")
    if (tags.length[np.isin(tags.number, _OFFSETS)] > STRIPS).any():
        raise ImageError(f"damaged image: more than {STRIPS:,} strips")


def check_passes(content: bytes, pixels: int) -> None:
    """Raise ImageError for a JPEG file that describes its pixels too many times over."""
    if content[:2] == b"\xff\xd8":
        passes = content.count(b"\xff\xda")
        if passes * pixels > max(SCANNED_PIXELS, 2 * pixels):
            raise ImageError(f"{passes} passes over {pixels:,} pixels; save it with fewer")


def _segments(content: bytes) -> list[tuple[int, bytes]]:
    """Return the marker and content of each part of a JPEG file before its pixels."""
    found: list[tuple[int, bytes]] = []
    place = 2
    while (match := _MARKER.search(content, place)) and match[1][0] not in _PIXELS_FOLLOW:
        place = match.end()
        if match[1][0] in _BARE_MARKERS:
            continue
        length = int.from_bytes(content[place : place + 2], "big")
        found.append((match[1][0], content[place + 2 : place + length]))
        place += max(length, 2)
        if len(found) > SEGMENTS:
            raise ImageError(f"a JPEG file with more than {SEGMENTS:,} segments")
    return found


def orientation(info: dict[str | tuple[int, int], object]) -> int:
    """Return how the metadata of a decoded image want it turned, 1 to 8; 1 is not at all."""
    exif = info.get("exif")
    if exif is None and isinstance(raw := info.get("Raw profile type exif"), str):
        try:
            exif = bytes.fromhex("".join(raw.split("\n")[3:]))
        except ValueError:
            exif = None
    if isinstance(exif, bytes) and (tags := read_tags(exif)) is not None:
        (places,) = np.nonzero(
            (tags.number == _ORIENTATION) & (tags.kind == 3) & (tags.length == 1)
        )
        if len(places):
            return int(tags.value[places[-1]])
    xmp = info.get("XML:com.adobe.xmp") or info.get("xmp")
    text = xmp.encode("utf-8", "replace") if isinstance(xmp, str) else xmp
    match = _IN_XMP.search(text) if isinstance(text, bytes) else None
    return int(match[1]) if match else 1
