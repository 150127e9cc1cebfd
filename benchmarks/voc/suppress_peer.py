"""Suppression's default on the raw boxes of another detector, beside greedy suppression, tuned.

    python benchmarks/voc/suppress_peer.py VOC candidates.npz

candidates.npz, which `dump_peer.py` writes, holds the boxes of a detector before its own
suppression, of some images of VOC:

    ids    (I,) text: the images           image  (N,) whose candidate it is, from 0
    box    (N, 4) x1 y1 x2 y2              score  (N,) probabilities
    label  (N,) which of `names`           names  (C,) VOC's classes

Greedy suppression by IoU chooses its overlap on the first half of the images, by the mean AP of the
classes (COCO, IoU 0.5 to 0.95); all others run with their defaults. Measured on the second half,
with 95% intervals of the difference to greedy by a paired bootstrap over its images; `crowded` is
the same of objects that share more than 0.2 (IoU) with another of their class. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import halfseen as hs
from halfseen.arrays import Bool, Float64, Int64
from halfseen.data.voc import read_voc
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.coco_ap import OVERLAPS, RECALLS
from halfseen.evaluate.kernels import NEITHER, TRUE
from halfseen.evaluate.pool import Pool
from halfseen.evaluate.results import box_detections
from halfseen.geometry import iou_matrix

ETAS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
CROWDED = 0.2


@dataclass(frozen=True, eq=False)
class Raw:
    """Candidates of some images, sorted by image, and the truth of these."""

    truth: list[GroundTruth]
    image: Int64
    box: Float64
    score: Float64
    label: NDArray[np.str_]

    def part(self, first: int, last: int) -> Raw:
        own = (self.image >= first) & (self.image < last)
        return Raw(
            self.truth[first:last], self.image[own] - first, self.box[own], self.score[own],
            self.label[own],
        )  # fmt: skip

    def suppressed(self, **settings: Any) -> list[Detections]:
        """What a method leaves in each image, by its ranks."""
        kept = hs.suppress_boxes(
            self.box, self.score, labels=self.label, images=self.image, **settings
        )
        found = []
        for k, truth in enumerate(self.truth):
            own = np.flatnonzero(self.image[kept.indices] == k)
            rows = kept.indices[own]
            boxes, rank = self.box[rows], np.asarray(kept.rank)[own]
            found.append(box_detections(boxes, rank, self.label[rows], truth.size))
        return found


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One class: detections by falling score, right at each overlap, and objects of each image."""

    image: Int64
    right: Bool
    counted: Bool
    wanted: Int64

    @classmethod
    def of(
        cls, truth: list[GroundTruth], found: list[Detections], label: str, crowded: bool
    ) -> Outcomes:
        pool = Pool.of(truth, found, label)
        ignored = pool.left_out | (~in_crowds(pool) if crowded else False)
        outcome = pool.match(ignored[None], pool.crowd[None], OVERLAPS)[0][:, pool.order]
        owner = np.repeat(np.arange(len(truth)), [len(rows) for rows in pool.own])
        wanted = np.bincount(owner[~ignored], minlength=len(truth))
        return cls(pool.image[pool.order], outcome == TRUE, outcome != NEITHER, wanted)

    def ap(self, times: Int64) -> Float64:
        """(10,) AP with every image counted so often; NaN without an object."""
        total = int(times @ self.wanted)
        if not total:
            return np.full(len(OVERLAPS), np.nan)
        weight = times[self.image]
        result = []
        for right, counted in zip(self.right, self.counted, strict=True):
            hits = np.cumsum(weight * right)
            precision = hits / np.maximum(np.cumsum(weight * counted), 1)
            envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
            result.append(envelope[np.searchsorted(hits / total, RECALLS)].mean())
        return np.array(result)


def in_crowds(pool: Pool) -> Bool:
    """(G,) which objects share more than `CROWDED` with another of their class."""
    first = pool.boxes.first_true
    flags = []
    for start, end in pairwise(first.tolist()):
        overlap = iou_matrix(pool.boxes.true[start:end], pool.boxes.true[start:end])
        np.fill_diagonal(overlap, 0)
        flags.append(overlap.max(axis=1, initial=0) > CROWDED)
    return np.concatenate(flags)


def mean_ap(classes: list[Outcomes], times: Int64) -> Float64:
    """AP and AP50, in percent, the mean over the classes that have objects."""
    every = np.array([one.ap(times) for one in classes])
    known = every[~np.isnan(every[:, 0])]
    return 100 * np.array([known.mean(), known[:, 0].mean()])


def outcomes(raw: Raw, found: list[Detections], crowded: bool = False) -> list[Outcomes]:
    labels = sorted(set(raw.label.tolist()))
    return [Outcomes.of(raw.truth, found, label, crowded) for label in labels]


def read(voc: Path, path: Path) -> Raw:
    with np.load(path, allow_pickle=False) as file:
        ids = [str(name) for name in file["ids"]]
        image, label = file["image"].astype(np.int64), file["names"][file["label"]]
        box, score = file["box"].astype(np.float64), file["score"].astype(np.float64)
    listed = path.with_suffix(".ids.txt")
    listed.write_text("\n".join(ids) + "\n")
    truth = {one.image: one for one in read_voc(voc, listed)}
    return Raw([truth[name] for name in ids], image, box, score, label)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("candidates", type=Path)
    parser.add_argument("--resamples", type=int, default=300)
    options = parser.parse_args()
    raw = read(options.voc, options.candidates)
    half = len(raw.truth) // 2
    train, test = raw.part(0, half), raw.part(half, len(raw.truth))
    once = np.ones(half, np.int64)
    tuned = {
        eta: mean_ap(outcomes(train, train.suppressed(method="greedy", overlap=eta)), once)[0]
        for eta in ETAS
    }
    best = max(tuned, key=lambda eta: tuned[eta])
    ways: dict[str, dict[str, Any]] = {
        "greedy, tuned": {"method": "greedy", "overlap": best},
        "default": {},
        **{name: {"method": name} for name in ("soft", "covering")},
        "votes in full": {"method": "voting", "weight": 1.0},
    }
    rng = np.random.default_rng(0)
    count = len(test.truth)
    draws = [np.bincount(rng.integers(0, count, count), minlength=count) for _ in
             range(options.resamples)]  # fmt: skip
    found = {name: test.suppressed(**settings) for name, settings in ways.items()}
    rows: dict[str, Any] = {}
    for kind in ("all", "crowded"):
        first: Float64 | None = None
        for name, seen in found.items():
            classes = outcomes(test, seen, kind == "crowded")
            value = mean_ap(classes, np.ones(count, np.int64))
            spread = np.array([mean_ap(classes, times) for times in draws])
            first = spread if first is None else first
            low, high = np.quantile(spread - first, (0.025, 0.975), axis=0).round(2).tolist()
            rows.setdefault(kind, {})[name] = {
                "ap": round(float(value[0]), 2), "gain": [low[0], high[0]],
                "ap50": round(float(value[1]), 2), "gain50": [low[1], high[1]],
            }  # fmt: skip
            print(kind, name, rows[kind][name], flush=True)
    figures = {
        "images": count,
        "candidates": round(len(test.score) / count, 1),
        "overlap": best,
        "tuned": {str(eta): round(float(value), 2) for eta, value in tuned.items()},
    }
    print(json.dumps(figures | rows))


if __name__ == "__main__":
    main()
