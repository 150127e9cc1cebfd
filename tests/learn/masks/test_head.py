"""Learning the mask head from the boxes of drawn scenes."""

from collections.abc import Sequence

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.dataset import Dataset
from halfseen.data.occluders import REACH
from halfseen.data.scenes import render_scenes
from halfseen.detections import GroundTruth
from halfseen.evaluate.blocks import BlockCounts, count_blocks, covered_blocks
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import match
from halfseen.geometry import clip
from halfseen.learn.masks.figure import figure_looks, typical_figure
from halfseen.learn.masks.head import (
    entire,
    false_hidden,
    held_out,
    learn_masks,
)
from halfseen.learn.masks.neighbours import Neighbours
from halfseen.learn.masks.pastes import Occluders, paste
from halfseen.learn.masks.samples import Samples, collect_samples
from halfseen.learn.settings import MaskSettings
from halfseen.model.mask_head import FigureSettings
from halfseen.refine.figure import Surroundings, cut_figures, probable, surroundings
from halfseen.refine.hidden import cut_hidden, grouped_logits
from halfseen.refine.kernels import lab
from halfseen.report.filmstrip import film
from tests.builders import headless


def test_pasted_occluders_are_what_the_mask_says() -> None:
    rng = np.random.default_rng(0)
    occluders = Occluders((np.full((40, 30, 3), 200, np.uint8),), MaskSettings())
    pixels = rng.uniform(0, 100, (3, 120, 160)).astype(np.float32)
    inside = np.zeros((120, 160), bool)
    inside[20:100, 30:130] = True
    near = np.zeros((120, 160), bool)
    near[20 - int(80 * REACH) : 100 + int(80 * REACH), 30 - int(100 * REACH) : 145] = True
    for _ in range(30):
        pasted, covered = paste(pixels, (30, 20, 130, 100), 0.5, occluders, rng)
        np.testing.assert_array_equal(pasted[:, ~covered], pixels[:, ~covered])
        np.testing.assert_allclose(pasted[:, covered], 200, atol=1e-3)
        assert 0.09 <= covered[inside].mean() <= 0.71
        assert not covered[~near].any()


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


def test_the_head_finds_what_covers_an_object() -> None:
    """Objects and textures are new to the head.

    It is tried in the windows in which the objects were found before they were covered, and in
    those in which they are found behind what covers them.
    """
    lessons = render_scenes(150, seed=31, classes=["car"])
    detector = hs.Detector(learn_masks(lessons, headless(), MaskSettings(windows=3000)))
    counts = {name: BlockCounts() for name in ("whole", "covered", "found")}
    for seed in (77, 78):
        tests = render_scenes(60, seed=seed, classes=["car"])
        textures = [tests.image(i) for i in range(50, 60)]
        for i in [i for i in range(50) if whole(tests[i]).any()]:
            truth, plain = tests[i], tests.image(i)
            image, occluder = cover_objects(plain, truth, "car", 0.4, textures, 3)
            before = detector.detect(plain, -1.5)
            for name, found, mask in (
                ("whole", before, np.zeros_like(occluder)),
                ("covered", detector.finish(detector.view(image), before), occluder),
                ("found", detector.detect(image, -1.5), occluder),
            ):
                for _, k, j in match([truth], [found], "car", ignored=[~whole(truth)]).right:
                    flags = found.visibility[k]
                    true = covered_blocks(mask, found.window[k], flags.shape, truth.full[j])
                    counts[name] += count_blocks(flags, true)
    assert min(count.objects for count in counts.values()) >= 40
    assert counts["covered"].balanced_accuracy >= 0.85
    assert counts["found"].balanced_accuracy >= 0.8
    assert counts["whole"].false_hidden_share <= 0.08


def framed(boxes: Sequence[Sequence[float]], labels: list[str]) -> Dataset:
    """Two pictures with these objects, the n-th of them of the colour 50 + 60 n."""
    truths = []
    for name in ("first", "second"):
        pixels = np.zeros((200, 300, 3), np.uint8)
        for n, (x1, y1, x2, y2) in enumerate(np.array(boxes, int)):
            pixels[y1:y2, x1:x2] = 50 + 60 * n
        truths.append(GroundTruth.make(name, pixels, (200, 300), labels, boxes))
    return Dataset("framed", tuple(sorted(set(labels))), tuple(truths))


HORSE, RIDER, FAR = [50, 80, 250, 180], [130, 20, 190, 140], [0, 0, 45, 60]


def test_neighbours_are_those_that_overlap_an_object_and_look_like_their_class() -> None:
    data = framed([HORSE, RIDER, FAR], ["horse", "person", "cow"])
    found = Neighbours.draw(data, "horse", MaskSettings(), np.random.default_rng(0))
    assert found.labels == ("person", "person")  # the cow stands apart
    np.testing.assert_allclose(found.places, [[0.4, -0.6, 0.7, 0.6]] * 2)
    assert {len(pictures) for pictures in found.pictures.values()} == {2}
    for picture in found.pictures["person"]:
        np.testing.assert_allclose(picture, 110, atol=1e-3)
        assert max(picture.shape[1:]) == 120
    assert not len(Neighbours.draw(data, "cow", MaskSettings(), np.random.default_rng(0)))


