"""Tar archives: where in them their images lie. Nothing is unpacked."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from typing import IO, Any

from halfseen.collection.photo import Photo, is_url, open_store
from halfseen.data.folder import is_image
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import HalfseenError, ImageError

COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
ARCHIVES = (".tar", *COMPRESSED)


def is_archive(name: str) -> bool:
    """Whether a file's name is that of a tar archive."""
    return name.lower().endswith(ARCHIVES)


def read_archive(place: str, limits: Limits = LIMITS) -> Iterator[Photo]:
    """The images of a plain tar archive, a path or URL, in its order.

    Members are read where they lie, in any order and by any worker; what a compressed archive
    cannot offer, so it is refused. Links, devices and sparse files are not images.
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
    """ReadError unless an archive ends there: tarfile takes a damaged header for the end.

    Some writers leave the empty blocks at the end out.
    """
    stream.seek(offset)
    block = stream.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0") or 0 < len(block) < tarfile.BLOCKSIZE:
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
