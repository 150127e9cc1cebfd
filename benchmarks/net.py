"""Models on network blocks: what an image costs, and how much of that is the network.

A drawn scene of 500x375. `backbone` is onnxruntime on the image at scale 1, once; `float` the same
network in floats instead of bytes; `network` the blocks of all levels; `one` and `all` are `detect`
with one model and with 20, from pixels to objects. Where fewer than 20 models ship, the others are
copies of them with perturbed weights. Everything runs in this process, on one core but for
`all_two`, with the numbers of threads set before anything is imported.

Keys of the line of JSON that comes last: `backbone_ms`, `float_ms`, `network_ms`, `one_ms` and
`all_ms` (medians of the turns), `all_over_backbone`, `one_over_all`, `network_share` (of `all`),
`one_over_two` (all on one core against two), `models`, `peak_mb` of a process that searches the
scene with all. With `--large` also `large_peak_mb` and `large_s` of a process that describes an
image of 12 megapixels, and `growth`, its time a pixel against the scene's. Times are the wall's and
need an idle machine.

    python benchmarks/net.py [--turns 5] [--large]
"""

# ruff: noqa: E402  (threads are counted when numpy and numba are imported)
from __future__ import annotations

import os

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from halfseen.data.image import as_image
from halfseen.data.scenes import render_scene
from halfseen.features.backbone import find_backbone, weights_file
from halfseen.features.efficientnet import lite0
from halfseen.features.net import Net
from halfseen.features.pyramid import PyramidSettings, plan_levels
from halfseen.features.torch_weights import read_weights
from halfseen.model.mixture import Component, Mixture
from halfseen.model.shipped import shipped
from halfseen.model.store import load
from halfseen.refine.detector import Detector

CLASSES = 20
PYRAMID = PyramidSettings(1.25, 2.0)
SMALLEST = 6  # blocks along a side of the smallest level
LARGE = (3000, 4000)


def scene(height: int = 375, width: int = 500) -> NDArray[np.uint8]:
    return as_image(render_scene(11, 0, size=(height, width)).truth.source)


def models() -> list[Mixture]:
    rng = np.random.default_rng(0)
    found = [load(path) for path in shipped("net").values()]
    if not found:
        # Weights at random: as many windows to sum, and none that is found.
        weights = rng.normal(0, 0.01, (8, 8, 64)).astype(np.float32)
        component = Component(weights, -2.0, -0.02, 0.0, np.array([0.0, 0, 8, 8]))
        found = [Mixture("none", "VIS", (component,), True, 0.02, Net(), PYRAMID)]
    for k in range(CLASSES - len(found)):
        model = found[k]
        parts = tuple(
            replace(c, weights=c.weights + rng.normal(0, 1e-4, c.weights.shape).astype(np.float32))
            for c in model.components
        )
        found.append(replace(model, components=parts))
    return found


def describe(pixels: NDArray[np.uint8], net: Net) -> None:
    """The blocks of all levels."""
    plans = plan_levels(pixels, PYRAMID)
    for plan in takewhile(lambda plan: min(net.grid(*plan.size)) >= SMALLEST, plans):
        net(plan.make().pixels)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak(part: str) -> dict[str, float]:
    """What a process of its own measures for a part of this benchmark."""
    run = subprocess.run(
        [sys.executable, __file__, "--part", part], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def measure(part: str) -> None:
    """Runs a part, and prints its time and the peak of its memory."""
    if part == "large":
        time_taken = seconds(partial(describe, scene(*LARGE), Net()))
    else:
        time_taken = seconds(partial(Detector(models(), cores=1).detect, scene()))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"s": time_taken, "mb": used}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="also an image of 12 megapixels")
    parser.add_argument("--part", choices=["scene", "large"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        measure(options.part)
        return
    pixels, net, every = scene(), Net(), models()
    backbone = find_backbone("lite0")
    image = np.zeros((1, 3, 384, 512), np.float32)
    session = backbone.session()
    threads = onnxruntime.SessionOptions()
    threads.intra_op_num_threads = 1
    floats = lite0(read_weights(weights_file().read_bytes()), None)
    slow = onnxruntime.InferenceSession(floats, threads, providers=["CPUExecutionProvider"])
    works: dict[str, Callable[[], object]] = {
        "backbone": partial(session.run, None, {"image": image}),
        "float": partial(slow.run, None, {"image": image}),
        "network": partial(describe, pixels, net),
        "one": partial(Detector(every[0], cores=1).detect, pixels),
        "all": partial(Detector(every, cores=1).detect, pixels),
        "all_two": partial(Detector(every, cores=2).detect, pixels),
    }
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(options.turns + 1):
        for name, work in works.items():
            spent = seconds(work)
            if turn:  # the first compiles kernels
                taken[name].append(spent)
    middle = {name: float(np.median(values)) for name, values in taken.items()}
    result: dict[str, float] = {f"{name}_ms": 1000 * value for name, value in middle.items()}
    result["all_over_backbone"] = middle["all"] / middle["backbone"]
    result["one_over_all"] = middle["one"] / middle["all"]
    result["network_share"] = middle["network"] / middle["all"]
    result["one_over_two"] = middle["all"] / middle["all_two"]
    result["models"] = len(shipped("net"))
    result["peak_mb"] = peak("scene")["mb"]
    if options.large:
        large = peak("large")
        result |= {"large_peak_mb": large["mb"], "large_s": large["s"]}
        more = LARGE[0] * LARGE[1] / (pixels.shape[0] * pixels.shape[1])
        result["growth"] = large["s"] / middle["network"] / more
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
