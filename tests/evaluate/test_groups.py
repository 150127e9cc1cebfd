"""Groups of objects by what annotations say of them."""

from typing import Any

import numpy as np
import pytest

from halfseen.errors import SettingsError
from halfseen.evaluate.groups import group_objects
from tests.builders import make_truth

SIZE = (300, 300)
BOXES = [(0, 0, 10, 10), (20, 0, 70, 50), (100, 100, 250, 250), (110, 100, 260, 250)]


def members(by: str, **columns: Any) -> dict[str, list[int]]:
    truth = make_truth(BOXES, size=SIZE, **columns)
    groups = group_objects([truth], by, "car")
    return {name: np.flatnonzero(group[0]).tolist() for name, group in groups.items()}


def test_by_visible_fraction() -> None:
    found = members("visible", visible_fraction=[0.25, 0.5, 1.0, np.nan])
    assert found == {"25-50% visible": [0], "50-75% visible": [1], "75-100% visible": [2]}


def test_by_occlusion_levels_else_flags() -> None:
    assert members("occluded", level=[0, 2, -1, 2]) == {"visible": [0], "largely occluded": [1, 3]}
    flags = [True, False, False, True]
    assert members("occluded", occluded=flags) == {"not occluded": [1, 2], "occluded": [0, 3]}


def test_by_truncation_shares_else_flags() -> None:
    found = members("truncated", truncation=[0, 0.2, 0.9, np.nan])
    assert found == {"0-15% truncated": [0], "15-30% truncated": [1], "50-100% truncated": [2]}
    assert members("truncated", truncated=[1, 0, 0, 0])["truncated"] == [0]


def test_by_size_as_annotated_else_of_the_box() -> None:
    assert members("size") == {"small": [0], "medium": [1], "large": [2, 3]}
    assert members("size", area=[np.nan, 100, np.nan, np.nan])["small"] == [0, 1]


def test_by_crowding() -> None:
    found = members("crowd")
    assert found["alone"] == [0, 1]
    assert found["IoU above 0.4"] == [2, 3]
    assert "IoU above 0" not in members("crowd", crowd=[False, False, False, True])


def test_what_annotations_do_not_say() -> None:
    for by in ("visible", "occluded", "truncated"):
        with pytest.raises(SettingsError, match=f"do not say by what '{by}'"):
            members(by)
    with pytest.raises(SettingsError, match="can be grouped by visible, occluded"):
        members("colour")
