"""One photograph of a collection, a file or a member of a tar archive, and how it is read.

Archives are not unpacked: a photograph knows where in them its bytes lie.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tarfile import BLOCKSIZE, TarError, TarInfo
from typing import IO, Any

from halfseen.arrays import Pixels
from halfseen.data.files import read_most
from halfseen.data.folder import is_image
from halfseen.data.image import decode_image
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import HalfseenError, ImageError, SettingsError, install

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
ARCHIVES = (".tar", *COMPRESSED)


@dataclass(frozen=True)
class Photo:
    """A file, an object of a store, or a stretch of a tar archive. Small enough to be sent.

    name    of the photograph in results and messages
    place   absolute path or URL of the file, or of the archive
    start   where it begins in an archive; None for a whole file
    length  its bytes in an archive
    """

    name: str
    place: str
    start: int | None = None
    length: int = 0

    def __str__(self) -> str:
        return self.name

    def __fspath__(self) -> str:
        return self.name

    def size(self, limits: Limits = LIMITS) -> int:
        """Return how many bytes `read` returns at most; 0 where that is not known beforehand."""
        length = self.length
        if self.start is None:
            with suppress(OSError, ValueError):
                length = os.path.getsize(self.place)
        return min(length, limits.image_bytes + 1)

    def read(self, limits: Limits = LIMITS) -> bytes:
        """Return its bytes, one more than the limit at most, or raise ImageError."""
        most = limits.image_bytes + 1
        try:
            if is_url(self.place):
                return self._fetch(most)
            if not os.path.isfile(self.place):
                there = os.path.exists(self.place)
                found = "expected an image file, found a folder or device"
                raise ImageError(f"{self.name}: {found if there else 'no such file'}")
            with open(self.place, "rb") as stream:
                if self.start is None:
                    return read_most(stream, most)
                stream.seek(self.start - BLOCKSIZE)
                return self._whole(stream.read(BLOCKSIZE + min(self.length, most)), most)
        except HalfseenError as error:
            # One address that no store answers to must not end the work on the others.
            raise ImageError(str(error)) from None
        except OSError as error:
            raise ImageError(
                f"{self.name}: cannot be read: {error.strerror or _reason(error)}"
            ) from None
        except Exception as error:  # a store's library may raise anything
            raise ImageError(f"{self.name}: cannot be read: {_reason(error)}") from None

    def _fetch(self, most: int) -> bytes:
        system, path = open_store(self.place)
        if self.start is None:
            with system.open(path, "rb") as stream:
                return bytes(stream.read(most))
        start, end = self.start - BLOCKSIZE, self.start + min(self.length, most)
        return self._whole(bytes(system.cat_file(path, start=start, end=end)), most)

    def _whole(self, stretch: bytes, most: int) -> bytes:
        """Return a member without its header, which tells whether it is still the one listed."""
        header, content = stretch[:BLOCKSIZE], stretch[BLOCKSIZE:]
        try:
            same = TarInfo.frombuf(header, "utf-8", "surrogateescape").size == self.length
        except TarError:
            same = False
        if not same:
            raise ImageError(f"{self.name}: the archive changed after its images were listed")
        if len(content) < min(self.length, most):
            raise ImageError(f"{self.name}: the archive ends before it does")
        return content

    def pixels(self, limits: Limits = LIMITS) -> Pixels:
        """Return the photograph, upright, as (height, width, 3) uint8, or raise ImageError."""
        return decode_image(self.read(limits), self.name, limits, upright=True)


def file_photo(path: str | os.PathLike[str]) -> Photo:
    """Return the photograph of one local file."""
    return Photo(str(Path(path)), os.path.abspath(path))


def is_url(word: str) -> bool:
    """Return whether a word is the address of a store (s3://..., https://...), not a path."""
    return _URL.match(word) is not None


def open_store(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SettingsError(f"{url}: object stores need fsspec: {install('collections')}") from None
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # an unknown protocol, or its package is missing
        raise SettingsError(f"{url}: cannot be opened: {_reason(error)}") from None
    return system, str(path)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_archive(name: str) -> bool:
    """Return whether a file's name is that of a tar archive."""
    return name.lower().endswith(ARCHIVES)


def read_archive(place: str, limits: Limits = LIMITS) -> Iterator[Photo]:
    """Yield the images of a plain tar archive, a path or URL, in its order.

    Members are read where they lie, in any order and by any worker. A compressed archive cannot be
    read so, and is refused. Links, devices and sparse files are passed over.
    """
    if place.lower().endswith(COMPRESSED):
        raise ImageError(
            f"{place}: expected a plain .tar, found a compressed one, which cannot be read from "
            "the middle; decompress it first (photographs hardly shrink)"
        )
    whole = place if is_url(place) else os.path.abspath(place)
    try:
        with (
            _open(place) as stream,
            tarfile.open(mode="r:", fileobj=_Headers(stream, limits)) as archive,  # type: ignore[call-overload]
        ):
            while (member := archive.next()) is not None:
                archive.members = []  # or it would keep all of them
                name = member.name.rsplit("/", 1)[-1]
                if member.isreg() and not member.issparse() and is_image(name):
                    full = f"{place}/{member.name.removeprefix('./')}"
                    yield Photo(full, whole, member.offset_data, member.size)
            _check_end(stream, archive.offset)
    except HalfseenError:
        raise
    except OSError as error:
        raise ImageError(f"{place}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # strangers' bytes make parsers raise almost anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(f"{place}: a damaged tar archive: {reason}") from None


def _check_end(stream: IO[bytes], offset: int) -> None:
    """Raise ReadError unless an archive ends there: tarfile takes a damaged header for the end.

    Some writers leave out the empty blocks at the end.
    """
    stream.seek(offset)
    block = stream.read(BLOCKSIZE)
    if block.strip(b"\0") or 0 < len(block) < BLOCKSIZE:
        raise tarfile.ReadError(f"no header at byte {offset:,}, nor its end")


def _open(place: str) -> Any:
    if is_url(place):
        system, path = open_store(place)
        return system.open(path, "rb")
    return open(place, "rb")


class _Headers:
    """A stream for tarfile that refuses headers which would not fit in memory."""

    def __init__(self, stream: IO[bytes], limits: Limits) -> None:
        self._stream = stream
        self._most = limits.tar_header_bytes
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, count: int) -> bytes:
        if not 0 <= count <= self._most:
            raise tarfile.ReadError(f"a header of {count:,} bytes exceeds {self._most:,}")
        return self._stream.read(count)
