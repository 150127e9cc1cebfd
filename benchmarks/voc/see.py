"""Which part of given boxes is visible, measured on VOC val: `Detector.see`.

    python benchmarks/voc/see.py VOC --test ids [--candidates candidates.npz]

looks, in images with instance masks, at the objects of each class that are neither difficult nor
crowds, in four ways:

true       their annotated boxes
jittered   the same with each side moved by a normal deviate of 0.1 of the box's width or height
own        our own detections of them (from score -1 on, matched by VOC's rule)
peer       another detector's boxes, from the file that `dump_peer.py` writes, suppressed by the
           defaults of `hs.suppress_boxes` and matched likewise

and prints for each, over the objects that a window reaches: IoU of the box as it was given and of
our mask with the instance mask, for all, occluded and whole objects; and the balanced accuracy of
the blocks that a real neighbour hides. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from masks import (  # mypy finds the other masks.py
    CLASSES,
    THRESHOLD,
    Assigned,
    masked,
    mean,
    shares,
)
from numpy.typing import NDArray

import halfseen as hs
from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.blocks import BlockCounts, neighbour_counts
from halfseen.evaluate.results import box_detections
from halfseen.evaluate.visibility import mask_quality
from halfseen.evaluate.voc_ap import match
from halfseen.refine.detector import Detector

JITTER = 0.1
LEAST = 0.3  # score of a peer's boxes that are asked about
Rights = list[tuple[int, int, int]]


@dataclass
class Measured:
    """One way of giving boxes, over all classes: overlaps of each object, and counts of blocks."""

    asked: int = 0
    box: list[NDArray[np.float64]] = field(default_factory=list)
    mask: list[NDArray[np.float64]] = field(default_factory=list)
    occluded: list[NDArray[np.bool_]] = field(default_factory=list)
    whole: list[NDArray[np.bool_]] = field(default_factory=list)
    blocks: BlockCounts = field(default_factory=BlockCounts)

    def add(
        self, truths: list[GroundTruth], seen: list[Detections], given: list[Any], right: Rights
    ) -> None:
        """One class: what was seen, the boxes as they were given, and whose each is."""
        self.asked += len(right)
        right = [(k, n, j) for k, n, j in right if seen[k].blocks[n].size]
        quality = mask_quality(truths, seen, Assigned(right))
        plain = [replace(one, full=boxes) for one, boxes in zip(seen, given, strict=True)]
        self.box.append(mask_quality(truths, plain, Assigned(right)).box)
        self.mask.append(quality.mask)
        self.occluded.append(quality.occluded)
        self.whole.append(quality.whole)
        self.blocks += neighbour_counts(truths, seen, Assigned(right))

    def row(self) -> dict[str, Any]:
        box, mask, occluded, whole = (
            np.concatenate(parts) for parts in (self.box, self.mask, self.occluded, self.whole)
        )
        groups = {"all": np.ones(len(box), bool), "occluded": occluded, "whole": whole}
        return {
            "asked": self.asked,
            "reached": len(box),
            **{
                name: {
                    "objects": int(own.sum()),
                    "box_iou": mean(box[own]),
                    "mask_iou": mean(mask[own]),
                }
                for name, own in groups.items()
            },
            "hidden": shares(self.blocks),
        }


def peers(path: Path) -> dict[tuple[str, str], list[list[float]]]:
    """(N, 5) boxes and scores of what is kept of candidates, by image and class."""
    with np.load(path, allow_pickle=False) as file:
        image, label = file["ids"][file["image"]], file["names"][file["label"]]
        box, score = file["box"].astype(float), file["score"].astype(float)
    kept = hs.suppress_boxes(box, score, labels=label, images=image).indices
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for i in kept[score[kept] >= LEAST].tolist():
        found[str(image[i]), str(label[i])].append([*box[i].tolist(), float(score[i])])
    return found


def measure_class(
    test: Dataset, label: str, options: argparse.Namespace, peer: Any, measured: Any
) -> None:
    detector = Detector(f"{label}.{options.variant}")
    known = [i for i, t in enumerate(test) if (t.label == label).any() and masked(t, label)]
    some = np.random.default_rng(0).permutation(known)[: options.images].tolist()
    truths = [test[i] for i in some]
    seen: dict[str, list[Detections]] = defaultdict(list)
    given: dict[str, list[Any]] = defaultdict(list)
    right: dict[str, Rights] = defaultdict(list)
    for k, (i, truth) in enumerate(zip(some, truths, strict=True)):
        image = test.image(i)
        objects = np.flatnonzero((truth.label == label) & ~truth.difficult & ~truth.crowd)
        boxes = truth.box[objects]
        moved = np.random.default_rng([0, i]).normal(0, JITTER, boxes.shape)
        sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
        for kind, ask in (("true", boxes), ("jittered", boxes + moved * sides)):
            seen[kind].append(detector.see(image, ask, label))
            given[kind].append(ask)
            right[kind] += [(k, n, j) for n, j in enumerate(objects.tolist())]
        own = detector.detect(image, THRESHOLD)
        seen["own"].append(own)
        given["own"].append(own.full)
        if peer is not None:
            rows = np.array(peer.get((truth.image, label), []), float).reshape(-1, 5)
            names = np.full(len(rows), label)
            theirs = box_detections(rows[:, :4], rows[:, 4], names, truth.size)
            # Matched by their scores, then seen.
            right["peer"] += [(k, n, j) for _, n, j in match([truth], [theirs], label).right]
            seen["peer"].append(detector.see(image, rows[:, :4], label))
            given["peer"].append(rows[:, :4])
    right["own"] = match(truths, seen["own"], label).right
    for kind in seen:
        measured[kind].add(truths, seen[kind], given[kind], right[kind])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("--test", default="val")
    parser.add_argument("--class", dest="classes", action="append")
    parser.add_argument("--images", type=int, default=80, help="of each class")
    parser.add_argument("--variant", default="fhog")
    parser.add_argument("--candidates", type=Path, help="a peer's, of dump_peer.py")
    options = parser.parse_args()
    test = read_voc(options.voc, options.test)
    peer = None if options.candidates is None else peers(options.candidates)
    measured: dict[str, Measured] = defaultdict(Measured)
    for label in options.classes or CLASSES:
        measure_class(test, label, options, peer, measured)
        print(label, flush=True)
    rows = {kind: one.row() for kind, one in measured.items()}
    for kind, row in rows.items():
        print(kind, json.dumps(row))
    print(json.dumps({"variant": options.variant, "images": options.images, "by": rows}))


if __name__ == "__main__":
    main()
