"""Where the work on many images runs: in this process, on this machine's cores, or on a cluster.

Threads share the work of one machine, because the kernels release the interpreter's lock: models
and caches are not copied. A result is the same wherever its image was worked on, to the last bit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from halfseen.compute.libraries import PACKAGE, available_cores, on_compile, one_blas_thread
from halfseen.compute.tasks import in_order
from halfseen.errors import SettingsError, install

if TYPE_CHECKING:
    import subprocess

    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]

# Finished results that wait for an earlier one, for each core: enough that a slow image does not
# stop the others, few enough that memory does not grow with their number.
_AHEAD = 4
# Another process compiles ahead: numba compiles in one thread, whatever the cores. If it hangs, it
# is left alone after so many seconds.
PATIENCE = 60.0
_process: subprocess.Popen[bytes] | None = None
_share = threading.local()


def free_cores() -> int:
    """Return how many cores one image may use: its share of those that `map_images` has."""
    share: int | None = getattr(_share, "cores", None)
    return available_cores() if share is None else share


def _with_share(function: Callable[[Item], Result], cores: int, item: Item) -> Result:
    before: int | None = getattr(_share, "cores", None)
    _share.cores = cores
    try:
        return function(item)
    finally:
        _share.cores = before


def map_images(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    cores: int | None = None,
    on_done: Callable[[int], None] | None = None,
    cluster: str | Client | None = None,
    on_lost: Callable[[Item], Result] | None = None,
    home: Callable[[Item], int] | None = None,
    processes: bool = False,
) -> Iterator[Result]:
    """Yield `function` of each item, in order, computed as the results are consumed.

    cores    1 works in this thread; more work on that many threads; None on all available cores
    on_done  called in this thread with the number of results so far, before each is handed over
    cluster  the address of a Dask scheduler, or a client: its workers do the work instead
    on_lost  gives the result of an item that killed every worker which took it (a cluster restarts
             them); without it, that is a ClusterError
    home     numbers items: those of one number go to the same worker where that costs no time, for
             the sake of what it keeps in memory
    processes  several cores are processes instead of threads: worth their start for thousands of
             small images; `function` and items must pickle

    Items are taken from their iterable, and results kept, a bounded number ahead. An exception of
    `function` is raised where its result would have been, and ends the work. While it runs, BLAS
    uses one thread for each call: its sums, and so the results, do not depend on the cores.
    """
    _check_cores(cores, cluster)
    if cluster is not None:
        function = partial(_with_share, function, 1)
        return _counted(_dask().run_on_cluster(function, items, cluster, on_lost, home), on_done)
    count = available_cores() if cores is None else cores
    # Fewer images than cores: each may use several.
    workers = max(min(count, len(items)), 1) if isinstance(items, Sized) else count
    function = partial(_with_share, function, count // workers)
    count = workers
    if processes and count > 1:
        from halfseen.compute.processes import run_in_processes

        return _counted(run_in_processes(function, items, count), on_done)
    return _map(function, items, count, on_done)


@contextmanager
def spread(cores: int, kernels: Sequence[str] = ()) -> Iterator[Map]:
    """Provide a `map` for the parts of one image's work over cores; 1 works in this thread.

    Parts must not depend on the thread they run on. BLAS uses one thread for each call. The
    calling thread takes parts too: the memory that it has used before is at hand.

    kernels  modules to `compile_ahead`
    """
    with compile_ahead(kernels), one_blas_thread():
        if cores == 1:
            yield lambda function, items: list(map(function, items))
            return
        with ThreadPoolExecutor(cores - 1, thread_name_prefix="halfseen") as pool:
            yield partial(_share_out, pool, cores - 1)


@contextmanager
def compile_ahead(modules: Sequence[str]) -> Iterator[None]:
    """In this block: if a kernel gets compiled, let a process run `compile_kernels` of the modules.

    What it leaves in the cache, this process then only loads, so that a first run waits half. Once:
    a process that has begun to compile needs it only then. Where none can be started, all is
    compiled here.
    """
    if _process is not None or not modules:
        yield
        return
    with on_compile(lambda _: _start(modules)):
        yield


def await_kernels() -> None:
    """Wait for the process that compiles ahead, where there is one."""
    if _process is not None:
        from subprocess import TimeoutExpired

        with suppress(TimeoutExpired):
            _process.wait(PATIENCE)


def _start(modules: Sequence[str]) -> None:
    import multiprocessing
    import subprocess

    global _process
    alone = available_cores() == 1 or multiprocessing.parent_process() is not None
    if alone or _process is not None or not os.path.basename(sys.executable).startswith("python"):
        return
    words = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    words += "".join(f"import {name}; {name}.compile_kernels()\n" for name in modules)
    with suppress(OSError):
        _process = subprocess.Popen(
            [sys.executable, "-c", words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def _share_out(
    pool: ThreadPoolExecutor,
    others: int,
    function: Callable[[Item], Result],
    items: Iterable[Item],
) -> list[Result]:
    """Map by this thread and those of the pool, each taking the next item when it is free."""
    todo = list(enumerate(items))[::-1]
    results: dict[int, Result] = {}

    def work() -> None:
        while todo:
            try:
                number, item = todo.pop()
            except IndexError:  # another thread took the last
                return
            results[number] = function(item)

    def work_or_end() -> None:
        try:
            work()
        except BaseException:
            todo.clear()  # nothing else is begun
            raise

    count = len(todo)
    futures: list[Future[None]] = []
    try:
        futures += [pool.submit(work_or_end) for _ in range(min(others, count - 1))]
        work()
    except BaseException:
        todo.clear()
        raise  # this thread's own error, an interrupt among them; the pool's end waits for the rest
    for future in futures:
        future.result()
    return [results[number] for number in range(count)]


def _check_cores(cores: int | None, cluster: object) -> None:
    if cores is not None and cluster is not None:
        raise SettingsError("give a number of cores or a cluster, not both")
    if cores is not None and cores < 1:
        raise SettingsError(f"cores must be at least 1, found {cores}")


class Workplace:
    """A place for many maps: a connection to a cluster is made once.

    `kept` is put in place on every worker, and stays there until the place is closed.
    """

    def __init__(
        self, cores: int | None = None, cluster: str | Client | None = None, kept: Any = None
    ) -> None:
        _check_cores(cores, cluster)
        self.cores = cores
        self._open: AbstractContextManager[Client | None] = nullcontext()
        if cluster is not None:
            self._open = _dask().open_cluster(cluster, kept)
        self.cluster = self._open.__enter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.__exit__(None, None, None)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        home: Callable[[Item], int] | None = None,
    ) -> Iterator[Result]:
        """See `map_images`."""
        return map_images(function, items, self.cores, cluster=self.cluster, home=home)


def _map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    cores: int,
    on_done: Callable[[int], None] | None,
) -> Iterator[Result]:
    run = _in_this_thread if cores == 1 else _on_threads
    with one_blas_thread():
        yield from _counted(run(function, items, cores), on_done)


def _counted(results: Iterator[Result], on_done: Callable[[int], None] | None) -> Iterator[Result]:
    for done, result in enumerate(results, start=1):
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
    pool = ThreadPoolExecutor(cores, thread_name_prefix="halfseen")
    try:
        yield from in_order(lambda item: pool.submit(function, item), items, _AHEAD * cores)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _dask() -> ModuleType:
    try:
        from halfseen.compute import cluster
    except ImportError:
        raise SettingsError(f"a cluster needs Dask: {install('dask')}") from None
    return cluster
