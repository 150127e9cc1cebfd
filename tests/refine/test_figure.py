"""Figure and ground: what of a detection's visible blocks is the object."""

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import halfseen as hs
from halfseen.collection.shards import JSON_LINES, PARQUET, ShardCodec
from halfseen.data.records import records
from halfseen.data.scenes import render_scenes
from halfseen.detections import Block, Detections
from halfseen.model.mask_head import FigureSettings, MaskHead
from halfseen.model.mixture import Mixture
from halfseen.refine.figure import Figures, cut_figures, surroundings
from halfseen.refine.kernels import block_colours, colour_evidence, contrast_edges, lab
from tests.builders import headless, random_head

SHIPPED = Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors"
DISC = (60.0, 50.0, 28.0)
SETTINGS = FigureSettings()


def figures(
    image: NDArray[np.uint8],
    window: NDArray[np.float64],
    box: NDArray[np.float64],
    flags: NDArray[np.bool_],
    typical: NDArray[np.float32] | None = None,
    settings: FigureSettings = SETTINGS,
) -> Figures:
    """The figures of windows (N, 4) in boxes (N, 4), with visible blocks (N, rows, cols)."""
    around = surroundings(image, window, box, flags.shape[1:], settings)
    return cut_figures(around, flags, typical, settings)


