"""Covered objects of VOC ranked by calibrated probability: BLT against VIS.

    python benchmarks/voc/calibrated_sweep.py VOC calibration --test ids

takes CLASS-{BLT,VIS}.safetensors of the folder that calibration.py fills, and the pictures of
sweep.py: AP of whole objects among 200 images without the class, with nothing and with 40% of each
object covered. The last line printed is JSON: the means over the classes, by votes and by
probability, and what VIS has at 40% in terms of BLT.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from calibration import CLASSES, METHODS
from sweep import choose

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import match, summarise
from halfseen.infer.detector import Detector
from halfseen.model.store import load

SHARES = (0.0, 0.4)


def sweep_class(dataset: Dataset, label: str, folder: Path) -> dict[str, float]:
    """AP by method, share and ranking."""
    test, others = choose(dataset, label, 60, 200, 0)
    textures = [others.image(i) for i in range(len(others))]
    detectors = {m: Detector(load(folder / f"{label}-{m}.safetensors")) for m in METHODS}
    found: dict[tuple[str, float], list[Detections]] = {(m, s): [] for m in METHODS for s in SHARES}
    for i, truth in enumerate(test):
        image = test.image(i)
        for share in SHARES:
            pixels, _ = cover_objects(image, truth, label, share, textures, 0)
            for method, detector in detectors.items():
                found[method, share].append(detector.detect(pixels))
    ignored = [~whole(truth) for truth in test]
    row = {}
    for (method, share), parts in found.items():
        ranks = {"votes": [part.score for part in parts]}
        ranks["probability"] = [
            np.zeros(0) if part.probability is None else part.probability for part in parts
        ]
        for by, rank in ranks.items():
            matches = match(test.truths, parts, label, ignored=ignored, rank=rank)
            row[f"{method} {share:.0%} {by}"] = 100 * float(summarise(matches).ap)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--test", default="val")
    parser.add_argument("--class", dest="classes", action="append", default=[])
    options = parser.parse_args()
    test = read_voc(options.voc, options.test)
    rows = {}
    for label in options.classes or CLASSES:
        rows[label] = sweep_class(test, label, options.folder)
        print(label, {key: round(value, 1) for key, value in rows[label].items()}, flush=True)
    keys = next(iter(rows.values()))
    means = {key: round(float(np.mean([row[key] for row in rows.values()])), 2) for key in keys}
    ratio = means["VIS 40% probability"] / means["BLT 40% probability"]
    print(json.dumps({"mean_ap": means, "vis_over_blt": round(ratio, 3)}))


if __name__ == "__main__":
    main()
