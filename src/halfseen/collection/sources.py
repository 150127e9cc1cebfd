"""The photographs that a user's words name: files, folders, globs, lists, archives and URLs.

Names come one after another, so that a collection may have any number of them; at most the names
of one folder, or of one glob, are in memory.
"""

from __future__ import annotations

import glob
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Self

from halfseen.collection.photo import (
    ARCHIVES,
    Photo,
    file_photo,
    is_archive,
    is_url,
    open_store,
    read_archive,
)
from halfseen.data.folder import is_image, nothing_found, walk_images
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import ImageError, SettingsError

LIST = ".txt"
NAMES_IN_MEMORY = 100_000


def find_photos(words: Sequence[str], limits: Limits = LIMITS) -> Iterator[Photo]:
    """Yield the photographs that words name, each once, in the order of the words.

    A folder gives all images below it, sorted. A glob (`**` reaches into folders) gives the images
    and folders it matches, sorted. A `.txt` file is a list, one path or URL a line. A `.tar` file
    gives its images in their order. A URL (`s3://bucket/photos`) may be any of these in a store
    that fsspec knows. A word that gives nothing is an ImageError.
    """
    if not words:
        raise ImageError("no images: expected at least one file, folder or glob")
    if "" in words:
        raise ImageError(
            "an empty text names no image; expected a file, folder or glob ('.' is this folder)"
        )
    return _once(photo for word in words for photo in _some(word, limits))


def _some(word: str, limits: Limits) -> Iterator[Photo]:
    empty = True
    for photo in _of_store(word, limits) if is_url(word) else _of_path(word, limits):
        empty = False
        yield photo
    if empty:
        raise ImageError(nothing_found(word))


def _once(photos: Iterable[Photo]) -> Iterator[Photo]:
    """Yield the first photo of each name. Beyond a number of names they are kept on disk."""
    with _Names() as names:
        for photo in photos:
            if names.add(photo.name):
                yield photo


class _Names:
    """Digests of the names so far: a set, or of very many a temporary file of sqlite's."""

    def __init__(self) -> None:
        self._few: set[bytes] = set()
        self._many: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._many is not None:
            self._many.close()

    def add(self, name: str) -> bool:
        """Add a name; return whether it is new."""
        digest = blake2b(name.encode(errors="surrogateescape"), digest_size=16).digest()
        if self._many is not None:
            row = self._many.execute("INSERT OR IGNORE INTO names VALUES (?)", (digest,))
            return row.rowcount == 1
        if digest in self._few:
            return False
        self._few.add(digest)
        if len(self._few) == NAMES_IN_MEMORY:
            self._many = sqlite3.connect("")
            self._many.execute("CREATE TABLE names (digest BLOB PRIMARY KEY) WITHOUT ROWID")
            self._many.executemany("INSERT INTO names VALUES (?)", ((d,) for d in self._few))
            self._few.clear()
        return True


def _of_path(word: str, limits: Limits) -> Iterator[Photo]:
    path = Path(word)
    if path.is_dir() or not path.exists():
        for file in walk_images(word, ARCHIVES):
            yield from _of_file(file, limits)
    else:
        yield from _of_file(path, limits)


def _of_file(path: Path, limits: Limits) -> Iterator[Photo]:
    if is_archive(path.name):
        yield from read_archive(str(path), limits)
    elif path.suffix.lower() == LIST:
        yield from _of_list(path, limits)
    else:
        yield file_photo(path)


def _of_list(path: Path, limits: Limits) -> Iterator[Photo]:
    """Yield one photo a line; relative names start from the current folder, as `find` does."""
    try:
        with path.open("rb") as stream:
            for number in range(1, limits.names + 2):
                line = stream.readline(limits.name_bytes + 1)
                if not line:
                    return
                if len(line) > limits.name_bytes or b"\0" in line:
                    raise ImageError(f"{path}: line {number}: expected a path or URL")
                name = line.decode("utf-8", "surrogateescape").strip()
                if name:
                    yield Photo(name, name) if is_url(name) else file_photo(name)
    except OSError as error:
        raise ImageError(f"{path}: cannot be read: {error.strerror or error}") from None
    raise ImageError(f"{path}: more than the limit of {limits.names:,} names")


def _of_store(url: str, limits: Limits) -> Iterator[Photo]:
    system, path = open_store(url)
    try:
        if glob.has_magic(path):
            names = sorted(map(str, system.glob(path)))
            found = [n for n in names if is_image(n.rsplit("/", 1)[-1]) or is_archive(n)]
        elif system.isfile(path):
            found = [path]
        else:
            for folder, _, files in system.walk(path):
                for name in sorted(files):
                    if is_image(name):
                        address = system.unstrip_protocol(f"{folder.rstrip('/')}/{name}")
                        yield Photo(address, address)
            return
    except SettingsError:
        raise
    except Exception as error:  # a store's library may raise anything
        reason = " ".join(str(error).split())
        raise ImageError(f"{url}: cannot be listed: {type(error).__name__}: {reason}") from None
    for name in found:
        address = system.unstrip_protocol(name)
        if is_archive(name):
            yield from read_archive(address, limits)
        else:
            yield Photo(address, address)
