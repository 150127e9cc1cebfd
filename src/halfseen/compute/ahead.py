"""Compiles kernels in a second process while this one compiles others: a first run waits half.

numba compiles in one thread, whatever the cores. What the second process leaves in the cache, this
one then only loads. Where no process can be started, all is compiled here, as if there were none.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from halfseen.compute.libraries import on_compile
from halfseen.compute.map import available_cores

# A process that hangs is left alone after so many seconds.
PATIENCE = 60.0
_SOURCE = str(Path(__file__).parents[2])
_process: subprocess.Popen[bytes] | None = None


@contextmanager
def compile_ahead(modules: Sequence[str]) -> Iterator[None]:
    """In this block: if a kernel gets compiled, let a process run `compile_kernels` of the modules.

    Once: a process that has begun to compile needs it only then.
    """
    if _process is not None:
        yield
        return
    with on_compile(lambda _: _start(modules)):
        yield


def await_kernels() -> None:
    """Wait for the process that compiles ahead, where there is one."""
    if _process is not None:
        with suppress(subprocess.TimeoutExpired):
            _process.wait(PATIENCE)


def _start(modules: Sequence[str]) -> None:
    global _process
    alone = available_cores() == 1 or multiprocessing.parent_process() is not None
    if alone or _process is not None or not os.path.basename(sys.executable).startswith("python"):
        return
    words = f"import sys; sys.path.insert(0, {_SOURCE!r})\n"
    words += "".join(f"import {name}; {name}.compile_kernels()\n" for name in modules)
    with suppress(OSError):
        _process = subprocess.Popen(
            [sys.executable, "-c", words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
