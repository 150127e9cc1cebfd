"""Built-in scenes: reproducible, exact about what is seen, and as varied as promised."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest

from halfseen.data.dataset import Dataset
from halfseen.data.scenery.backgrounds import make_stage
from halfseen.data.scenery.layout import VIEWS, Layout, Thing, hidden_share, inside_share
from halfseen.data.scenery.shapes import Canvas, Sprite, noise, smooth
from halfseen.data.scenes import CLASSES, Scene, render_scene, render_scenes
from halfseen.detections import GroundTruth
from halfseen.errors import SettingsError


def digest(truth: GroundTruth) -> str:
    """One hash of everything that a truth holds."""
    assert isinstance(truth.source, np.ndarray)
    parts = [truth.source, truth.box, truth.full, truth.visible_fraction, truth.label]
    parts += [truth.difficult, truth.truncated, truth.occluded]
    parts += [mask for i in range(len(truth)) if (mask := truth.mask(i)) is not None]
    return hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parts)).hexdigest()


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [render_scene(5, i) for i in range(40)]


@pytest.fixture(scope="module")
def truths(scenes: list[Scene]) -> list[GroundTruth]:
    return [scene.truth for scene in scenes]


def test_same_seed_same_scenes_and_a_longer_set_begins_the_same() -> None:
    first, again = render_scenes(3, seed=7), render_scenes(6, seed=7)
    assert [digest(t) for t in first] == [digest(t) for t in again][:3]
    hashes = {digest(t) for t in again}
    assert len(hashes) == 6
    assert digest(render_scenes(1, seed=8)[0]) not in hashes


def test_a_dataset_of_images_of_the_asked_size() -> None:
    dataset = render_scenes(2, seed=3, size=(150, 220))
    assert isinstance(dataset, Dataset)
    assert dataset.classes == CLASSES
    assert len({truth.image for truth in dataset}) == 2
    for i, truth in enumerate(dataset):
        assert truth.size == (150, 220)
        assert dataset.image(i).shape == (150, 220, 3)
        assert dataset.image(i).dtype == np.uint8
        assert dataset.image(i).std() > 10
    assert len(render_scenes(0)) == 0


def test_only_the_asked_classes_are_drawn() -> None:
    dataset = render_scenes(8, seed=2, classes=["horse"], size=(120, 160))
    assert dataset.classes == ("horse",)
    assert {str(label) for truth in dataset for label in truth.label} == {"horse"}


def test_masks_are_disjoint_and_boxes_tight_around_them(truths: list[GroundTruth]) -> None:
    for truth in truths:
        seen = np.zeros(truth.size, dtype=np.int64)
        for i in range(len(truth)):
            mask = truth.mask(i)
            assert mask is not None
            assert mask.shape == truth.size
            assert mask.dtype == bool
            rows, columns = np.nonzero(mask)
            tight = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            np.testing.assert_array_equal(truth.box[i], tight)
            seen += mask
        assert seen.max(initial=0) <= 1


def test_box_lies_within_the_whole_object(truths: list[GroundTruth]) -> None:
    for truth in truths:
        assert (truth.full[:, :2] <= truth.box[:, :2]).all()
        assert (truth.full[:, 2:] >= truth.box[:, 2:]).all()


def test_flags_follow_from_what_is_in_view(truths: list[GroundTruth]) -> None:
    for truth in truths:
        height, width = truth.size
        sides = truth.box[:, 2:] - truth.box[:, :2]
        beyond = (truth.full[:, :2] < 0).any(1) | (truth.full[:, 2:] > [width, height]).any(1)
        whole = ~truth.truncated & ~truth.occluded
        assert (truth.visible_fraction > 0).all()
        assert (truth.visible_fraction <= 1).all()
        assert not (truth.truncated & ~beyond).any()
        assert (truth.visible_fraction[whole] >= 0.94).all()
        assert (truth.visible_fraction[truth.occluded] < 0.95).all()
        assert (truth.visible_fraction[truth.truncated] < 0.99).all()
        expected = (truth.visible_fraction < 0.15) | (sides.min(axis=1) < 16)
        np.testing.assert_array_equal(truth.difficult, expected)
        clear = truth.visible_fraction == 1
        np.testing.assert_array_equal(truth.box[clear], truth.full[clear])


def test_visible_fraction_is_the_share_of_the_whole_object() -> None:
    """Against the same objects laid out again and counted alone, with no border."""
    for index in range(12):
        rng = np.random.default_rng([5, index])
        stage = make_stage(rng, (375, 500))
        objects = [thing for thing in Layout(rng, stage, CLASSES).things if thing.label]
        truth = render_scene(5, index).truth
        whole = {tuple(_extent(thing)): int(thing.sprite.mask.sum()) for thing in objects}
        for i in range(len(truth)):
            mask = truth.mask(i)
            assert mask is not None
            share = mask.sum() / whole[tuple(truth.full[i])]
            assert share == pytest.approx(truth.visible_fraction[i])


def _extent(thing: Thing) -> list[float]:
    rows, columns = np.nonzero(thing.sprite.mask)
    left, top = thing.x + thing.sprite.left, thing.y + thing.sprite.top
    edges = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    return [float(a + b) for a, b in zip((left, top, left, top), edges, strict=True)]


def test_variety(scenes: list[Scene]) -> None:
    fraction = np.concatenate([scene.truth.visible_fraction for scene in scenes])
    label = np.concatenate([scene.truth.label for scene in scenes])
    views = [view for scene in scenes for view in scene.views]
    half = (fraction >= 0.35) & (fraction <= 0.65)
    for name in CLASSES:
        assert (fraction[label == name] > 0.99).sum() >= 8
        assert half[label == name].sum() >= 4
        assert len({v for v, is_it in zip(views, label == name, strict=True) if is_it}) >= 3
    assert set(views) <= {view for group in VIEWS.values() for view in group}
    assert 0.3 < np.mean(fraction > 0.95) < 0.7
    assert any(scene.truth.truncated.any() for scene in scenes)
    assert any(not (scene.truth.label == "car").any() for scene in scenes)
    assert max(len(scene.truth) for scene in scenes) <= 4
    widths = np.concatenate([np.diff(s.truth.full[:, ::2], axis=1).ravel() for s in scenes])
    assert widths.min() >= 25
    assert widths.max() > 200


def test_scenes_can_be_sent_to_other_processes() -> None:
    truth = render_scene(5, 1).truth
    assert digest(pickle.loads(pickle.dumps(truth))) == digest(truth)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"count": -1}, "count"),
        ({"count": 2.5}, "count"),
        ({"count": 1, "seed": -3}, "seed"),
        ({"count": 1, "classes": ["hors"]}, "did you mean 'horse'"),
        ({"count": 1, "classes": []}, "known: car, horse"),
        ({"count": 1, "size": (20, 500)}, "96 to 4096"),
        ({"count": 1, "size": (375, 500, 3)}, "height, width"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        render_scenes(**arguments)  # type: ignore[arg-type]


def square(side: int, x: int, y: int) -> Thing:
    return Thing(Sprite(np.full((side, side, 4), 255, np.uint8), 0, -side), x, y, 1.0)


def test_shares_of_squares() -> None:
    back = square(10, 0, 10)
    assert hidden_share(back, square(10, 5, 10)) == 0.5
    assert hidden_share(back, square(4, 2, 8)) == pytest.approx(0.16)
    assert hidden_share(back, square(10, 10, 10)) == 0
    assert inside_share(back, (10, 10)) == 1
    assert inside_share(back, (5, 10)) == 0.5
    assert inside_share(back.moved(-4, 10), (100, 100)) == pytest.approx(0.6)
    assert inside_share(back.moved(200, 10), (100, 100)) == 0


def test_canvas_covers_the_pixels_of_a_box_and_keeps_its_colour() -> None:
    canvas = Canvas(-2, 2, 0, 4, 5.0)
    canvas.box(-1, 0, 1, 3, (200, 40, 20))
    sprite = canvas.sprite()
    assert sprite.area == pytest.approx(10 * 15, rel=0.12)
    assert abs(sprite.left + 5) <= 1
    assert abs(sprite.top + 15) <= 1
    np.testing.assert_array_equal(sprite.rgba[5, 5], [200, 40, 20, 255])
    edges = sprite.rgba[(sprite.rgba[..., 3] > 40) & (sprite.rgba[..., 3] < 255)]
    assert (abs(edges[:, :3].astype(int) - [200, 40, 20]) <= 4).all()
    assert sprite.mirrored().mirrored().left == sprite.left


def test_curves_pass_through_their_points() -> None:
    points = [(0.0, 0.0), (1.0, 2.0), (3.0, 1.0), (4.0, -1.0)]
    for closed in (True, False):
        curve = smooth(points, 4, closed)
        np.testing.assert_allclose(curve[: 4 * 3 + 1 : 4], points, atol=1e-12)


def test_noise_is_standardised() -> None:
    texture = noise(np.random.default_rng(0), 64, 96)
    assert texture.shape == (64, 96)
    assert abs(float(texture.mean())) < 1e-4
    assert float(texture.std()) == pytest.approx(1, abs=1e-4)
