"""What calibrations should know and how they should be learnt, asked of halves of train.

    python benchmarks/voc/calibration_halves.py VOC --train ids --folds FOLDER

takes what calibration.py has judged in FOLDER: calibrations are learnt from one half of train, and
AP is measured on the other, with other models; the mean of both ways, as it is and with whole
objects covered. Images without the class were sampled, and count the more. For BLT and VIS, with
and without the mask, learnt with and without covered objects, and with components pulled together
weakly and strongly. The last line printed is JSON.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from calibration import MOVED, ask_halves, knowing, look_at_half, weighted_ap
from calibration import halves as halves_of
from numpy.typing import NDArray

from halfseen.evaluate.visibility import whole
from halfseen.learn import calibration as learning
from halfseen.learn.calibration import Judged, fit
from halfseen.model.calibration import EVIDENCE, TOLD, Calibration

NO_MASK = [name for name in EVIDENCE if name not in TOLD]
KNOWN = {
    ("BLT", "no mask"): NO_MASK,
    (MOVED, "no mask"): NO_MASK,
    ("VIS", "no mask"): NO_MASK,
    ("VIS", "visible"): [*NO_MASK, "visible"],
    ("VIS", "figure"): [*NO_MASK, "outline", "misfit"],
    ("VIS", "all"): list(EVIDENCE),
}


def ap(judged: Judged, calibration: Calibration, objects: int) -> float:
    """AP of judged detections, ranked by a calibration."""
    rank = calibration.probability(judged.component, judged.evidence)
    return weighted_ap(rank, judged.right, judged.weight, objects)


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
                ap(plain, calibration, other["objects"]),
                ap(Judged.stack([pasted, free]), calibration, other["whole"]),
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
    train, classes, folder = ask_halves(__doc__)
    data = []
    for label in classes:
        parts = [
            {"judged": look_at_half(fold, label), **count(fold.test.truths, label)}
            for fold in halves_of(train, label, folder)
        ]
        data.append(parts)
    table = []
    for learning.OWN in (1.0, 100.0):
        for covered in (0.0, 0.3, 0.6, 1.0):
            for (method, known), names in KNOWN.items():
                values = [across(parts, method, names, covered) for parts in data]
                clean, hidden = np.mean(values, axis=0).round(2).tolist()
                row = {"own": learning.OWN, "covered": covered, "method": method, "mask": known}
                table.append(row | {"ap": clean, "ap_covered": hidden})
                print(json.dumps(table[-1]), flush=True)
    print(json.dumps({"classes": classes, "rows": table}))


if __name__ == "__main__":
    main()
