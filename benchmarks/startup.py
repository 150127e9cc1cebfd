"""How long a user waits: for `import halfseen`, for `halfseen --help`, and for the first detection.

Medians of fresh processes. The import is what `import halfseen` adds to numpy's own; the first
detection is a process that imports, loads a model and looks at one scene: with an empty cache of
kernels (cold), and with the cache that the run before left (cached). Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATS = 7
COLD_REPEATS = 3

IMPORT = """
import time, numpy
start = time.perf_counter()
import halfseen
print(time.perf_counter() - start)
"""

DETECT = """
import sys, time
start = time.perf_counter()
import halfseen as hs
hs.Detector(hs.load(sys.argv[1])).detect(sys.argv[2])
print(time.perf_counter() - start)
"""


def inside(code: str, *arguments: str, **environment: str) -> float:
    """Seconds that a fresh process prints."""
    command = [sys.executable, "-c", code, *arguments]
    return float(subprocess.check_output(command, env={**os.environ, **environment}))


def outside(*command: str) -> float:
    """Seconds from the start of a process to its end."""
    start = time.perf_counter()
    subprocess.check_output(command)
    return time.perf_counter() - start


def prepare(folder: Path) -> tuple[str, str]:
    """A model of two mirrored components with visibility, and a scene to use it on."""
    import numpy as np

    import halfseen as hs
    from halfseen.data.image import write_image
    from halfseen.features.fhog import Fhog
    from halfseen.model.mixture import Component, Mixture

    rng = np.random.default_rng(0)
    components = tuple(
        Component(
            rng.normal(0, 0.05, (rows, cols, 31)).astype(np.float32),
            -2.5, -0.02, 0.01, np.array([0.0, 0.0, cols, rows]),
        )
        for rows, cols in ((8, 12), (10, 10))
    )  # fmt: skip
    model, image = folder / "model.safetensors", folder / "scene.png"
    hs.save(Mixture("car", "VIS", components, True, 0.05, Fhog()), model)
    write_image(image, hs.render_scenes(1, seed=1).image(0))
    return str(model), str(image)


def main() -> None:
    halfseen = str(Path(sys.executable).with_name("halfseen"))
    outside(halfseen, "--help")  # Python's own cache of compiled modules
    imports = [inside(IMPORT) for _ in range(REPEATS)]
    helps = [outside(halfseen, "--help") for _ in range(REPEATS)]
    cold, cached = [], []
    with tempfile.TemporaryDirectory() as scratch:
        arguments = prepare(Path(scratch))
        for k in range(COLD_REPEATS):
            kernels = str(Path(scratch, f"kernels-{k}"))
            cold.append(inside(DETECT, *arguments, NUMBA_CACHE_DIR=kernels))
            cached += [inside(DETECT, *arguments, NUMBA_CACHE_DIR=kernels) for _ in range(2)]
    print(
        json.dumps(
            {
                "import_seconds": round(statistics.median(imports), 4),
                "help_seconds": round(statistics.median(helps), 3),
                "first_detect_seconds": {
                    "cold": round(statistics.median(cold), 2),
                    "cached": round(statistics.median(cached), 2),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