def figure_of(
    image: NDArray[np.uint8], window: NDArray[np.float64], flags: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The figure of one window, its own box; all that is visible if it is not believed."""
    found: NDArray[np.bool_] = figures(image, window[None], window[None], flags[None]).within(
        flags[None]
    )[0]
    return found


def detections(window: NDArray[np.float64], blocks: tuple[NDArray[Any], ...]) -> Detections:
    count = len(window)
    return Detections(
        np.arange(count, 0.0, -1), np.full(count, "car"), np.zeros(count, np.int64),
        np.zeros(count, bool), window, window, window, blocks, (100, 120),
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
    return np.asarray(np.hypot(x - DISC[0], y[:, None] - DISC[1]) / DISC[2])


def slow_energy(
    image: NDArray[np.uint8],
    window: NDArray[np.float64],
    box: NDArray[np.float64],
    flags: NDArray[np.bool_],
    typical: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.bool_], dict[tuple[bool, ...], float]]:
    """Which blocks of window and ring can be figure, and what every choice of them is worth."""
    ring = SETTINGS.ring
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
        near[i, j] = box[0] - SETTINGS.near * wide < x < box[2] + SETTINGS.near * wide
        near[i, j] &= box[1] - SETTINGS.near * high < y < box[3] + SETTINGS.near * high
        off_x = abs(2 * x - box[0] - box[2]) / (box[2] - box[0])
        off_y = abs(2 * y - box[1] - box[3]) / (box[3] - box[1])
        place[i, j] = max(1 - max(off_x, off_y), 0)
        a, b = i - ring, j - ring
        hidden = 0 <= a < flags.shape[0] and 0 <= b < flags.shape[1] and not flags[a, b]
        free[i, j] = known[i, j] and inside[i, j] and not hidden
    ground = known & near & ~inside
    expected_share, prior = place, SETTINGS.place * (place - SETTINGS.neutral)
    if typical is not None:
        expected_share, prior = np.zeros((rows, cols)), np.zeros((rows, cols))
        for a, b in np.ndindex(flags.shape):
            expected_share[a + ring, b + ring] = typical[a, b]
            prior[a + ring, b + ring] = np.log(typical[a, b]) - np.log(1 - typical[a, b])
    worth = np.zeros((rows, cols))
    for i, j in np.argwhere(free):
        like = np.exp(-((seen - seen[i, j]) ** 2).sum(-1) / (2 * SETTINGS.width**2))
        like[i, j] = 0
        there = (like * expected_share * free).sum() / max(
            (expected_share * free).sum(), 1e-9
        ) + SETTINGS.unseen
        here = (like * ground).sum() / max(ground.sum(), 1) + SETTINGS.unseen
        worth[i, j] = np.log(there / here) + prior[i, j]
    across, down = (edges[0] for edges in contrast_edges(lab(colours), 3.0))
    part = free | ground
    values = {}
    for choice in itertools.product([False, True], repeat=int(free.sum())):
        v = np.zeros((rows, cols), bool)
        v[free] = choice
        cut = (across * (v[:, 1:] != v[:, :-1]) * part[:, 1:] * part[:, :-1]).sum()
        cut += (down * (v[1:] != v[:-1]) * part[1:] * part[:-1]).sum()
        values[choice] = float((worth * v).sum() - SETTINGS.alpha * cut)
    return free, values


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_figures_are_the_best_of_all(seed: int, known: bool) -> None:
    """Against every choice of a small grid's blocks.

    Windows lie inside the image and beyond it, some blocks are hidden, and the typical figure of
    the first box is known or not.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-15, 90, 2)
    window = np.array([x, y, x + rng.uniform(30, 60), y + rng.uniform(30, 60)])
    box = window + rng.uniform(-8, 8, 4)
    flags = rng.random((3, 4)) < 0.75
    typical = rng.uniform(0.05, 0.95, (1, 3, 4)).astype(np.float32) if known else None
    expected_share = None if typical is None else typical[0]
    free, values = slow_energy(disc_image(seed), window, box, flags, expected_share)
    assert free.any()
    around = surroundings(disc_image(seed), window[None], box[None], flags.shape, SETTINGS)
    own = cut_figures(around, flags[None], typical, SETTINGS)
    assert own.believed[0] == (own.grids.sum() > SETTINGS.least * free.sum())
    found = np.zeros_like(free)
    found[SETTINGS.ring : -SETTINGS.ring, SETTINGS.ring : -SETTINGS.ring] = own.grids[0]
    assert not found[~free].any()
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
    ground, wanted = rng.random((2, 3, 4, 5)) < 0.5
    found = colour_evidence(seen, place, ground, wanted, 6.0, 0.01)
    assert (found[~wanted] == 0).all()
    for n, i, j in np.argwhere(wanted):
        like = np.exp(-((seen[n] - seen[n, i, j]) ** 2).sum(-1) / 72)
        like[i, j] = 0
        there = (like * place[n]).sum() / place[n].sum() + 0.01
        here = (like * ground[n]).sum() / ground[n].sum() + 0.01
        assert found[n, i, j] == pytest.approx(np.log(there / here), abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_disc_is_told_from_its_background(seed: int) -> None:
    window = np.array([[20.0, 10.0, 100.0, 90.0], [30.0, 20.0, 90.0, 80.0]])
    for box, shape in zip(window, [(10, 10), (7, 8)], strict=True):
        grid = figure_of(disc_image(seed), box, np.ones(shape, bool))
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
    grid = figure_of(image, window[0], flags)
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
    here, believed = figures(image, window, box, flags)
    mirrored = [
        boxes[:, [2, 1, 0, 3]] * [-1, 1, -1, 1] + [512, 0, 512, 0] for boxes in (window, box)
    ]
    there, also = figures(image[:, ::-1].copy(), mirrored[0], mirrored[1], flags[:, :, ::-1])
    np.testing.assert_array_equal(here, there[:, :, ::-1])
    np.testing.assert_array_equal(believed, also)
    assert 0.1 < here.mean() < 0.9


def test_where_nothing_can_be_told_all_that_is_visible_is_figure() -> None:
    hidden, outside = np.zeros((4, 5), bool), np.ones((4, 5), bool)
    outside[0, 2] = False
    window = np.array([[20.0, 10.0, 100.0, 90.0], [500.0, 400.0, 560.0, 460.0]])
    for own, box in zip((hidden, outside), window, strict=True):
        np.testing.assert_array_equal(figure_of(disc_image(), box, own), own)


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
def test_detections_by_a_mask_head_tell_object_from_ground(method: str) -> None:
    detector = hs.Detector(model_with_head())
    kept = detector.detect(scene(), -1, method)
    assert len(kept)
    for n in range(len(kept)):
        visible = kept.visibility[n]
        around = kept.window[[n]], kept.full[[n]], visible[None]
        expected = figures(scene(), *around).within(visible[None])[0]
        np.testing.assert_array_equal(kept.blocks[n] == Block.OBJECT, expected)
        np.testing.assert_array_equal(kept.blocks[n] == Block.GROUND, visible & ~expected)
    assert any((grid == Block.GROUND).any() for grid in kept.blocks)
    again = detector.finish(detector.view(scene()), kept)
    for ours, theirs in zip(kept.blocks, again.blocks, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_blocks_look_like_is_added_to_what_is_typical_of_their_place() -> None:
    """Against plain sums, block by block, from the level that each window was found on."""
    model = random_head(headless())
    assert model.head is not None
    detector = hs.Detector(model)
    view = detector.view(scene())
    kept = detector.detect(scene(), -1)
    assert kept.mirrored.any()
    assert not kept.mirrored.all()
    (levels,) = view.levels
    for n in range(len(kept)):
        rows, cols = kept.blocks[n].shape
        component, side = int(kept.component[n]), -1 if kept.mirrored[n] else 1
        level = int(levels.nearest(kept.window[[n]], np.array([[rows, cols]]))[0])
        features = levels.features(level)
        corner = kept.window[n, :2] * levels.scales[level] - model.descriptor.offset
        left, top = np.rint(corner / model.descriptor.cell).astype(int)
        logits = np.empty((rows, cols))
        for i, j in np.ndindex(rows, cols):
            y = min(max(top + i, 0), features.shape[0] - 1)
            x = min(max(left + j, 0), features.shape[1] - 1)
            block = features[y, x]
            if side < 0:
                block = block[model.descriptor.mirror]
            share = float(model.head.figure[component][i, ::side][j])
            *weights, constant = model.head.looks[component].astype(float)
            logits[i, j] = np.log(share / (1 - share)) + block @ np.array(weights) + constant
        typical = (1 / (1 + np.exp(-np.clip(logits, -6, 6)))).astype(np.float32)
        visible = kept.visibility[n]
        around = kept.window[[n]], kept.full[[n]], visible[None]
        expected = figures(scene(), *around, typical[None]).within(visible[None])[0]
        np.testing.assert_array_equal(kept.blocks[n] == Block.OBJECT, expected)
    plain = replace(model, head=replace(model.head, looks=()))
    other = hs.Detector(plain).detect(scene(), -1)
    assert any(
        (ours != theirs).any() for ours, theirs in zip(kept.blocks, other.blocks, strict=True)
    )


def test_without_a_head_all_that_is_visible_is_object() -> None:
    model = model_with_head()
    plain = [
        hs.Detector(model, "paper").detect(scene(), -1),
        hs.Detector(model).candidates(scene(), -1),
        hs.Detector(replace(model, head=None)).detect(scene(), -1),
    ]
    both = hs.Detector([model, replace(model, head=None, label="cab")]).detect(scene(), -1)
    assert set(both.label) == {"car", "cab"}
    for found in (*plain, both[both.label == "cab"]):
        assert len(found)
        assert not any((grid == Block.GROUND).any() for grid in found.blocks)


def some_blocks() -> Detections:
    window = np.array([[0.0, 0.0, 40.0, 20.0], [20.0, 40.0, 80.0, 80.0]])
    grid = np.array([[3, 2, 1, 3], [3, 3, 0, 3]], np.uint8)
    return detections(window, (grid, np.ones((3, 2), np.uint8)))


def test_all_answers_follow_from_the_blocks() -> None:
    found = some_blocks()
    mask, visible = found.mask(0), found.visible_mask(0)
    for x, block in ((5, Block.OBJECT), (15, Block.GROUND), (25, Block.HIDDEN)):
        assert mask[5, x] == (block == Block.OBJECT)
        assert visible[5, x] == (block >= Block.GROUND)
    assert not mask[15, 25]
    assert not found.mask(1).any()
    np.testing.assert_array_equal(found.visible_fraction, [6 / 8, 0])
    again = found.with_blocks(found.blocks)
    np.testing.assert_array_equal(again.visible[0], [0, 0, 40, 20])
    assert (again.visible[1, 2:] == again.visible[1, :2]).all()


def test_selections_and_parts_keep_their_blocks_models_and_columns() -> None:
    found = replace(some_blocks(), extra={"evidence": np.array([1.0, 2.0])}, model=np.array([3, 4]))
    last = found[[1]]
    np.testing.assert_array_equal(last.blocks[0], found.blocks[1])
    assert last.model.tolist() == [4]
    joined = Detections.concatenate([last, found, some_blocks()[[0]]])
    assert [grid.shape for grid in joined.blocks] == [(3, 2), (2, 4), (3, 2), (2, 4)]
    np.testing.assert_array_equal(joined.extra["evidence"], [2, 1, 2, np.nan])
    assert joined.model.tolist() == [4, 3, 4, 0]
    with pytest.raises(ValueError, match="evidence has 1 rows, score has 2"):
        replace(found, extra={"evidence": np.zeros(1)})
    with pytest.raises(ValueError, match="1 dimensions, not 2"):
        replace(found, blocks=(np.ones(4, bool), found.blocks[1]))
    with pytest.raises(ValueError, match="must be uint8 or bool, found float64"):
        replace(found, blocks=(np.ones((2, 4)), found.blocks[1]))


@pytest.mark.parametrize("codec", [JSON_LINES, PARQUET])
def test_files_keep_blocks(codec: ShardCodec) -> None:
    rows = records(some_blocks())
    assert rows[0]["blocks"] == ["ogho", "oo.o"]
    record = {"image": "a.jpg", "width": 120, "height": 100, "detections": rows}
    assert codec.decode(codec.encode([record])) == [record]
