"""Learns how boxes follow figures, the numbers of `halfseen.infer.refine`, from halves of train.

    python benchmarks/voc/boxes.py VOC --train ids --folds FOLDER

takes the models and candidates that calibration.py has left in FOLDER: what a model of one half
keeps of the other, as it is and with whole objects covered, and the true boxes that it overlaps.
The same numbers serve all classes: a ridge regression of all together.

Printed are AP by score (as it is, images without the class weighted) of the boxes that components
predict, and of corrected ones: learnt on one half and measured on the other, and learnt from both
halves of the other classes; with what the figure tells, and without. The last line is JSON, with
the numbers learnt from all.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from calibration import ask_halves, halves, headed, reaching, weighted_ap

from halfseen.data.dataset import Dataset
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.voc_ap import NEITHER, TRUE, match
from halfseen.geometry import iou_matrix
from halfseen.infer.boxes import predicted_boxes
from halfseen.infer.detector import Detector
from halfseen.infer.masks import Masker
from halfseen.infer.refine import FARTHEST, INWARDS, correct, movable, sides
from halfseen.infer.showing import look_at
from halfseen.learn.calibration import SHARE, SPARSE, coverable

# Overlap with the true box, with what the figure tells and without: each as serves it best.
LEAST = {True: 0.2, False: 0.5}
RIDGE = 1.0
Rows = list[tuple[Detections, Any, GroundTruth]]


def kept_of_half(fold: Any, label: str) -> tuple[Rows, Rows]:
    """(detections, what is away of their sides, truth) of the half's images, and when covered."""
    test: Dataset = fold.test
    model = headed(fold, label, "VIS", fold.out / f"{label}-head.safetensors")
    detector, masker = Detector(model), Masker(model)

    def row(pixels: Any, i: int, found: Detections | None = None) -> Any:
        known = detector.known_by_model(pixels, None if found is None else [found])[0]
        kept = replace(known.kept, full=predicted_boxes(model, known.kept))
        if not len(kept):
            return kept, np.zeros((0, 4, 6)), test[i]
        masks = detector.masks_of(pixels, kept)
        return kept, look_at(pixels, masks, [masker] * len(kept))[0].seen.away, test[i]

    plain = [row(test.image(i), i, part) for i, part in enumerate(reaching(fold, label, "VIS"))]
    covered = []
    for i, some in zip(*(part.tolist() for part in coverable(test, label)), strict=True):
        other = [test.image(k) for k in some]
        covered.append(row(cover_objects(test.image(i), test[i], label, SHARE, other, 0)[0], i))
    return plain, covered


def samples(rows: Rows, label: str, least: float) -> tuple[Any, Any]:
    """What is away of sides that are in the image, and where the true ones are: (N, 4, 7), (N, 4),
    NaN for sides beyond it."""
    inputs, wanted = [np.zeros((0, 4, 7))], [np.zeros((0, 4))]
    for kept, away, truth in rows:
        box = truth.box[(truth.label == label) & ~truth.difficult]
        if not len(box) or not len(kept):
            continue
        overlap = iou_matrix(kept.clipped, box)
        near = overlap.max(1) >= least
        inwards = (box[overlap.argmax(1)] - kept.clipped) * INWARDS / sides(kept.clipped)
        inwards = np.where(movable(kept), inwards, np.nan)
        inputs.append(np.concatenate([away, np.ones((len(kept), 4, 1))], axis=2)[near])
        wanted.append(np.clip(inwards, -FARTHEST, FARTHEST)[near])
    return np.concatenate(inputs), np.concatenate(wanted)


def learn(parts: list[tuple[Any, Any]], figure: bool) -> Any:
    """(4, 7) weights: left and right are alike."""
    inputs, wanted = (np.concatenate(part) for part in zip(*parts, strict=True))
    weights = np.zeros((4, 7))
    used = np.arange(7) if figure else np.array([6])
    for group in ([0, 2], [1], [3]):
        x, y = inputs[:, group].reshape(-1, 7)[:, used], wanted[:, group].reshape(-1)
        x, y = x[np.isfinite(y)], y[np.isfinite(y)]
        # The constant is not pulled anywhere.
        ridge = np.diag(RIDGE * (used < 6))
        weights[np.ix_(group, used)] = np.linalg.solve(x.T @ x + ridge, x.T @ y)
    return weights


def ap(rows: Rows, label: str, weights: Any | None) -> float:
    kept = [
        part if weights is None else replace(part, full=correct(part, away, weights))
        for part, away, _ in rows
    ]
    truths = [truth for _, _, truth in rows]
    matches = match(truths, kept, label)
    counted = matches.outcome != NEITHER
    shown = np.array([bool((truth.label == label).any()) for truth in truths])
    weight = np.where(shown[matches.image[counted]], 1.0, SPARSE)
    right = matches.outcome[counted] == TRUE
    return weighted_ap(matches.rank[counted], right, weight, matches.positives)


def main() -> None:
    train, classes, folder = ask_halves(__doc__)
    rows, parts = {}, {}
    for label in classes:
        for k, fold in enumerate(halves(train, label, folder)):
            plain, covered = kept_of_half(fold, label)
            rows[label, k] = plain
            for figure, least in LEAST.items():
                parts[figure, label, k] = [samples(part, label, least) for part in (plain, covered)]
        print(label, flush=True)

    def measure(name: str, figure: bool) -> list[float]:
        values = []
        for (label, k), part in rows.items():
            if name == "predicted":
                values.append(ap(part, label, None))
                continue
            if name == "other half":
                chosen = [key for key in rows if key[1] != k]
            else:
                chosen = [key for key in rows if key[0] != label]
            weights = learn([pair for key in chosen for pair in parts[figure, *key]], figure)
            values.append(ap(part, label, weights))
        return np.reshape(values, (len(classes), 2)).mean(1).round(2).tolist()

    table = {"predicted": measure("predicted", True)}
    for figure, text in ((True, "figure"), (False, "no figure")):
        for name in ("other half", "other classes"):
            table[f"{name}, {text}"] = measure(name, figure)
    for name, values in table.items():
        print(f"{name:26s}", round(float(np.mean(values)), 2), values)
    every = {figure: [pair for key in rows for pair in parts[figure, *key]] for figure in LEAST}
    names = ("side", "top", "bottom")
    weights = {}
    for figure, text in ((True, "figure"), (False, "no figure")):
        numbers = learn(every[figure], figure)[[0, 1, 3]].round(4).tolist()
        weights[text] = dict(zip(names, numbers, strict=True))
    count = sum(len(pair[1]) for pair in every[True])
    print(json.dumps({"classes": classes, "ap": table, "samples": count, "weights": weights}))


if __name__ == "__main__":
    main()
