"""What visibility brings on built-in scenes: BL, BLT and VIS on whole and on half-hidden objects.

Trains on 300 scenes and tests on 300 others, fixed seeds, default settings. AP is VOC's (all-point,
IoU 0.5), in points of 100. Scenes know the whole of every object, so `full` is judged against the
whole object cut to the image; the keys that end in `_voc` judge it against the annotated box, which
is tight around what is seen. Half-hidden: 25 to 75% of the object in view. Hidden blocks are judged
exactly, from the drawn silhouettes, on right detections of objects that something hides; `seen` is
what the detections say is visible, in the mean, of whole and of half-hidden objects that are found,
and `order` how often less is said of a half-hidden than of a whole one. "masks" is VIS with a mask
head, learnt from the same boxes, as `halfseen train` learns it.

Prints one line of JSON. `--class`, `--scenes`, `--method`, `--set NAME=VALUE` make smaller or other
runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import time
from dataclasses import replace
from typing import Any

import numpy as np

from halfseen.arrays import Bool
from halfseen.cli.options import MethodName, Preset, make_settings
from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.scenery.backgrounds import make_stage
from halfseen.data.scenery.layout import Layout
from halfseen.data.scenes import CLASSES, render_scenes
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.blocks import BlockCounts, BlockTruth, block_shares, count_blocks
from halfseen.evaluate.visibility import restrict, whole
from halfseen.evaluate.voc_ap import Matches, match, summarise
from halfseen.geometry import clip
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.refine.detector import Detector

TRAIN_SEED, TEST_SEED = 1, 2
SIZE = (375, 500)
METHODS = ("BL", "BLT", "VIS", "masks")


def half_hidden(truth: GroundTruth) -> Bool:
    return (truth.visible_fraction >= 0.25) & (truth.visible_fraction <= 0.75)


def silhouettes(index: int, truth: GroundTruth) -> list[Bool]:
    """The pixels that each object of a test scene would own if nothing hid it."""
    rng = np.random.default_rng([TEST_SEED, index])
    things = [t for t in Layout(rng, make_stage(rng, SIZE), CLASSES).things if t.label]
    masks = []
    for thing in things:
        x1, y1, x2, y2 = thing.extent
        mask = np.zeros(SIZE, bool)
        top, left, bottom, right = max(0, y1), max(0, x1), min(SIZE[0], y2), min(SIZE[1], x2)
        if top < bottom and left < right:
            cut = thing.sprite.mask[top - y1 : bottom - y1, left - x1 : right - x1]
            mask[top:bottom, left:right] = cut
        masks.append(mask)
    # The truth leaves out what cannot be seen at all, and keeps the order of the rest.
    chosen, start = [], 0
    for j in range(len(truth)):
        seen = truth.mask(j)
        assert seen is not None
        while not (masks[start] >= seen).all() or things[start].label != truth.label[j]:
            start += 1
        chosen.append(masks[start])
        start += 1
    return chosen


def block_truth(silhouette: Bool, seen: Bool, window: Any, shape: tuple[int, int]) -> BlockTruth:
    """Judged: more than half of the block is object. Hidden: less than half of that is seen."""
    everything = [0, 0, SIZE[1], SIZE[0]]
    whole_share, inside = block_shares(silhouette, window, shape, everything)
    seen_share, _ = block_shares(seen & silhouette, window, shape, everything)
    return BlockTruth(seen_share < 0.5 * whole_share, (inside >= 0.5) & (whole_share > 0.5))


def hidden_blocks(
    test: Dataset, found: list[Detections], matches: Matches, label: str
) -> BlockCounts:
    total = BlockCounts()
    for k, i, j in matches.right:
        if not test[k].occluded[j]:
            continue
        seen = test[k].mask(j)
        assert seen is not None
        flags = found[k].visibility[i]
        silhouette = silhouettes(int(k), test[k])[j]
        total += count_blocks(flags, block_truth(silhouette, seen, found[k].window[i], flags.shape))
    return total


def judge(test: Dataset, found: list[Detections], label: str) -> dict[str, float]:
    """AP by subset and rule, and how well hidden blocks are told."""
    result = {}
    amodal = [replace(truth, box=clip(truth.full, truth.size)) for truth in test]
    subsets = {"whole": whole, "hidden": half_hidden}
    for ending, truth in (("", amodal), ("_voc", list(test))):
        matches = match(truth, found, label)
        result[f"ap{ending}"] = 100 * summarise(matches).ap
        for name, member in subsets.items():
            part = restrict(matches, truth, [member(here) for here in test])
            result[f"ap_{name}{ending}"] = 100 * summarise(part).ap
    blocks = hidden_blocks(test, found, match(amodal, found, label), label)
    result["balanced_accuracy"] = blocks.balanced_accuracy
    result["hidden_recall"] = blocks.recall
    result["false_hidden_share"] = blocks.false_hidden_share
    result |= what_is_seen(test, found, match(amodal, found, label))
    return {name: round(float(value), 3) for name, value in result.items()}


def what_is_seen(test: Dataset, found: list[Detections], matches: Matches) -> dict[str, float]:
    """What detections say is visible, of whole and of half-hidden objects that they find."""
    said: dict[str, list[float]] = {"whole": [], "hidden": []}
    for k, i, j in matches.right:
        for name, member in (("whole", whole), ("hidden", half_hidden)):
            if member(test[k])[j]:
                said[name].append(float(found[k].visible_fraction[i]))
    every, parts = np.array(said["whole"]), np.array(said["hidden"])
    difference = every[:, None] - parts
    return {
        "seen_whole": every.mean(),
        "seen_hidden": parts.mean(),
        "order": ((difference > 0) + (difference == 0) / 2).mean(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--class", dest="label", default="car", choices=CLASSES)
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--cores", type=int)
    parser.add_argument(
        "--method", dest="methods", action="append", choices=METHODS, help="masks after VIS"
    )
    parser.add_argument("--set", dest="chosen", action="append")
    options = parser.parse_args()
    settings = make_settings(Preset.default, MethodName.VIS, 0, options.chosen)
    train = render_scenes(options.scenes, TRAIN_SEED, size=SIZE)
    test = render_scenes(options.scenes, TEST_SEED, size=SIZE)
    result: dict[str, Any] = {"class": options.label, "scenes": options.scenes}
    start = time.perf_counter()
    with TrainingSet(train, options.label, settings, options.cores) as data:
        trainer = Trainer(data)
        result["features_seconds"] = round(time.perf_counter() - start, 1)
        for method in options.methods or METHODS:
            start = time.perf_counter()
            if method != "masks":
                model = trainer.with_settings(method=method).run()
            else:  # after VIS
                model = learn_masks(train, model)
            seconds = time.perf_counter() - start
            detector = Detector(model)

            def find(i: int, detector: Detector = detector) -> Detections:
                return detector.detect(test.image(i))

            found = list(map_images(find, range(len(test)), options.cores))
            result[method] = judge(test, found, options.label) | {"seconds": round(seconds, 1)}
            print(method, result[method], flush=True)
    result["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    pairs = itertools.product(("", "_voc"), ("hidden", "whole"))
    for ending, name in pairs if {"VIS", "BLT"} <= set(result) else ():
        key = f"ap_{name}{ending}"
        difference = result["VIS"][key] - result["BLT"][key]
        result[f"vis_minus_blt_{name}{ending}"] = round(difference, 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
