"""Plain folders of photographs: which image files a user's words name."""

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from halfseen.data.image import SUFFIXES
from halfseen.errors import ImageError


def walk_images(pattern: str, also: tuple[str, ...] = ()) -> Iterator[Path]:
    """The images below a folder, or the images and folders that a glob matches, sorted.

    `also` names suffixes of other files that a glob may match.
    """
    if Path(pattern).is_dir():
        yield from _below(Path(pattern))
        return
    for match in sorted(map(Path, glob.glob(pattern, recursive=True))):
        if match.is_dir():
            yield from _below(match)
        elif is_image(match.name) or match.name.lower().endswith(also):
            yield match


def _below(folder: Path) -> Iterator[Path]:
    """One folder's names at a time. Links to folders are not followed, so it always ends."""
    open_folders = [iter(_entries(folder))]
    while open_folders:
        for path, is_folder in open_folders[-1]:
            if is_folder:
                open_folders.append(iter(_entries(path)))
                break
            if is_image(path.name):
                yield path
        else:
            open_folders.pop()


def _entries(folder: Path) -> list[tuple[Path, bool]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError as error:
        raise ImageError(f"{folder}: cannot be listed: {error.strerror}") from None
    return [(folder / name, is_folder) for name, is_folder in found]


def is_image(name: str) -> bool:
    """Whether a file's name is that of an image; names that begin with a dot are not."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def nothing_found(pattern: str) -> str:
    """What to say of a word that names no image."""
    kinds = " ".join(f"*{suffix}" for suffix in SUFFIXES)
    if Path(pattern).is_dir():
        return f"{pattern}: no image in this folder; looked for {kinds}"
    if glob.has_magic(pattern):
        return f"{pattern}: no image matches; looked for {kinds}"
    if Path(pattern).exists():
        return f"{pattern}: names no image"
    return f"{pattern}: no such file or folder"
