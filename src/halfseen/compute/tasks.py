"""Tasks of a pool: results in the order of their items, and what becomes of a chunk of items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# The results of a chunk up to its first error, and that error.
Outcome = tuple[list[Any], Exception | None]


def in_order(
    submit: Callable[[Item], Future[Result]], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Yield the result of each item, in order, with at most `ahead` items submitted at a time."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def work_through(function: Callable[[Any], Any], chunk: list[Any]) -> Outcome:
    """Apply `function` to the items of a chunk until one raises."""
    results: list[Any] = []
    for item in chunk:
        try:
            results.append(function(item))
        except Exception as error:
            return results, error
    return results, None
