"""Probabilities of detections: monotone, stored with their model, learnt from held-out halves."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.collection.shards import JSON_LINES, PARQUET, ShardCodec
from halfseen.data.image import write_image
from halfseen.data.records import records
from halfseen.data.scenes import render_scenes
from halfseen.detections import Detections
from halfseen.errors import ModelError, SettingsError
from halfseen.evaluate.sweep import cover_objects
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import clip, iou, mirror
from halfseen.learn import probability as learning
from halfseen.learn.probability import (
    Kept,
    NotCalibrated,
    Outcomes,
    coverable,
    false_alarms,
    fit,
    learn_scale,
    outcomes_of,
    outcomes_of_covered,
)
from halfseen.learn.settings import CalibrateSettings, MaskSettings, TrainSettings
from halfseen.learn.trainer import fit_detector
from halfseen.model.calibration import EVIDENCE, RISING, Calibration, CalibrationSettings
from halfseen.model.mask_head import MaskHead
from halfseen.model.mixture import Mixture
from halfseen.model.store import save
from halfseen.refine.probability import evidence, probabilities
from halfseen.suppression import suppress
from tests.builders import SHIPPED, boxed, rewrite, tiny_settings

SETTINGS = CalibrationSettings()

HOW = CalibrateSettings()


@cache
def plain() -> Mixture:
    return replace(hs.load(SHIPPED), head=None)


def some_calibration(seed: int = 0, components: int = 2) -> Calibration:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(components, len(EVIDENCE)))
    weights[:, [EVIDENCE.index(name) for name in RISING]] **= 2
    return Calibration(rng.normal(size=components), weights, 0.8)


def calibrated(seed: int = 0) -> Mixture:
    return replace(plain(), calibration=some_calibration(seed, len(plain().components)))


def some_detections(count: int, seed: int = 0) -> Detections:
    """Boxes that crowd together, some beyond the image."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(-20, 60, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(30, 60, (count, 2))], axis=1)
    flags = tuple(rng.random((4, 5)) < 0.7 for _ in range(count))
    return Detections(
        rng.uniform(-1.3, 1, count), np.full(count, "car"), rng.integers(0, 2, count),
        np.zeros(count, bool), boxes, boxes, boxes, flags, (90, 120),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_the_probability_rises_with_the_score_at_a_fixed_mask(seed: int) -> None:
    candidates, model = some_detections(30, seed), calibrated(seed)
    for i in range(10):
        row = []
        for score in np.linspace(-2, 3, 40):
            scores = candidates.score.copy()
            scores[i] = score
            moved = replace(candidates, score=scores)
            row.append(probabilities(model, moved[i], moved)[0])
        assert (np.diff(row) > 0).all()
        assert 0 < row[0] < row[-1] < 1


def test_agreement_against_a_plain_loop() -> None:
    candidates = some_detections(40)
    expected = []
    for i in range(40):
        total = 0.0
        for j in range(40):
            near = iou(candidates.clipped[i], candidates.clipped[j]) >= SETTINGS.agree
            if near and (candidates.score[j] >= SETTINGS.margin):
                total += float(np.exp(SETTINGS.beta * candidates.score[j]))
        expected.append(
            np.log(max(total, np.exp(SETTINGS.beta * candidates.score[i]))) / SETTINGS.beta
        )
    found = evidence(candidates, candidates, SETTINGS)
    np.testing.assert_allclose(found[:, EVIDENCE.index("agreement")], expected, atol=1e-12)


def test_evidence_worked_by_hand() -> None:
    """A window of 40 x 20 pixels, a quarter of it left of the image, in an image of 100 x 50."""
    flags = np.array([[False, True, True, False], [False, True, True, True]])
    box = np.array([[-10.0, 10.0, 30.0, 30.0]])
    one = Detections(
        np.array([0.5]), np.array(["car"]), np.array([0]), np.array([False]), box, box, box,
        (flags,), (50, 100),
    )  # fmt: skip
    expected = [0.5, 0.5, 1 / 4, np.log(600 / 5000), 0.4]
    np.testing.assert_allclose(evidence(one, one, SETTINGS), [expected])
    ranked = replace(one, score=np.array([7.0]), extra={"response": one.score})
    np.testing.assert_array_equal(evidence(ranked, one, SETTINGS), evidence(one, one, SETTINGS))
    nothing = one[:0]
    assert evidence(nothing, nothing, SETTINGS).shape == (0, len(EVIDENCE))


def test_a_model_with_a_calibration_survives_the_file(tmp_path: Path) -> None:
    hs.save(calibrated(), tmp_path / "car.safetensors")
    back, model = hs.load(tmp_path / "car.safetensors").calibration, calibrated().calibration
    assert back is not None
    assert model is not None
    np.testing.assert_array_equal(back.bias, model.bias)
    np.testing.assert_array_equal(back.weights, model.weights)
    assert back.scale == model.scale


def test_a_model_without_calibration_loads_and_has_no_probabilities() -> None:
    assert plain().calibration is None
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    found = hs.Detector(plain()).detect(image, -2)
    assert len(found)
    assert found.probability is None
    both = hs.Detector([plain(), replace(calibrated(), label="cab")]).detect(image, -2).probability
    assert both is not None
    assert 0 < np.isnan(both).sum() < len(both)


def test_a_strangers_calibration_is_refused() -> None:
    good = some_calibration()
    with pytest.raises(ModelError, match="calibration of 3 components"):
        replace(plain(), calibration=some_calibration(components=3))
    with pytest.raises(ModelError, match="NaN"):
        replace(good, bias=good.bias * np.nan)
    with pytest.raises(ModelError, match="weights must be"):
        replace(good, weights=good.weights[:, :2])
    with pytest.raises(ModelError, match="bias for each"):
        replace(good, bias=good.bias[:1])
    with pytest.raises(ModelError, match="score must not be negative"):
        replace(good, weights=-np.abs(good.weights))
    with pytest.raises(ModelError, match="float64"):
        replace(good, bias=good.bias.astype(np.float32))
    with pytest.raises(ModelError, match="scale"):
        replace(good, scale=float("nan"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, _: h["calibration"].update(evidence=["score"]), "a calibration by"),
        (lambda h, _: h["calibration"].update(evidence="a\nb"), "a calibration by 'a"),
        (lambda h, _: h["calibration"].update(evidence=["x"] * 300_000), "a calibration by"),
        (lambda _, t: t.update({"calibration.bias": np.full(2, 1e300)}), "beyond"),
        (lambda h, _: h["calibration"].pop("scale"), "field 'scale' is missing"),
        (lambda h, _: h["calibration"].update(scale=2), "scale must be"),
        (lambda h, _: h.update(calibration=3), "not a valid halfseen model"),
        (lambda _, t: t.pop("calibration.bias"), "tensor calibration.bias is missing"),
        (lambda _, t: t.update({"calibration.bias": np.zeros(3)}), "bias for each"),
    ],
)
def test_a_broken_calibration_is_refused_in_one_line(
    tmp_path: Path, change: Callable[..., object], message: str
) -> None:
    hs.save(calibrated(), tmp_path / "car.safetensors")
    rewrite(tmp_path / "car.safetensors", change)
    with pytest.raises(ModelError, match=message) as caught:
        hs.load(tmp_path / "car.safetensors")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("method", ["greedy", "covering"])