def test_a_neighbour_is_pasted_where_one_stood() -> None:
    data = framed([HORSE, RIDER], ["horse", "person"])
    found = Neighbours.draw(data, "horse", MaskSettings(), np.random.default_rng(0))
    window, rng = (40.0, 60.0, 140.0, 110.0), np.random.default_rng(1)
    total = np.zeros((150, 200))
    for _ in range(200):
        pixels, covered = found.cover(window, (150, 200), rng)
        np.testing.assert_allclose(pixels[:, covered], 110, atol=1e-3)
        total += covered
    # In the window the rider spans 0.4 to 0.7 of its width, or, mirrored, 0.3 to 0.6; and sits on
    # its upper part. Outlines are round, and their ends move by a twentieth or two.
    assert total[70, 90] > 190
    assert total[:, :55].sum() == total[:, 125:].sum() == total[105:].sum() == 0


def test_blocks_in_the_box_of_another_object_teach_nothing_unless_pasted_over() -> None:
    lessons = render_scenes(30, seed=31, classes=["car"])
    seen = 0
    for _, samples, _ in collect_samples(lessons, headless(), MaskSettings(windows=400), 0):
        assert not samples.known[samples.outside].any()
        assert samples.known[samples.hidden & ~samples.outside].all()
        assert not samples.counted[~samples.known].any()
        seen += int((~samples.known & ~samples.outside).sum())
    assert seen > 0


def test_few_scenes_with_some_cars_cut_by_the_border_are_enough() -> None:
    """A fold may hold none of the objects that decide the operating point."""
    lessons = render_scenes(30, seed=31, classes=["car"])
    assert learn_masks(lessons, headless(), MaskSettings(windows=300)).head is not None


def test_a_box_around_every_object_changes_nothing() -> None:
    """Such as that of the person a face belongs to: it does not say that the object is hidden."""
    plain = render_scenes(40, seed=31, classes=["car"])
    around = [
        GroundTruth.make(
            truth.image,
            plain.image(i),
            truth.size,
            [*truth.label, *["vehicle"] * len(truth)],
            np.concatenate([truth.box, truth.box + np.array([-8, -8, 8, 8])]),
        )
        for i, truth in enumerate(plain)
    ]
    settings = MaskSettings(windows=400, folds=2)
    seen = []
    for lessons in (plain, Dataset("around", ("car", "vehicle"), tuple(around))):
        found = hs.Detector(learn_masks(lessons, headless(), settings)).detect(plain.image(1))
        assert len(found)
        seen.append(found.visible_fraction)
    assert seen[0][0] > 0.6
    assert seen[1][0] > 0.9 * seen[0][0]
    assert seen[1].mean() > 0.8 * seen[0].mean()


