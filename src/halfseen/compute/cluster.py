"""Work on a Dask cluster, given by its address or a client.

The function is sent to every worker once, and to each that joins later; a task carries only its
items, which are file names and small arrays. Dask repeats a dead worker's tasks elsewhere. Workers
need the same version of halfseen and must see the same files.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import pickle
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from itertools import islice
from typing import Any, Self

import cloudpickle
from distributed import Client, Future, KilledWorker
from distributed.diagnostics.plugin import WorkerPlugin

from halfseen.compute.libraries import one_blas_thread
from halfseen.compute.tasks import Outcome, work_through
from halfseen.errors import ClusterError

CHUNK = 64  # items a task at most: a task costs the scheduler as much as a small image a worker
AHEAD = 3  # tasks for each thread of the cluster
PATIENCE = 30.0  # seconds without any worker before giving up; a nanny restarts one in a few
POLL = 1.0  # seconds between checks for workers
CONNECT = 10.0  # seconds for a scheduler to answer

AGAIN = "what is finished is kept: start it again, then give the same command"
_functions: dict[str, Callable[[Any], Any]] = {}  # on a worker: by name of the work


class _Work(WorkerPlugin):
    """Install a function on every worker, also on those that join later."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.content = content

    def setup(self, worker: Any) -> None:
        _functions[self.name] = pickle.loads(self.content)
        self.limits = contextlib.ExitStack()
        self.limits.enter_context(one_blas_thread())

    def teardown(self, worker: Any) -> None:
        _functions.pop(self.name, None)
        self.limits.close()


def _apply(name: str, items: bytes) -> bytes:
    """Work through a chunk on a worker. Bytes both ways: Dask measures any other object's parts.

    The bytes are pickles, as all that Dask sends is; a cluster is trusted (see SECURITY.md).
    """
    results: bytes = cloudpickle.dumps(work_through(_functions[name], pickle.loads(items)))
    return results


def run_on_cluster(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    cluster: str | Client,
    on_lost: Callable[[Any], Any] | None,
    home: Callable[[Any], int] | None = None,
) -> Iterator[Any]:
    """Yield `function` of each item, in order; see `map_images`."""
    with _connect(cluster) as client, _Run(client, function, home) as work:
        yield from work.results(iter(items), on_lost)


@contextlib.contextmanager
def open_cluster(cluster: str | Client, kept: Any) -> Iterator[Client]:
    """Open a client for many maps, with `kept` in the memory of all workers until it is closed."""
    with _connect(cluster) as client, _Run(client, kept, None):
        yield client


@contextlib.contextmanager
def _connect(cluster: str | Client) -> Iterator[Client]:
    if not isinstance(cluster, str):
        yield cluster
        return
    try:
        client = Client(cluster, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ClusterError(f"{cluster}: no Dask scheduler answers there: {reason}") from None
    try:
        yield client
    finally:
        client.close()


class _Run:
    """One function on a cluster, for one map or for many."""

    def __init__(self, client: Client, function: Any, home: Callable[[Any], int] | None) -> None:
        self.client = client
        self.function, self.home = function, home
        self.name = f"halfseen-{secrets.token_hex(8)}"
        self.address = getattr(client.scheduler, "address", "the cluster")
        self.waiting: deque[tuple[list[Any], Future[Any]]] = deque()
        self.workers: list[str] = []

    def __enter__(self) -> Self:
        try:
            self.client.register_plugin(_Work(self.name, cloudpickle.dumps(self.function)))
        except Exception as error:  # whatever importing the work raised on a worker
            raise ClusterError(
                f"{self.address}: a worker cannot take the work: {type(error).__name__}: {error}; "
                "install the same halfseen there"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        # A cluster that is gone has nothing to be removed from.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            self.client.cancel([future for _, future in self.waiting], force=True)
            self.client.unregister_worker_plugin(self.name)

    def results(self, items: Iterator[Any], on_lost: Callable[[Any], Any] | None) -> Iterator[Any]:
        more, taken, threads, next_check = True, 0, 1, 0.0
        while more or self.waiting:
            if time.monotonic() >= next_check:  # workers come and go; counting them takes a while
                threads, next_check = max(self._threads(), 1), time.monotonic() + POLL
            while more and len(self.waiting) < AHEAD * threads:
                # Small tasks first, so that few items also spread over all workers.
                size = min(1 + taken // (4 * threads), CHUNK) if self.home is None else 1
                chunk = list(islice(items, size))
                more, taken = len(chunk) == size, taken + len(chunk)
                if chunk:
                    self.waiting.append((chunk, self._submit(chunk)))
            if self.waiting:
                chunk, future = self.waiting[0]
                yield from self._chunk(chunk, future, on_lost)
                self.waiting.popleft()

    def _submit(self, chunk: list[Any]) -> Future[Any]:
        at = None
        if self.home is not None and self.workers:
            at = self.workers[self.home(chunk[0]) % len(self.workers)]
        # Not bound to it: an idle worker may take the task, and a dead one does not hold it up.
        return self.client.submit(
            _apply, self.name, cloudpickle.dumps(chunk), pure=False, workers=at,
            allow_other_workers=at is not None,
        )  # fmt: skip

    def _chunk(
        self, chunk: list[Any], future: Future[Any], on_lost: Callable[[Any], Any] | None
    ) -> Iterator[Any]:
        try:
            results, error = self._wait(future)
        except KilledWorker:
            if len(chunk) > 1:  # one of them is at fault: which?
                for item in chunk:
                    yield from self._chunk([item], self._submit([item]), on_lost)
                return
            if on_lost is None:
                raise ClusterError(f"{chunk[0]}: every worker that took it died") from None
            results, error = [on_lost(chunk[0])], None
        yield from results
        if error is not None:
            raise error

    def _threads(self) -> int:
        """Count the threads of all workers that the scheduler knows now."""
        if self.client.status != "running":
            raise ClusterError(f"{self.address}: lost the scheduler; {AGAIN}")
        try:
            found = self.client.nthreads()
        except (OSError, asyncio.CancelledError, CancelledError, TimeoutError):
            raise ClusterError(f"{self.address}: lost the scheduler; {AGAIN}") from None
        self.workers = sorted(found)
        return sum(found.values())

    def _wait(self, future: Future[Any]) -> Outcome:
        """The outcome of a chunk, or ClusterError where nobody is left to work on it.

        It is fetched once, in the client's own thread, while this one looks after the workers.
        `future.result(timeout=...)` would give up a fetch that takes longer and begin another, and
        where the client's thread is late, on a busy machine, none would ever be finished.
        """

        async def fetch() -> bytes:
            content: bytes = await self.client.gather(future, asynchronous=True)
            return content

        loop: Any = self.client.loop
        fetched = asyncio.run_coroutine_threadsafe(fetch(), loop.asyncio_loop)
        since = time.monotonic()
        try:
            while not concurrent.futures.wait([fetched], timeout=POLL).done:
                if self._threads():
                    since = time.monotonic()
                elif time.monotonic() - since > PATIENCE:
                    raise ClusterError(
                        f"{self.address}: no worker left for {PATIENCE:g} s; {AGAIN}"
                    )
            content = fetched.result()
        except (asyncio.CancelledError, CancelledError, OSError):
            raise ClusterError(f"{self.address}: lost the scheduler; {AGAIN}") from None
        finally:
            fetched.cancel()
        outcome: Outcome = pickle.loads(content)
        return outcome
