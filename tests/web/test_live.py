"""What the page computes, against slower ways to the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from halfseen.detect.follow import SAME
from halfseen.errors import SettingsError
from halfseen.geometry import clip, iou_matrix
from halfseen.model.mixture import Mixture
from halfseen.refine.detector import Detector
from halfseen.web.catalogue import SCENES, find_sets, scene_objects, scene_pixels
from halfseen.web.live import RIGID, LiveSettings, classes, compare, inspect
from tests.builders import make_dataset, make_model

Image = np.ndarray


@pytest.fixture(scope="module")
def models() -> dict[str, Mixture]:
    return find_sets()[0].models


@pytest.fixture(scope="module")
def covered() -> tuple[Image, list[float]]:
    """A car whose left 45% lie behind a chequered board, and its box."""
    box = scene_objects(0)[0]["full"]
    image = scene_pixels(0).copy()
    x1, y1, x2, y2 = (round(v) for v in box)
    right = round(x1 + 0.45 * (x2 - x1))
    rows, cols = np.mgrid[max(y1, 0) : y2, max(x1, 0) : right]
    board = (rows // 5 + cols // 5) % 2 * 200
    image[max(y1, 0) : y2, max(x1, 0) : right] = board[..., None]
    return image, box


@pytest.mark.parametrize("method", ["BL", "BLT", "VIS"])
@pytest.mark.parametrize("box", ["car", "edge"])
def test_the_followed_score_is_that_reported_or_of_the_best_overlapping_candidate(
    models: dict[str, Mixture], covered: tuple[Image, list[float]], method: str, box: str
) -> None:
    image, watched = covered
    if box == "edge":  # reaches out of the image
        watched = [-60.0, 180.0, 110.0, 270.0]
    report = compare(image, {method: models[method]}, LiveSettings(), watched)["methods"][0]
    detector = Detector(models[method])
    found = detector.detect(image)
    if not (iou_matrix(found.clipped, clip(np.array([watched]), found.size)) >= SAME).any():
        found = detector.candidates(image, -4.0 if method != "VIS" else -1.8)
    near = iou_matrix(found.clipped, clip(np.array([watched]), found.size))[:, 0] >= SAME
    assert near.any()
    assert report["watched"]["score"] == pytest.approx(found.score[near][0], abs=1e-4)


@pytest.mark.parametrize("method", ["BL", "BLT", "VIS"])
def test_the_page_reports_what_detect_does_at_any_threshold(
    models: dict[str, Mixture], covered: tuple[Image, list[float]], method: str
) -> None:
    image, _ = covered
    expected = Detector(models[method]).detect(image)
    reported: dict[str, set[float]] = {}
    for threshold in (-1.0, -0.5, 0.25):
        settings = LiveSettings(threshold=threshold)
        report = compare(image, {method: models[method]}, settings)["methods"][0]
        kept = expected[expected.score >= threshold]
        assert [row["score"] for row in report["detections"]] == kept.score.tolist()
        for row in report["detections"]:
            reported.setdefault(str(row["full"]), set()).add(row["score"])
    assert len(reported) > 2
    assert all(len(scores) == 1 for scores in reported.values())


def test_classes_are_those_that_detect_lists() -> None:
    cars = [(4, make_model(label="car")), (7, make_model("BLT", label="van"))]
    image = np.asarray(make_dataset().image(0))
    rows = classes(image, cars)
    found = Detector([model for _, model in cars]).detect(image, threshold=0)
    assert {row["label"]: row["count"] for row in rows} == Counter(found.label.tolist())
    assert {row["label"]: row["models"] for row in rows} == {"car": 4, "van": 7}
    assert rows[0]["score"] == found.score[0]
    assert [row["lowest"] for row in rows] == [
        found.score[found.label == row["label"]].min() for row in rows
    ]
    assert classes(np.zeros((60, 60, 3), np.uint8), cars) == []


def test_a_model_alone_is_compared_with_its_own_templates_where_every_block_counts() -> None:
    own = next(one for one in find_sets() if one.learnt == "photographs")
    rigid, vis = own.models[RIGID], own.models["VIS"]
    assert not rigid.visibility
    assert rigid.components is vis.components
    image = np.random.default_rng(0).integers(255, size=(160, 160, 3)).astype(np.uint8)
    reports = compare(image, own.models, LiveSettings(threshold=-1))["methods"]
    assert [report["method"] for report in reports] == [RIGID, "VIS", "VIS+NMS"]


def test_covering_lowers_bl_more_and_hides_the_covered_blocks(
    models: dict[str, Mixture], covered: tuple[Image, list[float]]
) -> None:
    image, watched = covered
    settings = LiveSettings()

    def scores(pixels: Image) -> dict[str, float]:
        report = compare(pixels, models, settings, watched)
        return {m["method"]: m["watched"]["score"] for m in report["methods"]}

    before, after = scores(scene_pixels(0)), scores(image)
    assert after["BL"] < before["BL"]
    assert before["VIS"] - after["VIS"] < before["BL"] - after["BL"]


@pytest.mark.parametrize("method", ["BL", "BLT", "VIS", "VIS+NMS"])
def test_a_score_taken_apart_adds_up(
    models: dict[str, Mixture], covered: tuple[Image, list[float]], method: str
) -> None:
    image, _ = covered
    settings = LiveSettings(threshold=-0.8, alpha=0.03, shift=0.004, overlap=0.3)
    reports = {m["method"]: m for m in compare(image, models, settings)["methods"]}
    own = models[method.split("+")[0]]
    for detection in reports[method]["detections"][:4]:
        apart = inspect(image, models, settings, method, detection["index"])
        sums = apart["sum"]
        total = (
            sums["bias"] + sums["visible"] + sums["hidden_blocks"] * sums["u"]
            + sums["outside_blocks"] * sums["u_t"] - sums["edges"] * sums["alpha"]
        )  # fmt: skip
        assert total == pytest.approx(apart["window_score"], abs=2e-4)
        assert apart["detection"]["score"] == detection["score"]
        counted = "".join(apart["flags"])
        assert counted.count("h") == sums["hidden_blocks"]
        assert counted.count(".") == sums["outside_blocks"]
        blocks = sums["visible_blocks"] + sums["hidden_blocks"] + sums["outside_blocks"]
        assert blocks == np.size(apart["responses"])
        for neighbour in apart["neighbours"]:
            assert neighbour["why"] == "excluded"
            assert neighbour["overlap"] > 0.3
        if own.visibility:
            assert sums["u"] == own.components[detection["component"]].u + 0.004
    assert reports[method]["detections"]


def test_the_object_followed_has_the_flags_of_the_mask_head(
    models: dict[str, Mixture], covered: tuple[Image, list[float]]
) -> None:
    image, box = covered
    assert models["VIS"].head is not None
    reports = {
        m["method"]: m for m in compare(image, models, LiveSettings(threshold=-1), box)["methods"]
    }
    watched = reports["VIS"]["watched"]
    (same,) = [d for d in reports["VIS"]["detections"] if d["window"] == watched["window"]]
    assert watched["blocks"] == same["blocks"]
    assert any("h" in row for row in same["blocks"])


def test_settings_reach_the_models_that_know_them(models: dict[str, Mixture]) -> None:
    settings = LiveSettings(alpha=0.2, shift=0.01)
    assert settings.applied(models["BL"]) is models["BL"]
    changed = settings.applied(models["VIS"])
    assert changed.alpha == 0.2
    assert changed.components[0].u == models["VIS"].components[0].u + 0.01
    assert changed.head is None
    unmoved = LiveSettings(alpha=models["VIS"].alpha).applied(models["VIS"])
    assert unmoved.head is models["VIS"].head is not None
    assert LiveSettings().applied(models["VIS"]).alpha == models["VIS"].alpha


def test_a_tiny_picture_holds_nothing(models: dict[str, Mixture]) -> None:
    report = compare(np.zeros((3, 5, 3), np.uint8), models, LiveSettings(), [0, 0, 5, 3])
    assert [m["detections"] for m in report["methods"]] == [[]] * 4
    assert [m["watched"] for m in report["methods"]] == [None] * 4


def test_without_models_of_photographs_no_class_is_found() -> None:
    assert classes(np.zeros((30, 40, 3), np.uint8), []) == []


def test_wrong_settings_are_named() -> None:
    with pytest.raises(SettingsError, match="overlap must be between 0 and 1, found 2"):
        LiveSettings(overlap=2)


def test_every_scene_on_offer_has_a_car_that_can_be_covered() -> None:
    """If not, the scenes have changed: `python -m halfseen.web.demo_models` chooses anew."""
    for number in range(len(SCENES)):
        first = scene_objects(number)[0]
        assert first["visible_fraction"] > 0.9
        assert first["full"][2] - first["full"][0] > 90
