"""Reading within bounds, writing without halves, and names that stay inside their folder."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from halfseen.errors import AnnotationError

FilePath = str | os.PathLike[str]


def read_bounded(path: FilePath, most: int) -> bytes:
    """The bytes of an annotation file of at most `most` bytes; AnnotationError otherwise."""
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
    """Up to `most` bytes of an open file; not more is asked of memory than the file has."""
    return stream.read(min(most, os.fstat(stream.fileno()).st_size + 1))


def write_atomically(path: FilePath, content: bytes, *, durable: bool = False) -> None:
    """Write a file so that it is either there in full or not at all; see `open_atomically`."""
    with open_atomically(path, durable=durable) as stream:
        stream.write(content)


@contextmanager
def open_atomically(path: FilePath, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A stream into a file that appears, in full, when the block ends well, or not at all.

    The temporary file lies beside it, so that the final rename stays on one file system; it is
    opened in the usual way, so that the permissions are the user's own. `durable` also outlives a
    power cut.
    """
    file = Path(path)
    part = file.with_name(f".{file.name}.{secrets.token_hex(6)}.part")
    try:
        with part.open("xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def is_plain_name(name: str) -> bool:
    """Whether a stranger's text is one file name: no folder, no way up, nothing unprintable."""
    return (
        bool(name.strip())
        and name.isprintable()
        and name not in (".", "..")
        and not any(mark in name for mark in "/\\:")
    )


def inside(folder: Path, name: str) -> Path | None:
    """`folder / name` where every part of `name` is a plain name, else None."""
    parts = name.removeprefix("./").split("/")
    return folder.joinpath(*parts) if all(map(is_plain_name, parts)) else None


def plain_name(name: str) -> str:
    """A stranger's name as a file name that stays in its folder."""
    plain = "".join(c if is_plain_name(c) or c == " " else "-" for c in name).strip(". ")
    return plain or "-"
