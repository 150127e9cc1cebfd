"""Average precision of models on network blocks, all of them in one pass over the images.

    python benchmarks/voc/evaluate_net.py VOC MODELS OUT --ids val.txt --features features
    python benchmarks/voc/evaluate_net.py VOC MODELS OUT --ids val.txt --ap

MODELS is a folder with CLASS-METHOD.safetensors. Images are taken in a random order with seed 0, so
that the first of them are a fair sample; blocks that are not in `features` are made and kept there.
`--shard K N` takes every Nth image from the Kth on. What is found is kept in OUT, a file for every
hundred images, and not searched again; `--ap` prints the AP of each model on the images that are
there, and writes them to OUT/ap.json: ranked by voting and, of calibrated models, by probability,
of all detections and of those that are left where each object is given one class alone. Then it
prints how many detections of a promised probability are right.
"""

import argparse
import itertools
import json
import time
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from kept_features import KeptNet
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import NEITHER, TRUE, average_precision, match
from halfseen.features.descriptor import register
from halfseen.model.store import load
from halfseen.refine.detector import Detector
from halfseen.suppression.classes import one_class

RUN = 100
# Of the promised probabilities.
BINS = np.linspace(0, 1, 6)
WAYS = ("votes", "probability", "one class")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--method", default="VIS")
    parser.add_argument("--shard", type=int, nargs=2, default=[0, 1])
    parser.add_argument("--ap", action="store_true")
    options = parser.parse_args()
    dataset = read_voc(options.voc, str(options.ids))
    order = np.random.default_rng(0).permutation(len(dataset))
    runs = np.split(order, range(RUN, len(order), RUN))
    files = [options.out / f"{n:03}.npz" for n in range(len(runs))]
    if options.ap:
        there = [n for n, path in enumerate(files) if path.exists()]
        rank(dataset, [runs[n] for n in there], [files[n] for n in there], options.out / "ap.json")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    register("net", partial(KeptNet, folder=str(options.features), half=True))
    paths = sorted(options.models.glob(f"*-{options.method}.safetensors"))
    detector = Detector([load(path) for path in paths], cores=1)
    first, step = options.shard
    for images, path in list(zip(runs, files, strict=True))[first::step]:
        if path.exists():
            continue
        start = time.time()
        found = [detector.detect(dataset.image(int(n))) for n in images]
        known = [part.probability for part in found if part.probability is not None]
        more = {"probability": np.concatenate(known)} if len(known) == len(found) else {}
        content = BytesIO()
        np.savez_compressed(
            content,
            models=[model.label for model in detector.models],
            image=np.repeat(images, [len(part) for part in found]),
            label=np.concatenate([part.label for part in found]),
            score=np.concatenate([part.score for part in found]),
            full=np.concatenate([part.full for part in found]),
            seen=np.concatenate([part.visible_fraction for part in found]),
            alone=np.concatenate([one_class(part)[0] < 0 for part in found]),
            **more,  # type: ignore[arg-type]
        )
        write_atomically(path, content.getvalue())
        print(path.name, f"{(time.time() - start) / len(images):.3f} s an image", flush=True)


def rank(dataset: Dataset, runs: list[NDArray[np.int64]], files: list[Path], out: Path) -> None:
    """Prints and writes the AP of each class on the images of these runs."""
    tables = [dict(np.load(path)) for path in files]
    column = {key: np.concatenate([t[key] for t in tables]) for key in tables[0] if key != "models"}
    ways = WAYS if "probability" in column else WAYS[:1]
    images = np.sort(np.concatenate(runs))
    truths = dataset[images].truths
    scores: dict[str, dict[str, float]] = {way: {} for way in ways}
    promised, right = [], []
    for label in tables[0]["models"].tolist():
        own = column["label"] == label
        for way in ways:
            rows = np.flatnonzero(own & column["alone"] if way == "one class" else own)
            rows = rows[np.argsort(column["image"][rows], kind="stable")]
            parts = np.split(rows, np.searchsorted(column["image"][rows], images[1:]))
            by = column["score" if way == "votes" else "probability"]
            found = [
                _detections(column["full"][part], by[part], label, truth.size)
                for part, truth in zip(parts, truths, strict=True)
            ]
            scores[way][label] = 100 * average_precision(truths, found, label).ap
            if way == "one class":
                matches = match(truths, found, label)
                counted = matches.outcome != NEITHER
                promised.append(matches.rank[counted])
                right.append(matches.outcome[counted] == TRUE)
        print(f"{label:12}", *(f"{scores[way][label]:5.1f}" for way in ways), flush=True)
    means = {way: float(np.mean(list(row.values()))) for way, row in scores.items()}
    print(f"{'mean':12}", *(f"{mean:5.1f} by {way}" for way, mean in means.items()))
    shown = ways[min(1, len(ways) - 1)]
    result: dict[str, Any] = {"images": len(images), "ap": scores[shown], "by": scores}
    if promised:
        result["promised"] = promises(np.concatenate(promised), np.concatenate(right))
    write_atomically(out, json.dumps(result, indent=1).encode())


def promises(promised: NDArray[np.float64], right: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Prints and returns, for each bin of probabilities, their mean and the share that is right."""
    rows = []
    for low, high in itertools.pairwise(BINS):
        inside = (promised >= low) & (promised < high + (high == 1))
        row = {"detections": int(inside.sum()), "promised": 0.0, "right": 0.0}
        if inside.any():
            row |= {
                "promised": float(promised[inside].mean()),
                "right": float(right[inside].mean()),
            }
        rows.append(row)
        print(f"{low:.1f} to {high:.1f}: {row['detections']:7} detections, "
              f"promised {row['promised']:.3f}, right {row['right']:.3f}")  # fmt: skip
    return rows


def _detections(
    full: NDArray[np.float64], score: NDArray[np.float64], label: str, size: tuple[int, int]
) -> Detections:
    """Detections of which the boxes alone are known, best first."""
    order = np.argsort(-score, kind="stable")
    count = len(score)
    return Detections(
        score[order], np.full(count, label), np.zeros(count, np.int64), np.zeros(count, bool),
        full[order], full[order], full[order], (np.zeros((1, 1), np.uint8),) * count, size,
    )  # fmt: skip


if __name__ == "__main__":
    main()
