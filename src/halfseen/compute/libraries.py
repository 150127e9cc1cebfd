"""What the libraries that compute need: a place for the kernels of numba, one thread for BLAS.

Kernels compile when first called and are kept on disk, so that only the first run waits. numba
tries the folder of the source, then the user's cache folder, and fails to import a kernel where
neither can be written: a read-only container, or a user without a home.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

PACKAGE = Path(__file__).parents[1]
_own_folder: Path | None = None


def find_cache() -> Path | None:
    """Choose a cache folder for numba where it would find none, and return it; else None.

    Called before any kernel is imported. The folder lies in the temporary one, and is open to this
    user alone: cached kernels are code, and whoever can write there can run theirs.
    """
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    defaults = [PACKAGE / "__pycache__", user / "numba"]
    if any(map(_takes_files, [*defaults, Path(chosen)] if chosen else defaults)):
        return None
    global _own_folder
    _own_folder = place = _private_folder()
    os.environ["NUMBA_CACHE_DIR"] = str(place)
    if "numba" in sys.modules:  # it reads its environment when it is imported
        sys.modules["numba"].config.CACHE_DIR = str(place)
    return place


def drop_stale_kernels(package: Path = PACKAGE) -> None:
    """Delete compiled kernels that are older than their source, as an upgrade leaves them.

    numba would compile these anew, but it first loads them whole; where a class that they take has
    moved since, that ends in a ModuleNotFoundError.
    """
    for folder, _, files in os.walk(package):
        if os.path.basename(folder) != "__pycache__":
            continue
        for name in files:
            if name.endswith(".nbi"):  # MODULE.FUNCTION-LINE.VERSION.nbi
                source = os.path.join(os.path.dirname(folder), name.split(".")[0] + ".py")
                index = os.path.join(folder, name)
                with suppress(OSError):
                    if os.path.getmtime(index) < os.path.getmtime(source):
                        os.unlink(index)


def _takes_files(folder: Path) -> bool:
    """Return whether a file can be created there, by creating one, as numba does."""
    probe = folder / f".halfseen-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def _private_folder() -> Path:
    """Return the same folder at each run, unless somebody else made it first."""
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
    """Call back once, if and when a kernel in this block is not in the cache and gets compiled.

    `callback` receives the folder that `find_cache` had to make, or None where numba found its own.
    """
    from numba.core import event

    class FirstCompilation(event.Listener):
        called = False

        def on_start(self, event: Any) -> None:
            if not self.called:
                self.called = True
                callback(_own_folder)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", FirstCompilation()):
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread: those who call it bring their own. Also a decorator.

    Sums, and so results, then do not depend on the number of cores.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries, looked up once: it takes as long as a small image."""
    import scipy.linalg.cython_blas  # noqa: F401  (compiled products use it, and load it late)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
