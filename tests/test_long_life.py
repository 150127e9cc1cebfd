"""Detectors that live long and in company: threads, memory, places where kernels are kept."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import halfseen
from halfseen.detections import Detections
from halfseen.refine.detector import Detector
from tests.builders import make_image, make_model, make_noise


def flat(found: Detections) -> bytes:
    parts = [found.score, found.window, found.full, found.visible, *found.visibility]
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def test_detectors_in_threads_find_what_they_find_alone() -> None:
    """Two detectors, each used by three threads at once, and images in another order in each."""
    detectors = [Detector(make_model("VIS")), Detector(make_model("BLT", u_t=0.01))]
    images = [make_image("p", [(n, 16)]).source for n in range(0, 60, 12)]
    images += [make_noise("n", n).source for n in range(3)]
    alone = [[flat(d.detect(image, -1.5)) for image in images] for d in detectors]
    assert len(set(alone[0] + alone[1])) > len(images)
    found: dict[tuple[int, int, int], bytes] = {}
    start = threading.Barrier(6)

    def work(d: int, thread: int) -> None:
        start.wait()
        for n in np.random.default_rng(thread).permutation(len(images)):
            found[d, thread, int(n)] = flat(detectors[d].detect(images[n], -1.5))

    threads = [threading.Thread(target=work, args=(d, t)) for d in (0, 1) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 * len(images)
    assert all(content == alone[d][n] for (d, _, n), content in found.items())


def least_growth(work: Callable[[], object], enough: float, times: int = 50) -> float:
    """The least growth of traced memory by one call, over rounds of `times` calls.

    A leak grows in every round. Caches below us fill once: small objects of calls into compiled
    kernels, fewer in each round, and now and then a table that doubles. So one round that grows by
    no more than `enough` bytes a call is proof, and ends the measurement.
    """
    tracemalloc.start()
    try:
        least = float("inf")
        held = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            for _ in range(times):
                work()
            gc.collect()
            held, before = tracemalloc.get_traced_memory()[0], held
            least = min(least, (held - before) / times)
            if least <= enough:
                break
        return least
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_detections() -> None:
    """Not even by one empty array (112 bytes) a detection; and such a leak would be noticed."""
    detector = Detector(make_model())
    images = itertools.cycle([make_noise("n", n).source for n in range(4)])
    leak: list[NDArray[np.float64]] = []

    def leaking() -> None:
        detector.detect(next(images), -1.5)
        leak.append(np.empty(0))

    assert least_growth(lambda: detector.detect(next(images), -1.5), 50) <= 50
    assert least_growth(leaking, 50) > 50


def test_a_read_only_home_and_package_are_no_obstacle(tmp_path: Path) -> None:
    """Kernels are then kept in a private folder of the temporary one, and the user is told."""
    source = Path(halfseen.__file__).parent
    program = (
        "import pathlib, sys\n"
        "from halfseen.compute import libraries as compilation\n"
        "takes = compilation._takes_files\n"
        f"barred = [pathlib.Path(p) for p in {[str(source), str(tmp_path / 'home')]!r}]\n"
        "def barrier(folder):\n"
        "    return not any(p in [folder, *folder.parents] for p in barred) and takes(folder)\n"
        "compilation._takes_files = barrier\n"
        "place = compilation.find_cache()\n"
        "from numba import njit\n"
        "@njit(cache=True)\n"
        "def f(x): return x + 1\n"
        "with compilation.on_compile(lambda where: print('message', where)):\n"
        "    f(1)\n"
        "print('kept', any(place.rglob('*.nbc')))\n"
    )
    script = tmp_path / "kernel.py"
    script.write_text(program)
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    environment.pop("XDG_CACHE_HOME", None)
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    place = tmp_path / f"halfseen-kernels-{os.getuid()}"
    assert run.stdout.splitlines() == [f"message {place}", "kept True"]


def test_processes_that_compile_at_once_find_the_same(tmp_path: Path) -> None:
    """Three at once, none of which finds compiled kernels, keep them in the same place."""
    program = (
        "import sys, numpy as np\n"
        "from halfseen.data import rle\n"
        "sys.stdin.read(1)\n"
        "mask = np.arange(600).reshape(20, 30) % 7 > 3\n"
        "runs = rle.encode(mask)\n"
        "assert (rle.decode(runs) == mask).all()\n"
        "print(runs['counts'], rle.read_runs(runs, None).box.tolist())\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):  # the second time, kernels are read
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", program], env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for _ in range(3)
        ]  # fmt: skip
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("g")
            worker.stdin.flush()
        said = {worker.communicate(timeout=300)[0] for worker in workers}
        assert len(said) == 1
        assert said.pop()
        assert all(worker.returncode == 0 for worker in workers)
    assert any(tmp_path.rglob("*.nbc"))
