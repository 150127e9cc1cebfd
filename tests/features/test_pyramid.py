"""Resizing against a dense matrix, and the sizes of the pyramid."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfseen.errors import SettingsError
from halfseen.features.pyramid import Level, PyramidSettings, plan_levels, resize


def levels(image: Any, settings: PyramidSettings, least: int) -> Iterator[Level]:
    """The levels of at least so many rows."""
    plans = plan_levels(image, settings)
    return (plan.make() for plan in takewhile(lambda plan: plan.size[0] >= least, plans))


def dense(old: int, new: int) -> NDArray[np.float64]:
    """(new, old): the share of each old pixel in each new one, by the definition."""
    matrix = np.zeros((new, old))
    for i in range(new):
        if new >= old:
            centre = min(max((i + 0.5) * old / new - 0.5, 0), old - 1)
            for k in range(old):
                matrix[i, k] = max(0.0, 1 - abs(centre - k))
        else:
            low, high = i * old / new, (i + 1) * old / new
            for k in range(old):
                matrix[i, k] = max(0.0, min(high, k + 1) - max(low, k)) * new / old
    return matrix


def picture(seed: int, channels: int, height: int, width: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (255 * rng.random((channels, height, width))).astype(np.float32)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40),
    st.sampled_from([1, 3]),
)  # fmt: skip
def test_resize_is_the_dense_matrix(
    height: int, width: int, rows: int, cols: int, channels: int
) -> None:
    source = picture(1, channels, height, width)
    expected = dense(height, rows) @ source.astype(np.float64) @ dense(width, cols).T
    result = resize(source, (rows, cols))
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result, expected, atol=1e-3)


@pytest.mark.parametrize("size", [(50, 70), (99, 13), (60, 140), (1, 1), (37, 53)])
def test_shrinking_keeps_the_mean(size: tuple[int, int]) -> None:
    source = picture(2, 3, 120, 141)
    result = resize(source, size)
    np.testing.assert_allclose(result.mean((1, 2)), source.mean((1, 2), np.float64), rtol=1e-5)


@pytest.mark.parametrize("size", [(50, 70), (240, 300), (30, 300), (1, 1), (97, 101)])
def test_a_constant_stays_constant(size: tuple[int, int]) -> None:
    result = resize(np.full((3, 97, 101), 200, np.float32), size)
    np.testing.assert_allclose(result, 200, rtol=1e-6)


def test_the_same_size_is_the_same_picture() -> None:
    source = picture(3, 3, 20, 30)
    np.testing.assert_array_equal(resize(source, (20, 30)), source)


def test_a_linear_ramp_stays_linear_when_enlarged() -> None:
    source = np.tile(np.arange(20, dtype=np.float32), (1, 6, 1))
    result = resize(source, (6, 40))
    np.testing.assert_allclose(np.diff(result[0, 0, 2:-2]), 0.5, atol=1e-5)


def test_resize_mirrors() -> None:
    source = picture(4, 1, 33, 47)
    for size in ((20, 31), (60, 71), (11, 13)):
        flipped = resize(np.ascontiguousarray(source[..., ::-1]), size)
        np.testing.assert_allclose(flipped[..., ::-1], resize(source, size), atol=1e-3)


def test_sizes_fall_by_the_factor_down_to_one_pixel() -> None:
    sizes = list(PyramidSettings(1.2, 2.0).sizes((375, 500)))
    assert sizes[0] == (750, 1000)
    for k, (height, width) in enumerate(sizes):
        assert height == round(750 / 1.2**k)
        assert width == round(1000 / 1.2**k)
    assert sizes[-1][0] == 1 > round(750 / 1.2 ** len(sizes))
    assert len(list(PyramidSettings().sizes((3, 3)))) < 20


def test_levels_carry_their_own_scale() -> None:
    rng = np.random.default_rng(5)
    image = rng.integers(0, 256, (60, 91, 3), np.uint8)
    found = list(levels(image, PyramidSettings(1.3, 2.0), 8))
    sizes = PyramidSettings(1.3, 2.0).sizes((60, 91))
    assert [level.pixels.shape[1:] for level in found] == [s for s in sizes if s[0] >= 8]
    for level in found:
        channels, height, width = level.pixels.shape
        assert channels == 3
        assert level.pixels.flags.c_contiguous
        assert (level.scale_y, level.scale_x) == (height / 60, width / 91)
    for level in found:
        if level.scale_x <= 1 and level.scale_y <= 1:
            np.testing.assert_allclose(level.pixels.mean((1, 2)), image.mean((0, 1)), rtol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 4, 7])
def test_a_pyramid_that_begins_later_has_the_same_levels(steps: int) -> None:
    rng = np.random.default_rng(8)
    image = rng.integers(0, 256, (95, 131, 3), np.uint8)
    whole, largest = PyramidSettings(1.2, 2.0), 2.0
    for _ in range(steps):
        largest /= 1.2
    later = PyramidSettings(1.2, largest)
    assert whole.find(later) == steps
    expected = list(levels(image, whole, 6))[steps:]
    found = list(levels(image, later, 6))
    assert len(found) == len(expected) > 6
    for one, other in zip(found, expected, strict=True):
        assert (one.scale_x, one.scale_y) == (other.scale_x, other.scale_y)
        np.testing.assert_array_equal(one.pixels, other.pixels)
    assert later.find(whole) is (0 if steps == 0 else None)
    assert whole.find(PyramidSettings(1.2, 1.0)) is None
    assert whole.find(PyramidSettings(1.3, largest)) is None


def test_a_level_at_scale_one_is_the_image() -> None:
    rng = np.random.default_rng(6)
    image = rng.integers(0, 256, (24, 40, 3), np.uint8)
    first = next(levels(image, PyramidSettings(1.2, 1.0), 1))
    np.testing.assert_array_equal(first.pixels, image.transpose(2, 0, 1))


def test_small_levels_do_not_alias() -> None:
    """A chequerboard averages out: no level that shrinks it by 2 or more may show a pattern."""
    image = np.zeros((128, 128, 1), np.uint8)
    image[::2, ::2] = image[1::2, 1::2] = 255
    for level in levels(image, PyramidSettings(1.2, 0.5), 4):
        assert np.abs(level.pixels - 127.5).max() < 16


@pytest.mark.parametrize(
    ("factor", "largest"), [(1.0, 1), (5, 1), (1.2, 0.05), (1.2, 3), (float("nan"), 1)]
)
def test_settings_out_of_range_are_refused(factor: float, largest: float) -> None:
    with pytest.raises(SettingsError, match="must be between"):
        PyramidSettings(factor, largest)
