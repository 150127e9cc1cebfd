"""BLAS uses one thread wherever work is shared out; numba finds a folder, and no stale kernel."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from halfseen.compute import libraries
from halfseen.compute.libraries import one_blas_thread
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
        "from halfseen.compute.libraries import one_blas_thread\n"
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


def test_a_private_place_is_made_where_numba_finds_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(libraries, "_own_folder", None)  # and forgotten again after this test
    monkeypatch.setattr(libraries, "_takes_files", lambda folder: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    place = libraries.find_cache()
    assert place is not None
    assert os.environ["NUMBA_CACHE_DIR"] == str(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert libraries.find_cache() == place
    place.chmod(0o777)  # someone else could have put their code there
    assert libraries.find_cache() != place


def test_a_folder_is_tried_by_writing(tmp_path: Path) -> None:
    assert libraries._takes_files(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    assert not libraries._takes_files(tmp_path / "file" / "b")
    assert not libraries._takes_files(Path("/proc/nothing"))


def test_compilation_is_told_once_and_not_from_the_cache(tmp_path: Path) -> None:
    """In processes of their own, because numba reads its cache folder when it is imported."""
    script = tmp_path / "kernel.py"
    script.write_text(
        "from numba import njit\n"
        "from halfseen.compute.libraries import on_compile\n"
        "@njit(cache=True)\n"
        "def f(x): return x + 1\n"
        "with on_compile(lambda place: print('message', place)):\n"
        "    f(1); f(1.0)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> str:
        return subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run() == "message None\n"
    assert run() == ""


def test_kernels_outlive_a_class_that_moves(tmp_path: Path) -> None:
    """numba loads stale kernels before it drops them: without help it would miss the old module."""
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from halfseen.compute.libraries import drop_stale_kernels\n"
        "if sys.argv[1] == 'help':\n    drop_stale_kernels(Path('shop'))\n"
        "from shop.kernels import PAIR, add\nprint(add(PAIR))\n"
    )

    def install(module: str) -> None:
        for other in folder.glob("pair_*.py"):
            other.unlink()
        pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
        (folder / f"{module}.py").write_text(pair)
        (folder / "kernels.py").write_text(
            f"from numba import njit\nfrom shop.{module} import Pair\nPAIR = Pair(2, 3)\n"
            "@njit(cache=True)\ndef add(pair):\n    return pair.a + pair.b\n"
        )

    def run(word: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script, word],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip

    environment = {n: v for n, v in os.environ.items() if n != "NUMBA_CACHE_DIR"}
    folder = tmp_path / "shop"
    folder.mkdir()
    install("pair_before")
    assert run("help").stdout == "5\n"
    indices = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbi")}
    assert len(indices) == 1
    assert run("help").stdout == "5\n"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbi")} == indices
    install("pair_after")
    assert "No module named 'shop.pair_before'" in run("no help").stderr
    assert run("help").stdout == "5\n"
