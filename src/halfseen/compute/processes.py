"""A pool of processes for thousands of small images.

Threads share the interpreter's lock, and on images so small that the compiled kernels take no
longer than the code between them, two threads are no faster than one. A process costs a second to
start, and what it works with is pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from halfseen.compute.libraries import one_blas_thread
from halfseen.compute.tasks import Outcome, in_order, work_through
from halfseen.errors import HalfseenError

CHUNK = 32  # items a task: a task costs about a tenth of a small image
AHEAD = 4  # tasks for each process, finished ones that wait for an earlier one included

_function: Callable[[Any], Any] | None = None  # in a worker
_limits = ExitStack()  # in a worker, until its end


def run_in_processes(
    function: Callable[[Any], Any], items: Iterable[Any], cores: int
) -> Iterator[Any]:
    """Yield `function` of each item, in order; both must pickle. See `map_images`."""
    source = iter(items)
    chunks = iter(lambda: list(islice(source, CHUNK)), [])
    context = multiprocessing.get_context("spawn")  # not forked: this process has threads
    lifeline, own_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(cores, context, _prepare_worker, (function, lifeline))
    try:
        for results, error in in_order(
            lambda chunk: pool.submit(_apply, chunk), chunks, AHEAD * cores
        ):
            yield from results
            if error is not None:
                raise error
    except BrokenProcessPool:
        raise HalfseenError(
            "a worker process died, killed perhaps for want of memory; what is finished is kept: "
            "give the same command again, with fewer cores"
        ) from None
    finally:
        own_end.close()  # ends the workers, in the middle of an image if need be
        pool.shutdown(wait=True, cancel_futures=True)
        lifeline.close()


def _prepare_worker(function: Callable[[Any], Any], lifeline: Connection) -> None:
    """Set up a worker: it ignores Ctrl-C, which its parent handles, and ends with its parent."""
    global _function

    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limits.enter_context(one_blas_thread())
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """Wait until the other end is closed, by the parent or by its death, and exit at once."""
    lifeline.poll(None)
    os._exit(1)


def _apply(chunk: list[Any]) -> Outcome:
    assert _function is not None
    return work_through(_function, chunk)
