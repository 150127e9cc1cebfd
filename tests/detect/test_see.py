"""What is visible of the boxes of any detector."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.scenes import render_scenes
from halfseen.detect.detector import PaperDetector
from halfseen.detect.follow import SAME
from halfseen.detections import Block, Detections
from halfseen.errors import SettingsError
from halfseen.evaluate.blocks import BlockCounts, count_blocks, covered_blocks
from halfseen.evaluate.visibility import whole
from halfseen.geometry import clip, iou_matrix
from tests.builders import HEIGHT, SHIPPED, WIDTH, headless, make_dataset, make_image, make_model

BOX = [40.0, 24.0, 88.0, 56.0]


def as_seen(one: Detections) -> tuple[Any, ...]:
    return one.window[0].tolist(), one.visible[0].tolist(), one.blocks[0].tolist()


def test_each_box_gets_the_best_of_all_windows_that_overlap_it() -> None:
    """The oracle: every window of a search without a threshold, one after another."""
    models = [make_model("VIS", "pattern"), make_model("BLT", "other", u_t=0.02)]
    detector = PaperDetector(models)
    rng = np.random.default_rng(3)
    for truth in make_dataset():
        image = truth.source
        assert isinstance(image, np.ndarray)
        sides = rng.uniform(20, 70, (6, 2))
        corner = rng.uniform(-20, [WIDTH - 20, HEIGHT - 20], (6, 2))
        boxes = np.concatenate([np.hstack([corner, corner + sides]), truth.box])
        labels = rng.choice(["pattern", "other"], len(boxes))
        seen = detector.see(image, boxes, labels)
        every = detector.candidates(image, -100.0)
        near: Any = iou_matrix(clip(boxes, seen.size), every.clipped) >= SAME
        near &= labels[:, None] == every.label
        assert near.any(axis=1)[6:].all()
        for n in range(len(boxes)):
            if near[n].any():
                expected = every[int(np.flatnonzero(near[n])[0])]
                assert seen.score[n] == pytest.approx(expected.score[0], abs=1e-5)
                assert seen.label[n] == labels[n]
                assert models[seen.model[n]].label == labels[n]
                assert seen.blocks[n].any()
            else:
                # Only windows that show something are candidates, so none may be left that does.
                assert not seen[n].visibility[0].any()


def test_what_is_covered_of_a_given_box_is_hidden() -> None:
    detector, counts = hs.Detector(SHIPPED), BlockCounts()
    for seed in range(40, 52):
        data = render_scenes(1, seed=seed, classes=["car"])
        truth, image = data[0], data.image(0).copy()
        for j in np.flatnonzero(whole(truth))[:1].tolist():
            x1, y1, x2, y2 = np.rint(clip(truth.box[j], truth.size)).astype(int)
            board = np.zeros(truth.size, bool)
            board[y1:y2, x1 : (x1 + x2) // 2] = True
            noise = np.random.default_rng(seed).integers(0, 255, image.shape)
            image[board] = noise[board]
            seen = detector.see(image, truth.box[[j]])
            if seen.blocks[0].size:
                shape = seen.blocks[0].shape
                blocks = covered_blocks(board, seen.window[0], shape, truth.box[j])
                counts += count_blocks(seen.visibility[0], blocks)
    assert counts.objects >= 4
    assert counts.balanced_accuracy > 0.75


@pytest.mark.parametrize("name", ["car.fhog", "car.fast"])
def test_the_boxes_of_our_own_detections_are_seen_as_detected(name: str) -> None:
    """The same stages: where the window is the same, so is all that is said of it."""
    detector = hs.Detector(name)
    same = 0
    for k in range(6):
        image = render_scenes(1, seed=20 + k, classes=["car"]).image(0)
        found = detector.detect(image, -0.5, "greedy")
        inside = (found.full == found.clipped).all(axis=1)
        found = found[inside]
        seen = detector.see(image, found.full, found.label)
        assert seen.probability is None
        np.testing.assert_array_equal(seen.full, found.full)
        for n in range(len(found)):
            if np.abs(seen.window[n] - found.window[n]).max() < 1e-6:
                assert as_seen(seen[n]) == as_seen(found[n])
                np.testing.assert_array_equal(seen.mask(n), found.mask(n))
                same += 1
            else:
                assert seen.score[n] > found.score[n] - 1e-5
    assert same >= 3


def test_of_a_box_that_no_window_reaches_nothing_is_known() -> None:
    image = make_image("whole", [(40, 24)]).source
    boxes: Any = [[0, 0, 3, 2], BOX, [500, 500, 600, 600], [9, 9, 9, 30]]
    seen = hs.Detector(make_model()).see(image, boxes, "pattern")
    assert np.isnan(seen.visible_fraction).tolist() == [True, False, True, True]
    rest = seen[[0, 2, 3]]
    assert np.isnan(rest.score).all()
    assert np.isnan(rest.visible).all()
    assert rest.component.tolist() == [-1, -1, -1]
    assert [grid.shape for grid in rest.blocks] == [(0, 0)] * 3
    assert rest.label.tolist() == ["pattern"] * 3
    np.testing.assert_array_equal(seen.full, boxes)
    for n in range(3):
        assert rest.mask(n).shape == (HEIGHT, WIDTH)
        assert not rest.mask(n).any()
        assert not rest.visible_mask(n).any()
    again = rest.with_blocks(rest.blocks)
    assert np.isnan(again.visible).all()
    # In a picture they are hairlines, with no claim about what is seen.
    picture = hs.draw(np.asarray(image), seen[[1]])
    with_rest = hs.draw(np.asarray(image), seen[[1, 3]])
    changed = np.argwhere((picture != with_rest).any(axis=2))
    assert changed.any()
    assert (changed[:, 1] < 12).all()
    with pytest.raises(SettingsError, match=r"found \(0, 0\)"):
        hs.suppress(seen)


def test_only_beyond_the_image_does_the_window_say_where_the_object_ends() -> None:
    """The pattern from x 104 to 152 in an image 144 wide: its detector's box ends at the border."""
    cut = make_image("cut", [(104, 32)]).source
    given = [105.0, 33.0, 144.0, 63.0]
    seen = hs.Detector(make_model("BLT", u_t=0.01)).see(cut, [given])
    assert seen.window[0].tolist() == [104, 32, 152, 64]
    assert seen.full[0].tolist() == [105, 33, 152, 63]
    assert (seen.blocks[0][:, -1] == Block.OUTSIDE).all()
    assert seen.visible[0].tolist() == [105, 33, 144, 63]


