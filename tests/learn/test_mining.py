"""Hard negatives: all of them, none that shows an object, and never more than memory allows."""

from itertools import product

import numpy as np
import pytest

from halfseen.detect.windows import place_boxes
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import clip, iou_matrix
from halfseen.learn.mining import Keys, MiningImage, NegativeStore, draw_random, mine, take_windows
from halfseen.learn.objective import Examples, Objective
from halfseen.model.mixture import Component, Mixture
from tests.builders import tiny_scenes

SHAPES = ((3, 6), (4, 4))
PYRAMID = PyramidSettings(1.5, 1.0)


@pytest.fixture(scope="module")
def model() -> Mixture:
    rng = np.random.default_rng(0)
    components = tuple(
        Component(
            rng.normal(0, 0.3, (*shape, 31)).astype(np.float32), -0.4, -0.1, 0.05,
            np.array([0.5, 0.0, shape[1] - 0.5, shape[0]]),
        )
        for shape in SHAPES
    )  # fmt: skip
    return Mixture("car", "VIS", components, True, 0.05, Fhog(), PYRAMID)


def image_of(index: int, boxes: np.ndarray) -> MiningImage:
    return MiningImage.make(tiny_scenes().image(index), boxes, Fhog(), PYRAMID, SHAPES)


def boxes_of(keys: Keys, image: MiningImage, model: Mixture) -> np.ndarray:
    """The predicted box of every key, cut to the image."""
    templates = {(m, mirrored): c for m, mirrored, c in model.templates()}
    found = []
    for _, number, y, x, m, mirrored in keys.rows.tolist():
        template = templates[m, bool(mirrored)]
        place = (np.array([y]), np.array([x]))
        scale = image.levels[number][1]
        found.append(place_boxes(*place, template.shape, template.box, Fhog(), scale)[0])
    return clip(np.array(found), image.size)


def test_mining_finds_exactly_the_windows_that_the_objective_scores_high(model: Mixture) -> None:
    image = image_of(0, np.zeros((0, 4)))
    mined = mine(7, image, model, -1.0, 10**6, 0.3)
    objective = Objective(1.0, model.alpha, True, "free")
    expected: dict[tuple[int, ...], float] = {}
    for (number, (features, _)), (m, component), mirrored in product(
        enumerate(image.levels), enumerate(model.components), (0, 1)
    ):
        rows, cols = features.shape[0] + 1, features.shape[1] + 1
        y, x = (part.ravel() for part in np.mgrid[:rows, :cols])
        keys = Keys.make(7, number, y, x, m, mirrored)
        examples = take_windows(image, keys, component.shape, Fhog().mirror)
        bias = np.array([component.bias, component.u, component.u_t])
        w = component.weights.reshape(-1, 31).astype(np.float64)
        scores, _ = objective.best_scores(w, bias, examples, -np.inf)
        expected |= {tuple(k): s for k, s in zip(keys.rows.tolist(), scores, strict=True)}
    found = {tuple(k): s for k, s in zip(mined.keys.rows.tolist(), mined.scores, strict=True)}
    high = {key for key, score in expected.items() if score >= -1}
    assert len(high) > 100
    assert {k for k in found.keys() ^ high if abs(expected[k] + 1) > 1e-4} == set()
    for key in found:
        assert found[key] == pytest.approx(expected[key], abs=1e-4)


def test_the_hardest_are_kept_when_there_are_too_many(model: Mixture) -> None:
    image = image_of(0, np.zeros((0, 4)))
    every, few = (mine(0, image, model, -1.0, most, 0.3) for most in (10**6, 25))
    assert len(few.scores) == 25
    np.testing.assert_array_equal(few.scores, np.sort(every.scores)[::-1][:25])


@pytest.mark.parametrize("limit", [0.1, 0.3, 0.5])
def test_no_negative_overlaps_an_object_by_more_than_the_limit(
    model: Mixture, limit: float
) -> None:
    truth = tiny_scenes()[1]
    assert len(truth)
    image = image_of(1, truth.box)
    mined = mine(0, image, model, -1.5, 10**6, limit)
    random = draw_random(0, image, model, 200, limit, seed=0)
    for keys in (mined.keys, random.keys):
        assert len(keys) > 20
        assert iou_matrix(boxes_of(keys, image, model), truth.box).max() <= limit
    free = mine(0, image_of(1, np.zeros((0, 4))), model, -1.5, 10**6, limit)
    assert len(free.keys) > len(mined.keys)  # the objects did cost some windows


def test_difficult_objects_are_spared_as_well() -> None:
    """The trainer hands over the boxes of all objects of the class, difficult or not."""
    from dataclasses import replace

    from halfseen.learn.training_set import TrainingSet
    from tests.builders import tiny_settings

    scenes = tiny_scenes()
    first = next(i for i in range(len(scenes)) if len(scenes[i]) and i != 1)
    hard = replace(scenes[first], difficult=np.ones(len(scenes[first]), bool))
    data = replace(scenes, truths=(*scenes.truths[:first], hard, *scenes.truths[first + 1 :]))
    with TrainingSet(data, "car", tiny_settings(mining_images=len(data)), 1) as lessons:
        boxes = lessons.pictures[first].spared
    assert {tuple(b) for b in hard.box} <= {tuple(b) for b in boxes}


def test_random_negatives_depend_on_seed_and_image_alone(model: Mixture) -> None:
    image = image_of(2, np.zeros((0, 4)))
    first, again = (draw_random(3, image, model, 30, 0.3, seed=1).keys.rows for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, draw_random(3, image, model, 30, 0.3, seed=2).keys.rows)


def windows(count: int, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, *SHAPES[0], 31)).astype(np.float32)
    return Examples(features, rng.random((count, *SHAPES[0])) < 0.1)


def keys(count: int, component: int = 0) -> Keys:
    rows = np.zeros((count, 6), np.int64)
    rows[:, 3] = np.arange(count)
    rows[:, 4] = component
    return Keys(rows)


def test_the_store_stays_within_its_bytes_and_says_what_there_is_room_for() -> None:
    store = NegativeStore(SHAPES, 31, 1 << 20)
    held = sum(f.nbytes + o.nbytes for f, o in zip(store.features, store.outside, strict=True))
    assert held <= 1 << 20
    room = store.room(0)
    store.add(0, windows(room + 50), keys(room + 50))
    assert store.room(0) == 0
    assert len(store) == room
    assert store.bytes <= 1 << 20


def test_what_is_kept_keeps_its_order_and_its_window() -> None:
    store = NegativeStore(SHAPES, 31, 4 << 20)
    given = windows(40)
    store.add(0, given, keys(40))
    chosen = np.random.default_rng(1).random(40) < 0.5
    store.keep(0, chosen)
    batch = store.negatives()[0]
    np.testing.assert_array_equal(batch.examples.features, given.features[chosen])
    np.testing.assert_array_equal(batch.examples.outside, given.outside[chosen])
    np.testing.assert_array_equal(store.keys[0].rows, keys(40)[chosen].rows)


def test_windows_of_one_place_share_its_number_across_components() -> None:
    store = NegativeStore((SHAPES[0], SHAPES[0]), 31, 4 << 20)
    store.add(0, windows(4), keys(4))
    store.add(1, windows(3), keys(3, component=1))
    first, second = store.negatives()
    np.testing.assert_array_equal(first.place[:3], second.place)
    assert len(set(first.place)) == 4
