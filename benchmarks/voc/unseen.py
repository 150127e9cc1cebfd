"""Is what is said to be unseen of an object sensible? Judged by VOC's flags, not by eye.

    python benchmarks/voc/unseen.py VOC --ids val.txt --images 90

runs the shipped models as `halfseen detect CLASS` does, over images drawn at random from those that
show an object of the class that is not difficult, and looks at the probable detections that say
that less than 80% is seen. One is counted as sensible if it is right (IoU 0.5) and what is unseen
lies mostly outside the image and the object is annotated as truncated, or it is mostly hidden and
the object is annotated as occluded. The flags are not complete: an eye finds a few more.

--caution adds to the operating points of the mask heads: above 0, less is called hidden.
The last line is JSON.
"""

import argparse
import json
from collections import Counter
from dataclasses import replace

import numpy as np

import halfseen as hs
from halfseen.detections import Block, Detections, GroundTruth
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import match
from halfseen.model.mixture import Mixture

CLASSES = ("car", "motorbike", "bus", "bicycle", "horse", "cat")
LITTLE_SEEN = 0.8


def cautious(model: Mixture, by: float) -> Mixture:
    """The model with the operating points of its mask head moved."""
    assert model.head is not None
    cutoff = tuple(point + by for point in model.head.cutoff)
    return replace(model, head=replace(model.head, cutoff=cutoff))


def judge(truth: GroundTruth, found: Detections, label: str) -> Counter[str]:
    """Counts over the detections of one image that are probable."""
    counts: Counter[str] = Counter()
    objects = {i: j for _, i, j in match([truth], [found], label).right}
    for i in range(len(found)):
        counts["strong"] += 1
        fine = i in objects and bool(whole(truth)[objects[i]])
        counts["whole"] += fine
        if found.visible_fraction[i] >= LITTLE_SEEN:
            continue
        counts["said"] += 1
        counts["said of whole ones"] += fine
        hidden, outside = (
            int((found.blocks[i] == block).sum()) for block in (Block.HIDDEN, Block.OUTSIDE)
        )
        why = truth.occluded if hidden >= outside else truth.truncated
        counts["sensible"] += i in objects and bool(why[objects[i]])
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("--ids", required=True)
    parser.add_argument("--images", type=int, default=90, help="of each class")
    parser.add_argument("--caution", type=float, action="append", help="default: 0")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dataset = hs.read_voc(options.voc, options.ids)
    totals: dict[float, Counter[str]] = {by: Counter() for by in options.caution or [0.0]}
    for label in CLASSES:
        shows = [((truth.label == label) & ~truth.difficult).any() for truth in dataset]
        chosen = np.random.default_rng(options.seed).permutation(np.flatnonzero(shows))
        detectors = {by: hs.Detector(cautious(hs.load(label), by)) for by in totals}
        for image in chosen[: options.images].tolist():
            pixels, truth = dataset.image(image), dataset[image]
            first = next(iter(detectors.values()))
            view = first.view(pixels)
            candidates, choice = first.suppress(view, first.search(view))
            for by, detector in detectors.items():
                found = detector.finish(view, choice.of(candidates))
                totals[by] += judge(truth, found[found.strong()], label)
        print(label, {by: dict(counts) for by, counts in totals.items()}, flush=True)
    print(json.dumps(totals))


if __name__ == "__main__":
    main()
