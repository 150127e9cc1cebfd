"""VOC results files: what is written is read back, and a wrong line is named."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from halfseen.errors import AnnotationError, SettingsError
from halfseen.evaluate.results import read_voc_results, results_name, write_voc_results
from halfseen.evaluate.voc_ap import average_precision
from tests import builders

SIZE = (100, 200)
make_found = partial(builders.make_found, size=SIZE)
make_truth = partial(builders.make_truth, size=SIZE)
TRUTH = [make_truth([(9, 19, 30, 40)], "2008_000001"), make_truth([], "2008_000002")]


def test_a_line_is_one_based_and_inclusive(tmp_path: Path) -> None:
    path = tmp_path / results_name("car")
    found = [make_found([(9, 19, 300, 40)], [0.1 + 0.2]), make_found([], [])]
    assert write_voc_results(path, TRUTH, found, "car") == 1
    assert path.read_text() == "2008_000001 0.30000000000000004 10.0 20.0 200.0 40.0\n"
    assert path.name == "comp3_det_val_car.txt"


def test_read_back_as_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 50, (40, 2))
    boxes = np.hstack([corner, corner + rng.uniform(1, 40, (40, 2))])
    scores = rng.normal(size=40)
    found = [make_found(boxes[:25], scores[:25]), make_found(boxes[25:], scores[25:])]
    path = tmp_path / "comp3_det_val_car.txt"
    write_voc_results(path, TRUTH, found, "car")
    again = read_voc_results(path, TRUTH)
    for before, after in zip(found, again, strict=True):
        assert np.array_equal(after.score, before.score)
        assert np.allclose(after.full, before.full, atol=1e-12)
        assert set(after.label) == {"car"}
        assert after.size == SIZE
    assert average_precision(TRUTH, again).ap == average_precision(TRUTH, found).ap


def test_order_of_lines_in_an_image_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(
        "2008_000002 1 1 1 5 5\n2008_000001 1 1 1 6 6\n\n"
        "2008_000002 1 1 1 7 7\n2008_000002 2 1 1 8 8"
    )
    first, second = read_voc_results(path, TRUTH, "car")
    assert second.full[:, 2].tolist() == [5, 7, 8]
    assert first.full.tolist() == [[0, 0, 6, 6]]


def test_only_the_class_asked_for_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    found = {"2008_000002": make_found([(0, 0, 5, 5)], [1], label="bus")}
    assert write_voc_results(path, TRUTH, found, "car") == 0
    assert path.read_text() == ""
    assert [len(seen) for seen in read_voc_results(path, TRUTH, "car")] == [0, 0]


def test_visible_boxes(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    found = {"2008_000002": make_found([(-4, 0, 5, 5)], [1])}
    write_voc_results(path, TRUTH, found, "car", box="visible")
    assert path.read_text() == "2008_000002 1.0 -3.0 1.0 5.0 5.0\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2008_000009 1 1 1 5 5", 'line 2: image "2008_000009" is not among the 2 images'),
        ("2008_000001 1 1 1 5", "line 2: expected 6 fields, .* found 5"),
        ("2008_000001 high 1 1 5 5", "line 2: a field is not a number"),
        ("2008_000001 nan 1 1 5 5", "line 2: a number is not finite"),
        ("2008_000001 1 1 1 inf 5", "line 2: a number is not finite"),
        ("2008_000001 1 9 1 5 5", "line 2: the box is reversed"),
        ("\x00\xff\xfe", "line 2: expected 6 fields"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "comp3_det_val_car.txt"
    path.write_text(f"2008_000001 1 1 1 5 5\n{line}\n", encoding="latin-1")
    with pytest.raises(AnnotationError, match=message) as caught:
        read_voc_results(path, TRUTH)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


def test_class_that_the_name_does_not_tell(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="give the label"):
        read_voc_results(tmp_path / "results.txt", TRUTH)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="cannot read the results file"):
        read_voc_results(tmp_path / "comp3_det_val_car.txt", TRUTH)


def test_file_too_large(tmp_path: Path) -> None:
    path = tmp_path / "comp3_det_val_car.txt"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(AnnotationError, match="larger than"):
        read_voc_results(path, TRUTH)


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "r.txt").mkdir()
    with pytest.raises(AnnotationError, match="cannot write"):
        write_voc_results(tmp_path / "r.txt", TRUTH, {}, "car")
    assert [p.name for p in tmp_path.iterdir()] == ["r.txt"]
    with pytest.raises(AnnotationError, match="cannot write"):
        write_voc_results(tmp_path / "nowhere" / "r.txt", TRUTH, {}, "car")


def test_image_id_with_a_space(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="rename the image"):
        write_voc_results(tmp_path / "r.txt", [make_truth([], "my car")], {}, "car")
    assert list(tmp_path.iterdir()) == []
