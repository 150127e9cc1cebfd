"""Learns calibrations for models on network blocks, and puts them together with their mask heads.

    python benchmarks/voc/net_calibrations.py VOC MODELS HEADS OUT --train ids --features features

takes MODELS/CLASS-VIS.safetensors, which train_net.py made, and its mask head in HEADS, which
net_masks.py made, if there is one; writes OUT/CLASS-VIS.safetensors with both. What is there is not
learnt again. `features` keeps the blocks of each level: see kept_features.py.
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from kept_features import KeptNet

from halfseen.data.voc import read_voc
from halfseen.features.descriptor import register
from halfseen.learn.probability import learn_calibration
from halfseen.learn.progress import Run
from halfseen.model.store import load, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("voc", "models", "heads", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--class", dest="labels", action="append", help="default: all")
    options = parser.parse_args()
    register("net", partial(KeptNet, folder=str(options.features)))
    dataset = read_voc(options.voc, str(options.train))
    options.out.mkdir(parents=True, exist_ok=True)
    for label in options.labels or dataset.classes:
        path = options.out / f"{label}-VIS.safetensors"
        if path.exists():
            continue
        start = time.time()
        model = learn_calibration(dataset, load(options.models / path.name), run=Run(cores=1))
        head = options.heads / path.name
        if head.exists():
            model = replace(model, head=load(head).head)
        save(model, path)
        print(f"{label}: {time.time() - start:.0f} s, {model.calibration is not None}", flush=True)


if __name__ == "__main__":
    main()
