"""One photograph of a collection: where it lies, and how its bytes are read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from tarfile import BLOCKSIZE, TarError, TarInfo
from typing import Any

from halfseen.data.files import read_most
from halfseen.data.image import Pixels, decode_image
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import HalfseenError, ImageError, SettingsError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")


@dataclass(frozen=True)
class Photo:
    """A file, an object of a store, or a stretch of a tar archive. Small enough to send about.

    name    what results and messages call it
    place   the file's absolute path or URL, or the archive's
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

    def read(self, limits: Limits = LIMITS) -> bytes:
        """Its bytes, one more than the limit at most, or ImageError."""
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
        """The member after its header, which says whether it still is what was listed."""
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
        """The photograph, upright, as (height, width, 3) uint8, or ImageError."""
        return decode_image(self.read(limits), self.name, limits, upright=True)


def file_photo(path: str | os.PathLike[str]) -> Photo:
    """The photograph of one local file."""
    return Photo(str(Path(path)), os.path.abspath(path))


def is_url(word: str) -> bool:
    """Whether a word is the address of a store (s3://..., https://...) rather than a path."""
    return _URL.match(word) is not None


def open_store(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SettingsError(
            f"{url}: object stores need fsspec: pip install 'halfseen[collections]'"
        ) from None
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # an unknown protocol, or its package is missing
        raise SettingsError(f"{url}: cannot be opened: {_reason(error)}") from None
    return system, str(path)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
