"""The Jaccard index of crowds, after CrowdHuman: are there as many boxes as people?

In one image and at one score: the size of the largest one-to-one matching of the detections above
the score with the true boxes, at an overlap of 0.5, over the number of detections and true boxes
less the matching. The index is the mean over images that have any, at the best score. A detection
that is left over and lies with more than half of its area in an ignored region is not counted;
of several largest matchings, the one of the detections with the highest scores is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfseen.evaluate.pool import Pool
from halfseen.evaluate.voc_ap import NEITHER, TRUE

OVERLAP = 0.5


@dataclass(frozen=True)
class Jaccard:
    """The index at its best score, and that score; NaN if there is nothing to find or found."""

    value: float
    score: float


def jaccard_index(pool: Pool) -> Jaccard:
    """The Jaccard index of one class, at the best of all scores."""
    from halfseen.evaluate.kernels import count_pairs  # numba takes a while to import

    outcome = count_pairs(pool.boxes, pool.left_out, OVERLAP)
    images = len(pool.truth)
    owner = np.repeat(np.arange(images), np.diff(pool.boxes.first_true))
    objects = np.bincount(owner[~pool.left_out], minlength=images)
    nothing = Jaccard(0.0 if objects.any() else float("nan"), float("nan"))
    if not len(outcome):
        return nothing
    # The ratio of each image after each of its detections, and by how much that changes it.
    start = pool.boxes.first_found[pool.image]

    def within(values: np.ndarray) -> np.ndarray:
        total = np.concatenate([[0], np.cumsum(values)])
        return np.asarray(total[1:] - total[start])

    pairs, counted = within(outcome == TRUE), within(outcome != NEITHER)
    union = objects[pool.image] + counted - pairs
    ratio = np.divide(pairs, union, out=np.zeros(len(pairs)), where=union > 0)
    before = np.where(pool.rank == 0, 0.0, np.concatenate([[0.0], ratio[:-1]]))
    joins = (objects[pool.image] == 0) & (counted == 1) & (outcome != NEITHER)

    order = pool.order
    total = np.cumsum((ratio - before)[order])
    among = (objects > 0).sum() + np.cumsum(joins[order])
    score = pool.score[order]
    ends = np.append(score[1:] != score[:-1], True) & (among > 0)
    if not ends.any():
        return nothing
    values = total[ends] / among[ends]
    best = int(values.argmax())
    return Jaccard(float(values[best]), float(score[ends][best]))
