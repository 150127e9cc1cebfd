"""The detector on drawn objects: it finds what moves, flips, grows, hides and leaves the image."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow
from threadpoolctl import threadpool_limits

from halfseen.compute.libraries import on_compile
from halfseen.data.scenes import render_scenes
from halfseen.detect import view as levels_module
from halfseen.detect.search import find_windows
from halfseen.detect.view import feature_levels
from halfseen.detect.windows import place_boxes
from halfseen.detections import Block, Detections, block_extents, visible_boxes
from halfseen.errors import SettingsError
from halfseen.features import pyramid as pyramid_module
from halfseen.features.descriptor import Descriptor
from halfseen.features.fhog import Fhog
from halfseen.features.hog import Hog
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import mirror
from halfseen.model.mixture import Component, Mixture
from halfseen.model.store import load
from halfseen.refine.detector import Detector

Image = NDArray[np.uint8]
ROWS, COLS, CELL = 8, 12, 6
PYRAMID = PyramidSettings(1.2, 1.0)
# Where `picture` draws its object: the squares of 8x12 blocks of hog that start at block (8, 9).
OBJECT = np.array([57.0, 51.0, 129.0, 99.0])


@pytest.fixture(autouse=True, scope="module")
def one_thread_for_products() -> Iterator[None]:
    """As `map_images` sets it: on a busy machine, small products wait long for a second one."""
    with threadpool_limits(1, "blas"):
        yield


def picture(seed: int = 0, size: tuple[int, int] = (180, 240)) -> Image:
    """A cart on two wheels, pointed on one side, on a faintly textured ground."""
    rng = np.random.default_rng(seed)
    image = (120 + rng.normal(0, 4, (*size, 3))).clip(0, 255)
    y, x = np.mgrid[: size[0], : size[1]]
    x1, y1, x2, y2 = OBJECT
    nose = (y - y1) * 0.6
    body = (x >= x1 + nose) & (x < x2 - 2) & (y >= y1 + 3) & (y < y2 - 14)
    image[body] = (210, 60, 50)
    image[body & ((x - x1) // 12 % 2 == 0) & (y < y1 + 16)] = (40, 40, 160)
    for centre in (x1 + 22, x2 - 16):
        far = np.hypot(x - centre, y - (y2 - 13))
        image[far < 12] = 20
        image[far < 6] = 220
    return image.astype(np.uint8)


def features_at(image: Image, descriptor: Descriptor, y: int, x: int) -> NDArray[np.float32]:
    planar = np.ascontiguousarray(image.transpose(2, 0, 1), np.float32)
    return descriptor(planar)[y : y + ROWS, x : x + COLS]


def make_model(method: str = "VIS", mirrored: bool = False, label: str = "cart") -> Mixture:
    """A template cut from the picture: it scores 1 there, and far below -1 on the ground."""
    descriptor = Hog(cell=CELL, border=False)
    cut = features_at(picture(), descriptor, 8, 9)
    weights = cut - cut.mean((0, 1, 2))
    weights *= np.float32(8 / (weights * cut).sum())
    box = np.array([0.0, 0.0, COLS, ROWS])
    component = Component(weights, 1.0 - 8.0, -0.01, 0.02, box)
    return Mixture(label, method, (component,), mirrored, 0.02, descriptor, PYRAMID)  # type: ignore[arg-type]


def one(found: Detections) -> Detections:
    assert len(found) >= 1
    return found[0]


def assert_box(found: Detections, expected: NDArray[np.float64], cells: float = 1.0) -> None:
    """The best detection is that box, to within a cell of its own scale."""
    best = one(found)
    scale = (best.window[0, 2] - best.window[0, 0]) / COLS
    assert np.abs(best.full[0] - expected).max() <= cells * scale


@pytest.mark.parametrize("method", ["BL", "BLT", "VIS"])
def test_the_object_itself_is_found_where_it_was_cut(method: str) -> None:
    found = Detector(make_model(method)).detect(picture())
    best = one(found)
    np.testing.assert_allclose(best.full[0], OBJECT, atol=1e-9)
    np.testing.assert_allclose(best.window[0], OBJECT, atol=1e-9)
    assert best.score[0] == pytest.approx(1.0, abs=0.2)
    assert (best.label[0], best.component[0], best.mirrored[0]) == ("cart", 0, False)
    assert best.visibility[0].mean() > 0.8
    assert np.all(np.diff(found.score) <= 0)
    assert (found.score >= -1).all()


@pytest.mark.parametrize("shift", [(0, 0), (6, 12), (-18, 6), (3, 2), (-5, -4), (30, 36)])
def test_a_shifted_image_gives_a_shifted_box(shift: tuple[int, int]) -> None:
    dy, dx = shift
    moved = np.roll(picture(), shift, (0, 1))
    found = Detector(make_model()).detect(moved)
    expected = OBJECT + np.array([dx, dy, dx, dy])
    assert_box(found, expected)
    if dy % CELL == dx % CELL == 0:
        np.testing.assert_allclose(one(found).full[0], expected, atol=1e-9)


def test_a_mirrored_image_gives_mirrored_boxes_by_the_mirrored_component() -> None:
    # Whole cells, and no level but the first, so that every block has its mirror image.
    image = picture()
    detector = Detector(replace(make_model(mirrored=True), pyramid=PyramidSettings(4.0, 1.0)))
    plain, flipped = detector.candidates(image, -5.0), detector.candidates(image[:, ::-1], -5.0)
    assert len(plain) > 3
    order = np.lexsort((*plain.full.T, plain.score.round(3)))
    expected = plain[order]
    boxes = mirror(flipped.full, image.shape[1])
    found = flipped[np.lexsort((*boxes.T, flipped.score.round(3)))]
    np.testing.assert_allclose(mirror(found.full, 240), expected.full, atol=1e-6)
    np.testing.assert_allclose(mirror(found.visible, 240), expected.visible, atol=1e-6)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-3)
    np.testing.assert_array_equal(found.mirrored, ~expected.mirrored)
    for flags, other in zip(found.visibility, expected.visibility, strict=True):
        np.testing.assert_array_equal(flags[:, ::-1], other)


def test_without_its_mirror_a_flipped_object_scores_less() -> None:
    flipped = picture()[:, ::-1]
    alone = Detector(make_model()).candidates(flipped, -3.0)
    both = Detector(make_model(mirrored=True)).candidates(flipped, -3.0)
    assert both.mirrored[0]
    assert len(alone) == 0 or alone.score[0] < both.score[0] - 0.5


@pytest.mark.parametrize("factor", [1.2, 1.44, 2.0736, 2.0])
def test_a_rescaled_image_gives_a_rescaled_box(factor: float) -> None:
    image = picture()
    size = (round(image.shape[1] * factor), round(image.shape[0] * factor))
    larger = np.asarray(Pillow.fromarray(image).resize(size, Pillow.Resampling.BICUBIC))
    assert_box(Detector(make_model()).detect(larger, -3.0), OBJECT * factor)


@pytest.mark.parametrize("side", ["left", "right", "top", "bottom"])
def test_an_object_half_outside_the_image_is_found_whole(side: str) -> None:
    # Cuts at whole cells, so that the blocks of what is left are the same.
    cut = {
        "left": (slice(None), slice(90, None)), "right": (slice(None), slice(None, 96)),
        "top": (slice(72, None), slice(None)), "bottom": (slice(None, 78), slice(None)),
    }[side]  # fmt: skip
    image = np.ascontiguousarray(picture()[cut])
    shift = np.array([cut[1].start or 0, cut[0].start or 0] * 2)
    model = make_model()
    # As much as a visible block is worth on average.
    component = replace(model.components[0], u_t=8 / (ROWS * COLS))
    found = Detector(replace(model, components=(component,))).detect(image)
    assert_box(found, OBJECT - shift)
    best = one(found)
    height, width = image.shape[:2]
    full, visible = best.full[0], best.visible[0]
    assert full[0] < 0 or full[1] < 0 or full[2] > width or full[3] > height
    assert (visible >= 0).all()
    assert visible[2] <= width
    assert visible[3] <= height
    rows, cols = np.mgrid[:ROWS, :COLS]
    centre_x = best.window[0, 0] + (cols + 0.5) * CELL
    centre_y = best.window[0, 1] + (rows + 0.5) * CELL
    outside = (centre_x < 0) | (centre_x > width) | (centre_y < 0) | (centre_y > height)
    assert 0.3 < outside.mean() < 0.7
    assert not best.visibility[0][outside].any()
    assert best.visibility[0][~outside].mean() > 0.7


def test_a_covered_half_is_hidden_and_cut_from_the_visible_box() -> None:
    image = picture()
    image[:, 93:] = 120 + np.random.default_rng(5).normal(0, 4, image[:, 93:].shape)
    image[:, 95:101] = 30
    model = make_model()
    component = replace(model.components[0], u=8 / (ROWS * COLS) / 2)
    found = Detector(replace(model, components=(component,))).detect(image, -3.0)
    assert_box(found, OBJECT)
    best = one(found)
    assert best.visibility[0][:, :5].mean() > 0.8
    assert best.visibility[0][:, 8:].mean() < 0.2
    assert best.visible[0, 2] < OBJECT[2] - 2 * CELL
    np.testing.assert_allclose(best.visible[0, 0], best.full[0, 0])
    plain = Detector(replace(model, method="BLT")).detect(image, -3.0)
    assert len(plain) == 0 or plain.score[0] < best.score[0] - 0.3


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (20, 20), (53, 200), (200, 77)])
def test_an_image_smaller_than_any_window_gives_no_detections(size: tuple[int, int]) -> None:
    image = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    found = Detector(make_model()).detect(image, -100.0)
    assert len(found) == 0
    assert found.size == size


def test_the_smallest_image_that_holds_a_window_is_searched() -> None:
    image = np.random.default_rng(1).integers(0, 256, (54, 78, 3), np.uint8)
    found = Detector(make_model("BLT")).candidates(image, -100.0)
    assert len(found) == (ROWS + 1) * (COLS + 1)


def fhog_model(label: str) -> Mixture:
    rng = np.random.default_rng(7)
    components = tuple(
        Component(
            rng.normal(0, 0.06, (rows, cols, 31)).astype(np.float32),
            -1.4, -0.01, 0.0, np.array([0.0, 0.5, cols, rows]),
        )
        for rows, cols in ((4, 6), (5, 5))
    )  # fmt: skip
    return Mixture(label, "VIS", components, True, 0.05, Fhog(), PyramidSettings(1.3, 1.5))


def assert_equal(found: Detections, expected: Detections) -> None:
    assert len(found) == len(expected)
    assert found.label.tolist() == expected.label.tolist()
    for name in ("score", "component", "mirrored", "window", "full", "visible"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    for flags, other in zip(found.blocks, expected.blocks, strict=True):
        np.testing.assert_array_equal(flags, other)


@pytest.mark.parametrize("kept", [levels_module.BATCH_BYTES, 1])
@pytest.mark.parametrize("cores", [None, 1, 3])
def test_several_models_find_what_each_finds_alone(
    cores: int | None, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any cores, in one batch of levels or many; pyramids that begin at different levels."""
    monkeypatch.setattr(levels_module, "BATCH_BYTES", kept)
    image = picture(3)
    below = PyramidSettings(1.3, 1.5 / 1.3 / 1.3)
    models = [
        make_model(), replace(fhog_model("cow"), method="BL", pyramid=below), fhog_model("dog"),
        replace(make_model("BLT", True), label="tea"),
    ]  # fmt: skip
    together = Detector(models, cores=cores)
    assert sorted(sorted(group.models) for group in together.groups) == [[0, 3], [1, 2]]
    alone = [Detector(model).candidates(image) for model in models]
    assert all(len(found) > 0 for found in alone)
    every = together.search(together.view(image))
    best = together.search(together.view(image), most=5)
    for m, expected in enumerate(alone):
        assert_equal(every[every.model == m], expected)
        assert_equal(best[best.model == m], expected[:5])
    everything = together.candidates(image)
    assert_equal(everything, Detections.concatenate(alone).sorted())
    best = together.detect(image)
    assert set(best.label) == {"cart", "dog", "tea", "cow"}
    for label, model in zip(("cart", "cow", "dog", "tea"), models, strict=True):
        np.testing.assert_allclose(
            best[best.label == label].full, Detector(model).detect(image).full
        )


