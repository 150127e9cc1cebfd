"""One class over all images in flat arrays, for the rules of COCO, Caltech and CrowdHuman."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64
from halfseen.errors import SettingsError
from halfseen.evaluate.voc_ap import BoxKind, Found, aligned, boxes_of, only_label
from halfseen.geometry import area
from halfseen.ground_truth import GroundTruth

Members = Sequence[Bool]  # one array an image, True for the objects of a subset


class Boxes(NamedTuple):
    """Detections, best first within each image, and objects, both image after image.

    found, true     (D, 4), (G, 4)
    first_found     (images + 1,) where the detections of each image begin
    first_true      (images + 1,) where its objects begin
    """

    found: Float64
    true: Float64
    first_found: Int64
    first_true: Int64


class Rules(NamedTuple):
    """Which objects and detections count in each of S subsets.

    unused    (S, D) detections that take no part
    ignored   (S, G) objects that make a detection neither right nor wrong
    region    (S, G) those of them that any number of detections may match, each by the share of
              its own area that lies inside
    """

    unused: Bool
    ignored: Bool
    region: Bool


@dataclass(frozen=True, eq=False)
class Pool:
    """The detections and objects of one class, image after image.

    score      (D,) of detections, best first within each image
    image      (D,) position of each detection's image
    rank       (D,) its place among the detections of its image, from 0
    own        positions of the class's objects within each image
    crowd, left_out   (G,) of the objects; `left_out` are difficult, crowds or ignored
    size       (G,) areas of the objects, as annotated or else of their boxes
    """

    label: str
    truth: Sequence[GroundTruth]
    boxes: Boxes
    score: Float64
    image: Int64
    rank: Int64
    own: Sequence[Int64]
    crowd: Bool
    ignore: Bool
    left_out: Bool
    size: Float64

    @classmethod
    def of(
        cls,
        truth: Sequence[GroundTruth],
        found: Found,
        label: str | None = None,
        box: BoxKind = "full",
    ) -> Pool:
        """Gather one class; what is compared with `GroundTruth.box` is as in `voc_ap.match`."""
        found = aligned(truth, found)
        label = only_label(truth, found) if label is None else label
        boxes, scores, counts = [], [], []
        for here, detected in zip(truth, found, strict=True):
            chosen = np.flatnonzero(detected.label == label)
            chosen = chosen[np.argsort(-detected.score[chosen], kind="stable")]
            boxes.append(boxes_of(detected, box)[chosen])
            scores.append(detected.score[chosen])
            counts.append(len(chosen))
            if not (np.isfinite(boxes[-1]).all() and not np.isnan(scores[-1]).any()):
                raise SettingsError(f'image "{here.image}": a box or score is not a number')
        own = [np.flatnonzero(here.label == label) for here in truth]
        first = _starts(counts)

        def column(name: str) -> Float64:
            parts = [getattr(here, name)[rows] for here, rows in zip(truth, own, strict=True)]
            return np.concatenate(parts) if parts else np.zeros(0)

        true = column("box").reshape(-1, 4)
        annotated = column("area")
        image = np.repeat(np.arange(len(truth)), counts)
        rank = np.arange(len(image)) - first[image]
        return cls(
            label, truth,
            Boxes(_stack(boxes), np.ascontiguousarray(true), first, _starts([*map(len, own)])),
            np.concatenate([*scores, np.zeros(0)]), image, rank, own,
            column("crowd").astype(bool), column("ignore").astype(bool),
            column("left_out").astype(bool),
            np.where(np.isnan(annotated), area(true), annotated),
        )  # fmt: skip

    def members(self, subset: Members) -> Bool:
        """(G,) the objects of the class that a subset holds."""
        parts = [part[rows] for part, rows in zip(subset, self.own, strict=True)]
        return np.concatenate([*parts, np.zeros(0, bool)]).astype(bool)

    def match(
        self, ignored: Bool, region: Bool, least: Float64, unused: Bool | None = None
    ) -> NDArray[np.int8]:
        """(S, T, D) outcomes under the rules of S subsets; see `kernels.match_free`."""
        from halfseen.evaluate.kernels import match_free  # numba takes a while to import

        if unused is None:
            unused = np.zeros((len(ignored), len(self.score)), bool)
        return np.asarray(match_free(self.boxes, Rules(unused, ignored, region), least))

    @property
    def order(self) -> Int64:
        """All detections by falling score; equal ones keep their order."""
        return np.argsort(-self.score, kind="stable")


def _starts(counts: Sequence[int]) -> Int64:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _stack(parts: Sequence[Float64]) -> Float64:
    return np.ascontiguousarray(np.concatenate([*parts, np.zeros((0, 4))]))
