"""Learns mask heads for models on network blocks.

    python benchmarks/voc/net_masks.py VOC MODELS OUT --train train.txt --class car

takes MODELS/CLASS-VIS.safetensors, which train_net.py made, and writes OUT/CLASS-VIS.safetensors.
What is there is not learnt again. A head learns from fewer pasted windows than one on `fhog`
(`--windows`), as each is a run of the network.
"""

import argparse
import time
from pathlib import Path

from halfseen.data.voc import read_voc
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.settings import MaskSettings
from halfseen.model.store import load, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--class", dest="labels", action="append", required=True)
    parser.add_argument("--windows", type=int, default=6000)
    parser.add_argument("--no-grouping", action="store_true")
    options = parser.parse_args()
    dataset = read_voc(options.voc, str(options.train))
    settings = MaskSettings(windows=options.windows, grouping=not options.no_grouping)
    options.out.mkdir(parents=True, exist_ok=True)
    for label in options.labels:
        path = options.out / f"{label}-VIS.safetensors"
        if path.exists():
            continue
        start = time.time()
        model = learn_masks(dataset, load(options.models / path.name), settings)
        save(model, path)
        print(f"{label}: {time.time() - start:.0f} s, head {model.head is not None}", flush=True)


if __name__ == "__main__":
    main()
