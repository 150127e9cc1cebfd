"""One thread of BLAS for each call: sums, and so results, do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread: those who call it bring their own. Also a decorator."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries, looked up once: it takes as long as a small image."""
    import scipy.linalg.cython_blas  # noqa: F401  (compiled products use it, and load it late)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
