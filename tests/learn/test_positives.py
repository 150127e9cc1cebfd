"""The objects to learn from: which they are, and how components start from them."""

import numpy as np
import pytest

from halfseen.detect.windows import place_boxes
from halfseen.errors import TrainingError
from halfseen.features.fhog import Fhog
from halfseen.geometry import iou
from halfseen.ground_truth import GroundTruth
from halfseen.learn.positives import (
    average_box,
    choose_flips,
    cluster_ratios,
    in_blocks,
    list_objects,
    warp,
    window_shape,
)
from tests.builders import boxed, dataset


def test_difficult_objects_crowds_and_other_classes_are_no_positives() -> None:
    box = [10.0, 10.0, 60.0, 50.0]
    one = boxed([box] * 4, difficult=[0, 1, 0, 0], crowd=[0, 0, 1, 0], truncated=[0, 0, 0, 1])
    other = boxed([box], label="dog")
    two = boxed([box, box], occluded=[1, 0])
    objects = list_objects(dataset(one, other, two, classes=("car", "dog")), "car")
    assert objects.image.tolist() == [0, 0, 2, 2]
    assert objects.whole.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("truths", "found"),
    [
        ([boxed([], label="car")], "found 0 among 0"),
        ([boxed([[10, 10, 60, 50]])], "found 1 among 1"),
        ([boxed([[10, 10, 60, 50]] * 3, truncated=[1, 1, 1])], "found 0 among 3"),
        ([boxed([[10, 10, 60, 50]] * 3, difficult=[1, 1, 1])], "found 0 among 0"),
    ],
)
def test_too_few_whole_objects_are_refused_with_their_number(
    truths: list[GroundTruth], found: str
) -> None:
    with pytest.raises(TrainingError, match=found):
        list_objects(dataset(*truths), "car")


def test_clusters_are_the_groups_of_aspect_ratio() -> None:
    rng = np.random.default_rng(0)
    wide = [[0, 0, 80 + x, 40.0] for x in rng.uniform(-4, 4, 20)]
    tall = [[0, 0, 30 + x, 60.0] for x in rng.uniform(-2, 2, 9)]
    centres, cluster = cluster_ratios(np.array(wide + tall), 2)
    assert cluster.tolist() == [0] * 20 + [1] * 9
    np.testing.assert_allclose(np.exp(centres), [0.5, 2.0], rtol=0.05)


def test_boxes_of_one_shape_give_one_component_however_many_are_asked_for() -> None:
    centres, cluster = cluster_ratios(np.array([[0, 0, 40.0, 20.0]] * 5), 3)
    assert len(centres) == 1
    assert not cluster.any()


def test_windows_have_the_boxes_shape_and_shrink_for_small_boxes() -> None:
    large = np.array([[0, 0, 400.0, 200.0]] * 9)
    assert window_shape(large, 100, 0.7) == (7, 14)
    small = np.array([[0, 0, 10.0, 5.0]] * 4 + [[0, 0, 40.0, 20.0]] * 6)
    rows, cols = window_shape(small, 100, 0.7)
    assert 66 <= rows * cols <= 76  # about 50 / 0.7, so that boxes of 50 blocks overlap it by 0.7
    assert window_shape(small[2:], 100, 0.7) == (7, 14)  # three of four are large: most
    speck = np.array([[0, 0, 1.0, 0.5]] * 9)
    rows, cols = window_shape(speck, 100, 0.7)
    assert 25 <= rows * cols <= 42  # a third: smaller templates say nothing


def test_warping_a_box_of_the_windows_own_size_gives_the_features_of_its_place() -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (96, 128, 3)).astype(np.uint8)
    descriptor = Fhog()
    planar = np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32)
    expected = descriptor(planar)[4:8, 5:11]
    warped = warp(pixels, np.array([40.0, 32.0, 88.0, 64.0]), (4, 6), descriptor)
    np.testing.assert_allclose(warped, expected, atol=1e-5)


def test_flips_make_all_objects_face_one_way() -> None:
    rng = np.random.default_rng(2)
    descriptor = Fhog()
    object_ = rng.uniform(0, 1, (4, 6, 31)).astype(np.float32)
    turned = rng.random(30) < 0.4
    features = np.stack([object_] * 30) + rng.normal(0, 0.1, (30, 4, 6, 31)).astype(np.float32)
    features[turned] = features[turned][:, :, ::-1][..., descriptor.mirror]
    flips = choose_flips(features, descriptor.mirror)
    assert (flips == turned).all() or (flips == ~turned).all()


def test_no_box_near_the_average_box_overlaps_more() -> None:
    rng = np.random.default_rng(3)
    boxes = np.array([1.0, 1, 9, 5]) + rng.normal(0, 0.4, (25, 4))
    best = average_box(boxes, np.array([0.0, 0, 10, 6]))
    mean = iou(best, boxes).mean()
    for _ in range(300):
        assert iou(best + rng.normal(0, 0.1, 4), boxes).mean() <= mean + 2e-4


def test_without_boxes_the_window_itself_is_the_average() -> None:
    window = np.array([0.0, 0, 10, 6])
    np.testing.assert_array_equal(average_box(np.zeros((0, 4)), window), window)


def test_boxes_in_blocks_are_the_inverse_of_placing_them() -> None:
    rng = np.random.default_rng(4)
    descriptor, shape, scale = Fhog(), (5, 7), (1.3, 1.25)
    y, x = rng.integers(0, 20, 12), rng.integers(0, 20, 12)
    blocks = np.sort(rng.uniform(0, 5, (12, 2, 2)), axis=1).reshape(12, 4)
    windows = place_boxes(y, x, shape, [0, 0, 7, 5], descriptor, scale)
    boxes = place_boxes(y, x, shape, blocks, descriptor, scale)
    mirrored = np.arange(12) % 2 == 1
    found = in_blocks(boxes, windows, shape, mirrored)
    np.testing.assert_allclose(found[~mirrored], blocks[~mirrored], atol=1e-9)
    flipped = blocks[mirrored][:, [2, 1, 0, 3]] * [-1, 1, -1, 1] + [7, 0, 7, 0]
    np.testing.assert_allclose(found[mirrored], flipped, atol=1e-9)
