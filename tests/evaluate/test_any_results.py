"""Results files of any detector: each format by hand, bad rows named, and files bounded."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfseen.data.dataset import Dataset
from halfseen.data.kitti import NEIGHBOURS
from halfseen.data.limits import Limits
from halfseen.data.rle import encode
from halfseen.errors import AnnotationError, SettingsError
from halfseen.evaluate.any_results import read_any_results
from tests.builders import make_truth

SIZE = (80, 120)
TRUTHS = (
    make_truth([(1, 2, 30, 40)], "000001", size=SIZE),
    make_truth([], "000002", size=SIZE),
)
DATASET = Dataset("two", ("car",), TRUTHS, categories={3: "car"})


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def coco(image: Any = "000001", **row: Any) -> dict[str, Any]:
    return {"image_id": image, "category_id": 3, "bbox": [1, 2, 29, 38], "score": 0.5, **row}


KITTI = f"car -1 -1 -10 1 2 30 40{' 0' * 7} 0.5\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", [coco()]),
        ("a.json", [{k: v for k, v in coco().items() if k != "bbox"}
                    | {"segmentation": [[1, 2, 30, 2, 30, 40, 1, 40]]}]),
        ("comp3_det_val_car.txt", "000001 0.5 2 3 30 40\n"),
        ("anything.txt", "000001 0.5 2 3 30 40\n"),
        ("det.txt", "1,-1,2,3,29,38,0.5,-1,-1,-1\n"),
        ("a.odgt", {"ID": "000001",
                    "dtboxes": [{"box": [1, 2, 29, 38], "score": 0.5, "tag": 1}]}),
        ("000001.txt", KITTI),
    ],
)  # fmt: skip
def test_every_format_says_the_same(tmp_path: Path, name: str, content: Any) -> None:
    file = write(tmp_path / name, content)
    results = read_any_results(tmp_path if content == KITTI else file, DATASET)
    first, second = results.found
    assert first.full.tolist() == [[1, 2, 30, 40]]
    assert (first.score.tolist(), first.label.tolist(), first.size) == ([0.5], ["car"], SIZE)
    assert len(second) == 0
    assert results.skipped == 0


def test_a_mask_without_a_box_has_its_extent(tmp_path: Path) -> None:
    mask = np.zeros(SIZE, bool)
    mask[10:20, 30:50] = True
    row = coco(segmentation=encode(mask))
    del row["bbox"]
    first, _ = read_any_results(write(tmp_path / "a.json", [row]), DATASET).found
    assert first.full.tolist() == [[30, 10, 50, 20]]


@pytest.mark.parametrize("polygon", [["a"], 5, [1e308] * 6, [10**400] * 6, [1, 2], None])
def test_malformed_polygons_are_one_line(tmp_path: Path, polygon: Any) -> None:
    row = coco(segmentation=[polygon])
    del row["bbox"]
    with pytest.raises(AnnotationError, match="result 0: segmentation: polygon: expected"):
        read_any_results(write(tmp_path / "a.json", [row]), DATASET)


def test_masks_of_vast_pictures_are_not_made(tmp_path: Path) -> None:
    row = coco(segmentation={"size": [9000, 9000], "counts": [9003, 2, 80990995]})
    del row["bbox"]
    file = write(tmp_path / "a.json", [row])
    read_any_results(file, DATASET)
    tracemalloc.start()
    try:
        first, _ = read_any_results(file, DATASET).found
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert first.full.tolist() == [[1, 3, 2, 5]]


def test_rows_of_other_classes_are_counted(tmp_path: Path) -> None:
    rows = [coco(), coco(category_id=99)]
    results = read_any_results(write(tmp_path / "a.json", rows), DATASET)
    assert (len(results.found[0]), results.skipped) == (1, 1)
    words = "none of its 1 rows is .* of category_id 99, the annotations of car; .* --rename"
    with pytest.raises(AnnotationError, match=words):
        read_any_results(write(tmp_path / "a.json", [coco(category_id=99)]), DATASET)


def test_images_that_were_left_out_are_not_missed(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [coco(), coco("000009")])
    with pytest.raises(AnnotationError, match='result 1: image "000009" is not among the 2 images'):
        read_any_results(file, DATASET)
    faulty = Dataset("two", ("car",), TRUTHS, ("000009: faulty",), categories={3: "car"})
    assert read_any_results(file, faulty).skipped == 1


def test_results_without_classes_need_data_of_one(tmp_path: Path) -> None:
    file = write(tmp_path / "det.txt", "1,-1,2,3,29,38,0.5\n")
    two = Dataset("two", ("car", "dog"), TRUTHS)
    with pytest.raises(SettingsError, match="do not name classes, and the data set has 2"):
        read_any_results(file, two)
    one = Dataset("two", ("car", "DontCare"), TRUTHS, neighbours=NEIGHBOURS)
    assert read_any_results(file, one).found[0].label.tolist() == ["car"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", {"a": 1}, "expected a list of results"),
        ("a.json", [coco(score=None)], "result 0: score: expected a number"),
        ("a.json", [coco(), coco(bbox=[1, 2, -3, 4])], "result 1: bbox: width and height"),
        ("det.txt", "1,2\n", "line 1: expected 6 to 10 fields"),
        ("det.txt", "1,-1,2,3,29,38,high\n", "line 1: confidence: expected a number"),
        ("a.txt", "000001 0.5 2 3 30\n", "line 1: expected 6 fields"),
        ("a.txt", "000001 0.5 2 3 30 x\n", "line 1: a field is not a number"),
        ("a.odgt", '{"ID": "000001"}', "line 1: dtboxes: expected a list"),
        ("a.odgt", '{"ID": "000001", "dtboxes": [{"box": [1, 2], "score": 1}]}', r"\[0\]: box"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, name: str, content: Any, words: str) -> None:
    file = write(tmp_path / name, content)
    with pytest.raises(AnnotationError, match=words) as caught:
        read_any_results(file, DATASET)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_kitti_results_need_a_score(tmp_path: Path) -> None:
    write(tmp_path / "000001.txt", KITTI.rsplit(" ", 1)[0])
    with pytest.raises(AnnotationError, match="line 1: expected 16 fields with a score, found 15"):
        read_any_results(tmp_path, DATASET)


def test_too_many_results_in_one_image(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [coco()] * 3)
    with pytest.raises(AnnotationError, match='3 results in image "000001" exceed 2'):
        read_any_results(file, DATASET, limits=Limits(objects=2))


def test_unknown_formats_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file or folder; expected results"):
        read_any_results(tmp_path / "absent.json", DATASET)
    with pytest.raises(SettingsError, match="no results format 'coc'; did you mean 'coco'"):
        read_any_results(tmp_path / "a", DATASET, "coc")
