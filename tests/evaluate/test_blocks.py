"""Hidden blocks: exact shares, the truth of a block, and what is counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.blocks import (
    BlockCounts,
    BlockTruth,
    block_shares,
    count_blocks,
    covered_blocks,
    neighbour_blocks,
    neighbour_counts,
    whole_counts,
)
from halfseen.evaluate.voc_ap import match
from tests.builders import make_found

SIZE = (8, 12)


def shares_by_counting(
    mask: NDArray[np.bool_],
    window: tuple[float, ...],
    shape: tuple[int, int],
    box: tuple[float, ...],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut every pixel into 8 x 8 pieces and count, for corners that are eighths of a pixel."""
    fine = 8
    counts, room = np.zeros(shape), np.zeros(shape)
    x1, y1, x2, y2 = (round(v * fine) for v in window)
    bx1, by1, bx2, by2 = (round(v * fine) for v in box)
    for y in range(y1, y2):
        for x in range(x1, x2):
            in_image = 0 <= y < mask.shape[0] * fine and 0 <= x < mask.shape[1] * fine
            if in_image and bx1 <= x < bx2 and by1 <= y < by2:
                block = (y - y1) * shape[0] // (y2 - y1), (x - x1) * shape[1] // (x2 - x1)
                room[block] += 1
                counts[block] += mask[y // fine, x // fine]
    area = (x2 - x1) * (y2 - y1) / (shape[0] * shape[1])
    return np.divide(counts, room, out=np.zeros(shape), where=room > 0), room / area


eighth = st.integers(-16, 64).map(lambda n: n / 8)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(eighth, eighth), st.tuples(eighth, eighth), st.integers(1, 8), st.integers(1, 8),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_shares_are_exact_areas(
    at: tuple[float, float], box_at: tuple[float, float], wide: int, high: int, seed: int
) -> None:
    mask = np.random.default_rng(seed).random(SIZE) < 0.5
    shape = (2, 3)
    window = (*at, at[0] + 3 * wide / 4, at[1] + 2 * high / 4)  # blocks of whole eighths
    box = (*box_at, box_at[0] + 4, box_at[1] + 5)
    covered, inside = block_shares(mask, window, shape, box)
    slow_covered, slow_inside = shares_by_counting(mask, window, shape, box)
    assert covered == pytest.approx(slow_covered, abs=1e-12)
    assert inside == pytest.approx(slow_inside, abs=1e-12)


def test_covered_by_more_than_half() -> None:
    occluder = np.zeros(SIZE, bool)
    occluder[0:2, 0:4] = True  # half of the first block, all of none
    occluder[0:3, 4:8] = True  # three quarters of the second
    truth = covered_blocks(occluder, (0, 0, 12, 8), (2, 3), (0, 0, 12, 8))
    assert truth.hidden.tolist() == [[False, True, False], [False] * 3]
    assert truth.counted.all()


def test_blocks_mostly_outside_box_or_image_are_not_counted() -> None:
    nothing = np.zeros(SIZE, bool)
    beside = covered_blocks(nothing, (0, 0, 12, 8), (2, 3), (3, 0, 10, 8))
    assert beside.counted.tolist() == [[False, True, True]] * 2  # a quarter, all, a half inside
    outside = covered_blocks(nothing, (-8, 0, 4, 8), (2, 3), (-8, 0, 4, 8))
    assert outside.counted.tolist() == [[False, False, True]] * 2


def test_counts_and_their_ratios() -> None:
    truth = BlockTruth(
        np.array([[True, True, False, False, True]]), np.array([[True, True, True, True, False]])
    )
    counts = count_blocks(np.array([[False, True, True, False, False]]), truth)
    assert counts == BlockCounts(1, 1, 1, 1, 1)
    total = counts + BlockCounts(hidden_found=2, visible_kept=4, objects=1)
    assert total == BlockCounts(3, 1, 5, 1, 2)
    assert total.recall == 3 / 4
    assert total.precision == 3 / 4
    assert total.f1 == 3 / 4
    assert total.false_hidden_share == 1 / 6
    assert total.balanced_accuracy == pytest.approx((3 / 4 + 5 / 6) / 2)


def test_ratios_without_blocks_are_not_numbers() -> None:
    assert math.isnan(BlockCounts().balanced_accuracy)
    assert math.isnan(BlockCounts(visible_kept=3).balanced_accuracy)
    assert BlockCounts(visible_kept=3).false_hidden_share == 0.0


def test_constant_answers_score_one_half() -> None:
    truth = BlockTruth(np.array([[True, False, False]]), np.ones((1, 3), bool))
    for answer in (True, False):
        assert count_blocks(np.full((1, 3), answer), truth).balanced_accuracy == 0.5


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="truth of"):
        count_blocks(
            np.ones((2, 2), bool), BlockTruth(np.ones((1, 3), bool), np.ones((1, 3), bool))
        )


