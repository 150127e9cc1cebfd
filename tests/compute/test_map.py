"""Where work runs: order, bounds, errors and equal bytes on any number of cores."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from halfseen.compute.libraries import available_cores
from halfseen.compute.map import free_cores, map_images, spread
from halfseen.errors import HalfseenError, SettingsError


@pytest.mark.parametrize("cores", [1, 2, 5, None])
def test_results_come_in_order(cores: int | None) -> None:
    done: list[int] = []
    barrier = threading.Event()

    def slow_first(i: int) -> int:
        # With threads the first result is the last to be ready.
        if i == 0 and cores not in (1, None):
            barrier.wait(5)
        if i == 3:
            barrier.set()
        return i * i

    assert list(map_images(slow_first, range(20), cores, done.append)) == [i * i for i in range(20)]
    assert done == list(range(1, 21))


def test_an_image_may_use_its_share_of_the_cores() -> None:
    assert free_cores() == available_cores()
    for cores, images, share in ((1, 1, 1), (4, 1, 4), (4, 2, 2), (5, 2, 2), (2, 9, 1)):
        shares = list(map_images(lambda _: free_cores(), range(images), cores))
        assert shares == [share] * images
        unknown = list(map_images(lambda _: free_cores(), iter(range(images)), cores))
        assert unknown == [1] * images
    assert free_cores() == available_cores()


@pytest.mark.parametrize("cores", [1, 3])
def test_parts_of_one_image_keep_their_order(cores: int) -> None:
    with spread(cores) as each:
        assert each(str, range(50)) == [str(i) for i in range(50)]
        together = threading.Barrier(cores)
        threads = each(lambda _: together.wait(9) * 0 or threading.get_ident(), range(cores))
        assert len(set(threads)) == cores  # this one as well
        assert threading.get_ident() in threads
        if cores > 1:
            blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
            assert set(blas) == {1}


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_in_a_part_ends_the_work(cores: int) -> None:
    done = []

    def work(item: int) -> None:
        if item >= 5:
            raise ValueError(f"part {item}")
        done.append(item)

    with spread(cores) as each, pytest.raises(ValueError, match="part"):
        each(work, range(1000))
    assert sorted(done) == list(range(5))
    with spread(cores) as each:
        assert each(str, []) == []


@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_is_not_lost_behind_another_error(cores: int) -> None:
    main, done = threading.get_ident(), []
    together = threading.Barrier(cores)

    def work(item: int) -> None:
        if item < cores:
            together.wait(9)
            raise KeyboardInterrupt if threading.get_ident() == main else ValueError
        done.append(item)

    with pytest.raises(KeyboardInterrupt), spread(cores) as each:
        each(work, range(1000))
    assert len(done) < 900


def test_compiled_products_use_one_thread_on_several() -> None:
    """In a process of its own, in which no library is loaded yet."""
    code = """
import numpy as np, halfseen as hs
from dataclasses import replace
from threadpoolctl import threadpool_info
from halfseen.compute.map import map_images
from halfseen.detect import search
model = hs.load("car.fast")
threads = []
real = search.as_detections
def counting(*rest):
    threads.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
    return real(*rest)
search.as_detections = counting
image = np.zeros((150, 200, 3), np.uint8)
both = hs.Detector([model, replace(model, label="cab")], cores=2)
both.detect(image)
list(map_images(lambda _: both.detect(image), range(2), 2))
print(sorted(set(threads)))
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert found.stdout.strip() == "[1]"


@pytest.mark.parametrize("cores", [1, 3])
def test_work_stays_a_bounded_number_ahead(cores: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for i in range(1000):
            taken += 1
            yield i

    results = map_images(lambda i: i, items(), cores)
    for i in range(10):
        assert next(results) == i
        assert taken <= i + 1 + 4 * cores
    results.close()  # type: ignore[attr-defined]
    assert taken < 50


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_is_raised_in_its_place_and_ends_the_work(cores: int) -> None:
    def fail_at_five(i: int) -> int:
        if i == 5:
            raise ValueError("five")
        return i

    seen: list[int] = []
    with pytest.raises(ValueError, match="five"):
        seen.extend(map_images(fail_at_five, range(1000), cores))
    before = threading.active_count()
    results = map_images(fail_at_five, range(1000), cores)
    for i in range(5):
        assert next(results) == i
    with pytest.raises(ValueError, match="five"):
        next(results)
    assert threading.active_count() <= before


def test_blas_uses_one_thread_and_results_are_equal_bytes() -> None:
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=(300, 200)).astype(np.float32) for _ in range(6)]

    def multiply(matrix: np.ndarray) -> tuple[bytes, set[int]]:
        threads = {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}
        return (matrix @ matrix.T).tobytes(), threads

    before = [lib["num_threads"] for lib in threadpool_info()]
    here = list(map_images(multiply, matrices, 1))
    assert here == list(map_images(multiply, matrices, 4))
    assert all(threads == {1} for _, threads in here)
    assert [lib["num_threads"] for lib in threadpool_info()] == before


def test_wrong_cores_are_refused_before_any_work() -> None:
    with pytest.raises(SettingsError, match="cores must be at least 1, found 0"):
        map_images(str, [1], 0)
    assert available_cores() >= 1


def test_processes_give_results_in_order() -> None:
    items = range(-50, 51)
    assert list(map_images(abs, items, cores=2, processes=True)) == [abs(n) for n in items]


def test_an_error_in_a_process_comes_where_its_result_would_have_been() -> None:
    results = map_images(math.sqrt, [*range(40), -1, 4], cores=2, processes=True)
    got: list[float] = []
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        got.extend(results)
    assert got == [math.sqrt(n) for n in range(40)]


def die(number: int) -> int:
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_dies_is_one_clear_line() -> None:
    with pytest.raises(HalfseenError, match="a worker process died"):
        list(map_images(die, range(60), cores=2, processes=True))


def test_processes_end_with_the_work() -> None:
    results = map_images(abs, range(10**9), cores=2, processes=True)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
