"""A budget of memory that workers share."""

import ctypes
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from halfseen.compute.map import map_images
from halfseen.compute.memory import MIB, MemoryBudget, free_memory, keep_freed_memory
from halfseen.errors import SettingsError


class Worker:
    """Holds a share of a budget and counts how many do so at once, by times."""

    def __init__(self, budget: MemoryBudget, need: int) -> None:
        self.budget, self.need = budget, need

    def __call__(self, number: int) -> tuple[float, float]:
        with self.budget.hold(self.need):
            start = time.monotonic()
            time.sleep(0.05)
            return start, time.monotonic()


def most_at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(a <= start < b for a, b in spans) for start, _ in spans)


@pytest.mark.parametrize(("need", "most"), [(60 * MIB, 1), (40 * MIB, 2), (20 * MIB, 4)])
def test_threads_share_a_budget(need: int, most: int) -> None:
    spans = list(map_images(Worker(MemoryBudget(100 * MIB), need), range(8), cores=4))
    assert most_at_once(spans) <= most


def test_processes_share_a_budget() -> None:
    work = Worker(MemoryBudget(100 * MIB, processes=True), 60 * MIB)
    spans = list(map_images(work, range(96), cores=2, processes=True))
    assert most_at_once(spans) == 1


def test_a_budget_that_is_sent_elsewhere_is_that_machines_own() -> None:
    for processes in (False, True):
        budget = MemoryBudget(100 * MIB, processes=processes)
        with budget.hold(90 * MIB):
            copy = pickle.loads(pickle.dumps(budget))
            assert copy.total == budget.total
            with copy.hold(90 * MIB):
                pass


def test_what_was_held_is_free_again_after_an_error() -> None:
    budget = MemoryBudget(10 * MIB)

    def fail() -> None:
        with budget.hold(10 * MIB):
            raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            fail()


def in_thread(function: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_large_need_gets_its_turn_among_small_ones() -> None:
    budget, done = MemoryBudget(10 * MIB), []

    def work(need: int) -> None:
        with budget.hold(need * MIB):
            done.append(need)

    with budget.hold(5 * MIB):
        threads = [in_thread(lambda need=need: work(need)) for need in (10, 2, 2)]  # type: ignore[misc]
    for thread in threads:
        thread.join(20)
    assert sorted(done) == [2, 2, 10]


def test_budgets_are_checked_and_have_a_default() -> None:
    with pytest.raises(SettingsError, match="at least 1 MiB, found 1,000 bytes"):
        MemoryBudget(1000)
    with pytest.raises(ValueError, match="of a budget"), MemoryBudget(MIB).hold(2 * MIB):
        pass
    assert 0 < MemoryBudget().total <= max(free_memory(), 512 * MIB)
    keep_freed_memory()


ARENAS = """
import ctypes, sys, threading
from halfseen.compute.memory import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
ready = threading.Barrier(21)
def work():
    kept = [bytes(5000) for _ in range(100)]
    ready.wait()
    ready.wait()
for _ in range(20):
    threading.Thread(target=work).start()
ready.wait()
malloc = ctypes.CDLL(None)
stream = malloc.tmpfile
stream.restype = ctypes.c_void_p
file = ctypes.c_void_p(stream())
malloc.malloc_info(0, file)
malloc.rewind(file)
text = ctypes.create_string_buffer(1 << 20)
malloc.fread(text, 1, 1 << 20, file)
print(text.value.count(b"<heap nr="))
ready.wait()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="glibc alone has arenas")
@pytest.mark.parametrize(("how", "few"), [("shared", True), ("alone", False)])
def test_threads_share_arenas(how: str, few: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ARENAS, how], capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) <= 2) == few
