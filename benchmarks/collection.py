"""Images a second of `detect --shard` on one core, two cores, and Dask with two workers.

python benchmarks/collection.py [--images 10000] [--rounds 3] [--photo]. With --photo they have
500x375 pixels instead of 192x144: give fewer. Every place of work takes all images
in each round, and ratios are the medians of the rounds': other load on the machine comes and goes.
The time of two cores includes the start of their processes.
Prints one line of JSON last: images_per_second of each place, two_cores_over_one,
dask_over_two_cores, memory_growth (the largest memory during the last tenth of the images over
that during the first tenth, in this process, less 1) and equal_bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.collection.journal import open_journal
from halfseen.collection.photo import Photo
from halfseen.collection.run import run_collection
from halfseen.collection.sources import find_photos
from halfseen.data.image import write_image
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.mixture import Component, Mixture
from halfseen.refine.detector import Detector
from halfseen.studies.photos import PhotoDetector, PhotoSettings

SMALL, PHOTO = (144, 192), (375, 500)


def write_images(folder: Path, count: int, size: tuple[int, int]) -> None:
    """Soft patches of colour with noise, as JPEG: cheap to make, and not empty of gradients."""
    rng = np.random.default_rng(0)
    for n in range(count):
        coarse = rng.integers(0, 255, (size[0] // 16 + 1, size[1] // 16 + 1, 3))
        patches = np.kron(coarse, np.ones((16, 16, 1)))[: size[0], : size[1]]
        image = patches + rng.integers(-20, 20, (*size, 1))
        path = folder / f"{n // 1000:03}" / f"{n:06}.jpg"
        path.parent.mkdir(exist_ok=True)
        write_image(path, np.clip(image, 0, 255).astype(np.uint8), quality=85)


def make_detector() -> PhotoDetector:
    """Two mirrored components of 6 x 8 and 8 x 6 blocks, with visibility."""
    rng = np.random.default_rng(1)
    components = tuple(
        Component(
            rng.normal(size=(*shape, 31)).astype(np.float32) * 0.02, -1.6, -0.02, 0.01,
            np.array([0.0, 0.0, shape[1], shape[0]]),
        )
        for shape in ((6, 8), (8, 6))
    )  # fmt: skip
    model = Mixture("thing", "VIS", components, True, 0.05, Fhog(8), PyramidSettings(1.2, 1.0))
    return PhotoDetector(Detector(model), PhotoSettings(method="greedy"))


def run_block(
    folder: Path, photos: list[Photo], detect: PhotoDetector, place: dict[str, Any]
) -> tuple[float, dict[str, bytes]]:
    request = {"shard": 250, "format": "jsonl"}
    with open_journal(folder, request, photos) as journal:
        start = time.perf_counter()
        summary = run_collection(journal, detect.record, **place)
        spent = time.perf_counter() - start
    assert summary.done == len(photos), summary
    assert summary.failed == 0, (folder / "failed.jsonl").read_text()[:500]
    return spent, {path.name: path.read_bytes() for path in (folder / "shards").iterdir()}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photo", action="store_true", help="images of 500x375 pixels")
    options = parser.parse_args()
    size = PHOTO if options.photo else SMALL
    # Not above: the processes of two cores import this module, and need none of it.
    from distributed import Client, LocalCluster

    detect = make_detector()
    with (
        tempfile.TemporaryDirectory() as name,
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        top = Path(name)
        (top / "images").mkdir()
        write_images(top / "images", options.images, size)
        photos = list(find_photos([str(top / "images")]))
        places: dict[str, dict[str, Any]] = {
            "one_process": {"cores": 1}, "two_cores": {"cores": 2}, "dask": {"cluster": client},
        }  # fmt: skip
        for place, where in places.items():  # kernels compiled, workers warm
            run_block(top / f"warm-{place}", photos[:64], detect, where)
        rounds: list[dict[str, float]] = []
        equal = True
        memory: list[int] = []
        for turn in range(options.rounds):
            spent, outputs = {}, []
            for place, where in places.items():
                watch = {"on_done": lambda _: memory.append(resident())} if "cores" in where else {}
                folder = top / f"{place}-{turn}"
                spent[place], output = run_block(folder, photos, detect, where | watch)
                outputs.append(output)
            equal &= outputs[0] == outputs[1] == outputs[2]
            rounds.append({place: len(photos) / seconds for place, seconds in spent.items()})
            print({place: round(rate, 1) for place, rate in rounds[-1].items()}, flush=True)
    tenth = max(len(memory) // 10, 1)

    def ratio(place: str, other: str) -> float:
        return round(float(np.median([rate[place] / rate[other] for rate in rounds])), 3)

    middle = {
        place: round(float(np.median([rate[place] for rate in rounds])), 1) for place in places
    }
    print(
        json.dumps(
            {
                "images": len(photos), "size": size, "cores": os.cpu_count(),
                "load": [round(v, 1) for v in os.getloadavg()],
                "images_per_second": middle,
                "two_cores_over_one": ratio("two_cores", "one_process"),
                "dask_over_two_cores": ratio("dask", "two_cores"),
                "memory_mib": max(memory) >> 20,
                "memory_growth": round(max(memory[-tenth:]) / max(memory[:tenth]) - 1, 4),
                "equal_bytes": equal,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
