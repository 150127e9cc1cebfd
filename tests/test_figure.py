"""Figure and ground: what of a detection's visible blocks is the object."""

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import halfseen as hs
from halfseen.collection.shards import FORMATS
from halfseen.data.scenes import render_scenes
from halfseen.detections import Detections
from halfseen.features.colour import lab
from halfseen.infer import figure
from halfseen.infer.boxes import predicted_boxes
from halfseen.infer.figure import RING, figure_grids, find_figures
from halfseen.infer.mask_kernels import block_colours, colour_evidence, mean_on_outline
from halfseen.infer.masks import Verdict, contrast_edges
from halfseen.infer.missing import not_surely_hidden
from halfseen.model.mask_head import MaskHead
from halfseen.model.mixture import Mixture
from halfseen.view.records import records

SHIPPED = Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors"
DISC = (60.0, 50.0, 28.0)


def detections(window: NDArray[np.float64], flags: tuple[NDArray[np.bool_], ...]) -> Detections:
    count = len(window)
    return Detections(
        np.arange(count, 0.0, -1), np.full(count, "car"), np.zeros(count, np.int64),
        np.zeros(count, bool), window, window, window, flags, (100, 120),
    )  # fmt: skip


def disc_image(seed: int = 0) -> NDArray[np.uint8]:
    """A red disc before green, both with noise."""
    x, y, radius = DISC
    rows, columns = np.mgrid[:100, :120] + 0.5
    inside = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
    image = np.where(inside[..., None], [200, 60, 50], [60, 140, 60])
    noise = np.random.default_rng(seed).integers(-25, 26, image.shape)
    return (image + noise).astype(np.uint8)


