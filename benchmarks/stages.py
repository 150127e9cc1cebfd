"""Where the time of one search goes: milliseconds of each compiled kernel and library call.

    python benchmarks/stages.py                  # the picture and the model of detection.py
    python benchmarks/stages.py car.fast         # a shipped model, or several
    python benchmarks/stages.py --masks          # the model of mask_cost.py

One thread. A function's own time, without that of other functions of the list; `rest` is Python
between them. Times are the processor's, so that others on the machine matter less. The last line
is JSON.
"""

# ruff: noqa: E402  (threads are counted when numpy and numba are imported)
from __future__ import annotations

import os

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[threads] = "1"

import argparse
import importlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import wraps
from operator import itemgetter
from typing import Any
from unittest import mock

import halfseen as hs

TURNS = 51
# Where each is looked up.
FUNCTIONS = (
    "halfseen.features.kernels.resample",
    "halfseen.features.kernels.signed_histograms",
    "halfseen.features.kernels.felzenszwalb_channels",
    "halfseen.features.hog_kernels.soft_histograms",
    "halfseen.features.hog_kernels.normalise_blocks",
    "halfseen.detect.view.Plane.of",
    "halfseen.detect.responses.find_rows",
    "halfseen.detect.search.bound",
    "halfseen.detect.search.solve",
    "halfseen.detect.search.as_detections",
    "halfseen.detect.detector.suppress",
    "halfseen.refine.hidden.hidden_logits",
    "halfseen.refine.hidden.block_colours",
    "halfseen.refine.hidden.lab",
    "halfseen.refine.hidden.group",
    "halfseen.refine.hidden.contrast_edges",
    "halfseen.refine.hidden.best_flags",
    "halfseen.refine.figure.best_flags",
    "halfseen.refine.figure.colour_evidence",
    "halfseen.refine.figure.place_blocks",
    "halfseen.refine.figure.block_colours",
    "halfseen.refine.figure.lab",
    "halfseen.refine.hidden.HiddenBlocks.__call__",
    "halfseen.refine.figure.FigureGround.__call__",
)


class Stopwatch:
    """Sums the seconds that functions take, each without what it waits for of the others."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._inner = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time taken."""

        @wraps(function)
        def run(*arguments: Any, **settings: Any) -> Any:
            self._inner.append(0.0)
            start = time.thread_time()
            try:
                return function(*arguments, **settings)
            finally:
                taken = time.thread_time() - start
                self.seconds[name] += taken - self._inner.pop()
                self._inner[-1] += taken
                self.calls[name] += 1

        return run


def profile(work: Callable[[], object]) -> tuple[dict[str, float], Counter[str]]:
    """Milliseconds of each function in a call of `work`, with `rest` and `all`, and the calls."""
    work()
    work()
    watch = Stopwatch()
    patches = []
    for path in FUNCTIONS:
        place, name = path.rsplit(".", 1)
        try:
            owner: Any = importlib.import_module(place)
        except ModuleNotFoundError:
            module, kind = place.rsplit(".", 1)
            owner = getattr(importlib.import_module(module), kind, None)
        if hasattr(owner, name):
            timed = watch.timed(path.removeprefix("halfseen."), getattr(owner, name))
            static = isinstance(vars(owner).get(name), staticmethod)
            patches.append(mock.patch.object(owner, name, staticmethod(timed) if static else timed))
    for patch in patches:
        patch.start()
    whole = watch.timed("rest", work)
    start = time.thread_time()
    for _ in range(TURNS):
        whole()
    taken = time.thread_time() - start
    mock.patch.stopall()
    ranked = sorted(watch.seconds.items(), key=itemgetter(1), reverse=True)
    share = {name: 1e3 * seconds / TURNS for name, seconds in ranked}
    return {**share, "all": 1e3 * taken / TURNS}, watch.calls


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="shipped models or files")
    parser.add_argument("--masks", action="store_true", help="the model of mask_cost.py")
    chosen = parser.parse_args()
    image = hs.render_scenes(1, seed=5).image(0)
    if chosen.models:
        detector = hs.Detector([hs.load(name) for name in chosen.models], cores=1)
    else:
        from detection import our_model

        model, _ = our_model(hs.render_scenes(40, seed=7), image)
        if chosen.masks:
            from mask_cost import with_operating_point, with_random_head

            model = with_operating_point(with_random_head(model), image)
        detector = hs.Detector(model)
    milliseconds, calls = profile(lambda: detector.detect(image))
    for name, value in milliseconds.items():
        print(f"{name:42s} {value:7.3f} ms {calls[name] / TURNS:7.1f} calls")
    print(json.dumps({name: round(value, 3) for name, value in milliseconds.items()}))


if __name__ == "__main__":
    main()
