"""Why VIS with one u for hidden blocks and for those outside the image hides so much.

    python benchmarks/voc/one_u.py VOC OUT --ids train.txt --class car

Preset `paper`, learnt from images of one half of train, once for each reading of the paper's text;
all share their features. For each: the share of the positives' blocks that are hidden after every
update, at the end that of whole, of occluded and of truncated objects, u, and the AP in images of
the other half (a part of it, so it is higher than on all: compare within the table only).

OUT keeps what is finished. The last line printed is JSON.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from choose import MOST, judge, start_of_u

from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.learn.folds import draw_images, split_folds
from halfseen.learn.latent import Assignment, Fit, Template
from halfseen.learn.objective import Objective
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.refine.detector import Detector

# Of each reading what it changes: which windows an object may take, how u starts, and settings.
STRICT = Fit(0.7, completed=False)
READINGS: dict[str, tuple[Fit, str, dict[str, Any]]] = {
    "occluded objects may take larger windows": (Fit(0.7), "", {}),
    "70% for all": (STRICT, "", {}),
    "70% of the box around visible blocks": (Fit(0.7, False, contracted=True), "", {}),
    "u starts at 0": (STRICT, "zero", {}),
    "u starts where the first stage leaves it": (STRICT, "learnt", {}),
    "alpha 0.1": (STRICT, "", {"alpha": 0.1}),
    "lambda 50": (STRICT, "", {"regularisation": 50.0}),
    "two biases": (STRICT, "", {"one_u": False}),
}


def learn(trainer: Trainer, reading: str, test: Dataset) -> dict[str, Any]:
    """What one reading leads to."""
    fit, start, changes = READINGS[reading]
    data = trainer.data
    data.work = replace(data.work, fit=fit)
    last: list[list[Assignment | None]] = []
    assign = data.assign

    def watched(templates: list[Template], objective: Objective) -> list[Assignment | None]:
        last.append(assign(templates, objective))
        return last[-1]

    data.assign = watched  # type: ignore[method-assign]
    begun = time.process_time()
    runner = trainer.with_settings(**changes)
    if start == "learnt":
        runner._started = None
    with start_of_u(start):
        model = runner.run()
    if start != "learnt" and "regularisation" not in changes:
        trainer._started = runner._started  # others begin alike
    data.assign = assign  # type: ignore[method-assign]
    objects = data.objects
    kinds = {
        "whole": objects.whole,
        "occluded": objects.occluded,
        "truncated": ~objects.whole & ~objects.occluded,
    }
    detector = Detector(model, cores=1)
    found = [detector.search(detector.view(test.image(n)), -1.0, MOST) for n in range(len(test))]
    return {
        "hidden": [share_hidden(assigned, np.ones(len(objects), bool)) for assigned in last],
        "kinds": {name: share_hidden(last[-1], chosen) for name, chosen in kinds.items()},
        "taken": sum(a is not None for a in last[-1]) / len(objects),
        "u": [component.u for component in model.components],
        "AP": judge(test, found, data.label, "greedy 0.5"),
        "seconds": time.process_time() - begun,
    }


def share_hidden(assigned: list[Assignment | None], chosen: np.ndarray) -> float:
    """Of the blocks inside the image of these objects' windows."""
    windows = [a for a, one in zip(assigned, chosen, strict=True) if a is not None and one]
    inside = sum(int((~a.outside).sum()) for a in windows)
    return 1 - sum(int(a.visible.sum()) for a in windows) / max(inside, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--class", dest="label", default="car")
    parser.add_argument("--images", type=int, default=240, help="to learn from, half with it")
    parser.add_argument("--test", type=int, default=200, help="to search, half with it")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    options = parser.parse_args()
    dataset, label = read_voc(options.voc, str(options.ids)), options.label
    first, second = split_folds(dataset, label, 2, 0)
    lessons = draw_images(dataset[first], label, options.images, 0)
    test = draw_images(dataset[second], label, options.test, 0)
    changes = {name: json.loads(value) for name, value in (c.split("=") for c in options.changes)}
    settings = TrainSettings.preset("paper", **changes)
    options.out.mkdir(parents=True, exist_ok=True)
    table: dict[str, Any] = {}
    with TrainingSet(lessons, label, settings, 1) as data:
        trainer = Trainer(data)
        for reading in READINGS:
            path = options.out / f"{label} {reading}.json"
            if not path.exists():
                write_atomically(path, json.dumps(learn(trainer, reading, test)).encode())
            row = table[reading] = json.loads(path.read_text())
            kinds = ", ".join(f"{name} {share:.2f}" for name, share in row["kinds"].items())
            hidden = " ".join(f"{share:.2f}" for share in row["hidden"])
            print(
                f"{reading:42} hidden {hidden} ({kinds}), taken {row['taken']:.2f}, u "
                f"{', '.join(f'{u:.3f}' for u in row['u'])}, AP {row['AP']:.1f}, "
                f"{row['seconds']:.0f} s",
                flush=True,
            )
    print(json.dumps(table))


if __name__ == "__main__":
    main()
