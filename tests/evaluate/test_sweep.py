"""The occlusion sweep: what is pasted, and what is made of the detections."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.blocks import BlockCounts
from halfseen.evaluate.sweep import (
    SHARES,
    cover_objects,
    paste_occluders,
    summarise_sweep,
    sweep_image,
)
from tests.builders import make_found, make_truth

SIZE = (60, 80)
GREY = np.full((*SIZE, 3), 128, np.uint8)
TEXTURES = [np.full((30, 40, 3), value, np.uint8) for value in (10, 200, 250)]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(SHARES), st.integers(-5, 60), st.integers(-5, 40),
    st.integers(8, 60), st.integers(8, 50),
)  # fmt: skip
def test_share_of_the_box_is_covered(
    seed: int, share: float, x: int, y: int, wide: int, high: int
) -> None:
    box = np.array([x, y, x + wide, y + high], float)
    rng = np.random.default_rng(seed)
    pasted, mask = paste_occluders(GREY, box, share, TEXTURES, rng)
    x1, y1 = max(x, 0), max(y, 0)
    inner = mask[y1 : y + high, x1 : x + wide]
    assert abs(inner.mean() - share) <= 0.5 / inner.size + 1e-12
    assert np.array_equal((pasted != GREY).any(axis=2), mask)  # changed there, and only there
    beyond = mask.copy()
    beyond[max(y1 - 9, 0) : y + high + 9, max(x1 - 10, 0) : x + wide + 10] = False
    assert not beyond.any()


def test_pasted_pixels_are_of_one_texture() -> None:
    rng = np.random.default_rng(0)
    textures = [rng.integers(0, 100, (20, 20, 3), np.uint8),
                rng.integers(150, 255, (90, 90, 3), np.uint8)]  # fmt: skip
    values: dict[int, set[int]] = {0: set(), 1: set()}
    for seed in range(20):
        pasted, mask = paste_occluders(
            GREY, (10, 10, 70, 50), 0.4, textures, np.random.default_rng(seed)
        )
        new = pasted[mask]
        which = int(new.min() >= 150)
        values[which].add(seed)
        known = {tuple(pixel) for pixel in textures[which].reshape(-1, 3)}
        assert {tuple(pixel) for pixel in new} <= known
    assert values[0]
    assert values[1]


def test_same_seed_same_picture_and_larger_shares_contain_smaller() -> None:
    for seed in range(30):
        results = [
            paste_occluders(GREY, (10, 5, 60, 50), share, TEXTURES, np.random.default_rng(seed))
            for share in (0.2, 0.2, 0.4, 0.6)
        ]
        assert np.array_equal(results[0][0], results[1][0])
        for smaller, larger in itertools.pairwise(results):
            assert (larger[1] | ~smaller[1]).all()
            assert np.array_equal(larger[0][smaller[1]], smaller[0][smaller[1]])


def test_the_given_image_is_not_touched() -> None:
    image = GREY.copy()
    paste_occluders(image, (10, 5, 60, 50), 0.4, TEXTURES, np.random.default_rng(0))
    assert np.array_equal(image, GREY)


@pytest.mark.parametrize(
    ("box", "share", "textures", "message"),
    [
        ((0, 0, 9, 9), 1.0, TEXTURES, "below 1"),
        ((0, 0, 9, 9), -0.1, TEXTURES, "at least 0"),
        ((0, 0, 9, 9), 0.2, [], "no textures"),
        ((90, 0, 99, 9), 0.2, TEXTURES, "no pixel"),
    ],
)
def test_wrong_use(
    box: tuple[float, ...], share: float, textures: list[NDArray[np.uint8]], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        paste_occluders(GREY, box, share, textures, np.random.default_rng(0))


def test_the_texture_replaces_what_it_covers() -> None:
    rng = np.random.default_rng(3)
    pasted, mask = paste_occluders(GREY, (10, 5, 60, 50), 0.4, TEXTURES[:1], rng)
    assert set(np.unique(pasted)) == {10, 128}
    assert np.array_equal(pasted[:, :, 0] == 10, mask)


def two_cars(image: str = "a", **flags: Any) -> GroundTruth:
    return make_truth([(0, 0, 20, 40), (40, 0, 60, 40)], image, size=SIZE, **flags)


def test_only_whole_objects_are_covered() -> None:
    _, mask = cover_objects(GREY, two_cars(truncated=[False, True]), "car", 0.4, TEXTURES, 0)
    assert mask[0:40, 0:20].mean() == pytest.approx(0.4)
    assert not mask[:, 40:].any()
    _, mask = cover_objects(GREY, two_cars(), "bus", 0.4, TEXTURES, 0)
    assert not mask.any()


def test_images_get_occluders_of_their_own() -> None:
    first, second = (
        cover_objects(GREY, two_cars(image=name), "car", 0.4, TEXTURES, 0)[1] for name in "ab"
    )
    assert not np.array_equal(first, second)


def test_sweep_of_a_detector_that_sees_the_paste() -> None:
    """Black squares tell the truth, so one method knows the hidden blocks; the other knows nothing.

    The knowing method's blocks of 5 x 5 pixels are hidden where more than half is black, and it
    loses an object of which more than half is: recall falls with the share, accuracy is perfect.
    """
    truths = [two_cars("a"), two_cars("b", truncated=[False, True]),
              GroundTruth.make("c", "", SIZE, [], [])]  # fmt: skip
    black = [np.zeros((50, 50, 3), np.uint8)]
    calls = []

    def detect(image: NDArray[np.uint8]) -> dict[str, Detections]:
        calls.append(1)
        flags, boxes = [], []
        for x in (0, 40):
            dark = (image[0:40, x : x + 20, 0] == 0).reshape(8, 5, 4, 5).mean(axis=(1, 3))
            if dark.mean() < 0.5:
                boxes.append((x, 0, x + 20, 40))
                flags.append(dark <= 0.5)
        clutter = [*boxes, (60, 45, 80, 60)]
        return {
            "knows": make_found(clutter, size=SIZE, flags=[*flags, np.ones((8, 4), bool)]),
            "box": make_found(clutter, size=SIZE, flags=[np.ones((8, 4), bool)] * len(clutter)),
        }

    swept = [sweep_image(GREY, here, "car", detect, black, (0, 0.4, 0.6)) for here in truths]
    points = summarise_sweep(truths, swept, "car")
    table = {(point.method, point.share): point for point in points}
    assert len(table) == 6
    assert len(calls) == 3 + 3 + 1  # the image without an object is detected once
    for method in ("knows", "box"):
        assert [table[method, s].recall for s in (0, 0.4, 0.6)] == [1.0, 1.0, 0.0]
        assert table[method, 0].ap.positives == 3
        assert table[method, 0.6].ap.ap == 0.0
    assert table["knows", 0.4].blocks.balanced_accuracy == 1.0
    assert table["box", 0.4].blocks.balanced_accuracy == 0.5
    assert table["knows", 0].blocks == BlockCounts(visible_kept=3 * 32, objects=3)
    assert table["knows", 0.4].blocks.objects == 3


def test_sweep_of_no_images() -> None:
    assert summarise_sweep([], [], "car") == []
