"""Learning the mask head from the boxes of drawn scenes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.scenes import render_scenes
from halfseen.learn.masks import MaskSettings, learn_masks
from halfseen.model.mixture import Mixture

SHIPPED = Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors"


@cache
def headless() -> Mixture:
    return hs.load(SHIPPED)


def test_too_few_objects_leave_the_model_without_a_head() -> None:
    assert learn_masks(render_scenes(1, seed=1, classes=["car"]), headless()).head is None


def test_the_same_seed_gives_the_same_head() -> None:
    lessons = render_scenes(16, seed=31, classes=["car"])
    settings = MaskSettings(windows=40, folds=2)
    first, second = (learn_masks(lessons, headless(), settings).head for _ in range(2))
    if first is None or second is None:
        pytest.fail("the scenes hold too few whole cars")
    for ours, theirs in zip(first.weights + first.bias, second.weights + second.bias, strict=True):
        np.testing.assert_array_equal(ours, theirs)
