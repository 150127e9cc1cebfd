import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfseen.data.coco import read_coco, read_results, write_results
from halfseen.data.image import write_image
from halfseen.data.limits import Limits
from halfseen.data.rle import encode
from halfseen.errors import AnnotationError, ImageError

MASK = np.zeros((12, 20), dtype=bool)
MASK[3:6, 4:9] = True
IMAGE = {"id": 1, "file_name": "a.png", "width": 20, "height": 12}
CAR = {"id": 7, "image_id": 1, "category_id": 3, "bbox": [4, 3, 5, 3], "iscrowd": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.png", "deep/b.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        write_image(tmp_path / "images" / name, np.zeros((12, 20, 3), np.uint8))
    return tmp_path / "images"


def write(folder: Path, **changes: Any) -> Path:
    file = folder.parent / "instances.json"
    content = {
        "images": [IMAGE, {**IMAGE, "id": 2, "file_name": "deep/b.png"}],
        "annotations": [CAR],
        "categories": [{"id": 3, "name": "car"}, {"id": 5, "name": "traffic light"}],
    }
    file.write_text(json.dumps({**content, **changes}))
    return file


def test_boxes_crowds_and_masks(folder: Path) -> None:
    square = [4, 3, 9, 3, 9, 6, 4, 6]
    rows = [
        {**CAR, "segmentation": [square]},
        {**CAR, "segmentation": encode(MASK), "iscrowd": 1, "category_id": 5},
        {**CAR, "bbox": [0.25, 0, 20.5, 12], "segmentation": []},
        {**CAR, "segmentation": {"size": [12, 20], "counts": [240]}},
    ]
    dataset = read_coco(write(folder, annotations=rows), folder)
    assert dataset.classes == ("car", "traffic light")
    assert dataset.problems == ()
    truth, empty = dataset
    assert (truth.image, truth.size, len(empty)) == ("1", (12, 20), 0)
    assert truth.label.tolist() == ["car", "traffic light", "car", "car"]
    assert truth.box[0].tolist() == [4, 3, 9, 6]
    assert truth.box[2].tolist() == [0.25, 0, 20, 12]
    assert truth.crowd.tolist() == truth.difficult.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(truth.mask(0), MASK)
    np.testing.assert_array_equal(truth.mask(1), MASK)
    assert truth.mask(2) is None
    assert not truth.mask(3).any()  # type: ignore[union-attr]
    assert dataset.image(1).shape == (12, 20, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bbox": [1, 2, 3]}, "bbox: expected"),
        ({"bbox": None}, "bbox: expected"),
        ({"bbox": ["1", 2, 3, 4]}, "bbox: expected"),
        ({"bbox": [10**400, 2, 3, 4]}, "bbox: expected"),
        ({"bbox": [1, 2, 0, 4]}, "bbox: empty or reversed"),
        ({"bbox": [5, 2, -3, 4]}, "bbox: empty or reversed"),
        ({"bbox": [15, 2, 8, 4]}, "bbox: 3 pixels outside"),
        ({"category_id": 4}, "category_id: 4 is not"),
        ({"category_id": [3]}, "category_id"),
        ({"iscrowd": 2}, "iscrowd: expected 0 or 1"),
        ({"segmentation": "text"}, "segmentation: expected"),
    ],
)
def test_a_faulty_annotation_costs_its_image_only(
    folder: Path, change: dict[str, Any], words: str
) -> None:
    file = write(folder, annotations=[{**CAR, **change}])
    dataset = read_coco(file, folder)
    assert [truth.image for truth in dataset] == ["2"]
    (problem,) = dataset.problems
    assert problem.startswith(f"{file}: image 1: annotation 7: ")
    assert words in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"file_name": "absent.png"},
            "image 1: file_name: no such file",
        ),
        ({"file_name": "../instances.json"}, "image 1: file_name: expected a path inside"),
        ({"file_name": "/etc/passwd"}, "expected a path inside"),
        ({"file_name": "deep\\b.png"}, "expected a path inside"),
        ({"file_name": None}, "expected a path inside"),
        ({"file_name": "f" * 5000}, "fff of 5,000 characters"),
        ({"width": 0}, "image 1: width: expected"),
        ({"height": "12"}, "height: expected"),
        ({"width": 10**9}, "exceeds"),
        ({"id": None}, "images[0]: id"),
        ({"id": 2}, "images[1]: id"),
    ],
)
def test_a_faulty_or_absent_image_is_told(folder: Path, change: dict[str, Any], words: str) -> None:
    images = [{**IMAGE, **change}, {**IMAGE, "id": 2, "file_name": "deep/b.png"}]
    dataset = read_coco(write(folder, images=images, annotations=[]), folder)
    assert [truth.image for truth in dataset] == ["2"]
    (problem,) = dataset.problems
    assert words in problem


def test_an_annotation_of_no_image_is_told(folder: Path) -> None:
    rows = [{**CAR, "image_id": 99}, {**CAR, "image_id": [1]}, CAR]
    dataset = read_coco(write(folder, annotations=rows), folder)
    assert [len(truth) for truth in dataset] == [1, 0]
    assert len(dataset.problems) == 2
    assert "annotation 7: image_id: 99 is not a listed image" in dataset.problems[0]