def off_centre(window: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """How far the centres of blocks are from the disc's, in its radius."""
    x = window[0] + (np.arange(shape[1]) + 0.5) * (window[2] - window[0]) / shape[1]
    y = window[1] + (np.arange(shape[0]) + 0.5) * (window[3] - window[1]) / shape[0]
    return np.hypot(x - DISC[0], y[:, None] - DISC[1]) / DISC[2]


def slow_energy(
    image: NDArray[np.uint8],
    window: NDArray[np.float64],
    box: NDArray[np.float64],
    flags: NDArray[np.bool_],
    typical: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.bool_], dict[tuple[bool, ...], float]]:
    """Which blocks of window and ring can be figure, and what every choice of them is worth."""
    ring = figure.RING
    rows, cols = flags.shape[0] + 2 * ring, flags.shape[1] + 2 * ring
    wide, high = (window[2:] - window[:2]) / flags.shape[::-1]
    around = window + ring * np.array([-wide, -high, wide, high])
    colours = block_colours(image, around[None], rows, cols)
    seen = lab(colours)[0]
    known, free = np.zeros((rows, cols), bool), np.zeros((rows, cols), bool)
    inside, place = np.zeros((rows, cols), bool), np.zeros((rows, cols))
    near = np.zeros((rows, cols), bool)
    for i, j in np.ndindex(rows, cols):
        x, y = around[0] + (j + 0.5) * wide, around[1] + (i + 0.5) * high
        known[i, j] = 0 < x < image.shape[1] and 0 < y < image.shape[0]
        across = min(x + wide / 2, box[2]) - max(x - wide / 2, box[0])
        down = min(y + high / 2, box[3]) - max(y - high / 2, box[1])
        inside[i, j] = max(across, 0) * max(down, 0) > 0.501 * wide * high
        near[i, j] = box[0] - figure.NEAR * wide < x < box[2] + figure.NEAR * wide
        near[i, j] &= box[1] - figure.NEAR * high < y < box[3] + figure.NEAR * high
        off_x = abs(2 * x - box[0] - box[2]) / (box[2] - box[0])
        off_y = abs(2 * y - box[1] - box[3]) / (box[3] - box[1])
        place[i, j] = max(1 - max(off_x, off_y), 0)
        a, b = i - ring, j - ring
        hidden = 0 <= a < flags.shape[0] and 0 <= b < flags.shape[1] and not flags[a, b]
        free[i, j] = known[i, j] and inside[i, j] and not hidden
    ground = known & near & ~inside
    usual, prior = place, figure.PLACE * (place - figure.NEUTRAL)
    if typical is not None:
        usual, prior = np.zeros((rows, cols)), np.zeros((rows, cols))
        for a, b in np.ndindex(flags.shape):
            usual[a + ring, b + ring] = typical[a, b]
            prior[a + ring, b + ring] = np.log(typical[a, b]) - np.log(1 - typical[a, b])
    worth = np.zeros((rows, cols))
    for i, j in np.argwhere(free):
        like = np.exp(-((seen - seen[i, j]) ** 2).sum(-1) / (2 * figure.WIDTH**2))
        like[i, j] = 0
        there = (like * usual * free).sum() / max((usual * free).sum(), 1e-9) + figure.UNSEEN
        here = (like * ground).sum() / max(ground.sum(), 1) + figure.UNSEEN
        worth[i, j] = np.log(there / here) + prior[i, j]
    across, down = (edges[0] for edges in contrast_edges(lab(colours)))
    part = free | ground
    values = {}
    for choice in itertools.product([False, True], repeat=int(free.sum())):
        v = np.zeros((rows, cols), bool)
        v[free] = choice
        cut = (across * (v[:, 1:] != v[:, :-1]) * part[:, 1:] * part[:, :-1]).sum()
        cut += (down * (v[1:] != v[:-1]) * part[1:] * part[:-1]).sum()
        values[choice] = float((worth * v).sum() - figure.ALPHA * cut)
    return free, values


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_figures_are_the_best_of_all(seed: int, known: bool) -> None:
    """Against every choice of a small grid's blocks: within the image and beyond, some hidden, with
    what is typical of the first box's figure and without.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-15, 90, 2)
    window = np.array([x, y, x + rng.uniform(30, 60), y + rng.uniform(30, 60)])
    box = window + rng.uniform(-8, 8, 4)
    flags = rng.random((3, 4)) < 0.75
    typical = rng.uniform(0.05, 0.95, (1, 3, 4)).astype(np.float32) if known else None
    usual = None if typical is None else typical[0]
    free, values = slow_energy(disc_image(seed), window, box, flags, usual)
    assert free.any()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "LEAST", -1.0)
        # Two boxes of the window, one after another.
        other = np.stack([box, box + rng.uniform(-20, 20, 4)])
        grids, told, _ = figure_grids(disc_image(seed), window[None], other, flags[None], typical)
    assert told[0]
    found = grids[0]
    assert not found[~free].any()
    np.testing.assert_array_equal(
        grids[1], figure_grids(disc_image(seed), window[None], other[1:], flags[None])[0][0]
    )
    best = max(values.values())
    same = [value for choice, value in values.items() if (_grid(free, choice) == found).all()]
    assert max(same) == pytest.approx(best, abs=1e-4)


def _grid(free: NDArray[np.bool_], choice: tuple[bool, ...]) -> NDArray[np.bool_]:
    grid = np.zeros_like(free)
    grid[free] = choice
    return grid


def test_evidence_against_plain_sums() -> None:
    rng = np.random.default_rng(0)
    seen = rng.normal(0, 8, (3, 4, 5, 3)).astype(np.float32)
    place = rng.random((3, 4, 5)).astype(np.float32)
    ground, asked = rng.random((2, 3, 4, 5)) < 0.5
    found = colour_evidence(seen, place, ground, asked, 6.0, 0.01)
    assert (found[~asked] == 0).all()
    for n, i, j in np.argwhere(asked):
        like = np.exp(-((seen[n] - seen[n, i, j]) ** 2).sum(-1) / 72)
        like[i, j] = 0
        there = (like * place[n]).sum() / place[n].sum() + 0.01
        here = (like * ground[n]).sum() / ground[n].sum() + 0.01
        assert found[n, i, j] == pytest.approx(np.log(there / here), abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_disc_is_told_from_its_background(seed: int) -> None:
    window = np.array([[20.0, 10.0, 100.0, 90.0], [30.0, 20.0, 90.0, 80.0]])
    found = detections(window, (np.ones((10, 10), bool), np.ones((7, 8), bool)))
    for box, grid in zip(window, find_figures(disc_image(seed), found), strict=True):
        far = off_centre(box, grid.shape)
        assert grid[far < 0.8].all()
        assert not grid[far > 1.2].any()
        assert (far > 1.2).any()


def test_hidden_blocks_are_no_figure_and_do_not_colour_it() -> None:
    """A blue board covers the disc's middle, where blocks count most."""
    image = disc_image()
    image[:, 50:70] = [40, 60, 200]
    window = np.array([[20.0, 10.0, 100.0, 90.0]])
    flags = np.ones((10, 10), bool)
    flags[:, 3:7] = False
    (grid,) = find_figures(image, detections(window, (flags,)))
    far = off_centre(window[0], grid.shape)
    assert not (grid & ~flags).any()
    assert not grid[far > 1.2].any()
    assert grid[flags & (far < 0.8)].all()


