"""Plain folders of photographs: which image files a user's words name."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from halfseen.data.files import FilePath
from halfseen.data.image import SUFFIXES
from halfseen.errors import ImageError


def list_images(patterns: Sequence[FilePath]) -> list[Path]:
    """The image files that files, folders and globs name, each once, in the order of the words.

    A folder gives all images below it, sorted; a glob (`**` reaches into folders) gives the images
    and folders it matches, sorted; a file gives itself, whatever its name. Files that begin with
    a dot count only when named. A word that gives nothing is an ImageError.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        files = _files_of(str(pattern))
        if not files:
            raise ImageError(_nothing(str(pattern)))
        found.update(dict.fromkeys(files))
    if not found:
        raise ImageError("no images: expected at least one file, folder or glob")
    return list(found)


def _files_of(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        return _below(path)
    if path.exists():
        return [path]
    files: list[Path] = []
    for match in sorted(map(Path, glob.glob(pattern, recursive=True))):
        files += _below(match) if match.is_dir() else [match] * _is_image(match.name)
    return files


def _below(folder: Path) -> list[Path]:
    # os.walk does not follow links to folders, so it always ends.
    return sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if _is_image(name)
    )


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def _nothing(pattern: str) -> str:
    kinds = " ".join(f"*{suffix}" for suffix in SUFFIXES)
    if Path(pattern).is_dir():
        return f"{pattern}: no image in this folder; looked for {kinds}"
    if glob.has_magic(pattern):
        return f"{pattern}: no image matches; looked for {kinds}"
    return f"{pattern}: no such file or folder"