def test_faulty_masks_are_told_when_asked_for(folder: Path) -> None:
    bad = [encode(np.ones((3, 3), bool)), {"size": [12, 20], "counts": "?"}, [[1, 2, 3]], {"a": 1}]
    rows = [{**CAR, "segmentation": segmentation} for segmentation in bad]
    truth = read_coco(write(folder, annotations=rows), folder)[0]
    for i in range(len(bad)):
        with pytest.raises(AnnotationError, match=r"instances\.json: annotation 7: segmentation"):
            truth.mask(i)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"images": 3}', '{"images": [3]}', "[" * 200_000, '{"images": NaN}',
     '{"images": [], "annotations": [], "categories": []}', "\x00", '{"categories": [{"id": 1}]}',
     '{"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}'],
)  # fmt: skip
def test_a_file_that_is_not_cocos(folder: Path, text: str) -> None:
    file = folder.parent / "instances.json"
    file.write_text(text)
    with pytest.raises(AnnotationError, match=r"instances\.json") as caught:
        read_coco(file, folder)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_and_missing_places(folder: Path) -> None:
    file = folder.parent / "instances.json"
    file.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(AnnotationError, match="not valid JSON"):
        read_coco(file, folder)
    with pytest.raises(AnnotationError, match="no such file"):
        read_coco(folder / "absent.json", folder)
    with pytest.raises(AnnotationError, match="found a folder"):
        read_coco(folder, folder)
    with pytest.raises(AnnotationError, match="no such folder"):
        read_coco(write(folder), folder / "absent")


def test_limits(folder: Path) -> None:
    file = write(folder, annotations=[CAR, CAR, CAR])
    with pytest.raises(AnnotationError, match="limit of 100 bytes"):
        read_coco(file, folder, Limits(json_bytes=100))
    (problem,) = read_coco(file, folder, Limits(objects=2)).problems
    assert "3 objects exceed the limit of 2" in problem


ROW = {"image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}


def test_results_read_back(tmp_path: Path) -> None:
    rle = encode(MASK)
    rows = [
        {**ROW, "score": np.float32(0.5), "bbox": np.array([1.0, 2.0, 3.0, 4.0])},
        {"image_id": "x", "category_id": np.int64(3), "score": 1, "segmentation": rle},
        {**ROW, "segmentation": {**rle, "counts": rle["counts"].encode()}, "note": "kept"},
    ]
    write_results(tmp_path / "out.json", rows)
    assert read_results(tmp_path / "out.json") == [
        ROW,
        {"image_id": "x", "category_id": 3, "score": 1, "segmentation": rle},
        {**ROW, "segmentation": rle, "note": "kept"},
    ]
    write_results(tmp_path / "none.json", [])
    assert read_results(tmp_path / "none.json") == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (3, "expected an object"),
        ({**ROW, "image_id": None}, "image_id"),
        ({**ROW, "category_id": True}, "category_id"),
        ({**ROW, "score": "high"}, "score"),
        ({**ROW, "score": None}, "score"),
        ({**ROW, "bbox": [1, 2, 3]}, "bbox"),
        ({**ROW, "bbox": [1, 2, -3, 4]}, "bbox"),
        ({**ROW, "segmentation": 3}, "segmentation"),
        ({"image_id": 1, "category_id": 3, "score": 1}, "neither"),
    ],
)
def test_faulty_results_are_refused_and_nothing_is_written(
    tmp_path: Path, row: Any, words: str
) -> None:
    file = tmp_path / "results.json"
    with pytest.raises(AnnotationError, match=rf"results\.json: result 1: .*{words}"):
        write_results(file, [ROW, row])
    assert os.listdir(tmp_path) == []
    file.write_text(json.dumps([ROW, row]))
    with pytest.raises(AnnotationError, match=rf"results\.json: result 1: .*{words}"):
        read_results(file)


def test_results_that_json_cannot_hold(tmp_path: Path) -> None:
    for value in (float("nan"), np.inf, object()):
        with pytest.raises(AnnotationError):
            write_results(tmp_path / "a.json", [{**ROW, "score": value}])
    for polygon in ([0, 0, 1, 1, 2, np.nan], [b"\xff"]):
        with pytest.raises(AnnotationError, match=r"a\.json: results that JSON cannot hold"):
            write_results(tmp_path / "a.json", [{**ROW, "segmentation": [polygon]}])
    assert os.listdir(tmp_path) == []
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(AnnotationError, match="expected a list"):
        read_results(tmp_path / "a.json")
    with pytest.raises(AnnotationError, match="cannot be written"):
        write_results(tmp_path / "absent" / "a.json", [ROW])


def test_without_a_folder_images_are_beside_the_file_and_needed_only_when_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "below").mkdir()
    write_image(tmp_path / "below" / "a.png", np.full((6, 8, 3), 77, np.uint8))
    names = {1: "below/a.png", 2: "absent.png", 3: "../outside.png"}
    images = [{"id": i, "file_name": n, "height": 6, "width": 8} for i, n in names.items()]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    found = read_coco(file)
    assert (found.image(0) == 77).all()
    with pytest.raises(ImageError, match=r"absent\.png: no such file"):
        found.image(1)
    assert found[2].source == ""
    assert read_coco(file, images=tmp_path)[0].source == found[0].source
    assert len(read_coco(file, images=tmp_path)) == 1


def test_an_absent_image_names_the_option_that_finds_it(folder: Path) -> None:
    images = [IMAGE, {**IMAGE, "id": 2, "file_name": "absent.png"}]
    dataset = read_coco(write(folder, images=images, annotations=[]), folder)
    assert dataset.problems[0].endswith("give the folder of the images, --images FOLDER")
