"""Compiled kernels: where numba keeps them, and who is told that they are being made.

Kernels compile when first called and are kept on disk, so that only the first run waits. numba
looks for a place beside the source, then in the user's cache folder, and fails to import a kernel
where neither can be written: a read-only container, or a user without a home.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_own_place: Path | None = None


def find_cache() -> Path | None:
    """Gives numba a place of its own where it would find none, and returns it; else None.

    Called before any kernel is imported. The place is in the temporary folder, and open to this
    user alone: cached kernels are code, and whoever can write there can run theirs.
    """
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    usual = [Path(__file__).parent / "__pycache__", user / "numba"]
    if any(map(_takes_files, [*usual, Path(chosen)] if chosen else usual)):
        return None
    global _own_place
    _own_place = place = _private_folder()
    os.environ["NUMBA_CACHE_DIR"] = str(place)
    if "numba" in sys.modules:  # it reads its environment when it is imported
        sys.modules["numba"].config.CACHE_DIR = str(place)
    return place


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made there. It is tried, as numba does: permissions do not tell all."""
    probe = folder / f".halfseen-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def _private_folder() -> Path:
    """The same folder at each run, unless someone else made it first."""
    import tempfile

    if hasattr(os, "getuid"):
        place = Path(tempfile.gettempdir(), f"halfseen-kernels-{os.getuid()}")
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError:
            return Path(tempfile.mkdtemp(prefix="halfseen-kernels-"))
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
        if private and found.st_uid == os.getuid():
            return place
    return Path(tempfile.mkdtemp(prefix="halfseen-kernels-"))


@contextmanager
def on_compile(callback: Callable[[Path | None], None]) -> Iterator[None]:
    """Calls back once, if and when a kernel in this block is not in the cache and gets compiled.

    `callback` is given the place that `find_cache` had to make, or None where numba found its own.
    """
    from numba.core import event

    class FirstCompilation(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                callback(_own_place)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", FirstCompilation()):
        yield
