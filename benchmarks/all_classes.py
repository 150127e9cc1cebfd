"""All shipped models on one image against one of them.

A drawn scene of 500x375. `all` is one Detector of all models, which share the features of the
image; `one` is the mean over the same models, each alone in a Detector of its own, as every image
costs when the classes are looked for one after another. All use the cores as a Detector does by
itself. They look for candidates at t = -1, visibility included, without suppression. Where fewer
than 20 models ship, the others of the 20 are copies with weights perturbed by a hundredth of their
spread: templates of the same shapes that respond much alike, said by `perturbed`. A quarter of the
copies enlarge the image, as of the 20 classes a quarter do.

Keys of the line of JSON that comes last: `all_over_one`, how many times as long all take;
`all_over_median`, the same against the median of the models; `all_ms`, `one_ms`, and
`alone_ms` of each model; `models` and, of them, `perturbed`; `cores`. Times are the wall's,
which needs an idle machine: milliseconds are medians of the turns, ratios the median of each
turn's.
"""

# ruff: noqa: E402  (threads are counted when numpy and numba are imported)
from __future__ import annotations

import os

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"

import json
import time
from dataclasses import replace

import numpy as np

import halfseen as hs
from halfseen.compute import available_cores
from halfseen.data.image import Pixels
from halfseen.data.scenes import render_scene
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.mixture import Mixture
from halfseen.model.shipped import shipped

CLASSES = 20
TURNS = 25
THRESHOLD = -1.0
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


def milliseconds(detector: hs.Detector, image: Pixels) -> float:
    start = time.perf_counter()
    detector.candidates_by_model(image, THRESHOLD)
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    shipping = [hs.load(path) for path in shipped().values()]
    models = completed(shipping)
    image = render_scene(SEED, 0).truth.source
    assert isinstance(image, np.ndarray)
    together = hs.Detector(models)
    alone = [hs.Detector(model) for model in models]
    for detector in (together, *alone):
        milliseconds(detector, image)  # compiles, or reads the compiled kernels
    turns = []
    for _ in range(TURNS):
        every = milliseconds(together, image)
        turns.append([every, *(milliseconds(detector, image) for detector in alone)])
    every, each = np.array(turns)[:, 0], np.array(turns)[:, 1:]
    one = each.mean(1)
    print(f"{len(models)} models together {np.median(every):.1f} ms, one {np.median(one):.1f} ms")
    print(
        json.dumps(
            {
                "all_over_one": round(float(np.median(every / one)), 2),
                "all_over_median": round(float(np.median(every / np.median(each, 1))), 2),
                "all_ms": round(float(np.median(every)), 2),
                "one_ms": round(float(np.median(one)), 2),
                "alone_ms": np.median(each, 0).round(1).tolist(),
                "models": len(models),
                "perturbed": len(models) - len(shipping),
                "cores": available_cores(),
            }
        )
    )


if __name__ == "__main__":
    main()