def make_pair() -> GroundTruth:
    """Object 0 shows on the left, object 1 covers its right; the middle is background."""
    masks = np.zeros((2, *SIZE), bool)
    masks[0, :, 0:4] = True
    masks[1, :, 8:12] = True
    return GroundTruth.make(
        "a", "", SIZE, ["car", "bus"], [(0, 0, 12, 8), (8, 0, 12, 8)], occluded=[True, False],
        read_mask=lambda i: masks[i],
    )  # fmt: skip


def found_with(flags: object) -> Detections:
    return make_found([(0, 0, 12, 8)], size=SIZE, flags=[np.array(flags)])


def test_neighbour_hides_what_it_covers() -> None:
    truth = neighbour_blocks(make_pair(), 0, (0, 0, 12, 8), (2, 3))
    assert truth is not None
    assert truth.hidden.tolist() == [[False, False, True]] * 2
    assert truth.counted.tolist() == [[True, False, True]] * 2


def test_blocks_that_both_share_are_not_counted() -> None:
    masks = np.zeros((2, *SIZE), bool)
    masks[0, :, 0:5] = True  # a quarter of the middle blocks
    masks[1, :, 5:12] = True  # the rest of them, and the right ones
    pair = GroundTruth.make("a", "", SIZE, ["car"] * 2, [(0, 0, 12, 8), (5, 0, 12, 8)],
                            read_mask=lambda i: masks[i])  # fmt: skip
    truth = neighbour_blocks(pair, 0, (0, 0, 12, 8), (2, 3))
    assert truth is not None
    assert truth.hidden.tolist() == [[False, False, True]] * 2
    assert truth.counted.tolist() == [[True, False, True]] * 2


def test_neighbour_counts() -> None:
    found = found_with([[True, True, False], [False, True, False]])
    counts = neighbour_counts([make_pair()], [found], match([make_pair()], [found], "car"))
    assert counts == BlockCounts(2, 0, 1, 1, 1)


def test_objects_without_a_hiding_neighbour_are_left_out() -> None:
    truth = make_pair()[[0]]
    found = found_with([[True, True, False]] * 2)
    matches = match([truth], [found], "car")
    assert neighbour_counts([truth], [found], matches) == BlockCounts()
    in_front = replace(make_pair(), occluded=np.zeros(2, bool))
    assert neighbour_counts([in_front], [found], matches) == BlockCounts()
    unmasked = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 12, 8)], occluded=[True])
    assert neighbour_counts([unmasked], [found], matches) == BlockCounts()


def test_whole_objects_have_no_hidden_block() -> None:
    whole = GroundTruth.make("a", "", SIZE, ["car"], [(0, 0, 12, 8)])
    found = found_with([[True, True, False], [True, True, True]])
    counts = whole_counts([whole], [found], match([whole], [found], "car"))
    assert counts == BlockCounts(visible_kept=5, false_hidden=1, objects=1)
    occluded = make_pair()
    assert whole_counts([occluded], [found], match([occluded], [found], "car")) == BlockCounts()
