"""Whether two versions of halfseen find the same in images of VOC.

    python benchmarks/voc/same.py VOC --ids val.txt --find found.npz --models car.fast bus.fast
    python benchmarks/voc/same.py VOC --ids val.txt --compare first.npz now.npz

The first is run by each version in an environment of its own, and asks for no more of it than
`hs.load` and `hs.Detector`; files may be given for models. Images are drawn with seed 0. The
second prints one line of JSON: detections, those whose box or visible blocks differ, scores that
differ by more than 1e-6 and the largest difference, and the AP of each version in the mean over
the classes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import halfseen as hs

SAME = 1e-6
THRESHOLD = -1.0


def find(paths: list[Path], names: list[str]) -> dict[str, Any]:
    """The detections of all images one after another, each image's in an order of their own."""
    detector = hs.Detector([hs.load(name) for name in names], cores=1)
    found: dict[str, list[Any]] = {"score": [], "full": [], "label": [], "seen": [], "count": []}
    for path in paths:
        image = np.asarray(Image.open(path).convert("RGB"))
        part = detector.detect(image, THRESHOLD)
        order = np.lexsort((part.full[:, 0], -part.score, part.label))
        for name in ("score", "full", "label"):
            found[name].append(getattr(part, name)[order])
        found["seen"].append(np.array([flags.sum() for flags in part.visibility], int)[order])
        found["count"].append(np.array([len(part)]))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def compare(first: Any, second: Any, truth: Any) -> dict[str, Any]:
    """How far two results of `find` differ."""
    if not np.array_equal(first["count"], second["count"]):
        return {"images_with_another_number": int((first["count"] != second["count"]).sum())}
    off = np.abs(first["score"] - second["score"])
    return {
        "images": len(first["count"]),
        "detections": len(off),
        "other_boxes": int((np.abs(first["full"] - second["full"]) > SAME).any(axis=1).sum()),
        "other_blocks": int((first["seen"] != second["seen"]).sum()),
        "other_scores": int((off > SAME).sum()),
        "largest": float(off.max(initial=0)),
        "ap": [mean_ap(found, truth) for found in (first, second)],
    }


def mean_ap(found: Any, truth: Any) -> float:
    """AP in the mean over the classes of the detections."""
    from halfseen.evaluate.voc_ap import average_precision

    ends = np.cumsum(found["count"])[:-1]
    full, score, label = (np.split(found[name], ends) for name in ("full", "score", "label"))
    parts = [hs.from_numpy(full[k], score[k], label[k], here.size) for k, here in enumerate(truth)]
    labels = np.unique(found["label"])
    return 100 * float(np.nanmean([average_precision(truth, parts, x).ap for x in labels]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--images", type=int, default=150)
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--find", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    options = parser.parse_args()
    ids = [line.split()[0] for line in options.ids.read_text().splitlines() if line.strip()]
    drawn = np.random.default_rng(0).permutation(len(ids))[: options.images]
    if options.find:
        folder = options.voc / "JPEGImages"
        np.savez(options.find, **find([folder / f"{ids[n]}.jpg" for n in drawn], options.models))
    if options.compare:
        from halfseen.data.voc import read_voc

        dataset = read_voc(options.voc, str(options.ids))
        truth = [dataset[int(n)] for n in drawn]
        first, second = (np.load(path) for path in options.compare)
        print(json.dumps(compare(first, second, truth)))


if __name__ == "__main__":
    main()
