"""Learns the calibrations and mask heads of models on network blocks.

    python benchmarks/voc/finish_net.py VOC MODELS OUT --train train.txt --features features

takes MODELS/CLASS-VIS.safetensors, which train_net.py made, and writes OUT/CLASS-VIS.safetensors.
What is there is not learnt again. The blocks of each level are kept in `features`: see
kept_features.py. A head learns from fewer pasted windows than one on `fhog` (`--windows`), as each
is a run of the network.
"""

import argparse
import time
from functools import partial
from pathlib import Path

from kept_features import KeptNet

from halfseen.data.voc import read_voc
from halfseen.features.descriptor import register
from halfseen.features.net import Net
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.probability import learn_calibration
from halfseen.learn.progress import Run
from halfseen.learn.settings import MaskSettings
from halfseen.model.store import load, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("voc", "models", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--class", dest="labels", action="append", help="default: all")
    parser.add_argument("--windows", type=int, default=6000)
    parser.add_argument("--no-grouping", action="store_true")
    options = parser.parse_args()
    dataset = read_voc(options.voc, str(options.train))
    settings = MaskSettings(windows=options.windows, grouping=not options.no_grouping)
    options.out.mkdir(parents=True, exist_ok=True)
    for label in options.labels or dataset.classes:
        path = options.out / f"{label}-VIS.safetensors"
        if path.exists():
            continue
        start = time.time()
        register("net", partial(KeptNet, folder=str(options.features)))
        model = learn_calibration(dataset, load(options.models / path.name), run=Run(cores=1))
        save(model, path.with_suffix(".part"))
        register("net", Net)  # no two pasted windows are alike: nothing to keep
        model = learn_masks(dataset, load(path.with_suffix(".part")), settings)
        save(model, path)
        path.with_suffix(".part").unlink()
        print(f"{label}: {time.time() - start:.0f} s, {model}", flush=True)


if __name__ == "__main__":
    main()
