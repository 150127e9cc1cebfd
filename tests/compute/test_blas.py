"""Everything that shares out work lets BLAS use one thread, also in libraries that load late."""

import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from halfseen.compute.blas import one_blas_thread
from halfseen.compute.map import map_images, spread


def blas_threads(_: object = None) -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("cores", [1, 2])
def test_one_core_and_several_use_one_blas_thread_for_each_call(cores: int) -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        with spread(cores) as each:
            threads = each(blas_threads, range(2))
        threads += map_images(blas_threads, range(2), cores=cores)
        assert all(set(found) == {1} for found in threads)
        assert set(blas_threads()) == {2}


def test_a_library_that_loads_later_has_one_thread_too() -> None:
    """SciPy's BLAS, which compiled products use, is loaded by the first of them."""
    words = (
        "from halfseen.compute.blas import one_blas_thread\n"
        "from threadpoolctl import threadpool_info\n"
        "with one_blas_thread():\n"
        "    import scipy.linalg.cython_blas\n"
        "    found = {pool['filepath']: pool['num_threads'] for pool in threadpool_info()}\n"
        "print(set(found.values()))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", words], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "{1}"


def test_it_is_a_decorator_too() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        assert set(one_blas_thread()(blas_threads)()) == {1}
