"""Models of few training objects, on gradients and on network blocks: what each more is worth.

    python benchmarks/voc/few_objects.py VOCDEVKIT/VOC2012 OUT --ids train.txt --features features
        --objects 20 --objects 100

trains a detector (VIS) of each class, preset and number: OUT/PRESET-NUMBER/CLASS-VIS.safetensors.
What is there is not trained again. Of the images with the class, drawn at random with seed 0, as
many are taken as hold so many objects that are not difficult; all others may be mined. The AP of a
folder of models is printed by evaluate_net.py.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
from kept_features import KeptNet

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.features.descriptor import register
from halfseen.learn.progress import Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import fit_detector
from halfseen.model.store import save

CLASSES = ("car", "motorbike", "bus", "bicycle", "horse", "aeroplane")
PRESETS = ("net", "default")


def few(dataset: Dataset, label: str, objects: int) -> Dataset:
    """The images without the class, and some with it that hold about so many of its objects."""
    counts = [int(((t.label == label) & ~t.difficult).sum()) for t in dataset.truths]
    there = np.array([bool((t.label == label).any()) for t in dataset.truths])
    order = np.random.default_rng(0).permutation(np.flatnonzero(there))
    total = np.cumsum([counts[n] for n in order])
    shown = order[: int(np.searchsorted(total, objects)) + 1]
    kept: Dataset = dataset[np.sort(np.concatenate([shown, np.flatnonzero(~there)]))]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--objects", type=int, action="append", required=True)
    parser.add_argument("--preset", dest="presets", action="append", choices=PRESETS)
    parser.add_argument("--class", dest="labels", action="append", help="default: six of them")
    options = parser.parse_args()
    register("net", partial(KeptNet, folder=str(options.features)))
    dataset = read_voc(options.voc, str(options.ids))
    for objects in options.objects:
        for label in options.labels or CLASSES:
            lessons = few(dataset, label, objects)
            for preset in options.presets or PRESETS:
                path = options.out / f"{preset}-{objects}" / f"{label}-VIS.safetensors"
                if path.exists():
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                start = time.process_time()
                settings = TrainSettings.preset("net" if preset == "net" else "default")
                save(fit_detector(lessons, label, settings, Run(cores=1)), path)
                print(f"{path}: {time.process_time() - start:.0f} s of one core", flush=True)


if __name__ == "__main__":
    main()
