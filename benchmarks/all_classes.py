"""All shipped models on one image against one of them.

A drawn scene of 500x375 as a JPEG file. `all` is one Detector of all models, which share the
features of the image; `one` is the mean over the same models, each alone in a Detector of its own,
as every image costs when the classes are looked for one after another. All use the cores as a
Detector does by itself. Each reads the file, and gives the objects in it as `detect` does by
default: t = -1, visibility, voting. Where fewer than 20 models ship, the others of the
20 are copies with weights perturbed by a hundredth of their spread: templates of the same shapes
that respond much alike, said by `perturbed`. A quarter of the copies enlarge the image, as of the
20 classes a quarter do.

Keys of the line of JSON that comes last: `all_over_one`, how many times as long all take;
`all_over_one_search`, the same of the search alone, from pixels to candidates before suppression;
`all_over_median`, all against the median of the models; `all_ms`, `one_ms`, and
`alone_ms` of each model; `models` and, of them, `perturbed`; `cores`. Times are the wall's,
which needs an idle machine: milliseconds are medians of the turns, ratios the median of each
turn's.

With `--masks`, the shipped models with mask heads.
"""

# ruff: noqa: E402  (threads are counted when numpy and numba are imported)
from __future__ import annotations

import os

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import halfseen as hs
from halfseen.compute.libraries import available_cores
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scene
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.mixture import Mixture
from halfseen.model.shipped import shipped

CLASSES = 20
TURNS = 25
SEED = 11
ENLARGING = PyramidSettings()
PLAIN = PyramidSettings(largest=ENLARGING.largest / 1.2 / 1.2 / 1.2 / 1.2)


def completed(models: list[Mixture]) -> list[Mixture]:
    """As many models as VOC has classes."""
    rng = np.random.default_rng(SEED)
    copies = [perturbed(models[k % len(models)], rng) for k in range(CLASSES - len(models))]
    for k in range(len(copies)):
        copies[k] = replace(copies[k], pyramid=ENLARGING if k % 4 == 0 else PLAIN)
    return models + copies


def perturbed(model: Mixture, rng: np.random.Generator) -> Mixture:
    components = tuple(
        replace(
            component,
            weights=component.weights
            + rng.normal(0, 0.01 * component.weights.std(), component.weights.shape).astype(
                np.float32
            ),
        )
        for component in model.components
    )
    return replace(model, components=components)


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description="All shipped models against one of them.")
    parser.add_argument("--masks", action="store_true", help="those with mask heads")
    masks = parser.parse_args().masks
    shipping = [hs.load(path) for path in shipped("fhog" if masks else "fast").values()]
    models = completed(shipping)
    image = render_scene(SEED, 0).truth.source
    assert isinstance(image, np.ndarray)
    detectors = [hs.Detector(models), *(hs.Detector(model) for model in models)]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "photo.jpg"
        write_image(file, image)
        # How long all take, then each alone: from file to objects, and the search.
        tasks = [
            [partial(detector.detect, file) for detector in detectors],
            [partial(detector.candidates, image) for detector in detectors],
        ]
        for work in (*tasks[0], *tasks[1]):
            work()  # compiles, or reads the compiled kernels
        turns = np.array(
            [[[milliseconds(work) for work in kind] for kind in tasks] for _ in range(TURNS)]
        )
    every, each = turns[:, :, 0], turns[:, :, 1:]
    one = each.mean(2)
    ratio, search = np.median(every / one, 0)
    print(
        f"{len(models)} models together {np.median(every[:, 0]):.1f} ms, "
        f"one {np.median(one[:, 0]):.1f} ms"
    )
    print(
        json.dumps(
            {
                "all_over_one": round(float(ratio), 2),
                "all_over_one_search": round(float(search), 2),
                "all_over_median": round(
                    float(np.median(every[:, 0] / np.median(each[:, 0], axis=1))), 2
                ),
                "all_ms": round(float(np.median(every[:, 0])), 2),
                "one_ms": round(float(np.median(one[:, 0])), 2),
                "alone_ms": np.median(each[:, 0], 0).round(1).tolist(),
                "models": len(models),
                "perturbed": len(models) - len(shipping),
                "cores": available_cores(),
            }
        )
    )


if __name__ == "__main__":
    main()
