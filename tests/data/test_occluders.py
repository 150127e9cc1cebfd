"""Shapes of occluders, and pixels beyond the image."""

from typing import Literal

import numpy as np
import pytest

from halfseen.data.occluders import SHAPES, cut_out, draw_shape


@pytest.mark.parametrize("rows_first", [False, True])
def test_shapes_against_a_plain_loop(rows_first: bool) -> None:
    y, x = np.linspace(-0.1, 1.1, 7), np.linspace(-0.2, 1.2, 9)
    drawn = set()
    for seed in range(30):
        found = draw_shape(
            y[:, None], x[None, :], np.random.default_rng(seed), rows_first=rows_first
        )
        rng = np.random.default_rng(seed)
        shape = SHAPES[rng.integers(3)]
        drawn.add(shape)
        expected = np.empty((7, 9))
        if shape == "rectangle":
            first, second = rng.random(2)
            aspect = np.exp(rng.uniform(-0.7, 0.7))
            cx, cy = (second, first) if rows_first else (first, second)
        elif shape == "blob":
            centres, radii = rng.random((4, 2)), rng.uniform(0.5, 1.0, 4)
        else:
            angle, period, phase = rng.normal(0, 0.3), rng.uniform(0.5, 1.2), rng.random()
            swapped = rng.random() < 0.3
        for i, j in np.ndindex(7, 9):
            if shape == "rectangle":
                expected[i, j] = max(abs(x[j] - cx) * aspect, abs(y[i] - cy) / aspect)
            elif shape == "blob":
                expected[i, j] = min(
                    np.hypot(x[j] - c[0], y[i] - c[1]) / r
                    for c, r in zip(centres, radii, strict=True)
                )
            else:
                a, b = (y[i], x[j]) if swapped else (x[j], y[i])
                along = (a * np.cos(angle) + b * np.sin(angle)) / period + phase
                expected[i, j] = abs(along % 1 - 0.5)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert drawn == set(SHAPES)


@pytest.mark.parametrize("mode", ["edge", "symmetric"])
def test_pixels_beyond_the_image_continue_it(mode: Literal["edge", "symmetric"]) -> None:
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    wide = np.pad(image, ((40, 40), (40, 40), (0, 0)), mode)
    for low, high in (
        ([2, 3], [9, 30]),
        ([-7, -9], [4, 8]),
        ([15, 2], [38, 45]),
        ([-5, 40], [3, 50]),
    ):
        part = cut_out(image, np.array(low), np.array(high), mode)
        rows, cols = (slice(40 + low[k], 40 + high[k]) for k in (0, 1))
        np.testing.assert_array_equal(part, wide[rows, cols])
