"""What calibrations should know and how they should be learnt, asked of halves of train.

    python benchmarks/voc/calibration_halves.py VOC --train ids --folds FOLDER

takes what calibration.py has judged in FOLDER: calibrations are learnt from one half of train, and
AP is measured on the other, with other models; the mean of both ways, as it is and with whole
objects covered. Images without the class were sampled, and count the more. For BLT and VIS, with
and without the mask, learnt with and without covered objects, and with components pulled together
weakly and strongly. The last line printed is JSON.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from calibration import CLASSES, knowing, look_at_half
from calibration import halves as halves_of
from numpy.typing import NDArray

from halfseen.data.voc import read_voc
from halfseen.evaluate.visibility import whole
from halfseen.learn import calibration as learning
from halfseen.learn.calibration import Judged, fit
from halfseen.model.calibration import EVIDENCE, Calibration

NO_MASK = [name for name in EVIDENCE if name != "visible"]
KNOWN = {
    ("BLT", "no mask"): NO_MASK,
    ("VIS", "no mask"): NO_MASK,
    ("VIS", "visible"): list(EVIDENCE),
}


def precision_area(judged: Judged, calibration: Calibration, objects: int) -> float:
    """AP of judged detections, the wrong ones weighted, ranked by a calibration."""
    order = np.argsort(-calibration.probability(judged.component, judged.evidence), kind="stable")
    right = judged.right[order]
    found, wrong = np.cumsum(right), np.cumsum(np.where(right, 0, judged.weight[order]))
    precision = np.maximum.accumulate((found / np.maximum(found + wrong, 1e-9))[::-1])[::-1]
    return 100 * float((precision * right).sum()) / objects


def pick(judged: Judged, chosen: NDArray[np.bool_]) -> Judged:
    names = ("component", "evidence", "right", "weight")
    return Judged(*(getattr(judged, name)[chosen] for name in names))


def across(halves: list[Any], method: str, names: list[str], covered: float) -> tuple[float, float]:
    """AP on the other half, as it is and covered."""
    rows = []
    for mine, other in (halves, halves[::-1]):
        plain, pasted = (knowing(part, names) for part in mine["judged"][method][0])
        pasted = replace(pasted, weight=pasted.weight * covered / learning.COVERED)
        both = Judged.stack([plain, pasted]) if covered else plain
        calibration = fit(both, int(plain.component.max()) + 1)
        assert calibration is not None
        plain, pasted = other["judged"][method][0]
        free = pick(plain, plain.weight > 1)
        pasted = replace(pasted, weight=np.ones(len(pasted.weight)))
        rows.append(
            (
                precision_area(plain, calibration, other["objects"]),
                precision_area(Judged.stack([pasted, free]), calibration, other["whole"]),
            )
        )
    clean, hidden = np.mean(rows, axis=0)
    return float(clean), float(hidden)


def count(truths: Iterable[Any], label: str) -> dict[str, int]:
    return {
        "objects": sum(int(((t.label == label) & ~t.difficult).sum()) for t in truths),
        "whole": sum(int(((t.label == label) & whole(t)).sum()) for t in truths),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("--train", default="train")
    parser.add_argument("--folds", type=Path, default=Path("calibration"))
    parser.add_argument("--class", dest="classes", action="append", default=[])
    options = parser.parse_args()
    train = read_voc(options.voc, options.train)
    data = []
    for label in options.classes or CLASSES:
        folds = list(halves_of(train, label, options.folds))
        parts = [
            {"judged": look_at_half(fold, label), **count(fold.test.truths, label)}
            for fold in folds
        ]
        data.append(parts)
    table = []
    for learning.OWN in (1.0, 100.0):
        for covered in (0.0, 0.3, 1.0):
            for (method, known), names in KNOWN.items():
                values = [across(parts, method, names, covered) for parts in data]
                clean, hidden = np.mean(values, axis=0).round(2).tolist()
                row = {"own": learning.OWN, "covered": covered, "method": method, "mask": known}
                table.append(row | {"ap": clean, "ap_covered": hidden})
                print(json.dumps(table[-1]), flush=True)
    print(json.dumps({"classes": options.classes or CLASSES, "rows": table}))


if __name__ == "__main__":
    main()
