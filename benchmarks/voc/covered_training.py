"""Whether a detector should also learn from covered objects: on halves of train.

    python benchmarks/voc/covered_training.py VOC OUT --ids train.txt --features features
        --class motorbike --class aeroplane

learns two models of each class on one half of the images, with preset `net`: from the images as
they are, and from as many copies again of those with whole objects, 10 to 60% of each under
texture. Both are tested on the images of the other half that show the class and 300 others: AP of
all objects, of those that are truncated or occluded alone, and of whole ones with 0, 20, 40 and 60%
under texture that neither has seen; and how many of the whole ones that were found are found again.
OUT keeps what is learnt. The last line printed is JSON.
"""

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from kept_features import KeptNet

from halfseen.arrays import Pixels
from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.evaluate.sweep import SHARES, cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import match, summarise
from halfseen.features.descriptor import register
from halfseen.learn.folds import split_folds
from halfseen.learn.progress import Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import fit_detector
from halfseen.model.mixture import Mixture
from halfseen.model.store import load, save
from halfseen.refine.detector import Detector

TEXTURES = 40
OTHERS = 300
LEARNT = (0.1, 0.6)


def with_covered(dataset: Dataset, label: str) -> Dataset:
    """The images, and those with whole objects of the class once more, with these covered.

    Covered objects count as truncated: they take part in latent updates, but not in the start.
    """
    rng = np.random.default_rng(0)
    free = [i for i, truth in enumerate(dataset) if not (truth.label == label).any()]
    textures = [dataset.image(int(i)) for i in rng.choice(free, TEXTURES, replace=False)]
    more = []
    for i, truth in enumerate(dataset):
        own = whole(truth) & (truth.label == label)
        if not own.any():
            continue
        share = float(rng.uniform(*LEARNT))
        pixels, _ = cover_objects(dataset.image(i), truth, label, share, textures, 1)
        kept = own | (truth.label != label)
        copy = replace(truth[kept], image=f"{truth.image} covered", source=pixels, read_mask=None)
        more.append(replace(copy, truncated=copy.truncated | own[kept]))
    return replace(dataset, truths=(*dataset.truths, *more))


def measure(model: Mixture, test: Dataset, textures: list[Pixels]) -> dict[str, float]:
    """AP in percent of all objects, of partly visible ones and by the share that is covered."""
    label, detector = model.label, Detector(model, cores=1)
    truths = test.truths
    rest = [~whole(truth) for truth in truths]
    found = [detector.detect(test.image(i)) for i in range(len(test))]
    partly = match(truths, found, label, ignored=[~(t.occluded | t.truncated) for t in truths])
    figures = {
        "AP": 100 * summarise(match(truths, found, label)).ap,
        "AP, partly visible": 100 * summarise(partly).ap,
    }
    before = {(i, j) for i, _, j in match(truths, found, label, ignored=rest).right}
    for share in SHARES:
        now = list(found)
        for i, truth in enumerate(truths):
            if share and (whole(truth) & (truth.label == label)).any():
                pixels, _ = cover_objects(test.image(i), truth, label, share, textures, 0)
                now[i] = detector.detect(pixels)
        matches = match(truths, now, label, ignored=rest)
        again = before & {(i, j) for i, _, j in matches.right}
        figures[f"AP, {100 * share:g}% covered"] = 100 * summarise(matches).ap
        figures[f"found again, {100 * share:g}%"] = len(again) / max(len(before), 1)
    return {key: round(value, 3) for key, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--class", dest="labels", action="append", required=True)
    options = parser.parse_args()
    register("net", partial(KeptNet, folder=str(options.features)))
    dataset = read_voc(options.voc, str(options.ids))
    options.out.mkdir(parents=True, exist_ok=True)
    table: dict[str, dict[str, dict[str, float]]] = {}
    for label in options.labels:
        first, second = split_folds(dataset, label, 2, 0)
        shown = np.array([bool((truth.label == label).any()) for truth in dataset[second]])
        others = np.random.default_rng(0).permutation(np.flatnonzero(~shown))
        chosen = np.concatenate([np.flatnonzero(shown), others[TEXTURES : TEXTURES + OTHERS]])
        textures = [dataset.image(int(i)) for i in second[others[:TEXTURES]]]
        for kind in ("as they are", "and covered"):
            path = options.out / f"{label}, {kind}.safetensors"
            if not path.exists():
                lessons = dataset[first]
                lessons = with_covered(lessons, label) if kind == "and covered" else lessons
                settings = TrainSettings.preset("net")
                save(fit_detector(lessons, label, settings, Run(cores=1)), path)
            row = measure(load(path), dataset[second[np.sort(chosen)]], textures)
            table.setdefault(label, {})[kind] = row
            print(label, kind, row, flush=True)
    print(json.dumps(table))


if __name__ == "__main__":
    main()
