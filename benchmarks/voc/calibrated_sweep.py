"""Covered objects of VOC ranked by calibrated probability: BLT against VIS.

    python benchmarks/voc/calibrated_sweep.py VOC STUDY calibration --test ids

takes CLASS-{BLT,VIS}.safetensors of the folder that calibration.py fills, and measures AP of the
whole objects of the class among all images of val, with nothing and with 40% of each covered by
texture from images without the class. Images without the class are not searched again: STUDY, as
`halfseen reproduce` makes it, has their candidates. The last line printed is JSON: the means over
the classes, by votes and by probability, and what VIS has at 40% in terms of BLT.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from calibration import CLASSES, METHODS
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import match, summarise
from halfseen.infer.calibration import probabilities
from halfseen.infer.detector import Detector
from halfseen.model.mixture import Mixture
from halfseen.model.store import load
from halfseen.reproduce import MOST, Study, candidates
from halfseen.suppress import suppress

SHARE = 0.4
LOWEST = -1.03
TEXTURES = 40


def ranked(model: Mixture, found: Detections) -> tuple[Detections, NDArray[np.float64]]:
    """What voting keeps of the candidates, ranked by votes; and the probability of each."""
    assert model.calibration is not None
    result = suppress(found, "voting")
    kept = found[result.indices]
    return replace(kept, score=result.rank), probabilities(model.calibration, kept, found)


def sweep_class(test: Dataset, study: Study, label: str, folder: Path) -> dict[str, float]:
    """AP by method, share and ranking."""
    shown = np.array([bool((truth.label == label).any()) for truth in test])
    textures = [test.image(int(i)) for i in np.flatnonzero(~shown)[:TEXTURES]]
    ignored = [~whole(truth) for truth in test]
    row = {}
    for method in METHODS:
        model = load(folder / f"{label}-{method}.safetensors")
        if model.head is not None:
            raise SystemExit(
                f"{label}: stored candidates have the paper's flags; give models without heads"
            )
        detector = Detector(model)
        clean, covered = [], []
        for i, found in enumerate(candidates(study, label, method)):
            clean.append(ranked(model, found))
            covered.append(clean[-1])
            if (whole(test[i]) & (test[i].label == label)).any():
                pixels, _ = cover_objects(test.image(i), test[i], label, SHARE, textures, 0)
                (again,) = detector.candidates_by_model(pixels, LOWEST, MOST)
                covered[-1] = ranked(model, again)
        for share, parts in (("0%", clean), (f"{SHARE:.0%}", covered)):
            kept = [part[0] for part in parts]
            ranks = {
                "votes": [part.score for part in kept],
                "probability": [part[1] for part in parts],
            }
            for by, rank in ranks.items():
                matches = match(test.truths, kept, label, ignored=ignored, rank=rank)
                row[f"{method} {share} {by}"] = 100 * float(summarise(matches).ap)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("study", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--test", default="val")
    parser.add_argument("--class", dest="classes", action="append", default=[])
    options = parser.parse_args()
    test = read_voc(options.voc, options.test)
    rows = {}
    for label in options.classes or CLASSES:
        study = Study(test[:0], test, options.study, [label])
        rows[label] = sweep_class(test, study, label, options.folder)
        print(label, {key: round(value, 1) for key, value in rows[label].items()}, flush=True)
    keys = next(iter(rows.values()))
    means = {key: round(float(np.mean([row[key] for row in rows.values()])), 2) for key in keys}
    ratio = means["VIS 40% probability"] / means["BLT 40% probability"]
    print(json.dumps({"mean_ap": means, "vis_over_blt": round(ratio, 3)}))


if __name__ == "__main__":
    main()
