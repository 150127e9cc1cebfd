"""Masks on VOC: learns a mask head for each class on train, and judges it on val.

    python benchmarks/voc/masks.py VOC STUDY/default OUT --train ids --test ids --class car

takes STUDY/CLASS-VIS.safetensors, as `halfseen reproduce` makes it, learns its mask head if it has
none, and keeps the model in OUT: the same command goes on after a kill. Then, on val:

pasted    balanced accuracy of hidden blocks, and the share of visible blocks called hidden, with
          texture from val images without the class over 0, 20, 40 and 60% of whole objects
natural   balanced accuracy of the blocks that a real neighbour hides, from instance masks
iou       of masks with instance masks, less that of the plain box with them: for objects that are
          occluded and for whole ones
crowded   AP of covering suppression in images where two objects of the class overlap

each by the mask head and by the paper's flags (or `--flags head` alone), on the same detections
(t = -1), and, under `objects`, by the head in the windows of all objects that a window fits, found
or not. What is covered is detected in the covered picture, where windows fit worse and only some
objects are found; under `found`, in the picture as it is, and then covered. The last line printed
is JSON: per class, the means over the classes, and under `natural, pooled` the balanced accuracy of
all classes' blocks together.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.arrays import Bool, UInt8
from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.detect.windows import place_boxes
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.blocks import BlockCounts, count_blocks, covered_blocks, neighbour_counts
from halfseen.evaluate.bootstrap import crowded
from halfseen.evaluate.sweep import SHARES, cover_objects, summarise_sweep, sweep_image
from halfseen.evaluate.visibility import mask_quality, whole
from halfseen.evaluate.voc_ap import match, summarise
from halfseen.geometry import clip, mirror
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.masks.samples import assign
from halfseen.model.mixture import Mixture
from halfseen.model.store import load, save
from halfseen.refine.detector import Detector

CLASSES = ("car", "motorbike", "bus", "bicycle", "horse", "aeroplane")
TEXTURES = 40
THRESHOLD = -1.0
FLAGS = ("head", "paper")


def headed(options: argparse.Namespace, label: str) -> Mixture:
    """The model of a class with its mask head, learnt now if it was not before."""
    path = options.out / f"{label}-VIS.safetensors"
    if not path.exists():
        model = load(options.study / path.name)
        if model.head is None:
            model = learn_masks(read_voc(options.voc, options.train), model)
        save(model, path)
    return load(path)


def object_windows(
    image: UInt8, truth: GroundTruth, wanted: Bool, model: Mixture
) -> tuple[Detections, list[int]]:
    """For each wanted object the best-scoring window that overlaps it by 0.7, and whose it is.

    As learning assigns them: what a perfect detector would have found, hidden or not.
    """
    which, parts = [], []
    places = np.flatnonzero(wanted).tolist()
    for j, assigned in zip(places, assign(image, truth.full[wanted], model), strict=True):
        if assigned is None:
            continue
        bag, best = assigned
        component = model.components[best.component]
        rows, cols = component.shape
        box = mirror(component.box, cols) if best.mirrored else component.box
        window, full = (
            place_boxes(
                np.array([best.y]), np.array([best.x]), component.shape, blocks, model.descriptor,
                bag.crops[best.crop].scale,
            )
            for blocks in ([0, 0, cols, rows], box)
        )  # fmt: skip
        which.append(j)
        parts.append(
            Detections(
                np.array([best.score]),
                np.array([model.label]),
                np.array([best.component]),
                np.array([best.mirrored]),
                window,
                full,
                clip(full, truth.size),
                (np.ones((rows, cols), bool),),
                truth.size,
            )
        )
    return Detections.concatenate(parts) if parts else Detections.empty(truth.size), which


def pasted_later(test: Dataset, label: str, model: Mixture, objects: int) -> dict[str, Any]:
    """Blocks of whole objects that are covered after windows were chosen for them, by the head.

    found     the windows of detections in the picture as it is
    objects   the windows of all objects that one fits
    """
    chosen, textures = whole_images(test, label, objects)
    detector = Detector(model, "head")
    counts = {kind: {share: BlockCounts() for share in SHARES} for kind in ("found", "objects")}
    for i, truth in enumerate(chosen):
        image = chosen.image(i)
        wanted = whole(truth) & (truth.label == label)
        found = detector.detect(image, THRESHOLD)
        right = match([truth], [found], label, ignored=[~wanted]).right
        windows = {
            "found": (found[[n for _, n, _ in right]], [j for *_, j in right]),
            "objects": object_windows(image, truth, wanted, model),
        }
        for share in SHARES:
            covered, mask = cover_objects(image, truth, label, share, textures, 0)
            for kind, (before, which) in windows.items():
                if not which:
                    continue
                seen = detector.finish(detector.view(covered), before)
                for k, j in enumerate(which):
                    flags = seen.visibility[k]
                    blocks = covered_blocks(mask, seen.window[k], flags.shape, truth.full[j])
                    counts[kind][share] += count_blocks(flags, blocks)
    return {
        kind: {f"{100 * share:g}%": shares(count) for share, count in row.items()}
        for kind, row in counts.items()
    }


def whole_images(test: Dataset, label: str, objects: int) -> tuple[Dataset, list[UInt8]]:
    """Val images drawn until they hold enough whole objects, and textures to cover these with."""
    order = np.random.default_rng(0).permutation(len(test))
    counts = np.array([(whole(test[i]) & (test[i].label == label)).sum() for i in order])
    before = np.cumsum(counts) - counts
    chosen = test[order[(counts > 0) & (before < objects)]]
    free = [i for i in order if not (test[i].label == label).any()][:TEXTURES]
    return chosen, [test.image(int(i)) for i in free]


def pasted(
    test: Dataset, label: str, model: Mixture, objects: int, flags: list[str]
) -> dict[str, Any]:
    """Blocks of covered whole objects where they are detected when covered."""
    chosen, textures = whole_images(test, label, objects)
    detectors = {name: Detector(model, name) for name in flags}  # type: ignore[arg-type]

    def look(image: Any) -> dict[str, Detections]:
        return {name: d.detect(image, THRESHOLD) for name, d in detectors.items()}

    swept = [
        sweep_image(chosen.image(i), chosen[i], label, look, textures) for i in range(len(chosen))
    ]
    result: dict[str, Any] = {name: {} for name in flags}
    for point in summarise_sweep(chosen.truths, swept, label):
        result[point.method][f"{100 * point.share:g}%"] = shares(point.blocks)
    return result


def natural(
    test: Dataset, label: str, model: Mixture, images: int, flags: list[str]
) -> dict[str, Any]:
    """Real neighbours and instance masks, in the images that have them."""
    known = [
        i for i, truth in enumerate(test)
        if (truth.label == label).any() and masked(truth, label)
    ][:images]  # fmt: skip
    truths = [test[i] for i in known]
    result = {}
    for name in flags:
        detector = Detector(model, name)  # type: ignore[arg-type]
        found = [detector.detect(test.image(i), THRESHOLD) for i in known]
        result[name] = real_masks(truths, found, match(truths, found, label))
    detector, found = Detector(model, "head"), []
    right: list[tuple[int, int, int]] = []
    for k, i in enumerate(known):
        truth, image = test[i], test.image(i)
        own = (truth.label == label) & ~truth.difficult & ~truth.crowd
        windows, which = object_windows(image, truth, own, model)
        found.append(detector.finish(detector.view(image), windows))
        right.extend((k, n, j) for n, j in enumerate(which))
    result["objects"] = real_masks(truths, found, Assigned(right))
    return result


@dataclass(frozen=True)
class Assigned:
    """Which detection of which image shows which object, where nothing had to be matched."""

    right: list[tuple[int, int, int]]


def real_masks(
    truths: list[GroundTruth], found: list[Detections], matches: Any
) -> dict[str, dict[str, Any]]:
    quality = mask_quality(truths, found, matches)
    box = quality.box
    gain = quality.mask - box
    return {
        "natural": shares(neighbour_counts(truths, found, matches)),
        **{
            kind: {
                "objects": int(group.sum()),
                "box_iou": mean(box[group]),
                "mask_iou_gain": mean(gain[group]),
            }
            for kind, group in (("occluded", quality.occluded), ("whole", quality.whole))
        },
    }


def crowds(test: Dataset, label: str, model: Mixture) -> dict[str, Any]:
    """AP in images with two objects of the class that overlap, by what covering suppression knows.

    by_visible    the head's flags decide how much two detections share, and what is covered
    by_box        the same flags, but detections share what their boxes share
    by_paper      the paper's flags decide
    """
    tight = crowded(test, label)
    truths = [test[i] for i in tight]
    rows: dict[str, Any] = {"images": len(tight)}
    ways = {"visible": ("head", "iou"), "box": ("head", "box"), "paper": ("paper", "iou")}
    for name, (flags, measure) in ways.items():
        detector = Detector(model, flags)  # type: ignore[arg-type]
        found = [
            detector.detect(test.image(int(i)), THRESHOLD, "covering", measure=measure)
            for i in tight
        ]
        rows[f"by_{name}"] = rounded(100 * summarise(match(truths, found, label)).ap)
    return rows


def masked(truth: GroundTruth, label: str) -> bool:
    return truth.mask(int(np.flatnonzero(truth.label == label)[0])) is not None


def shares(counts: BlockCounts) -> dict[str, Any]:
    return {
        "objects": counts.objects,
        "balanced_accuracy": rounded(counts.balanced_accuracy),
        "false_hidden": rounded(counts.false_hidden_share),
        "blocks": asdict(counts),
    }


def pooled(classes: dict[str, Any], kind: str) -> float | None:
    """Balanced accuracy behind real neighbours, the blocks of all classes counted together."""
    parts = [BlockCounts(**tree[kind]["natural"]["blocks"]) for tree in classes.values()]
    return rounded(sum(parts, BlockCounts()).balanced_accuracy)


def mean(values: Any) -> float | None:
    return rounded(float(np.mean(values))) if len(values) else None


def rounded(value: float) -> float | None:
    return round(value, 4) if np.isfinite(value) else None


def average(classes: dict[str, Any]) -> Any:
    """The same tree with the mean over the classes at its leaves; unknown figures are left out."""
    first = next(iter(classes.values()))
    if isinstance(first, dict):
        return {key: average({c: tree[key] for c, tree in classes.items()}) for key in first}
    known = [value for value in classes.values() if value is not None]
    return round(float(np.mean(known)), 4) if known else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("voc", "study", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--train", default="train")
    parser.add_argument("--test", default="val")
    parser.add_argument("--class", dest="classes", action="append")
    parser.add_argument("--objects", type=int, default=100, help="whole objects that are covered")
    parser.add_argument("--images", type=int, default=400, help="images with instance masks")
    parser.add_argument("--flags", choices=FLAGS, action="append", help="only these flags")
    options = parser.parse_args()
    flags = options.flags or list(FLAGS)
    options.out.mkdir(parents=True, exist_ok=True)
    test = read_voc(options.voc, options.test)
    classes: dict[str, Any] = {}
    for label in options.classes or CLASSES:
        model = headed(options, label)
        path = options.out / f"{label}.json"
        if not path.exists():
            figures = {
                "pasted": pasted(test, label, model, options.objects, flags)
                | pasted_later(test, label, model, options.objects),
                **natural(test, label, model, options.images, flags),
                "crowded": crowds(test, label, model),
            }
            write_atomically(path, json.dumps(figures).encode())
        classes[label] = json.loads(path.read_text())
        print(label, json.dumps(classes[label]), flush=True)
    together = {kind: pooled(classes, kind) for kind in [*flags, "objects"]}
    figures = {"classes": classes, "mean": average(classes), "natural, pooled": together}
    print(json.dumps({"shares": list(SHARES), **figures}))


if __name__ == "__main__":
    main()
