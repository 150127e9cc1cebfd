"""Learns mask heads for the shipped models, measures them, and puts them into the package.

    python benchmarks/voc/ship_masks.py VOC OUT --train ids --test ids

learns a head for every shipped model that has none in OUT, a class after another, and keeps the
models there: the same command goes on after a kill. Then all of them together look at every test
image (t = -1), and each becomes src/halfseen/models/voc/masks/CLASS.safetensors, with its average
precision noted in the file. A head changes neither scores nor boxes, so it is the AP of the model
without one. The last line printed is JSON: AP by class, and the means with and without heads.
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
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import match, summarise
from halfseen.learn.masks.head import learn_masks
from halfseen.model.mixture import Mixture
from halfseen.model.shipped import FOLDER, SUFFIX, shipped
from halfseen.model.store import load, save
from halfseen.refine.detector import Detector

THRESHOLD = -1.0
STEP = 250


def headed(options: argparse.Namespace, label: str, path: Path) -> Mixture:
    """A shipped model with a mask head, learnt now if it was not before, or for another model."""
    own: Path = options.out / f"{label}{SUFFIX}"
    model = load(path)
    if not own.exists() or not same(load(own), model):
        save(learn_masks(read_voc(options.voc, options.train), model), own)
        print(label, "has a head", flush=True)
    return load(own)


def same(one: Mixture, other: Mixture) -> bool:
    """Whether two models find the same."""
    parts = [[component.weights.tobytes() for component in m.components] for m in (one, other)]
    return parts[0] == parts[1]


def detect_all(test: Dataset, models: list[Mixture]) -> list[Detections]:
    """What all models together find in each image; each core has an image of its own."""
    detector, found = Detector(models), []
    for one in map_images(lambda i: detector.detect(test.image(i), THRESHOLD), range(len(test))):
        found.append(one)
        if len(found) % STEP == 0:
            print(f"{len(found)} of {len(test)} images", flush=True)
    return found


def measured(test: Dataset, found: list[Detections], label: str) -> float | None:
    """Average precision of a class, in percent; None if the images have no object of it."""
    own = [part[np.flatnonzero(part.label == label)] for part in found]
    ap = 100 * summarise(match(test.truths, own, label)).ap
    return ap if np.isfinite(ap) else None


def rounded(ap: float | None) -> float | None:
    return None if ap is None else round(ap, 2)


def ship(model: Mixture, ap: float | None, test: str, out: Path) -> None:
    tested = {"data": test, "ap": ap, "ap_by_probability": None}
    out.mkdir(parents=True, exist_ok=True)
    training = {**model.training, "tested": tested}
    save(replace(model, training=training), out / f"{model.label}{SUFFIX}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", default="train")
    parser.add_argument("--test", default="val")
    parser.add_argument("--package", type=Path, default=FOLDER / "masks")
    parser.add_argument("--named", default="VOC 2010 val (5,105 images)", help="the test images")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    before = {label: load(path) for label, path in shipped().items()}
    models = [headed(options, label, path) for label, path in shipped().items()]
    test = read_voc(options.voc, options.test)
    found = detect_all(test, models)
    rows: dict[str, Any] = {}
    for model in models:
        rows[model.label] = measured(test, found, model.label)
        ship(model, rows[model.label], options.named, options.package)
        print(model.label, rounded(rows[model.label]), flush=True)
    known = [part.training["tested"]["ap"] for part in before.values()]
    with_heads = [ap for ap in rows.values() if ap is not None]
    figures = {"ap": {label: rounded(ap) for label, ap in rows.items()}}
    means = {"mean": np.mean(with_heads), "without heads": np.mean(known)}
    print(json.dumps({**figures, **{k: round(float(v), 2) for k, v in means.items()}}))


if __name__ == "__main__":
    main()
