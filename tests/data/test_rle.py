import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as oracle

from halfseen.data.limits import Limits
from halfseen.data.rle import area, as_mask, decode, encode, fill_polygons
from halfseen.errors import AnnotationError

# pycocotools' own decoder, on numpy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

masks = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40))


def theirs(mask: Any) -> dict[str, Any]:
    rle = oracle.encode(np.asfortranarray(mask, dtype=np.uint8))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


@settings(deadline=None)
@given(masks)
def test_encoding_equals_pycocotools_and_decodes_back(mask: Any) -> None:
    rle = encode(mask)
    assert rle == theirs(mask)
    np.testing.assert_array_equal(decode(rle), mask)
    assert area(rle) == mask.sum()


def test_long_runs_equal_pycocotools() -> None:
    mask = np.zeros((3000, 2000), dtype=bool)
    mask[17:2900, 1500] = True
    mask[:, 1700:1900] = True
    mask[2999, 1999] = True
    rle = encode(mask)
    assert rle == theirs(mask)
    np.testing.assert_array_equal(decode(rle), mask)
    np.testing.assert_array_equal(decode({**rle, "counts": rle["counts"].encode()}), mask)


@settings(deadline=None)
@given(masks)
def test_plain_counts(mask: Any) -> None:
    flat = mask.ravel(order="F")
    counts, value, run = [], False, 0
    for pixel in flat:
        if pixel != value:
            counts.append(run)
            value, run = pixel, 0
        run += 1
    rle = {"size": list(mask.shape), "counts": [*counts, run]}
    np.testing.assert_array_equal(decode(rle), mask)
    assert area(rle) == mask.sum()


def pycoco_fill(polygons: list[list[float]], height: int, width: int) -> Any:
    return oracle.decode(oracle.merge(oracle.frPyObjects(polygons, height, width))).astype(bool)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(0, 60), min_size=6, max_size=24).filter(lambda p: len(p) % 2 == 0),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 50),
    st.integers(1, 50),
)
def test_polygons_equal_pycocotools(polygons: list[list[float]], height: int, width: int) -> None:
    found = fill_polygons(polygons, (height, width))
    np.testing.assert_array_equal(found, pycoco_fill(polygons, height, width))


def test_polygons_around_the_image_equal_pycocotools() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        polygon = rng.uniform(-30, 80, 2 * rng.integers(3, 9)).round(rng.integers(0, 3)).tolist()
        found = fill_polygons([polygon], (45, 50))
        np.testing.assert_array_equal(found, pycoco_fill([polygon], 45, 50))


def test_a_rectangle_fills_its_pixels() -> None:
    mask = fill_polygons([[2, 1, 5, 1, 5, 4, 2, 4]], (6, 8))
    expected = np.zeros((6, 8), dtype=bool)
    expected[1:4, 2:5] = True
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize(
    "rle",
    [
        None,
        [],
        {},
        {"size": [3, 3]},
        {"size": [3], "counts": "09"},
        {"size": [3, -3], "counts": "09"},
        {"size": [3, 0], "counts": [0]},
        {"size": [3.0, 3], "counts": [9]},
        {"size": [True, 9], "counts": [9]},
        {"size": [3, 3], "counts": [8]},
        {"size": [3, 3], "counts": [10]},
        {"size": [3, 3], "counts": [10, -1]},
        {"size": [3, 3], "counts": [4.5, 4.5]},
        {"size": [3, 3], "counts": [10**30]},
        {"size": [3, 3], "counts": []},
        {"size": [3, 3], "counts": ""},
        {"size": [3, 3], "counts": "P"},
        {"size": [3, 3], "counts": " 9"},
        {"size": [3, 3], "counts": "oooooooooooo9"},
        {"size": [3, 3], "counts": "é"},
        {"size": [3, 3], "counts": 9},
        {"size": [10**6, 10**6], "counts": [10**12]},
    ],
)
def test_malformed_run_lengths_are_refused(rle: Any) -> None:
    for read in (decode, area):
        with pytest.raises(AnnotationError) as caught:
            read(rle)
        assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=40, max_codepoint=120), max_size=30))
def test_any_text_decodes_to_the_whole_mask_or_is_refused(text: str) -> None:
    with contextlib.suppress(AnnotationError):
        assert decode({"size": [4, 5], "counts": text}).shape == (4, 5)


@pytest.mark.parametrize(
    "polygon",
    [[1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, float("nan")], "abcdef", [[1, 2], [3, 4]],
     [1, 2, 3, 4, 5, None], [0, 0, 1e300, 0, 1e300, 1e300], [0, 0, 1e7, 0, 5, 5]],
)  # fmt: skip
def test_malformed_polygons_are_refused(polygon: Any) -> None:
    with pytest.raises(AnnotationError, match="polygon"):
        as_mask([polygon], (10, 10))


def test_sizes_are_bounded_and_must_agree() -> None:
    square = [[0, 0, 9, 0, 9, 9]]
    with pytest.raises(AnnotationError, match="exceed 50"):
        fill_polygons(square, (10, 10), Limits(pixels=50))
    with pytest.raises(AnnotationError, match=r"expected \[9, 9\]"):
        as_mask(encode(np.ones((3, 3), bool)), (9, 9))
    assert as_mask(square, (10, 10)).any()
    with pytest.raises(AnnotationError, match="expected a shape"):
        encode(np.ones(3, bool))
