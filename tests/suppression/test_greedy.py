"""Greedy suppression against a direct loop, and the Interpretation that every method returns."""

from functools import partial

import numpy as np
import pytest

import halfseen
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppression import Interpretation, suppress
from tests.builders import greedy_by_loop, make_found, random_detections

SIZE = (120, 160)
detections = partial(make_found, size=SIZE)


def greedy(found: Detections, overlap: float = 0.4) -> Interpretation:
    return suppress(found, "greedy", overlap=overlap)


def test_greedy_matches_the_loop() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        found = random_detections(rng, int(rng.integers(0, 30)))
        overlap = float(rng.choice([0, 0.2, 0.4, 1]))
        kept = greedy(found, overlap)
        assert set(kept.indices) == set(greedy_by_loop(found, overlap))
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
    assert kept.settings == {"overlap": 0.5, "measure": "lower"}
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
    with pytest.raises(SettingsError, match=r"one of .*greedy.*'gredy'; did you mean 'greedy'\?"):
        suppress(found, "gredy")
    with pytest.raises(SettingsError, match="greedy suppression has no setting 'overlp'; did you"):
        suppress(found, "greedy", overlp=1)
    with pytest.raises(SettingsError, match="has no setting 'eta'; known: measure, overlap"):
        suppress(found, "greedy", eta=1)
    for wrong in (np.zeros(2), "0.5", None, True, [0.5]):
        with pytest.raises(SettingsError, match="overlap must be a number, found"):
            suppress(found, "greedy", overlap=wrong)
    with pytest.raises(SettingsError, match=r"method must be one of .*, found '3'"):
        suppress(found, 3)  # type: ignore[arg-type]
    assert len(suppress(found, "greedy", overlap=np.float32(0.5))) == 1


def test_arrays_are_shown_the_right_door() -> None:
    with pytest.raises(SettingsError, match=r"found ndarray; .*hs\.suppress_boxes"):
        suppress(np.zeros((2, 4)), [0.5, 0.4])  # type: ignore[arg-type]


def test_the_package_is_callable() -> None:
    found = detections([[0, 0, 5, 5]], [1])
    assert len(halfseen.suppress(found, method="greedy")) == 1
