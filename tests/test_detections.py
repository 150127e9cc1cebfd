"""Detections in words: the probability where it is known, else the score."""

from dataclasses import replace

import numpy as np
import pytest

from halfseen.detections import Detections
from tests.builders import make_found

SIZE = (50, 60)


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.874, "87%"), (0.9999, "99%"), (0.0001, "1%"), (float("nan"), "-0.14")],
)
def test_a_probability_is_a_percentage_that_promises_nothing(
    probability: float, expected: str
) -> None:
    found = make_found([[0, 0, 20, 20]], [-0.141], size=SIZE)
    known = replace(found, probability=np.array([probability]))
    assert known.describe(0).startswith(f"car {expected}, ")


def test_a_detection_is_described_with_what_is_seen() -> None:
    half = np.array([[True, False]])
    found = make_found([[0, 0, 20, 20]], [0.4], size=SIZE, flags=[half])
    assert found.describe(0) == "car 0.40, 50% seen"
    assert replace(found, probability=np.array([0.87])).describe(0) == "car 87%, 50% seen"


def test_strong_is_by_probability_where_it_is_known() -> None:
    found = make_found([[0, 0, 9, 9]] * 4, [0.3, -0.1, -0.1, 0.3], size=SIZE)
    assert found.strong().tolist() == [True, False, False, True]
    known = replace(found, probability=np.array([0.2, 0.8, np.nan, np.nan]))
    assert known.strong().tolist() == [False, True, False, True]
    assert known.strong(0.1).tolist() == [True, True, False, True]
    assert known.strong(-np.inf).all()


@pytest.mark.parametrize("name", ["score", "label", "component", "full", "model"])
def test_columns_of_another_shape_are_refused_at_once(name: str) -> None:
    found = make_found([[0, 0, 9, 9]] * 2, [0.3, -0.1], size=SIZE)
    wrong = getattr(found, name)[:, None]
    expected = rf"Detections: {name} must have shape \(2, ?4?\), found \(2, 1"
    with pytest.raises(ValueError, match=expected):
        replace(found, **{name: wrong})


@pytest.mark.parametrize("size", [(10**30, 9), (9, -1), (9,), (9, 9, 3)])
def test_a_size_that_is_none_is_refused_at_once(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"Detections: size must be \(height, width\)"):
        Detections.empty(size)