def test_looking_again_sees_what_covers_the_same_windows() -> None:
    lessons = render_scenes(40, seed=31, classes=["car"])
    model = learn_masks(lessons, headless(), MaskSettings(windows=400, folds=2))
    detector = hs.Detector(model)
    image = render_scenes(1, seed=77, classes=["car"]).image(0)
    found = detector.detect(image, -1.5)
    again = detector.finish(detector.view(image), found)
    for ours, theirs in zip(again.visibility, found.visibility, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    (frame,) = film(image, found.full[0], {"VIS": model}, (0.0,))
    shown = frame.found["VIS"]
    assert shown is not None
    np.testing.assert_array_equal(
        shown.visibility[0], detector.finish(detector.view(image), shown).visibility[0]
    )
    behind = image.copy()
    x1, y1, x2, y2 = np.rint(clip(found.window[0], found.size)).astype(int)
    middle = (x1 + x2) // 2
    behind[y1:y2, x1:middle] = render_scenes(1, seed=9, classes=["car"]).image(0)[
        : y2 - y1, : middle - x1
    ]
    covered = detector.finish(detector.view(behind), found)
    np.testing.assert_array_equal(covered.window, found.window)
    before, after = (grids.visibility[0] for grids in (found, covered))
    half = before.shape[1] // 2
    assert after[:, :half].mean() < before[:, :half].mean() - 0.2


@pytest.mark.parametrize("grouping", [True, False])
def test_the_operating_point_is_where_the_settings_ask_for_it(grouping: bool) -> None:
    """Judged as detections are, by heads of other objects: just within what may be hidden."""
    settings = MaskSettings(windows=600, folds=2, grouping=grouping)
    lessons = render_scenes(40, seed=31, classes=["car"])
    head = learn_masks(lessons, headless(), settings).head
    assert head is not None
    parts: dict[int, list[Samples]] = {}
    around: dict[int, list[Surroundings]] = {}
    for m, part, near in collect_samples(lessons, headless(), settings, 0):
        parts.setdefault(m, []).append(part)
        around.setdefault(m, []).append(near)
    for m, rows in parts.items():
        samples = Samples.stack(rows)
        held, logits = held_out(samples, entire(samples, settings), settings)
        colours = lab(held.quarters.astype(np.float32))
        logits = grouped_logits(head, logits, colours, held.outside)
        share = []
        for cutoff in (head.cutoff[m], head.cutoff[m] - 0.1):
            values = logits - np.float32(cutoff)
            visible = cut_hidden(values, colours, held.outside, np.array(head.alpha), 3.0)
            share.append(false_hidden(visible, held))
        assert share[0] <= settings.false_hidden < share[1]
        # Figures are learnt from the same objects.
        whole_ones = [(part.first & ~part.outside.any((1, 2))).any() for part in rows]
        assert 4 <= sum(whole_ones) < len(rows)
        seen = [near for near, chosen in zip(around[m], whole_ones, strict=True) if chosen]
        joined = Surroundings(*(np.concatenate(part) for part in zip(*seen, strict=True)))
        np.testing.assert_array_equal(head.figure[m], typical_figure(joined, MaskSettings()))
        chosen = [part for part, ok in zip(rows, whole_ones, strict=True) if ok]
        blocks = np.stack([part.features[part.first][0, 1:-1, 1:-1] for part in chosen])
        looks = figure_looks(blocks.astype(np.float32), joined, head.figure[m], MaskSettings())
        np.testing.assert_allclose(head.looks[m], looks, atol=1e-6)


def test_what_blocks_look_like_tells_a_figure_that_colours_do_not() -> None:
    """A figure at another place in each box, in colours that half of its ground has as well.

    Features tell the two apart: learnt from the boxes alone, they say which blocks are figure.
    """
    settings = MaskSettings()
    rng = np.random.default_rng(0)
    window = np.array([[40.0, 40, 136, 104]])
    parts, shapes, features = [], [], []
    for _ in range(60):
        shape = np.zeros((8, 12), bool)
        y, x = rng.integers(0, 4), rng.integers(0, 6)
        shape[y : y + 5, x : x + 7] = True
        one, other = rng.permutation([[60, 90, 170], [190, 60, 60], [70, 160, 80]])[:2]
        first = rng.random((18, 22)) < np.where(np.pad(shape, 5), 0.9, 0.3)
        pixels = np.where(first[..., None], one, other).repeat(8, 0).repeat(8, 1)
        parts.append(
            surroundings(pixels.astype(np.uint8), window, window, (8, 12), FigureSettings())
        )
        shapes.append(shape)
        features.append(rng.normal(size=(8, 12, 6)) + shape[..., None] * [3, 0, 0, -2, 0, 0])
    joined = Surroundings(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    true, blocks = np.stack(shapes), np.stack(features).astype(np.float32)
    flags = np.ones(true.shape, bool)
    typical = typical_figure(joined, settings)
    looks = figure_looks(blocks, joined, typical, settings)
    assert looks.shape == (7,)
    assert looks[0] > 0 > looks[3]
    assert abs(looks[[1, 2, 4, 5]]).max() < 0.2 * looks[0]
    wrong = [
        (cut_figures(joined, flags, known, FigureSettings()).within(flags) != true).mean()
        for known in (
            np.broadcast_to(typical, flags.shape),
            probable(typical, blocks, np.zeros(7, np.float32)),
            probable(typical, blocks, looks),
        )
    ]
    assert wrong[0] == wrong[1]
    assert wrong[2] < 0.8 * wrong[0]
    # Of what nothing is believed nothing is learnt.
    nothing = joined._replace(ground=np.zeros_like(joined.ground))
    np.testing.assert_array_equal(figure_looks(blocks, nothing, typical, settings), 0)


def test_typical_figures_are_learnt_from_colours_alone() -> None:
    """An L in boxes whose blocks have two colours, one more frequent in it and one around it.

    No picture shows all of it, all together do, and their mean helps to find it in each.
    """
    settings = FigureSettings()
    rng = np.random.default_rng(0)
    shape = np.zeros((8, 12), bool)
    shape[:, :4], shape[4:] = True, True
    window = np.array([[40.0, 40, 136, 104]])
    parts = []
    for _ in range(40):
        one, other = rng.permutation([[60, 90, 170], [190, 60, 60], [70, 160, 80]])[:2]
        first = rng.random((18, 22)) < np.where(np.pad(shape, 5), 0.8, 0.2)
        pixels = np.where(first[..., None], one, other).repeat(8, 0).repeat(8, 1)
        parts.append(surroundings(pixels.astype(np.uint8), window, window, (8, 12), settings))
    joined = Surroundings(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    found = typical_figure(joined, MaskSettings())
    assert found[shape].min() > 0.6
    assert found[~shape].max() < 0.4
    flags = np.ones((40, 8, 12), bool)
    wrong = [
        (cut_figures(joined, flags, known, settings).within(flags) != shape).mean()
        for known in (None, np.broadcast_to(found, flags.shape))
    ]
    assert wrong[1] < 0.5 * wrong[0]
    # Of what nothing is believed nothing is typical.
    nothing = joined._replace(ground=np.zeros_like(joined.ground))
    np.testing.assert_array_equal(typical_figure(nothing, MaskSettings()), 0.5)