def test_a_label_is_looked_up_among_the_models() -> None:
    image = make_image("whole", [(40, 24)]).source
    models = [make_model(label="other"), make_model(), replace(make_model(), mirrored=True)]
    seen = hs.Detector(models).see(image, [BOX, BOX], ["pattern", "other"])
    assert seen.model.tolist() == [1, 0]
    assert seen.label.tolist() == ["pattern", "other"]
    none = hs.Detector(models).see(image, [], [])
    assert len(none) == 0


@pytest.mark.parametrize(
    ("boxes", "labels", "words"),
    [
        ([BOX], ["patern"], "no model of 'patern', the label of box 0; did you mean 'pattern'"),
        ([BOX], [3], "no model of '3'"),
        ([BOX], None, "expected one for each box, because the detector has 2 classes"),
        ([BOX, BOX], ["pattern"], "expected 2 as boxes, found 1"),
        ([BOX[:3]], "pattern", r"expected shape \(N, 4\)"),
        (["box"], "pattern", r"expected numbers of shape \(N, 4\)"),
        ([BOX, [8, 8, 4, 12]], "pattern", "at box 1; of x, y, width, height make corners"),
        ([[0, 0, np.nan, 5]], "pattern", "expected finite"),
    ],
)
def test_a_wrong_call_is_one_line(boxes: Any, labels: Any, words: str) -> None:
    detector = hs.Detector([make_model(), make_model(label="other")])
    with pytest.raises(SettingsError, match=words) as caught:
        detector.see(np.zeros((HEIGHT, WIDTH, 3), np.uint8), boxes, labels)
    assert "\n" not in str(caught.value)


def test_an_image_too_small_for_any_window_reaches_nothing() -> None:
    seen = hs.Detector(headless()).see(np.zeros((3, 5, 3), np.uint8), [[0, 0, 5, 3]])
    assert np.isnan(seen.visible_fraction).all()