def test_calibration_changes_nothing_else_and_does_not_depend_on_the_threshold(method: str) -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    for threshold in (-1.4, -0.6):
        before = hs.Detector(plain()).detect(image, threshold, method)
        after = hs.Detector(calibrated()).detect(image, threshold, method)
        np.testing.assert_array_equal(before.score, after.score)
        np.testing.assert_array_equal(before.full, after.full)
    low, high = (hs.Detector(calibrated()).detect(image, t) for t in (-1.4, -0.6))
    assert low.probability is not None
    assert high.probability is not None
    assert 0 < len(high) < len(low)
    np.testing.assert_array_equal(low.probability[: len(high)], high.probability)


def test_the_flags_do_not_change_the_probability() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    model = replace(calibrated(), head=constant_head(plain(), 1.0))
    known = [hs.Detector(model, by).detect(image, -2) for by in ("head", "paper")]
    assert any((a != b).any() for a, b in zip(*(k.visibility for k in known), strict=True))
    assert known[0].probability is not None
    np.testing.assert_array_equal(known[0].probability, known[1].probability)


def constant_head(model: Mixture, logit: float) -> MaskHead:
    """Of all blocks the same logit of being hidden."""
    shapes = [(*c.weights.shape[:2], 3, 3, c.weights.shape[2]) for c in model.components]
    weights = tuple(np.zeros(shape, np.float16) for shape in shapes)
    return MaskHead(weights, tuple(np.full(s[:2], logit, np.float32) for s in shapes), 0.0)


