"""Lists of training images with few objects of a class, for train_net.py and `halfseen train`.

    python benchmarks/voc/few_objects.py VOCDEVKIT/VOC2012 --ids train.txt --class car --objects 100

Prints the ids of images that hold about so many objects of the class that are not difficult, drawn
at random with seed 0, and of all images without the class.
"""

import argparse
from pathlib import Path

import numpy as np

from halfseen.data.voc import read_voc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--class", dest="label", required=True)
    parser.add_argument("--objects", type=int, required=True)
    options = parser.parse_args()
    dataset = read_voc(options.voc, str(options.ids))
    counts = [int(((t.label == options.label) & ~t.difficult).sum()) for t in dataset.truths]
    there = np.array([bool((t.label == options.label).any()) for t in dataset.truths])
    order = np.random.default_rng(0).permutation(np.flatnonzero(there))
    total = np.cumsum([counts[n] for n in order])
    few = order[: int(np.searchsorted(total, options.objects)) + 1]
    kept = np.sort(np.concatenate([few, np.flatnonzero(~there)]))
    print("\n".join(Path(dataset[int(n)].image).stem for n in kept))


if __name__ == "__main__":
    main()
