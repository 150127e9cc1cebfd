"""AP of whole objects of VOC with a part of each covered, of several models, by probability.

    python benchmarks/voc/covered.py VOC net fhog --test ids --class car

compares models of the same class: names of variants that ship (`net` is CLASS.net), or folders with
CLASS-VIS.safetensors. The pictures are those of sweep.py: images with about 60 whole objects of the
class, 200 without, and texture that no model knows over 0, 20, 40 and 60% of every whole object.
Detections (t = -1, voting) are ranked by score and, of calibrated models, by probability. AP among
so few images is higher than on all of val: compare within the table only. The last line is JSON.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from sweep import choose

from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.evaluate.sweep import SHARES, sweep_image
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import match, summarise
from halfseen.model.mixture import Mixture
from halfseen.model.store import load
from halfseen.refine.detector import Detector

CLASSES = ("car", "motorbike", "bus", "bicycle", "horse", "aeroplane")
# By model and way to rank, then share.
Figures = dict[str, dict[float, float]]


def model_of(label: str, name: str) -> Mixture:
    folder = Path(name)
    return load(folder / f"{label}-VIS.safetensors" if folder.is_dir() else f"{label}.{name}")


def measure(dataset: Dataset, label: str, options: argparse.Namespace) -> Figures:
    """AP in percent of every model at every share."""
    detectors = {name: Detector(model_of(label, name), cores=1) for name in options.models}
    test, others = choose(dataset, label, options.objects, options.negatives, seed=0)
    textures = [others.image(i) for i in range(len(others))]
    swept = list(
        map_images(
            lambda i: sweep_image(
                test.image(i),
                test[i],
                label,
                lambda pixels: {name: d.detect(pixels) for name, d in detectors.items()},
                textures,
            ),
            range(len(test)),
            options.cores,
        )
    )
    ignored = [~whole(truth) for truth in test.truths]
    figures: Figures = defaultdict(dict)
    for name in options.models:
        for share in SHARES:
            found = [image.found[name, share] for image in swept]
            known = [part.probability for part in found if part.probability is not None]
            ways = {"score": None} | ({"probability": known} if len(known) == len(found) else {})
            for way, rank in ways.items():
                matches = match(test.truths, found, label, ignored=ignored, rank=rank)
                figures[f"{name} by {way}"][share] = round(100 * summarise(matches).ap, 1)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--test", default="val", help="split or file of ids")
    parser.add_argument("--class", dest="classes", action="append", help="default: six of them")
    parser.add_argument("--objects", type=int, default=60, help="whole objects a class, about")
    parser.add_argument("--negatives", type=int, default=200, help="images without the class")
    parser.add_argument("--cores", type=int)
    options = parser.parse_args()
    dataset = read_voc(options.voc, options.test)
    classes: dict[str, Figures] = {}
    for label in options.classes or CLASSES:
        classes[label] = measure(dataset, label, options)
        for name, row in classes[label].items():
            print(f"{label:12} {name:20}", *(f"{ap:5.1f}" for ap in row.values()), flush=True)
    mean = {
        name: {
            share: round(float(np.mean([tree[name][share] for tree in classes.values()])), 2)
            for share in SHARES
        }
        for name in next(iter(classes.values()))
    }
    for name, row in mean.items():
        print(f"{'mean':12} {name:20}", *(f"{ap:5.1f}" for ap in row.values()))
    print(json.dumps({"classes": classes, "mean": mean}))


if __name__ == "__main__":
    main()
