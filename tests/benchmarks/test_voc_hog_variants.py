"""The variants of HOG that are compared: against `Hog`, against mirror images, and dense cells."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfseen.features.hog import Hog

FILE = Path(__file__).parents[2] / "benchmarks" / "voc" / "hog_variants.py"
make = runpy.run_path(str(FILE), run_name="hog_variants")["HogVariant"]


def level(height: int = 96, width: int = 96) -> np.ndarray:
    return np.random.default_rng(0).random((3, height, width)).astype(np.float32) * 255


@pytest.mark.parametrize("cell", [6, 8])
@pytest.mark.parametrize("border", [False, True])
def test_without_changes_it_is_hog(cell: int, border: bool) -> None:
    image = level(101, 133)
    variant, hog = make(cell, border=border), Hog(cell, border=border)
    np.testing.assert_allclose(variant(image), hog(image), atol=1e-6)
    assert variant.offset == hog.offset


@pytest.mark.parametrize(
    "options",
    [
        {"signed": True},
        {"side": 3},
        {"cell": 4, "size": 8},
        {"gamma": True, "epsilon": 30.0},
        {"border": True},
        {"border": True, "side": 3},
        {"border": True, "size": 8},
    ],
)
def test_grids_channels_and_mirror_images(options: dict[str, Any]) -> None:
    variant, image = make(**options), level()
    blocks = variant(image)
    assert blocks.shape == (*variant.grid(96, 96), variant.channels)
    turned = variant(np.ascontiguousarray(image[:, :, ::-1]))
    np.testing.assert_allclose(turned, blocks[:, ::-1][..., variant.mirror], atol=1e-5)
    norms = np.linalg.norm(blocks, axis=2)
    assert (norms <= 1 + 1e-5).all()
    assert (norms > 0.9).all()


def test_cells_summed_from_small_ones_are_nearly_those_of_the_pixels() -> None:
    image = level()
    dense, plain = make(4, 8)(image)[::2, ::2], make(8)(image)
    assert dense.shape == plain.shape
    assert np.corrcoef(dense.ravel(), plain.ravel())[0, 1] > 0.99
