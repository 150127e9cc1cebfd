"""Which compiled kernels there are, and which of them have run."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

import halfseen


def _kernels() -> Iterator[tuple[str, Any]]:
    """Yield the kernels of all modules that are imported, by the name of their place."""
    from numba.core.dispatcher import Dispatcher

    for name, module in list(sys.modules.items()):
        if name.startswith("halfseen.") and module is not None:
            for own in list(vars(module).values()):
                if isinstance(own, Dispatcher) and own.py_func.__module__ == name:
                    yield f"{name}.{own.py_func.__name__}", own


def kernels_run() -> set[str]:
    """Return the kernels that were compiled in this process, or read where they were kept.

    A kernel that others call is compiled with them: it counts where one of them has run.
    """
    kernels = dict(_kernels())
    found = {name for name, kernel in kernels.items() if kernel.signatures}
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        called = {
            f"{own.py_func.__module__}.{own.py_func.__name__}"
            for word in _names(kernels[name].py_func.__code__)
            if hasattr(own := kernels[name].py_func.__globals__.get(word), "py_func")
        }
        waiting += called - found
        found |= called
    return found


def _names(code: Any) -> set[str]:
    """The global names that a function, and those within it, use."""
    inner = [const for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*map(_names, inner))


def all_kernels() -> set[str]:
    """Return all kernels of the package."""
    for module in pkgutil.walk_packages(halfseen.__path__, "halfseen."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {name for name, _ in _kernels()}
