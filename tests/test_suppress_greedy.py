"""Greedy suppression against a direct loop, and the Interpretation that every method returns."""

import numpy as np
import pytest

import halfseen
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppress import greedy, suppress

SIZE = (120, 160)


def detections(boxes: object, score: object, label: object = "car") -> Detections:
    """Detections whose windows are their boxes, all visible."""
    array = np.asarray(boxes, dtype=float).reshape(-1, 4)
    count = len(array)
    return Detections(
        np.asarray(score, dtype=float), np.broadcast_to(np.asarray(label), count).astype(np.str_),
        np.zeros(count, np.int64), np.zeros(count, bool), array, array, array,
        tuple(np.ones((4, 6), bool) for _ in range(count)), SIZE,
    )  # fmt: skip


def random_detections(rng: np.random.Generator, count: int) -> Detections:
    corner = rng.uniform(-20, 100, (count, 2))
    boxes = np.hstack([corner, corner + rng.uniform(10, 60, (count, 2))])
    return detections(boxes, rng.integers(0, 8, count) / 4, rng.choice(["car", "bus"], count))


def loop(found: Detections, overlap: float) -> list[int]:
    """Felzenszwalb's rule, pair by pair."""
    boxes = found.clipped
    order = sorted(range(len(found)), key=lambda i: (-found.score[i], *boxes[i]))
    kept: list[int] = []
    for i in order:
        x1, y1, x2, y2 = boxes[i]
        own = max((x2 - x1) * (y2 - y1), 1e-300)
        worst = 0.0
        for k in kept:
            if found.label[k] == found.label[i]:
                wide = min(x2, boxes[k, 2]) - max(x1, boxes[k, 0])
                high = min(y2, boxes[k, 3]) - max(y1, boxes[k, 1])
                worst = max(worst, max(wide, 0) * max(high, 0) / own)
        if worst <= overlap:
            kept.append(i)
    return kept


def test_greedy_matches_the_loop() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        found = random_detections(rng, int(rng.integers(0, 30)))
        overlap = float(rng.choice([0, 0.2, 0.4, 1]))
        kept = greedy(found, overlap)
        assert set(kept.indices) == set(loop(found, overlap))
        assert (np.diff(kept.rank) <= 0).all()
        np.testing.assert_array_equal(kept.rank, found.score[kept.indices])


def test_the_order_of_candidates_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        found = random_detections(rng, 20)
        shuffle = rng.permutation(20)
        kept = shuffle[greedy(found[shuffle]).indices]
        np.testing.assert_array_equal(kept, greedy(found).indices)


def test_the_overlap_is_over_the_lower_box() -> None:
    small_inside = detections([[0, 0, 100, 100], [10, 10, 30, 30]], [2, 1])
    assert list(greedy(small_inside).indices) == [0]
    large_around = detections([[0, 0, 100, 100], [10, 10, 30, 30]], [1, 2])
    assert list(greedy(large_around).indices) == [1, 0]


def test_why() -> None:
    found = detections([[0, 0, 10, 10], [2, 0, 12, 10], [50, 50, 60, 60]], [1, 2, 3])
    kept = suppress(found, "greedy", overlap=0.5)
    assert list(kept.indices) == [2, 1]
    assert str(kept.why(0)) == "excluded by detection 1, overlap 0.80"
    assert kept.why(2).kind == "kept"
    assert list(kept.kept) == [False, True, True]
    assert kept.settings == {"overlap": 0.5}
    with pytest.raises(SettingsError, match="one of 3 detections"):
        kept.why(3)


def test_labels_do_not_suppress_each_other() -> None:
    found = detections([[0, 0, 10, 10], [0, 0, 10, 10]], [1, 2], ["car", "bus"])
    assert len(greedy(found)) == 2


def test_empty_and_one() -> None:
    assert len(greedy(Detections.empty(SIZE))) == 0
    assert list(greedy(detections([[0, 0, 5, 5]], [1])).indices) == [0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_must_be_finite(value: float) -> None:
    found = detections([[0, 0, 5, 5], [0, 0, 6, 6]], [1, value])
    with pytest.raises(SettingsError, match="at detection 1"):
        greedy(found)


def test_wrong_settings() -> None:
    found = detections([[0, 0, 5, 5]], [1])
    with pytest.raises(SettingsError, match=r"between 0 and 1, found 1\.5"):
        greedy(found, 1.5)
    with pytest.raises(SettingsError, match=r"one of .*greedy.*'gredy'"):
        suppress(found, "gredy")
    with pytest.raises(SettingsError, match="unexpected keyword argument 'eta'"):
        suppress(found, "greedy", eta=1)


def test_the_package_is_callable() -> None:
    found = detections([[0, 0, 5, 5]], [1])
    assert len(halfseen.suppress(found, method="greedy")) == 1
