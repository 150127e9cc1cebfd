"""The Jaccard index against the definition, tried at every score with scipy's matching."""

import math
import time

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from halfseen.detections import Detections
from halfseen.evaluate.jaccard import jaccard_index
from halfseen.evaluate.pool import Pool
from halfseen.geometry import iou_matrix
from halfseen.ground_truth import GroundTruth
from tests.builders import make_found, make_truth

SIZE = (300, 300)


def slow_index(truths: list[GroundTruth], founds: list[Detections]) -> float:
    """Without ignored regions: the mean over images of the best matching's ratio, best score."""
    best = 0.0
    for score in {float(value) for found in founds for value in found.score}:
        ratios = []
        for truth, found in zip(truths, founds, strict=True):
            boxes = found.full[found.score >= score]
            pairs = 0
            if len(boxes) and len(truth):
                edges = csr_matrix(iou_matrix(boxes, truth.box) >= 0.5)
                pairs = int((maximum_bipartite_matching(edges, perm_type="column") >= 0).sum())
            if len(boxes) or len(truth):
                ratios.append(pairs / (len(boxes) + len(truth) - pairs))
        best = max(best, float(np.mean(ratios)))
    return best


@pytest.mark.parametrize("seed", range(10))
def test_against_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truths, founds = [], []
    for k in range(15):
        corner = rng.uniform(0, 60, (int(rng.integers(0, 7)), 2))
        true = np.hstack([corner, corner + rng.uniform(30, 60, corner.shape)])
        truths.append(make_truth(true, f"{k}", size=SIZE))
        boxes = np.repeat(true, 3, axis=0) + rng.normal(0, 5, (3 * len(true), 4))
        boxes = np.vstack([boxes, [[200, 200, 230, 240]]])
        founds.append(make_found(boxes, np.round(rng.random(len(boxes)), 2), size=SIZE))
    ours = jaccard_index(Pool.of(truths, founds, "car", "as given"))
    assert ours.value == pytest.approx(slow_index(truths, founds), abs=1e-12)


def test_a_detection_moves_to_let_another_in() -> None:
    """The first detection fits both boxes, the second only the one that the first would take."""
    truth = make_truth([(0, 0, 100, 100), (30, 0, 130, 100)], size=SIZE)
    found = make_found([(10, 0, 110, 100), (0, 0, 100, 60)], size=SIZE)
    assert jaccard_index(Pool.of([truth], [found], "car", "as given")).value == 1.0


def test_what_is_left_over_in_an_ignored_region_is_not_counted() -> None:
    truth = make_truth([(0, 0, 50, 50), (100, 0, 300, 300)], size=SIZE, ignore=[False, True])
    found = make_found([(0, 0, 50, 50), (120, 50, 160, 150), (200, 50, 240, 150)], size=SIZE)
    assert jaccard_index(Pool.of([truth], [found], "car", "as given")).value == 1.0


def test_the_best_score_is_chosen() -> None:
    truth = make_truth([(0, 0, 50, 50)], size=SIZE)
    found = make_found([(0, 0, 50, 50), (100, 0, 150, 50)], [0.7, 0.2], size=SIZE)
    index = jaccard_index(Pool.of([truth], [found], "car", "as given"))
    assert (index.value, index.score) == (1.0, 0.7)


def test_nothing_to_find_and_nothing_found() -> None:
    none, one = make_truth([], size=SIZE), make_truth([(0, 0, 50, 50)], size=SIZE)
    empty = Detections.empty(SIZE)
    assert math.isnan(jaccard_index(Pool.of([none], [empty], "car", "as given")).value)
    assert jaccard_index(Pool.of([one], [empty], "car", "as given")).value == 0.0
    alarm = make_found([(0, 0, 50, 50)], size=SIZE)
    assert jaccard_index(Pool.of([none], [alarm], "car", "as given")).value == 0.0


def test_thousands_of_equal_boxes_take_no_time() -> None:
    """Each detection would have to move all before it, or be looked for among all in vain."""
    boxes = [(0, 0, 50, 50)] * 4000
    truth = make_truth(boxes[:2000], size=SIZE)
    found = make_found(boxes, size=SIZE)
    pool = Pool.of([truth], [found], "car", "as given")
    jaccard_index(Pool.of([truth[:1]], [found[:1]], "car", "as given"))
    start = time.process_time()
    assert jaccard_index(pool).value == 1.0
    assert time.process_time() - start < 2
