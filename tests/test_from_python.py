"""What people try first from Python: it works, or is one line that says what to call."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import halfseen as hs
from halfseen.data.image import as_image
from tests.builders import make_dataset, make_detections, make_model

BOXES = np.array([[0.0, 0, 10, 10], [30, 1, 41, 11]])


@pytest.fixture
def scene() -> np.ndarray:
    return np.asarray(make_dataset().image(0))


def test_a_detector_is_made_of_names_files_and_models(tmp_path: Path) -> None:
    hs.save(make_model(), tmp_path / "own.safetensors")
    names: list[Any] = ["car", tmp_path / "own.safetensors", make_model(label="other")]
    detector = hs.Detector(names)
    assert [model.label for model in detector.models] == ["car", "pattern", "other"]
    assert [model.label for model in hs.Detector("car").models] == ["car"]
    assert [model.label for model in hs.Detector(tmp_path / "own.safetensors").models] == [
        "pattern"
    ]


def test_an_image_of_pillow_is_searched_as_its_pixels_are(scene: np.ndarray) -> None:
    detector = hs.Detector(make_model())
    expected = detector.detect(scene)
    assert len(expected)
    found = detector.detect(Image.fromarray(scene))
    np.testing.assert_array_equal(found.score, expected.score)
    np.testing.assert_array_equal(found.full, expected.full)


def test_pillows_palettes_grey_and_transparency_become_colours(scene: np.ndarray) -> None:
    colours = np.array([[0, 0, 0], [200, 10, 60], [5, 250, 90]], np.uint8)
    indices = np.random.default_rng(0).integers(3, size=(7, 9)).astype(np.uint8)
    palette = Image.fromarray(indices, "P")
    palette.putpalette(colours.ravel().tolist())
    np.testing.assert_array_equal(as_image(palette), colours[indices])
    grey = Image.fromarray(scene[..., 0])
    np.testing.assert_array_equal(as_image(grey), as_image(scene[..., 0]))
    clear = np.dstack([scene, scene[..., 1]])
    np.testing.assert_array_equal(as_image(Image.fromarray(clear)), as_image(clear))
    with pytest.raises(hs.HalfseenError, match="floating-point"):
        as_image(Image.fromarray(np.zeros((4, 4), np.float32)))


def test_rows_of_box_score_and_class_are_detections() -> None:
    rows = np.column_stack([BOXES, [0.25, 0.75], [2, 0]])
    plain = hs.from_numpy(BOXES, [0.25, 0.75], ["2", "0"])
    found = hs.from_numpy(rows)
    for name in ("score", "label", "full"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    assert hs.from_numpy(rows, labels=["cup", "mug"]).label.tolist() == ["cup", "mug"]
    assert hs.from_numpy(rows[:, :5]).label.tolist() == ["", ""]
    assert len(hs.from_numpy([])) == 0


def test_drawing_is_public(scene: np.ndarray) -> None:
    found = hs.Detector(make_model()).detect(scene)
    drawn = hs.draw(scene, found)
    assert drawn.shape == scene.shape
    assert (drawn != scene).any()
    picture: Any = Image.fromarray(scene)
    np.testing.assert_array_equal(hs.draw(picture, found), drawn)


MASKS = np.random.default_rng(0).random((2, 9, 9))
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: hs.Detector("cra"), "did you mean"),
    (lambda: hs.Detector(3), "hs.load"),  # type: ignore[arg-type]
    (lambda: hs.Detector([]), "at least one model"),
    (lambda: hs.load(3), "hs.load"),  # type: ignore[arg-type]
    (lambda: hs.save("car", "x"), "hs.load"),  # type: ignore[arg-type]
    (lambda: hs.Detector("car").detect([1, 2]), "hs.read_image"),  # type: ignore[arg-type]
    (lambda: hs.Detector("car").detect(np.zeros((9, 9, 3))), "255 \\* image"),  # type: ignore[arg-type]
    (lambda: hs.draw("photo.jpg", hs.Detections.empty((9, 9))), "hs.read_image"),  # type: ignore[arg-type]
    (lambda: hs.suppress_masks(MASKS, [0.9, 0.8]), "masks > 0.5"),
    (lambda: hs.from_numpy(BOXES), "expected scores"),
    (lambda: hs.from_numpy(np.zeros((2, 8))), r"rows\[:, :4\]"),
    (lambda: hs.suppress_supervision({"xyxy": BOXES}), "hs.suppress_boxes"),
    (lambda: hs.suppress(BOXES, [0.9, 0.8]), "hs.suppress_boxes"),  # type: ignore[arg-type]
    (lambda: hs.suppress(make_detections([], []), "votng"), "'voting'"),
    (lambda: hs.suppress(make_detections([], []), overlp=1), "'overlap'"),
    (lambda: hs.suppress(make_detections([], []), overlap="1"), "must be a number"),
    (lambda: hs.suppress_boxes(BOXES, [0.9, 0.8], ovrlap=1), "'overlap'"),
    (lambda: hs.TrainSettings(updtes=1), "'updates'"),  # type: ignore[call-arg]
    (lambda: hs.TrainSettings.preset("paper", updtes=1), "'updates'"),
    (lambda: hs.TrainSettings(updates="1"), "a whole number"),  # type: ignore[arg-type]
    (lambda: hs.TrainSettings(updates=1.5), "a whole number"),  # type: ignore[arg-type]
    (lambda: hs.TrainSettings(updates=True), "a whole number"),
    (lambda: hs.TrainSettings(masks="no"), "True or False"),  # type: ignore[arg-type]
    (lambda: hs.TrainSettings(mask_head=3), "MaskSettings"),  # type: ignore[arg-type]
    (lambda: hs.TrainSettings(descriptor="hgo"), "'hog'"),
    (lambda: hs.MaskSettings(windws=1), "'windows'"),  # type: ignore[call-arg]
    (lambda: hs.MaskSettings(shares=(0.1,)), "shares"),  # type: ignore[arg-type]
    (lambda: hs.train("photos", "car"), "hs.read_voc"),  # type: ignore[arg-type]
    (lambda: hs.check("photos", "car"), "hs.read_coco"),  # type: ignore[arg-type]
    (lambda: hs.train(make_dataset(), "pattern", "VIS"), "hs.TrainSettings"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_call_is_one_line_that_says_what_to_do(number: int) -> None:
    call, words = WRONG[number]
    with pytest.raises(hs.HalfseenError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_numbers_of_numpy_are_settings() -> None:
    settings = hs.TrainSettings(updates=np.int64(2), alpha=np.float32(0.5))  # type: ignore[arg-type]
    assert type(settings.updates) is int
    assert type(settings.alpha) is float
    assert hs.TrainSettings(alpha=1).alpha == 1


def test_what_is_printed_of_an_object_is_one_short_line() -> None:
    found = make_detections([(0, 0, 10, 10), (30, 0, 41, 11)], [0.9, 0.25])
    data = make_dataset()
    shown = {
        found: "Detections(2 in ",
        found[:0]: "Detections(0 in ",
        hs.Detector("car.fast"): "Detector(car)",
        hs.load("car+masks"): "Mixture(car, VIS, 2 components, fhog blocks, mask head",
        hs.suppress(found): "Interpretation(covering: 2 of 2 kept, energy ",
        hs.suppress(found, "greedy"): "Interpretation(greedy: 2 of 2 kept)",
        data: f"Dataset('{data.name}'; images: {len(data)}, objects: ",
        data[0]: f"GroundTruth('{data[0].image}', ",
    }
    for thing, start in shown.items():
        text = repr(thing)
        assert text.startswith(start)
        assert "\n" not in text
        assert len(text) < 150
    assert repr(found).endswith("; best 0.90)")
    sure = replace(found, probability=np.array([0.42, 0.9999]))
    assert repr(sure).endswith("; best 99%)")