@pytest.mark.parametrize("method", ["greedy", "covering"])
def test_a_choice_knows_what_it_was_made_from(method: str) -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector(replace(calibrated(), head=constant_head(plain(), 1.0)))
    view = detector.view(image)
    candidates, suppression = detector.suppress(view, detector.search(view, -1.2), method)
    kept = detector.finish(view, suppression.of(candidates))
    plainly = detector.detect(image, -1.2, method)
    np.testing.assert_array_equal(kept.full, plainly.full)
    np.testing.assert_array_equal(kept.probability, plainly.probability)
    assert len(kept) < len(candidates) == len(detector.candidates(image, -1.2))
    assert candidates.score.min() >= -1.2
    chosen = candidates[suppression.indices]
    np.testing.assert_array_equal(chosen.window, kept.window)
    assert not any(grid.any() for grid in kept.visibility)  # the head's
    seen = [bool(grid.any()) for grid in candidates.visibility]
    assert all(seen) if method == "greedy" else not any(seen)  # what the method saw


def test_the_command_tells_how_likely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, photo = tmp_path / "car.safetensors", tmp_path / "a.png"
    save(calibrated(), model)
    write_image(photo, render_scenes(1, seed=5, classes=["car"]).image(0))
    assert run(["detect", str(model), str(photo), "--all"]) == 0
    message = capsys.readouterr().out.splitlines()
    assert len(message) > 1
    assert all(re.match(r"  car \d+%, \d+% seen", line) for line in message[1:])
    assert run(["detect", str(model), str(photo), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["detections"]
    assert len(found) == len(message) - 1
    assert all(0 <= row["probability"] <= 1 for row in found)


@pytest.mark.parametrize("codec", [JSON_LINES, PARQUET])
def test_shards_keep_probabilities(codec: ShardCodec) -> None:
    found = replace(some_detections(3), probability=np.array([0.25, np.nan, 0.5]))
    rows = records(found)
    dropped = [{**rows[0], "by": None, "overlap": 0.5}, {**rows[1], "by": 2, "overlap": 0.25}]
    record = {"image": "a.jpg", "width": 120, "height": 90, "detections": rows}
    known: list[dict[str, Any]] = [
        record,
        {**record, "suppressed": dropped},
        {"image": "b.jpg", "error": "torn"},
    ]
    assert codec.decode(codec.encode(known)) == known


def test_a_model_tells_how_it_was_learnt() -> None:
    settings = learning.settings_of(plain())
    recorded = plain().training["settings"]
    assert settings.alpha == recorded["alpha"] != TrainSettings().alpha
    assert settings.regularisation == recorded["regularisation"]
    assert learning.settings_of(replace(plain(), training={})) == TrainSettings()
    for broken in ({"alpha": "much"}, 3):
        with pytest.raises(SettingsError, match="does not say how it was learnt"):
            learning.settings_of(replace(plain(), training={"settings": broken}))


def test_mirrored_detections_are_known_by_the_same_evidence() -> None:
    found = some_detections(40)
    boxes = mirror(found.window, 120)
    flags = tuple(grid[:, ::-1] for grid in found.visibility)
    there = replace(found, window=boxes, full=boxes, visible=boxes, blocks=flags)
    here, seen = (evidence(part, part, SETTINGS) for part in (found, there))
    np.testing.assert_allclose(here, seen, atol=1e-12)


def test_mirrored_images_give_the_same_probabilities() -> None:
    """Every level is a whole number of cells wide, so that a mirrored window is a window."""
    # Higher scores, so that many candidates agree.
    louder = tuple(replace(c, bias=c.bias + 0.5) for c in plain().components)
    model = replace(calibrated(), components=louder, pyramid=PyramidSettings(2.0, 2.0))
    image = render_scenes(1, seed=5, classes=["car"], size=(384, 512)).image(0)
    detector = hs.Detector(model)
    here, there = detector.detect(image, -1.2), detector.detect(image[:, ::-1].copy(), -1.2)
    assert here.probability is not None
    assert there.probability is not None
    # Half a window of padding is a block more on one side where windows are an odd number of blocks
    # wide: beyond the border, what agrees may differ by a window.
    inside = np.flatnonzero((clip(here.window, here.size) == here.window).all(1))
    compared = 0
    for i in inside:
        same = np.abs(there.window - mirror(here.window[i], 512)).max(1) < 1e-6
        same &= there.mirrored != here.mirrored[i]
        for j in np.flatnonzero(same & (there.component == here.component[i])):
            # To what single precision leaves of the scores.
            assert here.probability[i] == pytest.approx(there.probability[j], rel=1e-4)
            compared += 1
    assert compared >= 0.9 * len(inside) > 5


def test_parts_are_joined_with_what_is_known_of_each() -> None:
    known = replace(some_detections(3), probability=np.array([0.1, 0.2, 0.3]))
    joined = Detections.concatenate([known, some_detections(2)])
    assert joined.probability is not None
    np.testing.assert_array_equal(joined.probability, [0.1, 0.2, 0.3, np.nan, np.nan])
    assert joined[1].probability == 0.2
    rows = records(joined)
    assert [row.get("probability") for row in rows] == [0.1, 0.2, 0.3, None, None]
    with pytest.raises(ValueError, match="probability has 2 rows"):
        replace(known, probability=np.zeros(2))


def test_a_component_without_detections_is_decided_like_the_others() -> None:
    rng = np.random.default_rng(1)
    known = rng.normal(size=(300, len(EVIDENCE)))
    known[:, EVIDENCE.index("height")] = 0.3
    right = known[:, 0] + rng.normal(size=300) > 1
    found = Outcomes(np.zeros(300, np.int64), known, right, np.ones(300))
    calibration = fit(found, 2, HOW)
    own, other = (calibration.probability(np.full(300, m), known) for m in (0, 1))
    np.testing.assert_allclose(own, other, atol=0.05)
    assert (calibration.weights[:, EVIDENCE.index("height")] == 0).all()
    assert abs(own.sum() - right.sum()) < 0.05 * right.sum()
    with pytest.raises(NotCalibrated, match="fewer than 10 objects"):
        fit(replace(found, right=np.zeros(300, bool)), 2, HOW)


def test_what_is_right_is_what_voc_says() -> None:
    truth = boxed([[10, 10, 50, 40], [60, 10, 100, 40]], difficult=[False, True])
    empty = boxed([])
    boxes = np.array([[10.0, 10, 50, 40], [60, 10, 100, 40], [5, 60, 30, 80], [12, 10, 52, 40]])
    found = Detections(
        np.array([0.9, 0.8, 0.7, 0.6]), np.full(4, "car"), np.array([0, 1, 1, 0]),
        np.zeros(4, bool), boxes, boxes, boxes, tuple(np.ones((4, 3, 4), bool)), (90, 120),
    )  # fmt: skip
    kept = found[suppress(found, "greedy").indices]
    outcomes = outcomes_of([truth, empty], [Kept(kept, found)] * 2, "car", 3.0)
    # The fourth is suppressed by the first, the second is neither right nor wrong.
    order = np.lexsort((outcomes.evidence[:, 0], outcomes.weight))[::-1]
    np.testing.assert_array_equal(outcomes.right[order], [False, False, False, True, False])
    np.testing.assert_array_equal(outcomes.weight[order], [3, 3, 3, 1, 1])
    np.testing.assert_array_equal(outcomes.component[order], [0, 1, 1, 0, 1])
    covered = outcomes_of_covered([truth], [Kept(kept, found)], "car", 0.3)
    np.testing.assert_array_equal(np.sort(covered.weight), [0.3] * 2)
    assert covered.right.sum() == 1
    # An object that was not whole was not covered either, and says nothing.
    cut = replace(truth, truncated=np.array([True, False]))
    assert outcomes_of_covered([cut], [Kept(kept, found)], "car", 0.3).right.sum() == 0
    assert len(outcomes_of_covered([cut], [Kept(kept, found)], "car", 0.3).right) == 1
    nothing = outcomes_of([empty], [Kept(found[:0], found[:0])], "car", 3.0)
    assert nothing.evidence.shape == (0, len(EVIDENCE))


def test_scores_are_brought_to_those_it_was_learnt_from() -> None:
    """Of ten images without the class, one false alarm counts: the strongest."""
    found = some_detections(5)
    strong = replace(found, score=np.array([0.5, 0.2, 0, -0.5, -1]))
    truths, images = [boxed([])] * 10, [strong, *[found[:0]] * 9]
    own = false_alarms(truths, images, "car", 0.1)
    assert own == pytest.approx(1.5)
    assert learn_scale([1.2, 0.9], own) == pytest.approx(0.7)
    assert learn_scale([3.0], own) == 1
    assert learn_scale([float("nan")], own) == learn_scale([1.0], float("nan")) == 1
    assert np.isnan(false_alarms([boxed([[1, 1, 9, 9]])], [strong], "car", 0.1))
    moved = replace(some_calibration(), scale=0.5)
    same = replace(moved, scale=1.0)
    half = replace(found, score=-1 + 0.5 * (found.score + 1))
    np.testing.assert_allclose(
        probabilities(replace(plain(), calibration=moved), found, found),
        probabilities(replace(plain(), calibration=same), half, half),
        rtol=1e-12,
    )


def test_training_calibrates_on_images_that_the_halves_have_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenes = render_scenes(40, seed=5, classes=["car"], size=(160, 214))
    seen: list[tuple[set[str], set[str]]] = []
    real = learning._detect

    def watch(model, test, *rest):  # type: ignore[no-untyped-def]
        seen.append((set(half[-1]), {truth.image for truth in test}))
        return real(model, test, *rest)

    half: list[list[str]] = []

    def note(data, *rest):  # type: ignore[no-untyped-def]
        half.append([truth.image for truth in data])
        return fit_detector(data, *rest)

    outcomes: list[Outcomes] = []
    regression = learning.fit

    def keep(rows, *rest):  # type: ignore[no-untyped-def]
        outcomes.append(rows)
        return regression(rows, *rest)

    monkeypatch.setattr(learning, "fit", keep)
    monkeypatch.setattr(learning, "_detect", watch)
    monkeypatch.setattr(learning, "fit_detector", note)
    model = hs.train(scenes, "car", tiny_settings(calibrate=True), cores=1)
    assert len(half) == 2
    assert not any(trained & tested for trained, tested in seen[:2])
    assert set(half[0]) | set(half[1]) == {truth.image for truth in scenes}
    assert model.calibration is not None
    assert set(outcomes[0].weight.tolist()) == {HOW.covered_weight, 1.0, HOW.sparse}
    found = [hs.Detector(model).detect(scenes.image(i), -1) for i in range(len(scenes))]
    known = [part.probability for part in found]
    assert all(p is not None and ((p > 0) & (p < 1)).all() for p in known)


def test_a_model_of_too_few_images_to_be_halved_is_not_lost() -> None:
    few = render_scenes(2, seed=1, classes=["car"])
    assert learning.learn_calibration(few, calibrated(), tiny_settings()).calibration is None


def test_a_mask_head_learnt_later_leaves_the_calibration() -> None:
    lessons = render_scenes(16, seed=31, classes=["car"])
    model = hs.learn_masks(lessons, calibrated(), MaskSettings(windows=40, folds=2))
    assert model.head is not None
    assert model.calibration is not None
    np.testing.assert_array_equal(model.calibration.weights, some_calibration().weights)


def test_a_box_without_a_pixel_does_not_stop_the_calibration() -> None:
    scenes = render_scenes(4, seed=5, classes=["car"])
    truth = boxed([[10.1, 10, 10.3, 40], [20, 10, 60, 40]])
    textures = [scenes.image(0)]
    image = scenes.image(1)[:90, :120]
    covered, mask = cover_objects(image, truth, "car", 0.4, textures, 0)
    assert mask.any()
    assert (covered != image).any()


def test_only_images_without_the_class_cover_its_objects() -> None:
    scenes = render_scenes(12, seed=5, classes=["car", "horse"])
    cars = np.array([bool((truth.label == "car").any()) for truth in scenes])
    assert 0 < cars.sum() < 12
    shown, textures = coverable(scenes, "car", 3)
    assert len(shown) > 0
    assert cars[shown].all()
    assert textures.shape == (len(shown), 3)
    assert not cars[textures].any()
    assert coverable(scenes[cars], "car", 3)[0].size == 0
