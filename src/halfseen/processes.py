"""Work on this machine's cores in processes of their own, for small images.

Threads share memory, but also the interpreter's lock, and on images so small that the compiled
kernels take no longer than the code between them, two threads are no faster than one. A process
has a lock of its own; it costs a second to start, and what it works with is sent to it. This
process works too, from the first moment on: it is one of the cores.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait
from typing import Any

from halfseen.errors import HalfseenError

CHUNK = 32  # items a task: a task costs about a tenth of a small image
AHEAD = 2  # tasks for each other process
KEPT = 64  # finished tasks that wait for an earlier one

_function: Callable[[Any], Any] | None = None  # in a worker

# The results of a task up to the first error, and that error.
Outcome = tuple[list[Any], Exception | None]


def run_in_processes(
    function: Callable[[Any], Any], items: Iterable[Any], cores: int
) -> Iterator[Any]:
    """`function` of each item, in order; both must pickle. See `compute.map_images`."""
    from threadpoolctl import threadpool_limits

    source = iter(items)
    waiting: deque[Future[Outcome]] = deque()
    # Spawned, not forked: this process has threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(cores - 1, context, _begin, (function,))
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            while True:
                while sum(not task.done() for task in waiting) < AHEAD * (cores - 1):
                    if not (chunk := list(islice(source, CHUNK))):
                        break
                    waiting.append(pool.submit(_apply, chunk))
                if not waiting:
                    return
                mine = []
                if not waiting[0].done() and len(waiting) < KEPT:
                    mine = list(islice(source, CHUNK))
                if mine:
                    waiting.append(_finished(work_through(function, mine)))
                else:
                    results, error = waiting.popleft().result()
                    yield from results
                    if error is not None:
                        raise error
    except BrokenProcessPool:
        raise HalfseenError(
            "a worker process died, killed perhaps for want of memory; what is finished is kept: "
            "give the same command again, with fewer cores"
        ) from None
    finally:
        # Whatever ends the work wants the rest of it left, not done.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _finished(outcome: Outcome) -> Future[Outcome]:
    task: Future[Outcome] = Future()
    task.set_result(outcome)
    return task


def _begin(function: Callable[[Any], Any]) -> None:
    """Makes a worker ready: it leaves interrupts to its parent, and does not outlive it."""
    global _function
    from threadpoolctl import threadpool_limits

    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1, user_api="blas")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _apply(chunk: list[Any]) -> Outcome:
    assert _function is not None
    return work_through(_function, chunk)


def work_through(function: Callable[[Any], Any], chunk: list[Any]) -> Outcome:
    """What becomes of a task."""
    results: list[Any] = []
    for item in chunk:
        try:
            results.append(function(item))
        except Exception as error:
            return results, error
    return results, None
