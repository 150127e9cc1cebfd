"""Where the work on many images runs: in this process, or on this machine's cores.

Threads share the work of one machine, because the kernels release the interpreter's lock: models
and caches are not copied. A result is the same wherever its image was worked on, to the last bit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from halfseen.errors import SettingsError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Finished results that wait for an earlier one, for each core: enough that a slow image does not
# stop the others, few enough that memory does not grow with their number.
_AHEAD = 4


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_images(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    cores: int | None = None,
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Result]:
    """`function` of each item, in order, worked on as the results are asked for.

    cores    1 works in this thread; more work on that many threads; None on all available cores
    on_done  called in this thread with the number of results so far, before each is handed over

    Items are taken from their iterable, and results kept, a bounded number ahead. An exception of
    `function` is raised where its result would have been, and ends the work. While it runs, BLAS
    uses one thread for each call: its sums, and so the results, do not depend on the cores.
    """
    count = available_cores() if cores is None else cores
    if count < 1:
        raise SettingsError(f"cores must be at least 1, found {cores}")
    return _map(function, items, count, on_done)


def _map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    cores: int,
    on_done: Callable[[int], None] | None,
) -> Iterator[Result]:
    from threadpoolctl import threadpool_limits

    run = _in_this_thread if cores == 1 else _on_threads
    with threadpool_limits(limits=1, user_api="blas"):
        for done, result in enumerate(run(function, items, cores), start=1):
            if on_done is not None:
                on_done(done)
            yield result


def _in_this_thread(
    function: Callable[[Item], Result], items: Iterable[Item], cores: int
) -> Iterator[Result]:
    return map(function, items)


def _on_threads(
    function: Callable[[Item], Result], items: Iterable[Item], cores: int
) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(cores, thread_name_prefix="halfseen")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= _AHEAD * cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
