"""What votes are worth, on held-out halves of VOC train: how voting's beta was chosen.

    python benchmarks/voc/voting.py VOC --train ids --folds calibration

needs the folder that calibration.py has filled: models of each half, and what they found in the
other's images, of which those without the class are sampled. Here they count the more for it. The
last line printed is JSON: AP in percent, of both halves together, in the mean over the classes.
"""

from __future__ import annotations

import json

import numpy as np
from calibration import METHODS, ask_halves, halves, weighted_ap

from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import NEITHER, TRUE, match
from halfseen.learn.settings import CalibrateSettings
from halfseen.studies.reproduce import Study, candidates
from halfseen.suppression import suppress

BETAS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def judge(fold: Study, label: str, method: str) -> dict[str, float]:
    """AP by score and by votes of each beta: the same boxes, ranked otherwise."""
    shown = np.array([bool((truth.label == label).any()) for truth in fold.test])
    weight = np.where(shown, 1.0, CalibrateSettings().sparse)
    found = list(candidates(fold, label, method))

    def ap(settings: dict[str, float] | None) -> float:
        kept: list[Detections] = []
        ranks = []
        for part in found:
            chosen = suppress(part, "greedy" if settings is None else "voting", **settings or {})
            kept.append(part[chosen.indices])
            ranks.append(chosen.rank)
        matches = match(fold.test, kept, label, rank=ranks)
        counted = matches.outcome != NEITHER
        found_ap: float = weighted_ap(
            matches.rank[counted],
            matches.outcome[counted] == TRUE,
            weight[matches.image[counted]],
            matches.positives,
        )
        return found_ap

    return {"score": ap(None)} | {f"beta {beta:g}": ap({"beta": beta}) for beta in BETAS}


def main() -> None:
    train, classes, folder = ask_halves(__doc__)
    rows: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for label in classes:
        for method in METHODS:
            parts = [judge(fold, label, method) for fold in halves(train, label, folder)]
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
