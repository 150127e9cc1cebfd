"""Calibration on VOC: learns it for each class on train, and judges probabilities on val.

    python benchmarks/voc/calibration.py VOC STUDY/default OUT --train ids --test ids --class car

takes STUDY/CLASS-VIS.safetensors, as `halfseen reproduce` makes it, or a shipped model's name in
place of STUDY (`shipped`), learns its calibration, and keeps it in OUT: the same command goes
on after a kill. Then, on all test images, AP by score (voting) and by probability, and what
detections of five bins of probability promise against how many of them are right. The last line
printed is JSON: per class, and the means over the classes.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import NEITHER, TRUE, match, summarise
from halfseen.learn.probability import learn_calibration
from halfseen.model.mixture import Mixture
from halfseen.model.store import load, save
from halfseen.refine.detector import Detector

CLASSES = ("car", "motorbike", "bus", "bicycle", "horse", "aeroplane")
THRESHOLD = -1.0
BINS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def calibrated(options: argparse.Namespace, label: str) -> Mixture:
    """The model of a class with its calibration, learnt now if it was not before."""
    path = options.out / f"{label}.safetensors"
    if not path.exists():
        shipped = str(options.study) == "shipped"
        model = load(f"{label}.fhog" if shipped else options.study / f"{label}-VIS.safetensors")
        save(learn_calibration(read_voc(options.voc, options.train), model), path)
    return load(path)


def judge(test: Dataset, label: str, model: Mixture) -> dict[str, Any]:
    """AP by score and by probability, and the bins of probability."""
    detector = Detector(model)

    def find(i: int) -> Detections:
        return detector.detect(test.image(i), THRESHOLD)

    found = list(map_images(find, range(len(test))))
    figures: dict[str, Any] = {"ap": ap(test, found, label)}
    if model.calibration is None:
        return figures
    ranked = [replace(f, score=np.asarray(f.probability)).sorted() for f in found]
    figures["ap_by_probability"] = ap(test, ranked, label)
    matches = match(test.truths, ranked, label)
    promised = np.concatenate([f.score for f in ranked])
    first = np.concatenate([[0], np.cumsum([len(f) for f in ranked])])
    counted = matches.outcome != NEITHER
    row = first[matches.image[counted]] + matches.index[counted]
    right = matches.outcome[counted] == TRUE
    bins = np.clip(np.digitize(promised[row], BINS) - 1, 0, 4)
    figures["bins"] = [
        {
            "detections": int((bins == k).sum()),
            "promised": round(float(promised[row][bins == k].mean()), 3),
            "right": round(float(right[bins == k].mean()), 3),
        }
        for k in range(5)
        if (bins == k).any()
    ]
    return figures


def ap(test: Dataset, found: list[Detections], label: str) -> float:
    """Average precision in percent."""
    return round(100 * summarise(match(test.truths, found, label)).ap, 2)


def main() -> None:
    """Learn and judge the calibrations of all classes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("voc", "study", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--train", default="train")
    parser.add_argument("--test", default="val")
    parser.add_argument("--class", dest="classes", action="append")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    test = read_voc(options.voc, options.test)
    classes: dict[str, Any] = {}
    for label in options.classes or CLASSES:
        path = options.out / f"{label}.json"
        if not path.exists():
            figures = judge(test, label, calibrated(options, label))
            write_atomically(path, json.dumps(figures).encode())
        classes[label] = json.loads(path.read_text())
        print(label, json.dumps(classes[label]), flush=True)
    means = {
        name: round(float(np.mean([tree[name] for tree in classes.values() if name in tree])), 2)
        for name in ("ap", "ap_by_probability")
        if any(name in tree for tree in classes.values())
    }
    print(json.dumps({"classes": classes, "mean": means}))


if __name__ == "__main__":
    main()
