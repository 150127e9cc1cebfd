"""Suppression methods on VOC: settings chosen on train by cross-validation, AP measured on val.

Needs VOC, and a folder that `halfseen reproduce` has filled for the classes asked for:

    python benchmarks/voc/suppression.py VOC STUDY --train ids --test ids --folds FOLDER

Each half of train (images with the classes, and an eighth of the others) is searched with models of
the other half; every method's settings are the best there in the mean over the classes, and are
then frozen. The last line printed is JSON.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.bootstrap import bootstrap_difference, crowded
from halfseen.evaluate.voc_ap import Matches, match, summarise
from halfseen.studies.reproduce import Study, candidates, detect_all, train_class
from halfseen.suppression import suppress

ETAS = (0.2, 0.3, 0.4, 0.5, 0.6)
GRIDS: dict[str, list[dict[str, Any]]] = {
    "greedy": [{"method": "greedy", "overlap": eta} for eta in ETAS],
    "voting": [
        {"method": "voting", "overlap": eta, "beta": beta}
        for eta in (0.3, 0.4, 0.5)
        for beta in (2.0, 4.0)
    ],
    "mean-shift": [
        {"method": "meanshift", "sigma_x": s, "sigma_y": s, "sigma_scale": 2 * s}
        for s in (0.06, 0.125, 0.2, 0.3)
    ],
    "soft": [{"method": "soft", "sigma": s} for s in (0.05, 0.1, 0.2, 0.5)],
    "covering (paper)": [
        {"method": "covering", "energy": "paper", "overlap": eta} for eta in (*ETAS, 0.1)
    ],
    "covering (default)": [
        {"method": "covering", "overlap": eta, "beta": beta}
        for eta in (0.2, 0.3, 0.4)
        for beta in (2.0, 4.0)
    ],
}
# Controls of the default: what exactness and what visibility contribute, at the same settings.
CONTROLS = {
    "marginal-gain greedy": {"solver": "marginal"},
    "by box IoU": {"measure": "box"},
    "ranked by score": {"rank": "score"},
    "ranked by marginal": {"rank": "marginal"},
}


def judge(
    truth: Sequence[GroundTruth], found: Sequence[Detections], label: str, settings: dict[str, Any]
) -> Matches:
    """How the detections that a method keeps fare."""

    def choose(part: Detections) -> Detections:
        kept = suppress(part, **settings)
        return replace(part[kept.indices], score=kept.rank)

    return match(truth, list(map_images(choose, found)), label)


def ap(matches: Matches) -> float:
    return 100 * summarise(matches, "all-point").ap


def load(study: Study, label: str) -> list[Detections]:
    """The candidates at t = -1."""
    return [part[part.score >= -1] for part in candidates(study, label, "VIS")]


def reduced(half: Dataset, classes: Sequence[str]) -> Dataset:
    """The images with an object of the classes and an eighth of the others: enough to choose by."""
    shown = [bool(np.isin(truth.label, classes).any()) for truth in half]
    kept: Dataset = half[np.array(shown) | (np.arange(len(half)) % 8 == 0)]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("study", type=Path)
    parser.add_argument("--train", default="train")
    parser.add_argument("--test", default="val")
    parser.add_argument("--folds", type=Path, default=Path("folds"))
    parser.add_argument(
        "--halves", type=int, choices=(1, 2), default=2, help="1 chooses on one half of train only"
    )
    parser.add_argument("--class", dest="classes", action="append", default=[])
    options = parser.parse_args()
    classes = options.classes or ["car", "motorbike", "bus"]
    train, test = read_voc(options.voc, options.train), read_voc(options.voc, options.test)

    halves = [train[np.arange(len(train)) % 2 == k] for k in (0, 1)]
    searched = [reduced(half, classes) for half in halves[: options.halves]]
    folds = [
        Study(halves[1 - k], searched[k], options.folds / str(k), classes, methods=("VIS",))
        for k in range(options.halves)
    ]
    for fold in folds:
        for label in classes:
            print(f"training {label} in {fold.out}", flush=True)
            train_class(fold, label)
        detect_all(fold, lambda done, count: print(f"searched {done} of {count}", flush=True))
    truth = [t for half in searched for t in half]
    held_out = {label: [d for fold in folds for d in load(fold, label)] for label in classes}

    chosen: dict[str, dict[str, Any]] = {}
    for name, grid in GRIDS.items():
        means = []
        for settings in grid:
            aps = [ap(judge(truth, held_out[label], label, settings)) for label in classes]
            means.append(float(np.mean(aps)))
            print("train", name, settings, np.round(aps, 2), round(means[-1], 2), flush=True)
        chosen[name] = grid[int(np.argmax(means))]
    for name, change in CONTROLS.items():
        chosen[name] = {**chosen["covering (default)"], **change}

    study = Study(train, test, options.study, classes)
    result: dict[str, Any] = {"chosen": chosen, "ap": {}, "crowded_ap": {}, "against_greedy": {}}
    for label in classes:
        found = load(study, label)
        tight = crowded(test, label)
        near = partial(judge, [test[i] for i in tight], [found[i] for i in tight], label)
        judged = {name: judge(test, found, label, s) for name, s in chosen.items()}
        apart = {name: near(s) for name, s in chosen.items()}
        result["ap"][label] = {name: round(ap(m), 2) for name, m in judged.items()}
        result["crowded_ap"][label] = {name: round(ap(m), 2) for name, m in apart.items()}
        result["against_greedy"][label] = {
            name: {
                "all": str(bootstrap_difference(judged["greedy"], judged[name])),
                f"{len(tight)} crowded": str(bootstrap_difference(apart["greedy"], apart[name])),
            }
            for name in judged
            if name != "greedy"
        }
        print(
            label, json.dumps({k: result[k][label] for k in ("ap", "crowded_ap", "against_greedy")})
        )
    result["mean_ap"] = {
        name: round(float(np.mean([result["ap"][label][name] for label in classes])), 2)
        for name in chosen
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
