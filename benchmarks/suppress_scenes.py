"""Mask AP of suppression's defaults beside greedy suppression by IoU, tuned, on drawn scenes.

Every object of the built-in scenes gets noisy candidates, as a detector with masks gives them
before its own suppression: its visible mask moved, grown, shrunk and cut, with scores that fall
with the damage and are noisy themselves; where two objects touch, also masks of both together.
Between the objects lie masks of nothing, alone or in small heaps, with scores of their own. Greedy
suppression chooses its overlap, by mask IoU and by box IoU, on the first half of the scenes; our
methods run with their defaults. AP is COCO's, over IoU 0.5 to 0.95, on the second half; intervals
are paired bootstraps over its scenes. Prints one line of JSON last.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco
from scipy import ndimage

import halfseen as hs
from halfseen.arrays import Bool, Float64, Int64
from halfseen.data.rle import encode
from halfseen.suppression import Interpretation

Mask = Bool
THRESHOLDS = np.arange(0.5, 0.96, 0.05)
RECALL = np.linspace(0, 1, 101)
OVERLAPS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Scene:
    """The true masks of a scene with their labels, and candidates with scores and labels."""

    truth: list[Any]
    truth_label: NDArray[np.str_]
    masks: list[Any]
    score: Float64
    label: NDArray[np.str_]
    box: Float64


def damaged(mask: Mask, rng: np.random.Generator, strength: float) -> Mask:
    """A mask moved, grown or shrunk, and sometimes cut, by about `strength` of its size."""
    ys, xs = np.nonzero(mask)
    size = np.sqrt(len(ys))
    moved = np.zeros_like(mask)
    dy, dx = rng.normal(0, 0.15 * strength * size, 2).round().astype(int)
    inside = (ys + dy >= 0) & (ys + dy < mask.shape[0]) & (xs + dx >= 0) & (xs + dx < mask.shape[1])
    moved[ys[inside] + dy, xs[inside] + dx] = True
    pixels = int(abs(rng.normal(0, 0.08 * strength * size)))
    if pixels:
        grow = ndimage.binary_dilation if rng.random() < 0.5 else ndimage.binary_erosion
        moved = grow(moved, iterations=pixels)
    if rng.random() < 0.2 * strength:
        columns = np.flatnonzero(moved.any(axis=0))
        if len(columns) > 4:
            middle = int(rng.integers(columns[1], columns[-1]))
            moved[:, :middle] &= rng.random() < 0.5
    return moved


def iou(first: Mask, second: Mask) -> float:
    either = (first | second).sum()
    return float((first & second).sum() / either) if either else 0.0


def make_scene(truth: Any, rng: np.random.Generator) -> Scene:
    """The candidates of one drawn scene."""
    every = [(truth.mask(i), str(truth.label[i])) for i in range(len(truth))]
    objects = [(m, label) for m, label in every if m is not None and m.sum() >= 40]
    found: list[tuple[Mask, float, str]] = []

    def add(mask: Mask, label: str, logit: float) -> None:
        if mask.any():
            found.append((mask, float(1 / (1 + np.exp(-logit - rng.normal(0, 0.8)))), label))

    for mask, label in objects:
        quality = rng.normal(0.3, 1.0)
        for _ in range(int(rng.integers(4, 15))):
            copy = damaged(mask, rng, rng.uniform(0.1, 1.2))
            add(copy, label, quality + 5 * (iou(copy, mask) - 0.7))
        for other, kind in objects:
            near = ndimage.binary_dilation(mask, iterations=3) & other
            if kind == label and other is not mask and near.any() and rng.random() < 0.5:
                add(damaged(mask | other, rng, 0.4), label, quality - 1.0)
    for _ in range(int(rng.integers(2, 7))):
        mask, label = objects[rng.integers(len(objects))] if objects else (None, "")
        if mask is None:
            break
        shift = tuple(rng.integers(20, side - 20) for side in mask.shape)
        ghost, quality = np.roll(mask, shift, axis=(0, 1)), rng.normal(-0.6, 1.0)
        for _ in range(int(rng.integers(1, 5))):
            add(damaged(ghost, rng, 0.5), label, quality)
    masks = [encode(m) for m, _, _ in found]
    box = np.array([coco.toBbox(m) for m in masks]).reshape(-1, 4)
    box[:, 2:] += box[:, :2]
    return Scene(
        [encode(m) for m, _ in objects], np.array([label for _, label in objects], np.str_),
        masks, np.array([s for _, s, _ in found]), np.array([c for _, _, c in found], np.str_), box,
    )  # fmt: skip


Choose = Callable[[Scene], Interpretation]


def matches(scene: Scene, kept: Interpretation) -> tuple[Float64, Bool, int]:
    """Ranks of what is kept, whether each is right at each threshold, and how many objects are."""
    right = np.zeros((len(kept), len(THRESHOLDS)), bool)
    if len(kept) and scene.truth:
        chosen = [scene.masks[i] for i in kept.indices]
        overlap = coco.iou(chosen, scene.truth, [0] * len(scene.truth))
        overlap[scene.label[kept.indices][:, None] != scene.truth_label] = 0
        for t, threshold in enumerate(THRESHOLDS):
            free = np.ones(len(scene.truth), bool)
            for i in range(len(kept)):
                best = int((overlap[i] * free).argmax())
                if free[best] and overlap[i, best] >= threshold:
                    right[i, t], free[best] = True, False
    return kept.rank, right, len(scene.truth)


def average_precision(found: list[Any], weight: Int64) -> Float64:
    """AP at each threshold, with every scene counted `weight` times."""
    rank = np.concatenate([part[0] for part in found])
    right = np.concatenate([part[1] for part in found])
    times = np.repeat(weight, [len(part[0]) for part in found])
    total = int((weight * [part[2] for part in found]).sum())
    order = np.argsort(-rank, kind="stable")
    hits = np.cumsum(right[order] * times[order, None], axis=0)
    precision = hits / np.maximum(np.cumsum(times[order]), 1)[:, None]
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    result = []
    for t in range(len(THRESHOLDS)):
        place = np.searchsorted(hits[:, t], RECALL * total, side="left")
        reached = np.append(precision[:, t], 0.0)[np.minimum(place, len(precision))]
        result.append(reached.mean())
    return 100 * np.array(result)


def measure(scenes: list[Scene], choose: Choose) -> list[Any]:
    return [matches(scene, choose(scene)) for scene in scenes]


def mean_ap(found: list[Any]) -> float:
    return float(average_precision(found, np.ones(len(found), np.int64)).mean())


def by_masks(method: str, **settings: Any) -> Choose:
    return lambda s: hs.suppress_masks(s.masks, s.score, labels=s.label, method=method, **settings)


def by_boxes(method: str, **settings: Any) -> Choose:
    return lambda s: hs.suppress_boxes(s.box, s.score, labels=s.label, method=method, **settings)


def tuned(train: list[Scene], make: Callable[..., Choose]) -> tuple[float, Choose]:
    """Greedy suppression with the overlap that is best on the first half."""
    best = max(OVERLAPS, key=lambda o: mean_ap(measure(train, make("greedy", overlap=o))))
    return best, make("greedy", overlap=best)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=600)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    every = [make_scene(t, rng) for t in hs.render_scenes(options.scenes, seed=options.seed)]
    train, test = every[: len(every) // 2], every[len(every) // 2 :]
    overlap, greedy = tuned(train, by_masks)
    box_overlap, box_greedy = tuned(train, by_boxes)
    ways = {
        "greedy by masks": greedy,
        "greedy by boxes": box_greedy,
        "soft": by_masks("soft"),
        "voting": by_masks("voting"),
        "covering": by_masks("covering"),
    }
    figures: dict[str, Any] = {
        "scenes": len(test),
        "candidates": round(float(np.mean([len(s.score) for s in test])), 1),
        "greedy_overlap": overlap,
        "box_overlap": box_overlap,
    }
    found = {name: measure(test, way) for name, way in ways.items()}
    draws = np.random.default_rng(0).multinomial(
        len(test), np.full(len(test), 1 / len(test)), RESAMPLES
    )
    base = np.array([average_precision(found["greedy by masks"], w).mean() for w in draws])
    for name, parts in found.items():
        ap = average_precision(parts, np.ones(len(test), np.int64))
        gain = np.array([average_precision(parts, w).mean() for w in draws]) - base
        low, high = np.quantile(gain, [0.025, 0.975])
        figures[name] = {
            "ap": round(float(ap.mean()), 2), "ap50": round(float(ap[0]), 2),
            "gain_low": round(float(low), 2), "gain_high": round(float(high), 2),
        }  # fmt: skip
        print(f"{name:16} {figures[name]}", flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