@pytest.mark.parametrize("kept", [levels_module.BATCH_BYTES, 1])
@pytest.mark.parametrize("steps", [1, 2])
def test_large_images_are_not_enlarged(
    steps: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the pyramid began later; beside a model whose pyramid begins later anyway."""
    monkeypatch.setattr(levels_module, "BATCH_BYTES", kept)
    image = picture(3)
    height, width = image.shape[:2]
    largest = 1.5
    for _ in range(steps):
        largest /= 1.3
    later = PyramidSettings(1.3, largest)
    below = PyramidSettings(1.3, 1.5 / 1.3)
    models = [fhog_model("dog"), replace(fhog_model("cow"), method="BL", pyramid=below)]
    expected = [
        Detector(replace(m, pyramid=later if later.largest < m.pyramid.largest else m.pyramid))
        .candidates(image) for m in models
    ]  # fmt: skip
    monkeypatch.setattr(
        pyramid_module, "ENLARGED", round(height * max(largest, 1)) * round(width * max(largest, 1))
    )
    assert models[0].pyramid.left_out((height, width)) == steps
    found = Detector(models).candidates(image)
    for m, other in enumerate(expected):
        assert len(other) > 0
        assert_equal(found[found.model == m], other)


def test_threads_share_a_detector_and_give_the_same_bytes() -> None:
    images = [picture(seed, (150 + 6 * seed, 200)) for seed in range(8)]
    detector = Detector([make_model(), fhog_model("dog")])
    expected = [detector.detect(image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        for found, one_by_one in zip(pool.map(detector.detect, images), expected, strict=True):
            assert_equal(found, one_by_one)


def test_the_best_template_wins_each_place() -> None:
    """Eqn 4: every place that any template reaches is there once, with the best one's score."""
    image, model = picture(4), fhog_model("dog")
    found = Detector(model).candidates(image, -1.1)
    best: dict[tuple[int, int, int], tuple[float, int, bool]] = {}
    contested = 0
    scales = []
    shapes = {component.shape for component in model.components}
    levels = feature_levels(image, model.descriptor, model.pyramid, shapes)
    for number, (level, features) in enumerate(levels):
        scales.append((level.scale_x, level.scale_y))
        for index, mirrored, template in model.templates():
            windows = find_windows(features, template, -1.1, model.alpha, True)
            for y, x, score in zip(windows.y, windows.x, windows.score, strict=True):
                place = (number, int(y), int(x))
                contested += place in best
                if place not in best or score > best[place][0]:
                    best[place] = (float(score), index, mirrored)
    assert contested > 10
    assert len(found) == len(best)
    expected = []
    for (number, y, x), (score, index, mirrored) in best.items():
        shape = model.components[index].shape
        blocks = [0, 0, shape[1], shape[0]]
        box = place_boxes(
            np.array([y]), np.array([x]), shape, blocks, model.descriptor, scales[number]
        )
        expected.append((index, mirrored, *box[0].round(4), score))
    rows = zip(found.component, found.mirrored, *found.window.T.round(4), found.score, strict=True)
    np.testing.assert_allclose(np.array(sorted(rows)), np.array(sorted(expected)), atol=1e-5)


def test_the_planes_of_hog_are_its_blocks() -> None:
    level = np.ascontiguousarray(picture().transpose(2, 0, 1), np.float32)
    for hog in (Hog(), Hog(cell=7, bins=5, interpolate=False, border=False)):
        np.testing.assert_array_equal(hog.planes(level).transpose(1, 2, 0), hog(level))


def test_pixels_a_path_and_a_grey_array_are_looked_at_alike(tmp_path: Path) -> None:
    image = picture()
    grey = image[..., 1]
    Pillow.fromarray(image).save(tmp_path / "cart.png")
    detector = Detector(make_model())
    expected = detector.detect(image)
    assert_equal(detector.detect(tmp_path / "cart.png"), expected)
    assert_equal(detector.detect(str(tmp_path / "cart.png")), expected)
    assert_equal(detector.detect(grey), detector.detect(np.repeat(grey[..., None], 3, 2)))


def test_suppression_is_chosen_by_name_and_drops_duplicates() -> None:
    detector = Detector(make_model())
    candidates = detector.candidates(picture(), -3.0)
    kept = detector.detect(picture(), -3.0, "greedy", overlap=0.3)
    assert 1 <= len(kept) < len(candidates)
    assert kept.score[0] == candidates.score[0]
    with pytest.raises(SettingsError, match="method must be one of"):
        detector.detect(picture(), method="magic")


def test_wrong_use_is_named() -> None:
    with pytest.raises(SettingsError, match="at least one model"):
        Detector([])
    with pytest.raises(SettingsError, match="cores must be at least 1, found 0"):
        Detector(make_model(), cores=0)
    with pytest.raises(SettingsError, match="threshold must be a number, found nan"):
        Detector(make_model()).detect(picture(), float("nan"))


def test_extent_is_the_box_around_the_flags() -> None:
    flags = np.zeros((4, 5, 7), bool)
    flags[0, 1:3, 2:6] = True
    flags[1, 4, 6] = flags[1, 0, 3] = True
    flags[3] = True
    expected = [[2, 1, 6, 3], [3, 0, 7, 5], [3.5, 2.5, 3.5, 2.5], [0, 0, 7, 5]]
    np.testing.assert_array_equal(block_extents(flags), expected)
    assert block_extents(flags[:0]).shape == (0, 4)


def test_visible_boxes_are_what_box_visible_blocks_and_image_share() -> None:
    full = np.array([[10.0, 10, 50, 40], [-20, -5, 30, 30], [10, 10, 50, 40], [150, 10, 170, 40]])
    window = np.array([[20.0, 0, 60, 30], [-10, 5, 20, 40], [60, 60, 62, 62], [150, 0, 170, 40]])
    grids = [np.full((2, 3), Block.GROUND, np.uint8) for _ in range(4)]
    grids[2][:] = Block.HIDDEN
    found = visible_boxes(window, full, grids, (100, 120))
    np.testing.assert_array_equal(found[0], [20, 10, 50, 30])
    np.testing.assert_array_equal(found[1], [0, 5, 20, 30])
    assert (found[:, 2:] >= found[:, :2]).all()
    assert (found[3] == [120, 10, 120, 40]).all()


def test_boxes_are_placed_by_cell_offset_and_scale() -> None:
    y, x = np.array([4, 10]), np.array([6, 3])
    hog = place_boxes(y, x, (8, 12), [0, 0, 12, 8], Hog(cell=6, border=False), (0.5, 0.25))
    np.testing.assert_allclose(hog[0], [3 / 0.5, 3 / 0.25, 75 / 0.5, 51 / 0.25])
    np.testing.assert_allclose(hog[1], [(3 - 18) / 0.5, (3 + 36) / 0.25, (3 + 54) / 0.5, 87 / 0.25])
    scales = np.array([[0.5, 0.25], [1.0, 1.0]])
    fhog = place_boxes(y, x, (3, 5), [1, 1, 4, 2], Fhog(cell=8), scales)
    np.testing.assert_allclose(fhog[0], [(3 + 1) * 16, (2 + 1) * 32, (3 + 4) * 16, (2 + 2) * 32])
    np.testing.assert_allclose(fhog[1], [8, 72, 32, 80])


@pytest.mark.parametrize("method", ["voting", "greedy", "covering", "meanshift", "soft"])
def test_what_is_reported_does_not_depend_on_the_threshold(method: str) -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = Detector(load("car.fast"))
    every = detector.detect(image, -1.0, method)
    assert len(every) > 3
    levels = [float(np.median(every.score)), float(every.score[1]), 99.0]
    if method in ("voting", "greedy"):
        lower = detector.detect(image, -1.5, method)
        assert len(lower) > len(every)
        every, levels = lower, [-1.0, *levels]
    for level in levels:
        found = detector.detect(image, level, method)
        expected = every[every.score >= level]
        np.testing.assert_array_equal(found.score, expected.score)
        np.testing.assert_array_equal(found.full, expected.full)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.array])
def test_thresholds_may_be_numbers_of_numpy(kind: Any) -> None:
    image = picture()
    detector = Detector(make_model())
    expected = detector.detect(image, -1.0)
    with on_compile(lambda _: pytest.fail("a kernel was compiled again")):
        found = detector.detect(image, kind(-1))
    np.testing.assert_array_equal(found.score, expected.score)


@pytest.mark.parametrize("threshold", [np.zeros(2), [0.0], "0", None, np.nan, 1j])
def test_thresholds_that_are_no_number_are_refused(threshold: Any) -> None:
    with pytest.raises(SettingsError, match="threshold must be a number, found"):
        Detector(make_model()).detect(picture(), threshold)


def test_a_negative_number_of_detections_is_refused() -> None:
    detector = Detector(make_model())
    view = detector.view(picture())
    with pytest.raises(SettingsError, match="most must be at least 0, found -1"):
        detector.search(view, -1.0, most=-1)