def test_mirrored_pictures_have_mirrored_figures() -> None:
    image = render_scenes(1, seed=5, classes=["car"], size=(384, 512)).image(0)
    rng = np.random.default_rng(0)
    corner = np.rint(rng.uniform(-60, 400, (40, 2)))
    window = np.hstack([corner, corner + np.array([108, 84])])  # 7 x 12 blocks
    box = window + np.rint(rng.uniform(-12, 12, (40, 4))) / 2
    flags = rng.random((40, 7, 12)) < 0.8
    here, believed, outline = figure_grids(image, window, box, flags)
    mirrored = [
        boxes[:, [2, 1, 0, 3]] * [-1, 1, -1, 1] + [512, 0, 512, 0] for boxes in (window, box)
    ]
    there, also, same = figure_grids(image[:, ::-1].copy(), *mirrored, flags[:, :, ::-1])
    np.testing.assert_array_equal(here, there[:, :, ::-1])
    np.testing.assert_array_equal(believed, also)
    np.testing.assert_allclose(outline, same, atol=1e-6)
    assert 0.1 < here[:, RING:-RING, RING:-RING].mean() < 0.9


def test_outlines_against_plain_sums() -> None:
    rng = np.random.default_rng(0)
    grids = rng.random((8, 4, 5)) < 0.4
    grids[0], grids[1] = False, True
    across, down = (rng.random(shape).astype(np.float32) for shape in ((8, 4, 4), (8, 3, 5)))
    neither = rng.random((8, 4, 5)) < 0.2
    found = mean_on_outline(grids, neither, across, down)
    assert np.isnan(found[:2]).all()
    for n in range(2, 8):
        part = ~neither[n]
        weights = [
            *across[n][(grids[n, :, 1:] != grids[n, :, :-1]) & part[:, 1:] & part[:, :-1]],
            *down[n][(grids[n, 1:] != grids[n, :-1]) & part[1:] & part[:-1]],
        ]
        assert found[n] == pytest.approx(np.mean(weights), abs=1e-6)


def test_the_outline_of_a_disc_is_sharp_and_that_of_a_patch_of_ground_is_faint() -> None:
    """The colours of the ground vary, and where they happen to is what ends a figure there."""
    window = np.array([[20.0, 10.0, 100.0, 90.0]])
    flags = np.ones((1, 10, 10), bool)
    ground = np.random.default_rng(0).normal(120, 8, (100, 120, 3)).clip(0, 255).astype(np.uint8)
    sharp = figure_grids(disc_image(), window, window, flags)
    faint = figure_grids(ground, window, window, flags)
    assert sharp.believed.all()
    assert sharp.outline[0] < 0.1
    assert faint.outline[0] > 2 * sharp.outline[0]
    # Where the disc is hidden, or the image ends, there is no outline to be faint.
    half = flags.copy()
    half[:, :, 5:] = False
    cut = disc_image()[:, 60:].copy()
    assert figure_grids(disc_image(), window, window, half).outline[0] < 0.1
    assert (
        figure_grids(cut, window - [60, 0, 60, 0], window - [60, 0, 60, 0], flags).outline[0] < 0.1
    )
    # What is not believed is as faint as most are.
    nothing = figure_grids(disc_image(), window, window, ~flags)
    assert not nothing.believed.any()
    assert nothing.outline[0] == figure.FAINT


def test_where_nothing_can_be_told_all_that_is_visible_is_figure() -> None:
    hidden, outside = np.zeros((4, 5), bool), np.ones((4, 5), bool)
    outside[0, 2] = False
    window = np.array([[20.0, 10.0, 100.0, 90.0], [500.0, 400.0, 560.0, 460.0]])
    flags = (hidden, outside)
    for own, grid in zip(flags, find_figures(disc_image(), detections(window, flags)), strict=True):
        np.testing.assert_array_equal(grid, own)
    assert find_figures(disc_image(), Detections.empty((100, 120))) == ()


