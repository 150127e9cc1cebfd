"""Calibrated scores on VOC: learnt on halves of train, AP measured on val.

Needs VOC, and a folder that `halfseen reproduce` has filled for the classes asked for:

    python benchmarks/voc/calibration.py VOC STUDY --train ids --test ids --folds FOLDER

Much as `learn_calibration` does, each half of train is searched with models of the other half, here
down to -1.03 for the 1,000 best windows of an image. BLT's flags tell only what lies outside the
image. FOLDER then also holds the study's models with their calibrations, CLASS-METHOD.safetensors.
A run that was stopped goes on where it was; the last line printed is JSON.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.crowd import bootstrap_difference
from halfseen.evaluate.voc_ap import Matches, match, summarise
from halfseen.infer.calibration import LOWEST, probabilities
from halfseen.infer.detector import Detector
from halfseen.learn.calibration import (
    FOLDS,
    SPARSE,
    Judged,
    alarms,
    fit,
    judge,
    learn_scale,
    sparse,
)
from halfseen.learn.tuning import split_folds
from halfseen.model.calibration import EVIDENCE
from halfseen.model.store import load, save
from halfseen.reproduce import MOST, Study, candidates, detect_all, train_class
from halfseen.suppress import suppress

CLASSES = ["car", "motorbike", "bus", "bicycle", "horse", "aeroplane"]
METHODS = ("BLT", "VIS")
# What a calibration may know. `unseen` is the mask; without it there is still truncation.
KNOWN = {
    "score": ("score",),
    "score, outside": ("score", "outside"),
    "score, outside, unseen": ("score", "outside", "unseen"),
    "all but agreement": tuple(name for name in EVIDENCE if name != "agreement"),
    "all but unseen": tuple(name for name in EVIDENCE if name != "unseen"),
    "all": EVIDENCE,
}
# Lower ends of the bins of probability in which the promise is compared with the truth.
BINS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.0)


def halves(train: Dataset, label: str, folder: Path, cores: int | None = None) -> Iterator[Study]:
    folds = split_folds(train, label, FOLDS, 0)
    for k, held in enumerate(folds):
        rest = np.sort(np.concatenate([fold for n, fold in enumerate(folds) if n != k]))
        test, out = sparse(train[held], label), folder / f"{label}-{k}"
        yield Study(train[rest], test, out, [label], cores=cores, methods=METHODS)


def knowing(judged: Judged, names: Sequence[str]) -> Judged:
    """The same, but what else was known is lost: a constant never weighs."""
    return replace(judged, evidence=judged.evidence * np.isin(EVIDENCE, names))


def ap(matches: Matches) -> float:
    return round(100 * float(summarise(matches).ap), 2)


def reliability(matches: Matches) -> list[dict[str, float]]:
    """For bins of probability, what was promised and how many were right."""
    counted, rows, top = matches.outcome >= 0, [], 1.0
    for low in BINS:
        here = counted & (matches.rank >= low) & (matches.rank <= top)
        if here.any():
            promised, right = matches.rank[here].mean(), (matches.outcome[here] == 1).mean()
            rows.append(
                {"from": low, "count": int(here.sum()), "promised": round(float(promised), 3),
                 "right": round(float(right), 3)}
            )  # fmt: skip
        top = np.nextafter(low, 0)
    return rows


def own_alarms(study: Study, test: Dataset, label: str) -> dict[str, float]:
    """The false alarms of the study's models in images that they were learnt from."""
    models = [load(study.model_path(label, method)) for method in METHODS]
    detector, rows = Detector(models), []
    for i in range(len(test)):
        # Objects are not looked for: their images would cost time for nothing.
        shown = (test[i].label == label).any()
        none = [Detections.empty(test[i].size)] * len(models)
        rows.append(none if shown else detector.candidates_by_model(test.image(i), LOWEST, MOST))
    return {
        method: alarms(test.truths, [row[k] for row in rows], label)
        for k, method in enumerate(METHODS)
    }


def measure(study: Study, label: str, folder: Path) -> dict:
    folds = list(halves(study.train, label, folder, study.cores))
    for fold in folds:
        train_class(fold, label)
        detect_all(fold)
    row: dict = {"ap": {}, "scale": {}, "reliability": {}, "weights": {}}
    best: dict[str, Matches] = {}
    own = own_alarms(study, folds[-1].test, label)
    for method in METHODS:
        held = [(fold.test.truths, list(candidates(fold, label, method)), label) for fold in folds]
        judged = Judged.stack([judge(*part, SPARSE) for part in held])
        row["scale"][method] = scale = learn_scale([alarms(*part) for part in held], own[method])
        found = list(candidates(study, label, method))
        kept = [part[suppress(part, "greedy").indices] for part in found]
        row["ap"][method] = {"as it is": ap(match(study.test, kept, label))}
        for name, known in KNOWN.items():
            calibration = fit(knowing(judged, known), int(judged.component.max()) + 1)
            if calibration is None:
                raise SystemExit(f"{label}: too few objects were found to calibrate")
            calibration = replace(calibration, scale=scale)

            ranks = [probabilities(calibration, *pair) for pair in zip(kept, found, strict=True)]
            best[method] = match(study.test, kept, label, rank=ranks)
            row["ap"][method][name] = ap(best[method])
        # The last knows it all.
        model = replace(load(study.model_path(label, method)), calibration=calibration)
        save(model, folder / f"{label}-{method}.safetensors")
        row["reliability"][method] = reliability(best[method])
        row["weights"][method] = np.round(calibration.weights, 2).tolist()
    row["VIS against BLT, all"] = str(bootstrap_difference(best["BLT"], best["VIS"]))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("study", type=Path)
    parser.add_argument("--train", default="train")
    parser.add_argument("--test", default="val")
    parser.add_argument("--folds", type=Path, default=Path("calibration"))
    parser.add_argument("--class", dest="classes", action="append", default=[])
    parser.add_argument("--cores", type=int)
    options = parser.parse_args()
    train, test = read_voc(options.voc, options.train), read_voc(options.voc, options.test)
    classes = options.classes or CLASSES
    study = Study(train, test, options.study, classes, cores=options.cores)
    rows = {}
    for label in classes:
        path = options.folds / f"{label}.json"
        if not path.exists():
            row = measure(study, label, options.folds)
            path.write_text(json.dumps(row))
        rows[label] = json.loads(path.read_text())
        print(label, json.dumps(rows[label]), flush=True)
    mean = {
        method: {
            name: round(float(np.mean([row["ap"][method][name] for row in rows.values()])), 2)
            for name in ("as it is", *KNOWN)
        }
        for method in METHODS
    }
    print(json.dumps({"classes": rows, "mean_ap": mean}))


if __name__ == "__main__":
    main()
