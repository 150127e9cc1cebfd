"""Reading within bounds, writing whole files, and names that stay inside their folder."""

import errno
import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from halfseen.errors import AnnotationError, SettingsError

FilePath = str | os.PathLike[str]

_LONGEST_NAME = 255  # bytes
_LONGEST_PATH = 2048  # characters of a path that a file names: systems take 4096 bytes in all
_PART_BYTES = 200  # of a file's name in that of its temporary file
NAME_BYTES = 200  # of a file name made here: file systems take 255, and prefixes and suffixes come


def read_bounded(path: FilePath, most: int) -> bytes:
    """Return the bytes of an annotation file of at most `most` bytes, or raise AnnotationError."""
    file = Path(path)
    if not file.exists():
        raise AnnotationError(f"{file}: no such file")
    if not file.is_file():
        raise AnnotationError(f"{file}: expected a file, found a folder or device")
    try:
        with file.open("rb") as stream:
            content = read_most(stream, most + 1)
    except OSError as error:
        raise AnnotationError(f"{file}: cannot be read: {error.strerror}") from None
    if len(content) > most:
        raise AnnotationError(f"{file}: larger than the limit of {most:,} bytes")
    return content


def read_most(stream: BinaryIO, most: int) -> bytes:
    """Read up to `most` bytes of an open file; allocates no more than the file has."""
    return stream.read(min(most, os.fstat(stream.fileno()).st_size + 1))


def write_atomically(path: FilePath, content: bytes, *, durable: bool = False) -> None:
    """Write a file so that it is either there in full or not at all; see `open_atomically`."""
    with open_atomically(path, durable=durable) as stream:
        stream.write(content)


@contextmanager
def open_atomically(path: FilePath, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a stream into a file that appears, in full, when the block ends well, or not at all.

    The temporary file lies beside it, so that the final rename stays on one file system; its name
    is cut so that it fits wherever the file's own does, and its permissions are the user's own.
    `durable` also outlives a power cut.
    """
    file = Path(path)
    if not file.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    start = os.fsdecode(os.fsencode(file.name)[:_PART_BYTES])
    part = file.with_name(f".{start}.{secrets.token_hex(6)}.part")
    try:
        stream = part.open("xb")
        try:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            with suppress(OSError):  # what a full disk did not take is tried again, in vain
                stream.close()
            raise
        stream.close()
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def is_plain_name(name: str) -> bool:
    """Return whether a text is one file name: no folder, no way up, printable, not too long."""
    return (
        bool(name.strip())
        and name.isprintable()
        and len(os.fsencode(name)) <= _LONGEST_NAME
        and name not in (".", "..")
        and not any(mark in name for mark in "/\\:")
    )


def inside(folder: Path, name: str) -> Path | None:
    """Return `folder / name` where every part of `name` is a plain name, else None."""
    parts = name[:_LONGEST_PATH].removeprefix("./").split("/")
    plain = len(name) < _LONGEST_PATH and all(map(is_plain_name, parts))
    return folder.joinpath(*parts) if plain else None


def plain_name(name: str) -> str:
    """Turn a stranger's name into a file name of at most NAME_BYTES bytes that stays in its folder.

    A name that is too long keeps its beginning and ends in a digest of the whole.
    """
    plain = "".join(c if is_plain_name(c) or c == " " else "-" for c in name).strip(". ") or "-"
    return plain if len(os.fsencode(plain)) <= NAME_BYTES else _with_digest(plain, name, NAME_BYTES)


def plain_names(names: Sequence[str]) -> list[str]:
    """Turn strangers' names into file names, no two of them equal, not even where case is ignored.

    Of several names that would become one, each ends in a digest of its own.
    """
    plain = [plain_name(name) for name in names]
    count = Counter(map(str.casefold, plain))
    return [
        _with_digest(short, name, NAME_BYTES) if count[short.casefold()] > 1 else short
        for short, name in zip(plain, names, strict=True)
    ]


def fit_name(name: str, suffix: str) -> str:
    """Return `name + suffix`; a name that is too long for a file system ends in a digest."""
    if len(os.fsencode(name)) + len(suffix) <= _LONGEST_NAME:
        return name + suffix
    return _with_digest(name, name, _LONGEST_NAME - len(suffix)) + suffix


def _with_digest(plain: str, name: str, most: int) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    start = plain.encode("utf-8", "replace")[: most - len(digest) - 1].decode("utf-8", "ignore")
    return f"{start}-{digest}"


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Within it no other process holds this file's lock; SettingsError, `busy`, where one does.

    The lock ends with the process, however that ends.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        yield
        return
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(busy) from None
        yield
