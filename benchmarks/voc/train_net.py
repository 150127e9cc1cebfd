"""Trains models on network blocks: of each class BL, BLT and VIS, which share features and start.

    python benchmarks/voc/train_net.py VOCDEVKIT/VOC2012 OUT --ids train.txt --features features

OUT gets CLASS-METHOD.safetensors; what is there is not trained again. The blocks of each level are
kept in `features`: see kept_features.py.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import get_args

from kept_features import KeptNet

from halfseen.data.voc import read_voc
from halfseen.features.descriptor import register
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.model.mixture import Method
from halfseen.model.store import save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--class", dest="labels", action="append", help="default: all")
    parser.add_argument("--method", dest="methods", action="append", choices=get_args(Method))
    parser.add_argument("--set", dest="changes", action="append", default=[], help="NAME=NUMBER")
    options = parser.parse_args()
    register("net", partial(KeptNet, folder=str(options.features)))
    dataset = read_voc(options.voc, str(options.ids))
    changes = {}
    for text in options.changes:
        name, _, value = text.partition("=")
        changes[name] = float(value) if "." in value else int(value)
    settings = TrainSettings.preset("net", **changes)
    options.out.mkdir(parents=True, exist_ok=True)
    for label in options.labels or dataset.classes:
        paths = {m: options.out / f"{label}-{m}.safetensors" for m in options.methods or ["VIS"]}
        missing = [m for m, path in paths.items() if not path.exists()]
        start = time.time()
        if not missing:
            continue
        with TrainingSet(dataset, label, settings, cores=1) as data:
            ready = time.time()
            missed = len(data.unreached())
            print(f"{label}: {len(data.objects)} objects, {missed} unreached", flush=True)
            print(f"windows {data.shapes}, features in {ready - start:.0f} s", flush=True)
            trainer = Trainer(data)
            for method in missing:
                trainer = trainer.with_method(method)
                save(trainer.run(), paths[method])
                print(f"{label} {method}: {time.time() - ready:.0f} s", flush=True)


if __name__ == "__main__":
    main()