@cache
def model_with_head() -> Mixture:
    """Its head calls few blocks hidden."""
    model = replace(hs.load(SHIPPED), head=None)
    rng = np.random.default_rng(0)
    weights, bias = [], []
    for component in model.components:
        rows, cols, channels = component.weights.shape
        weights.append(rng.normal(size=(rows, cols, 3, 3, channels)).astype(np.float16))
        bias.append(np.full((rows, cols), -2, np.float32))
    return replace(model, head=MaskHead(tuple(weights), tuple(bias), 0.5))


@cache
def scene() -> NDArray[np.uint8]:
    return render_scenes(1, seed=5, classes=["car"]).image(0)


@pytest.mark.parametrize("method", ["voting", "covering"])
def test_detections_by_a_mask_head_have_figures(method: str) -> None:
    detector = hs.Detector(model_with_head())
    choice = detector.choose(scene(), -1, method)
    kept = choice.kept
    assert len(kept)
    assert choice.candidates.figure is None
    assert kept.figure is not None
    own = replace(kept, full=predicted_boxes(model_with_head(), kept))
    masks = detector.masks_of(scene(), own)
    compared = 0
    for n, verdict in enumerate(masks.judged):
        assert verdict is not None
        first = masks.found.visibility[n]
        if (first == kept.visibility[n]).all():  # it does not stand behind another
            each = Verdict(*(part[None] for part in verdict))
            seen = replace(own[[n]], visibility=tuple(not_surely_hidden(each, first[None])))
            (figure,) = find_figures(scene(), seen)
            np.testing.assert_array_equal(kept.figure[n], figure)
            compared += bool((figure & ~first).any())
    assert compared
    again = detector.look_again(scene(), replace(kept, figure=None))
    assert again.figure is not None
    for ours, theirs in zip(kept.figure, again.figure, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_without_a_head_there_are_none() -> None:
    model = model_with_head()
    assert hs.Detector(model, "paper").detect(scene(), -1).figure is None
    assert hs.Detector(model).candidates(scene(), -1).figure is None
    assert hs.Detector(replace(model, head=None)).detect(scene(), -1).figure is None
    both = hs.Detector([model, replace(model, head=None, label="cab")])
    found = both.detect(scene(), -1)
    assert found.figure is not None
    assert set(found.label) == {"car", "cab"}
    for n in np.flatnonzero(found.label == "cab"):
        np.testing.assert_array_equal(found.figure[n], found.visibility[n])


def some_figures() -> Detections:
    window = np.array([[0.0, 0.0, 40.0, 20.0], [20.0, 40.0, 80.0, 80.0]])
    flags = np.array([[True, True, False, True], [True, False, True, True]])
    found = detections(window, (flags, np.ones((3, 2), bool)))
    figures = (np.array([[True, False, True, True], [True] * 4]), np.zeros((3, 2), bool))
    return replace(found, figure=figures)


def test_masks_are_of_the_figure() -> None:
    found = some_figures()
    plain = replace(found, figure=None)
    mask = found.mask(0)
    assert mask[5, 5]
    assert mask[5, 35]
    assert not mask[5, 15]  # ground
    assert mask[5, 25]  # figure, whatever the flags hold it for
    assert plain.mask(0)[5, 15]
    assert not plain.mask(0)[5, 25]
    assert not found.mask(1).any()


def test_selections_and_parts_keep_their_figures() -> None:
    found = some_figures()
    assert found.figure is not None
    last = found[[1]]
    assert last.figure is not None
    np.testing.assert_array_equal(last.figure[0], found.figure[1])
    joined = Detections.concatenate([last, found])
    assert joined.figure is not None
    assert [grid.shape for grid in joined.figure] == [(3, 2), (2, 4), (3, 2)]
    assert Detections.concatenate([found, replace(found, figure=None)]).figure is None
    with pytest.raises(ValueError, match=r"figure has the shapes \[\(3, 2\)"):
        replace(found, figure=found.figure[::-1])


@pytest.mark.parametrize("name", FORMATS)
def test_files_keep_figures(name: str) -> None:
    rows = records(some_figures())
    assert rows[0]["figure"] == ["1011", "1111"]
    assert "figure" not in records(replace(some_figures(), figure=None))[0]
    record = {"image": "a.jpg", "width": 120, "height": 100, "detections": rows}
    plain = {**record, "detections": records(replace(some_figures(), figure=None))}
    assert FORMATS[name].decode(FORMATS[name].encode([record, plain])) == [record, plain]
