"""What votes are worth, on held-out halves of VOC train: how voting's beta was chosen.

    python benchmarks/voc/voting.py VOC --train ids --folds calibration

needs the folder that calibration.py has filled: models of each half, and what they found in the
other's images, of which those without the class are sampled. Here they count the more for it. The
last line printed is JSON: AP in percent, of both halves together, in the mean over the classes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from calibration import CLASSES, METHODS, halves

from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import NEITHER, TRUE, Matches, match
from halfseen.learn.calibration import SPARSE
from halfseen.reproduce import Study, candidates
from halfseen.suppress import suppress

BETAS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def weighted_ap(matches: Matches, weight: np.ndarray) -> float:
    """VOC's all-point AP, each false alarm counted as often as `weight` (images,) says."""
    counted = matches.outcome != NEITHER
    order = np.argsort(-matches.rank[counted], kind="stable")
    right = (matches.outcome[counted] == TRUE)[order]
    wrong = np.where(right, 0.0, weight[matches.image[counted]][order])
    found = np.cumsum(right)
    precision = np.maximum.accumulate((found / (found + np.cumsum(wrong)))[::-1])[::-1]
    return 100 * float((precision * right).sum()) / matches.positives


def judge(fold: Study, label: str, method: str) -> dict[str, float]:
    """AP by score and by votes of each beta: the same boxes, ranked otherwise."""
    shown = np.array([bool((truth.label == label).any()) for truth in fold.test])
    weight = np.where(shown, 1.0, SPARSE)
    found = list(candidates(fold, label, method))

    def ap(settings: dict[str, float] | None) -> float:
        kept: list[Detections] = []
        ranks = []
        for part in found:
            chosen = suppress(part, "greedy" if settings is None else "voting", **settings or {})
            kept.append(part[chosen.indices])
            ranks.append(chosen.rank)
        return weighted_ap(match(fold.test, kept, label, rank=ranks), weight)

    return {"score": ap(None)} | {f"beta {beta:g}": ap({"beta": beta}) for beta in BETAS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("--train", default="train")
    parser.add_argument("--folds", type=Path, default=Path("calibration"))
    parser.add_argument("--class", dest="classes", action="append", default=[])
    options = parser.parse_args()
    train = read_voc(options.voc, options.train)
    rows: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for label in options.classes or CLASSES:
        for method in METHODS:
            parts = [judge(fold, label, method) for fold in halves(train, label, options.folds)]
            row = {key: float(np.mean([part[key] for part in parts])) for key in parts[0]}
            rows[method].append(row)
            print(label, method, {key: round(value, 1) for key, value in row.items()}, flush=True)
    means = {
        method: {key: round(float(np.mean([row[key] for row in part])), 2) for key in part[0]}
        for method, part in rows.items()
    }
    print(json.dumps(means))


if __name__ == "__main__":
    main()
