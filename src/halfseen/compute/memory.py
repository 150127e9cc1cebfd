"""Memory: what the allocator keeps between images, and a budget that workers share."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.errors import SettingsError

MIB = 1 << 20
_KEPT_BYTES = 31 * MIB
_M_ARENA_MAX = -8  # of glibc's malloc.h
_LEAST = 256 * MIB  # a default budget is not smaller: less fits no photograph


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed arrays for the next image.

    glibc returns freed memory to the system beyond twice the largest block freed so far (the
    dynamic threshold of mallopt), and every image would fault its arrays in again, for a third of
    its time. The block allocated here is never touched, so it costs nothing; freeing it raises the
    threshold. Elsewhere this does nothing.
    """
    np.empty(_KEPT_BYTES, np.uint8)


def share_arenas() -> None:
    """Let all threads share two of glibc's arenas, of which it gives each thread one otherwise.

    An arena keeps what was freed in it for its own threads. Work that goes to another thread each
    time fills one after another, which looks like a leak. Call it before threads start; elsewhere
    it does nothing.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def free_memory() -> int:
    """Return the bytes that this process could still get: of the machine, its group and limits."""
    found = []
    with suppress(OSError, ValueError):
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # a container's
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        found.append(most - int((group / "memory.current").read_text()))
    with suppress(OSError, ValueError, ImportError):
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            found.append(most - pages * resource.getpagesize())
    with suppress(OSError, ValueError, AttributeError):
        if not found:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(found, default=2 << 30), 0)


class MemoryBudget:
    """Bytes that the workers of a run share: each waits until what it needs is free.

    total  bytes; None is half of the free memory
    Threads share one budget, and so do processes that are spawned with it. A copy that was pickled
    otherwise, for a cluster, is a budget of the worker's own.
    """

    def __init__(self, total: int | None = None, *, processes: bool = False) -> None:
        if total is not None and total < MIB:
            raise SettingsError(f"memory must be at least 1 MiB, found {total:,} bytes")
        self.total = max(free_memory() // 2, _LEAST) if total is None else total
        self._share(processes)

    def _share(self, processes: bool) -> None:
        self._used: Any
        self._changed: Any
        if processes:
            context = multiprocessing.get_context("spawn")
            self._used = context.Value("q", 0, lock=False)
            self._changed = context.Condition()
        else:
            self._used = _Count()
            self._changed = threading.Condition()

    @contextmanager
    def hold(self, need: int) -> Iterator[Callable[[int], bool]]:
        """Wait until `need` bytes are free, and hold them. More than `total` is a ValueError.

        Provides a function that makes them more if those are free now, and returns whether they
        are: it never waits, as two that hold a part and wait for the rest would do so for ever.
        """
        if need > self.total:
            raise ValueError(f"{need} bytes of a budget of {self.total}")
        held = 0

        def grow(to: int) -> bool:
            nonlocal held
            with self._changed:
                more = max(to - held, 0)
                if self._used.value + more > self.total:
                    return False
                self._used.value += more
                held += more
                return True

        with self._changed:
            self._changed.wait_for(lambda: grow(need))
        try:
            yield grow
        finally:
            with self._changed:
                self._used.value -= held
                self._changed.notify_all()

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None and not isinstance(self._used, _Count):
            return self.__dict__
        return {"total": self.total}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_used" not in state:
            self._share(processes=False)


class _Count:
    """A number, as multiprocessing's Value has it."""

    value = 0
