"""Probabilities of detections: monotone, stored with their model, learnt from held-out halves."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import halfseen as hs
from halfseen.cli import run
from halfseen.collection.shards import FORMATS
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scenes
from halfseen.detections import Detections
from halfseen.errors import ModelError, SettingsError
from halfseen.evaluate.sweep import cover_objects
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import clip, iou, mirror
from halfseen.infer.calibration import AGREE, BETA, LOWEST, Known, evidence, probabilities
from halfseen.learn import calibration as learning
from halfseen.learn.calibration import (
    COVERED,
    SPARSE,
    TEXTURES,
    Judged,
    alarms,
    coverable,
    fit,
    fit_logistic,
    judge,
    judge_covered,
    learn_scale,
)
from halfseen.learn.masks import MaskSettings, learn_masks
from halfseen.learn.settings import TrainSettings
from halfseen.model.calibration import EVIDENCE, RISING, TOLD, Calibration
from halfseen.model.mask_head import MaskHead
from halfseen.model.mixture import Mixture
from halfseen.model.store import save
from halfseen.suppress import suppress
from halfseen.view.records import records
from test_store import rewrite
from tiny_training import boxed, tiny_settings

SHIPPED = Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors"


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
    candidates, calibration = some_detections(30, seed), some_calibration(seed)
    for i in range(10):
        row = []
        for score in np.linspace(-2, 3, 40):
            scores = candidates.score.copy()
            scores[i] = score
            moved = replace(candidates, score=scores)
            row.append(probabilities(calibration, moved[i], moved, np.zeros((1, len(TOLD))))[0])
        assert (np.diff(row) > 0).all()
        assert 0 < row[0] < row[-1] < 1


def test_agreement_against_a_plain_loop() -> None:
    candidates = some_detections(40)
    expected = []
    for i in range(40):
        total = 0.0
        for j in range(40):
            near = iou(candidates.clipped[i], candidates.clipped[j]) >= AGREE
            if near and (candidates.score[j] >= LOWEST):
                total += float(np.exp(BETA * candidates.score[j]))
        expected.append(np.log(max(total, np.exp(BETA * candidates.score[i]))) / BETA)
    found = evidence(candidates, candidates, np.zeros((40, len(TOLD))))
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
    told = [-1.5, 0.3, 0.1]
    np.testing.assert_allclose(evidence(one, one, np.array([told])), [[*expected, *told]])
    nothing = one[:0]
    assert evidence(nothing, nothing, np.zeros((0, 3))).shape == (0, len(EVIDENCE))


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


def test_other_flags_than_those_it_was_learnt_with_give_no_probability() -> None:
    heads = [np.zeros((*c.weights.shape[:2], 3, 3, c.weights.shape[2]), np.float16)
             for c in plain().components]  # fmt: skip
    head = MaskHead(tuple(heads), tuple(h[..., 0, 0, 0].astype(np.float32) for h in heads), 0.0)
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    model = replace(calibrated(), head=head)
    assert hs.Detector(model, "paper").detect(image, -2).probability is None
    assert hs.Detector(model, "head").detect(image, -2).probability is not None


def constant_head(model: Mixture, logit: float) -> MaskHead:
    """Of all blocks the same logit of being hidden."""
    shapes = [(*c.weights.shape[:2], 3, 3, c.weights.shape[2]) for c in model.components]
    weights = tuple(np.zeros(shape, np.float16) for shape in shapes)
    return MaskHead(weights, tuple(np.full(s[:2], logit, np.float32) for s in shapes), 0.0)


@pytest.mark.parametrize("method", ["greedy", "covering"])
def test_a_choice_knows_what_it_was_made_from(method: str) -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector(replace(calibrated(), head=constant_head(plain(), 1.0)))
    kept, candidates, suppression = detector.choose(image, -1.2, method)
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
    assert run(["detect", str(model), str(photo), "--strong", "-1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) > 1
    assert all("% likely" in line for line in told[1:])
    assert run(["detect", str(model), str(photo), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["detections"]
    assert len(found) == len(told) - 1
    assert all(0 <= row["probability"] <= 1 for row in found)


@pytest.mark.parametrize("name", FORMATS)
def test_shards_keep_probabilities(name: str) -> None:
    found = replace(some_detections(3), probability=np.array([0.25, np.nan, 0.5]))
    rows = records(found)
    dropped = [{**rows[0], "by": None, "overlap": 0.5}, {**rows[1], "by": 2, "overlap": 0.25}]
    record = {"image": "a.jpg", "width": 120, "height": 90, "detections": rows}
    known = [record, {**record, "suppressed": dropped}, {"image": "b.jpg", "error": "torn"}]
    assert FORMATS[name].decode(FORMATS[name].encode(known)) == known


def test_a_model_tells_how_it_was_learnt() -> None:
    settings = learning.settings_of(plain())
    recorded = plain().training["settings"]
    assert settings.alpha == recorded["alpha"] != TrainSettings().alpha
    assert settings.regularisation == recorded["regularisation"]
    assert learning.settings_of(replace(plain(), training={})) == TrainSettings()
    for broken in ({"alpha": "much"}, 3):
        with pytest.raises(SettingsError, match="does not tell how it was learnt"):
            learning.settings_of(replace(plain(), training={"settings": broken}))


def test_mirrored_detections_are_known_by_the_same_evidence() -> None:
    found = some_detections(40)
    boxes = mirror(found.window, 120)
    flags = tuple(grid[:, ::-1] for grid in found.visibility)
    there = replace(found, window=boxes, full=boxes, visible=boxes, visibility=flags)
    here, seen = (evidence(part, part, np.zeros(40)) for part in (found, there))
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


def test_the_regression_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    inputs = np.column_stack([np.ones(400), rng.normal(size=(400, len(EVIDENCE)))])
    true = np.array([-1, 1, 0.5, -1, 0.5, 0.3, 0.7, -0.4, 0.2])
    right = rng.random(400) < 1 / (1 + np.exp(-inputs @ true))
    weight = rng.uniform(0.5, 3, 400)
    ridge = np.r_[0.0, np.ones(len(EVIDENCE))]
    found = fit_logistic(inputs, right, weight, np.zeros(len(ridge)), ridge)
    oracle = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
    oracle.fit(inputs[:, 1:], right, sample_weight=weight)
    np.testing.assert_allclose(found, np.r_[oracle.intercept_, oracle.coef_[0]], atol=1e-3)
    # Evidence that speaks against what it should speak for is not used.
    turned = inputs * np.r_[1, -1, np.ones(len(EVIDENCE) - 1)]
    against = fit_logistic(turned, right, weight, 0 * ridge, ridge)
    assert against[1] == 0


def test_a_component_without_detections_is_judged_like_the_others() -> None:
    rng = np.random.default_rng(1)
    known = rng.normal(size=(300, len(EVIDENCE)))
    known[:, EVIDENCE.index("visible")] = 0.3
    right = known[:, 0] + rng.normal(size=300) > 1
    judged = Judged(np.zeros(300, np.int64), known, right, np.ones(300))
    calibration = fit(judged, 2)
    assert calibration is not None
    own, other = (calibration.probability(np.full(300, m), known) for m in (0, 1))
    np.testing.assert_allclose(own, other, atol=0.05)
    assert (calibration.weights[:, EVIDENCE.index("visible")] == 0).all()
    assert abs(own.sum() - right.sum()) < 0.05 * right.sum()
    assert fit(replace(judged, right=np.zeros(300, bool)), 2) is None


def test_what_is_right_is_what_voc_says() -> None:
    truth = boxed([[10, 10, 50, 40], [60, 10, 100, 40]], difficult=[False, True])
    empty = boxed([])
    boxes = np.array([[10.0, 10, 50, 40], [60, 10, 100, 40], [5, 60, 30, 80], [12, 10, 52, 40]])
    found = Detections(
        np.array([0.9, 0.8, 0.7, 0.6]), np.full(4, "car"), np.array([0, 1, 1, 0]),
        np.zeros(4, bool), boxes, boxes, boxes, tuple(np.ones((4, 3, 4), bool)), (90, 120),
    )  # fmt: skip
    kept = found[suppress(found, "greedy").indices]
    judged = judge([truth, empty], [Known(kept, found, np.zeros((3, len(TOLD))))] * 2, "car", 3.0)
    # The fourth is suppressed by the first, the second is neither right nor wrong.
    order = np.lexsort((judged.evidence[:, 0], judged.weight))[::-1]
    np.testing.assert_array_equal(judged.right[order], [False, False, False, True, False])
    np.testing.assert_array_equal(judged.weight[order], [3, 3, 3, 1, 1])
    np.testing.assert_array_equal(judged.component[order], [0, 1, 1, 0, 1])
    covered = judge_covered([truth], [Known(kept, found, np.zeros((3, len(TOLD))))], "car")
    np.testing.assert_array_equal(np.sort(covered.weight), [COVERED] * 2)
    assert covered.right.sum() == 1
    # An object that was not whole was not covered either, and says nothing.
    cut = replace(truth, truncated=np.array([True, False]))
    assert (
        judge_covered([cut], [Known(kept, found, np.zeros((3, len(TOLD))))], "car").right.sum() == 0
    )
    assert (
        len(judge_covered([cut], [Known(kept, found, np.zeros((3, len(TOLD))))], "car").right) == 1
    )
    nothing = judge([empty], [Known(found[:0], found[:0], np.zeros((0, len(TOLD))))], "car", 3.0)
    assert nothing.evidence.shape == (0, len(EVIDENCE))


def test_scores_are_brought_to_those_it_was_learnt_from() -> None:
    """Of ten images without the class, one false alarm counts: the strongest."""
    found = some_detections(5)
    strong = replace(found, score=np.array([0.5, 0.2, 0, -0.5, -1]))
    truths, images = [boxed([])] * 10, [strong, *[found[:0]] * 9]
    own = alarms(truths, images, "car")
    assert own == pytest.approx(1.5)
    assert learn_scale([1.2, 0.9], own) == pytest.approx(0.7)
    assert learn_scale([3.0], own) == 1
    assert learn_scale([float("nan")], own) == learn_scale([1.0], float("nan")) == 1
    assert np.isnan(alarms([boxed([[1, 1, 9, 9]])], [strong], "car"))
    moved = replace(some_calibration(), scale=0.5)
    same = replace(moved, scale=1.0)
    half = replace(found, score=-1 + 0.5 * (found.score + 1))
    told = np.random.default_rng(2).normal(size=(5, len(TOLD)))
    # Of what the head tells, only what is visible is a sum of responses.
    halved = np.column_stack([0.5 * told[:, 0] - 0.5, told[:, 1:]])
    np.testing.assert_allclose(
        probabilities(moved, found, found, told),
        probabilities(same, half, half, halved),
        rtol=1e-12,
    )


def test_training_calibrates_on_images_that_the_halves_have_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenes = render_scenes(40, seed=5, classes=["car"], size=(160, 214))
    seen: list[tuple[set[str], set[str]]] = []
    real = learning._look_at

    def watch(model, test, *rest):  # type: ignore[no-untyped-def]
        seen.append((set(half[-1]), {truth.image for truth in test}))
        return real(model, test, *rest)

    half: list[list[str]] = []
    trainer = learning.Trainer

    def note(data, *rest):  # type: ignore[no-untyped-def]
        half.append([truth.image for truth in data])
        return trainer(data, *rest)

    judged: list[Judged] = []
    regression = learning.fit

    def keep(rows, *rest):  # type: ignore[no-untyped-def]
        judged.append(rows)
        return regression(rows, *rest)

    monkeypatch.setattr(learning, "fit", keep)
    monkeypatch.setattr(learning, "_look_at", watch)
    monkeypatch.setattr(learning, "Trainer", note)
    model = hs.train(scenes, "car", tiny_settings(calibrate=True), cores=1)
    assert len(half) == 2
    assert not any(trained & tested for trained, tested in seen[:2])
    assert set(half[0]) | set(half[1]) == {truth.image for truth in scenes}
    assert model.calibration is not None
    assert {COVERED, 1.0, SPARSE} == set(judged[0].weight.tolist())
    found = [hs.Detector(model).detect(scenes.image(i), -1) for i in range(len(scenes))]
    known = [part.probability for part in found]
    assert all(p is not None and ((p > 0) & (p < 1)).all() for p in known)


def test_a_model_of_too_few_images_to_be_halved_is_not_lost() -> None:
    few = render_scenes(2, seed=1, classes=["car"])
    assert learning.learn_calibration(few, calibrated(), tiny_settings()).calibration is None


def test_what_the_head_tells_changes_the_probability_and_nothing_else() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    head = replace(constant_head(plain(), -1.0), response=responses(plain(), 0.5))
    model = replace(calibrated(), head=head)
    found = {}
    for visible in (0.0, 1.0):
        assert model.calibration is not None
        weights = model.calibration.weights.copy()
        weights[:, EVIDENCE.index("visible")] = visible
        asked = replace(model, calibration=replace(model.calibration, weights=weights))
        found[visible] = {
            m: hs.Detector(asked).detect(image, -2, m) for m in ("greedy", "covering")
        }
        # The flags are all the same, so that covering keeps some of the same boxes.
        by_greedy, by_covering = found[visible].values()
        same = (by_greedy.full[:, None] == by_covering.full).all(2)
        assert same.any()
        for i, j in np.argwhere(same):
            assert by_greedy.probability is not None
            assert by_covering.probability is not None
            assert by_greedy.probability[i] == pytest.approx(by_covering.probability[j])
    without, with_ = found[0.0]["greedy"], found[1.0]["greedy"]
    np.testing.assert_array_equal(without.score, with_.score)
    assert without.probability is not None
    assert with_.probability is not None
    # What was told, scaled as scores are, is all that differs.
    (known,) = hs.Detector(model).known_by_model(image)
    known_at = {tuple(b): v for b, v in zip(known.kept.full, known.told[:, 0], strict=True)}
    compared = 0
    for box, one, other in zip(with_.full, without.probability, with_.probability, strict=True):
        if tuple(box) in known_at:
            assert (other < one) == (scaled_about(known_at[tuple(box)], 0.8) < 0)
            compared += 1
    assert compared > 1


def responses(model: Mixture, value: float) -> tuple[np.ndarray, ...]:
    return tuple(np.full(c.weights.shape[:2], value, np.float32) for c in model.components)


def scaled_about(visible: float, scale: float) -> float:
    return -1 + scale * (visible + 1)


def test_candidates_that_are_there_need_not_be_searched() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector([plain(), learnt_head()])
    found = detector.known_by_model(image)
    again = detector.known_by_model(image, [part.candidates for part in found])
    for ours, theirs in zip(found, again, strict=True):
        assert len(ours.kept)
        np.testing.assert_array_equal(ours.kept.full, theirs.kept.full)
        np.testing.assert_array_equal(evidence(*ours), evidence(*theirs))
    assert (found[0].told == 0).all()
    assert (found[1].told[:, 0] != 0).all()


@cache
def learnt_head() -> Mixture:
    lessons = render_scenes(16, seed=31, classes=["car"])
    return learn_masks(lessons, plain(), MaskSettings(windows=40, folds=2))


def test_candidates_of_something_else_are_refused() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector([plain(), learnt_head()])
    (found, _) = detector.candidates_by_model(image)
    with pytest.raises(SettingsError, match="candidates of 1 models, but the detector has 2"):
        detector.known_by_model(image, [found])
    with pytest.raises(SettingsError, match="detections of an image of 375 x 500 pixels"):
        detector.known_by_model(image[:300], [found, found])


def test_halves_without_a_head_do_not_calibrate_a_model_that_has_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learnt_head()
    scenes = render_scenes(40, seed=5, classes=["car"], size=(160, 214))
    monkeypatch.setattr(learning.Trainer, "run", lambda _: plain())
    result = learning.learn_calibration(scenes, model, tiny_settings())
    assert result.calibration is None
    assert result.head is model.head
    assert "too few whole objects for a mask head" in caplog.text


def test_a_box_without_a_pixel_does_not_stop_the_calibration() -> None:
    scenes = render_scenes(4, seed=5, classes=["car"])
    truth = boxed([[10.1, 10, 10.3, 40], [20, 10, 60, 40]])
    textures = [scenes.image(0)]
    image = scenes.image(1)[:90, :120]
    covered, mask = cover_objects(image, truth, "car", 0.4, textures, 0)
    assert mask.any()
    assert (covered != image).any()


def test_a_head_of_an_earlier_version_must_be_learnt_again_before_it_is_calibrated() -> None:
    old = replace(plain(), head=constant_head(plain(), 0.0))
    with pytest.raises(SettingsError, match="earlier version: learn it again"):
        learning.learn_calibration(render_scenes(4, seed=1, classes=["car"]), old)


def test_only_images_without_the_class_cover_its_objects() -> None:
    scenes = render_scenes(12, seed=5, classes=["car", "horse"])
    cars = np.array([bool((truth.label == "car").any()) for truth in scenes])
    assert 0 < cars.sum() < 12
    shown, textures = coverable(scenes, "car")
    assert len(shown) > 0
    assert cars[shown].all()
    assert textures.shape == (len(shown), TEXTURES)
    assert not cars[textures].any()
    assert coverable(scenes[cars], "car")[0].size == 0
