"""Where nothing is compiled yet, a second process compiles what comes late; else there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from halfseen.compute import map as compute_map

LOOK = """
import json, sys
import halfseen as hs
from halfseen.compute import map as compute_map
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].__name__)

    def on_end(self, event):
        pass

compute_map.available_cores = lambda: 2
scene = hs.render_scenes(1, seed=1).image(0)
with event.install_listener("numba:compile", Listener()):
    found = hs.Detector("car.fast", cores=1).detect(scene)
started = compute_map._process is not None
print(json.dumps([len(found), compiled, started]))
"""


def look(folder: Path) -> tuple[int, list[str], bool]:
    """What a process finds in a scene, the kernels that it compiled, and whether it had help."""
    words = [sys.executable, "-c", LOOK]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    count, compiled, started = json.loads(done.stdout)
    return count, compiled, started


def test_a_second_process_compiles_what_comes_late(tmp_path: Path) -> None:
    count, compiled, started = look(tmp_path)
    assert started
    assert count > 0
    assert {"resample", "find_rows"} <= set(compiled)
    assert not {"chain_bounds", "solve_grids", "_first_boxes"} & set(compiled)
    assert look(tmp_path) == (count, [], False)


def test_without_a_second_process_nothing_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_map, "_process", None)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(compute_map, "available_cores", lambda: 2)
    compute_map._start(["halfseen.visibility.infer"])
    assert compute_map._process is None
    compute_map.await_kernels()
    monkeypatch.setattr(compute_map, "available_cores", lambda: 1)
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    compute_map._start(["halfseen.visibility.infer"])


def refuse(*arguments: object, **settings: object) -> None:
    raise OSError("no process can be started")
