"""The mask head: stored with its model, and applied to detections."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.scenes import render_scenes
from halfseen.detect import view as view_module
from halfseen.errors import ModelError, SettingsError
from halfseen.features.fhog import Fhog
from halfseen.geometry import clip
from halfseen.model.mask_head import FigureSettings, HiddenSettings, MaskHead
from halfseen.refine.hidden import (
    cut_hidden,
)
from halfseen.refine.kernels import (
    block_colours,
    contrast_edges,
    hidden_logits,
    lab,
)
from tests.builders import Header, Tensors, headless, mirrored_pairs, random_head, rewrite


def test_a_model_with_a_head_survives_the_file(tmp_path: Path) -> None:
    hs.save(random_head(headless()), tmp_path / "car.safetensors")
    back, model = hs.load(tmp_path / "car.safetensors").head, random_head(headless()).head
    assert back is not None
    assert model is not None
    assert back.alpha == model.alpha
    ours, theirs = ((*h.weights, *h.bias, *h.figure, *h.looks) for h in (back, model))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_head_without_figures_loads_and_one_with_some_of_them_does_not(tmp_path: Path) -> None:
    def forget(_: Header, tensors: Tensors, which: tuple[int, ...] = (0, 1)) -> None:
        for i in which:
            del tensors[f"head.figure.{i}"], tensors[f"head.looks.{i}"]

    path = tmp_path / "car.safetensors"
    hs.save(random_head(headless()), path)
    rewrite(path, forget)
    head = hs.load(path).head
    assert head is not None
    assert head.figure == head.looks == ()
    assert len(hs.Detector(hs.load(path)).detect(render_scenes(1, seed=5).image(0), -2))
    hs.save(random_head(headless()), path)
    rewrite(path, partial(forget, which=(1,)))
    with pytest.raises(ModelError, match=r"tensor head\.figure\.1 is missing"):
        hs.load(path)


def test_a_model_without_a_head_loads_and_keeps_the_papers_flags() -> None:
    assert headless().head is None
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    plain, paper = (hs.Detector(headless(), v).detect(image, -2) for v in ("default", "paper"))
    assert len(plain)
    assert len(plain) == len(paper)
    for ours, theirs in zip(plain.visibility, paper.visibility, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ModelError, match="no mask head"):
        hs.Detector(headless(), visibility="head")
    with pytest.raises(SettingsError, match="visibility must be"):
        hs.Detector(headless(), visibility="best")  # type: ignore[arg-type]


def test_a_strangers_head_is_refused(tmp_path: Path) -> None:
    model = random_head(headless())
    assert model.head is not None
    weights, bias = model.head.weights, model.head.bias
    with pytest.raises(ModelError, match="mask head for components"):
        replace(model, head=MaskHead(weights[:1], bias[:1], 1.0))
    with pytest.raises(ModelError, match="NaN"):
        MaskHead(weights, tuple(b * np.float32("nan") for b in bias), 1.0)
    with pytest.raises(ModelError, match="alpha"):
        MaskHead(weights, bias, -1.0)
    with pytest.raises(ModelError, match="float16"):
        MaskHead(tuple(w.astype(np.float32) for w in weights), bias, 1.0)
    with pytest.raises(ModelError, match="figures must be"):
        MaskHead(weights, bias, 1.0, figure=model.head.figure[:1])
    for wrong in (np.float32("nan"), np.float32(0), np.float32(10), np.float64(1)):
        with pytest.raises(ModelError, match="figures must be float32 and between"):
            MaskHead(weights, bias, 1.0, figure=tuple(f * wrong for f in model.head.figure))
    figure, looks = model.head.figure, model.head.looks
    for some in (looks[:1], tuple(v[1:] for v in looks)):
        with pytest.raises(ModelError, match="looks must be"):
            MaskHead(weights, bias, 1.0, figure=figure, looks=some)
    with pytest.raises(ModelError, match="looks must be"):
        MaskHead(weights, bias, 1.0, looks=looks)
    for wrong in (np.float32("nan"), np.float32(1e30), np.float64(1)):
        with pytest.raises(ModelError, match="looks must be float32 and at most"):
            MaskHead(weights, bias, 1.0, figure=figure, looks=tuple(v * wrong for v in looks))


def test_scores_and_windows_do_not_depend_on_the_flags() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    model = random_head(headless())
    for method in ("greedy", "soft"):
        head, paper = (hs.Detector(model, v).detect(image, -2, method) for v in ("head", "paper"))
        np.testing.assert_array_equal(head.score, paper.score)
        np.testing.assert_array_equal(head.window, paper.window)
        np.testing.assert_array_equal(head.full, paper.full)
        assert any((a != b).any() for a, b in zip(head.visibility, paper.visibility, strict=True))


def test_mirrored_images_give_mirrored_flags() -> None:
    compared = 0
    for here, there in mirrored_pairs(random_head(headless())):
        np.testing.assert_array_equal(here.blocks[0], there.blocks[0][:, ::-1])
        compared += 1
    assert compared >= 1


def test_features_made_again_give_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector([random_head(headless(), 1), random_head(headless(), 2)])
    kept = detector.detect(image, -1.5, "covering")
    monkeypatch.setattr(view_module, "KEPT_BYTES", 0)
    again = detector.detect(image, -1.5, "covering")
    assert len(kept) == len(again) > 0
    for ours, theirs in zip(kept.blocks, again.blocks, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_each_detection_is_marked_by_the_head_of_its_own_model() -> None:
    """Also where two models of one name search at once; before suppression and after it."""
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    models = [random_head(headless(), 1), random_head(headless(), 2)]
    detector = hs.Detector(models)
    view = detector.view(image)
    candidates = detector.search(view, -1.5)
    marked = detector.finish(view, candidates)
    kept = detector.detect(image, -1.5)
    assert len(kept)
    for i in range(len(kept)):
        same = (candidates.window == kept.window[i]).all(1) & (candidates.model == kept.model[i])
        (k,) = np.flatnonzero(same)
        np.testing.assert_array_equal(kept.blocks[i], marked.blocks[k])
        alone = hs.Detector(models[kept.model[i]])
        one = replace(candidates[int(k)], model=np.zeros(1, np.int64))
        np.testing.assert_array_equal(
            alone.finish(alone.view(image), one).blocks[0], kept.blocks[i]
        )


def test_suppression_by_blocks_sees_what_the_head_hides() -> None:
    """Covering suppression looks at blocks; of the others the candidates stay as they were."""
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector(random_head(headless()))
    view = detector.view(image)
    found = detector.search(view, -1.5)
    marked = detector.finish(view, found)
    greedy, _ = detector.suppress(view, found, "greedy")
    covering, _ = detector.suppress(view, found, "covering")
    assert greedy is found
    for n in range(len(found)):
        np.testing.assert_array_equal(covering.visibility[n], marked.visibility[n])
    assert any((a != b).any() for a, b in zip(found.blocks, covering.blocks, strict=True))


def test_each_component_has_its_own_cutoff() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    head = random_head(headless()).head
    assert head is not None
    quiet = replace(
        head,
        weights=tuple(0 * w for w in head.weights),
        bias=tuple(0 * b for b in head.bias),
        cutoff=(-20.0, 20.0),
    )
    detector = hs.Detector(replace(headless(), head=quiet))
    view = detector.view(image)
    found = detector.finish(view, detector.search(view, -2))
    inside = (clip(found.window, found.size) == found.window).all(1)
    for component, flags, within in zip(found.component, found.visibility, inside, strict=True):
        assert not flags.any() if component == 0 else (flags.all() or not within)
    assert len(set(found.component[inside].tolist())) == 2


def test_masks_lie_in_visible_boxes_and_are_empty_where_nothing_is_visible() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    found = hs.Detector(random_head(headless())).detect(image, -1)
    assert len(found)
    for n in range(len(found)):
        ys, xs = np.nonzero(found.mask(n))
        x1, y1, x2, y2 = found.visible[n]
        assert (len(xs) > 0) <= found.visibility[n].any()
        assert not (found.mask(n) & ~found.visible_mask(n)).any()
        if len(xs):
            assert x1 - 0.5 <= xs.min() <= xs.max() <= x2
            assert y1 - 0.5 <= ys.min() <= ys.max() <= y2


def test_logits_against_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(6, 7, 4)).astype(np.float32)
    weights = rng.normal(size=(3, 2, 3, 3, 4)).astype(np.float32)
    bias = rng.normal(size=(3, 2)).astype(np.float32)
    top, left = np.array([-1, 2, 4]), np.array([0, 6, -2])
    found = hidden_logits(features, top, left, weights, bias)
    padded = np.pad(features, [(9, 9), (9, 9), (0, 0)], mode="edge")
    for n in range(3):
        for i in range(3):
            for j in range(2):
                y, x = 9 + top[n] + i, 9 + left[n] + j
                around = padded[y - 1 : y + 2, x - 1 : x + 2]
                expected = bias[i, j] + (around * weights[i, j]).sum()
                assert found[n, i, j] == pytest.approx(expected, abs=1e-4)


def test_the_head_of_a_mirror_image() -> None:
    model = random_head(headless())
    assert model.head is not None
    flip = Fhog().mirror
    weights, bias = model.head.template(0, None)
    mirrored, mirrored_bias = model.head.template(0, flip)
    rows, cols = bias.shape
    level = np.random.default_rng(1).normal(size=(rows, cols, len(flip))).astype(np.float32)
    flipped = np.ascontiguousarray(level[:, ::-1][..., flip])
    zero = np.zeros(1, np.int64)
    plain = hidden_logits(level, zero, zero, weights, bias)
    other = hidden_logits(flipped, zero, zero, mirrored, mirrored_bias)
    np.testing.assert_allclose(other[:, :, ::-1], plain, atol=1e-3)


def test_a_cut_follows_the_colours() -> None:
    """Blocks without evidence join the neighbours that have their colour."""
    colours = np.zeros((1, 1, 6, 3), np.float32)
    colours[:, :, 2:] = 200
    logits = np.array([[[2.0, 0.1, -0.1, 0.1, 0.1, -2.0]]], np.float32)
    outside = np.zeros((1, 1, 6), bool)
    quarters = colours.repeat(2, 1).repeat(2, 2)
    one = np.ones(1)
    flags = cut_hidden(logits, quarters, outside, one, 3.0)
    np.testing.assert_array_equal(flags[0, 0], [False, False, True, True, True, True])
    outside[0, 0, 5] = True
    assert not cut_hidden(logits, quarters, outside, one, 3.0)[0, 0, 5]


def test_edges_and_colours() -> None:
    image = np.zeros((8, 12, 3), np.uint8)
    image[:, 6:] = [255, 0, 0]
    colours = block_colours(image, np.array([[0.0, 0.0, 12.0, 8.0]]), 2, 4)
    np.testing.assert_allclose(colours[0, :, :2], 0)
    np.testing.assert_allclose(colours[0, :, 2:], [[[255, 0, 0]] * 2] * 2)
    across, down = contrast_edges(lab(colours), 3.0)
    assert across.shape == (1, 2, 3)
    assert down.shape == (1, 1, 4)
    np.testing.assert_allclose(down, 1)
    assert (across[0, :, 1] < 0.01).all()
    assert (across[0, :, [0, 2]] == 1).all()


def test_edges_against_their_formula() -> None:
    colours = np.random.default_rng(0).normal(0, 20, (3, 4, 5, 3)).astype(np.float32)
    across, down = contrast_edges(colours, 3.0)
    for n, seen in enumerate(colours.astype(np.float64)):
        x, y = ((np.diff(seen, axis=axis) ** 2).sum(-1) for axis in (1, 0))
        mean = (x.sum() + y.sum()) / (x.size + y.size)
        np.testing.assert_allclose(across[n], np.exp(-3 * x / mean), rtol=1e-5)
        np.testing.assert_allclose(down[n], np.exp(-3 * y / mean), rtol=1e-5)
    alone = contrast_edges(colours[:, :1, :1], 3.0)
    assert alone[0].shape == (3, 1, 0)
    assert alone[1].shape == (3, 0, 1)


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(SettingsError, match="a mask head's ring must be between 1 and 16, found 0"):
        FigureSettings(ring=0)
    with pytest.raises(SettingsError, match=r"ring must be a whole number, found 2\.5"):
        FigureSettings(ring=2.5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"contrast must be between 0\.001 and"):
        HiddenSettings(contrast=float("nan"))


def test_windows_of_something_else_are_refused() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    model = random_head(headless())
    detector = hs.Detector(model)
    view = detector.view(image)
    found = detector.search(view)[:3]
    with pytest.raises(SettingsError, match="is not of this model"):
        detector.finish(view, replace(found, component=found.component + 7))
    with pytest.raises(SettingsError, match="component -1"):
        detector.finish(view, replace(found, component=found.component * 0 - 1))
    with pytest.raises(SettingsError, match="a detection of model 5, but the detector has 1"):
        detector.finish(view, replace(found, model=found.model + 5))
    with pytest.raises(SettingsError, match="window of a detection is empty"):
        detector.finish(view, replace(found, window=found.window * 0))
    turned = replace(found, mirrored=np.ones(len(found), bool))
    plain = hs.Detector(replace(model, mirrored=False))
    with pytest.raises(SettingsError, match="a mirrored window"):
        plain.finish(plain.view(image), turned)
    with pytest.raises(SettingsError, match="375 x 500 pixels, but this one has 20 x 30"):
        detector.finish(detector.view(np.zeros((20, 30, 3), np.uint8)), found)
    tiny = replace(found, size=(20, 30))
    with pytest.raises(SettingsError, match="no window fits into this image"):
        detector.finish(detector.view(np.zeros((20, 30, 3), np.uint8)), tiny)
