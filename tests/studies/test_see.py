"""`halfseen see`: fields that are added to another detector's COCO results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.data import rle
from halfseen.data.image import write_image
from halfseen.studies.see import VOC_NAMES
from tests.builders import HEIGHT, WIDTH, make_dataset, make_model

ADDED = {"visible_fraction", "vis_bbox", "a_bbox", "segmentation"}
COVERED, CLOSE = 2, 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures, their annotations as COCO has them, a model, and results of somebody's."""
    data = make_dataset()
    (tmp_path / "images").mkdir()
    for n in (COVERED, CLOSE):
        write_image(tmp_path / "images" / f"{n:06}.png", data.image(n))
    images = [{"id": n, "file_name": f"x/{n:06}.png", "height": HEIGHT, "width": WIDTH}
              for n in (COVERED, CLOSE)]  # fmt: skip
    categories = [{"id": 7, "name": "pattern"}, {"id": 9, "name": "disc"}]
    coco = {"images": images, "annotations": [], "categories": categories}
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    (tmp_path / "categories.json").write_text(json.dumps(categories))
    hs.save(make_model(), tmp_path / "pattern.safetensors")
    rows = [
        {"image_id": CLOSE, "category_id": 7, "bbox": [16, 32, 48, 32], "score": 0.9, "track": 3},
        {"image_id": COVERED, "category_id": 9, "bbox": [0, 0, 9, 9], "score": 0.5},
        {"image_id": COVERED, "category_id": 7, "bbox": [40, 24, 48, 32], "score": 0.8,
         "segmentation": [[40, 24, 88, 24, 88, 56, 40, 56]]},
        {"image_id": COVERED, "category_id": 7, "bbox": [0, 0, 2, 2], "score": 0.1},
        {"image_id": COVERED, "category_id": 7, "score": 0.7,
         "segmentation": [[40, 24, 88, 24, 88, 56, 40, 56]]},
    ]  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(rows))
    return tmp_path


def see(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    out = folder / "out.json"
    names = ["results.json", "images"] if "--" not in words else []
    given = [str(folder / name) for name in names]
    model = str(folder / "pattern.safetensors")
    code = run(["see", *given, "-o", str(out), "--model", model, *words])
    return code, json.loads(out.read_text()) if out.exists() else []


def test_every_result_keeps_its_fields_and_gets_those_of_the_detector(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, rows = see(folder)
    assert code == 0
    before = json.loads((folder / "results.json").read_text())
    assert len(rows) == len(before)
    for row, old in zip(rows, before, strict=True):
        assert {name: row[name] for name in old} == old
    first, other, covered, small, masked = rows
    assert first.keys() - before[0].keys() == ADDED
    for nothing in (other, small):
        assert nothing["visible_fraction"] is None
        assert not ADDED & nothing.keys() - {"visible_fraction"}
    assert "visible_segmentation" in covered
    del covered["bbox"], covered["score"], masked["score"]
    assert masked == covered  # its box is that around its mask
    # The oracle: the same from Python.
    image = make_dataset().image(COVERED)
    seen = hs.Detector(make_model()).see(image, [[40, 24, 88, 56]])
    assert covered["visible_fraction"] == pytest.approx(seen.visible_fraction[0], abs=1e-4)
    x1, y1, x2, y2 = seen.visible[0]
    assert covered["vis_bbox"] == pytest.approx([x1, y1, x2 - x1, y2 - y1], abs=0.01)
    assert covered["a_bbox"] == [40, 24, 48, 32]
    np.testing.assert_array_equal(rle.decode(covered["visible_segmentation"]), seen.mask(0))
    said = capsys.readouterr().err
    assert "5 results, what is visible known of 3" in said
    assert "1 of classes without a model" in said
    assert "1 that no window reaches" in said


def test_what_was_written_is_a_results_file_and_can_be_suppressed(folder: Path) -> None:
    assert see(folder, "-q")[0] == 0
    assert run(["suppress", str(folder / "out.json"), "-o", str(folder / "kept.json"), "-q"]) == 0
    assert json.loads((folder / "kept.json").read_text())


def test_names_of_images_and_classes_come_from_a_coco_file(folder: Path) -> None:
    """Files that are named otherwise than their ids, and classes that the model calls otherwise."""
    coco = json.loads((folder / "coco.json").read_text())
    coco["categories"][0]["name"] = "quilt"
    for image in coco["images"]:
        name = f"photo-{image['id']}"
        (folder / "images" / f"{image['id']:06}.png").rename(folder / "images" / f"{name}.png")
        image["file_name"] = f"somewhere/{name}.jpg"
    (folder / "coco.json").write_text(json.dumps(coco))
    words = ["--categories", str(folder / "coco.json"), "--rename", "quilt=pattern"]
    code, rows = see(folder, *words)
    assert code == 0
    assert [row["visible_fraction"] is not None for row in rows] == [True, False, True, False, True]


def test_vocs_names_of_cocos_classes_are_shipped_models() -> None:
    assert set(VOC_NAMES.values()) <= set(hs.models())
    assert not set(VOC_NAMES) & set(hs.models())


def test_an_image_that_fails_loses_no_result(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "images" / f"{CLOSE:06}.png").write_bytes(b"no picture")
    (folder / "images" / f"{COVERED:06}.png").rename(folder / "images" / "77.png")
    code, rows = see(folder, "--json")
    assert code == 1
    assert [row["visible_fraction"] for row in rows] == [None] * 5
    printed = capsys.readouterr()
    assert json.loads(printed.out)["without"] == {
        "of classes without a model": 1,
        "of images that were not given": 3,
        "of images that failed": 1,
    }
    assert 'failed: image "2" is not among those given' in printed.err
    assert f"{CLOSE:06}.png" in printed.err


WRONG: list[tuple[str, Any, list[str], int, str]] = [
    ("results.json", {"a": 1}, [], 1, "expected a list of results"),
    ("results.json", [{"image_id": 2, "category_id": 7, "score": 1, "bbox": [0, 0, 1, 1],
                       "vis_bbox": [0, 0, 1, 1]}], [], 1, "result 0: vis_bbox: is there already"),
    ("results.json", [{"image_id": 2, "category_id": 7, "score": 1, "bbox": [1e308] * 4}], [], 1,
     "bbox: expected finite corners"),
    ("categories.json", [{"id": 1}], [], 1, "categories[0]: expected an id and a name"),
    ("categories.json", 3, [], 1, "categories: expected a list"),
    ("categories.json", [{"id": 1, "name": "a"}], ["--rename", "b=a"], 2, "no class 'b'"),
    ("none.json", 0, ["--categories", "nowhere.json"], 2, "nowhere.json: no such file"),
    ("none.json", 0, ["--model", "hors"], 2, "did you mean 'horse'"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "words", "code", "message"), WRONG)
def test_wrong_input_is_one_line(
    folder: Path, file: str, content: Any, words: list[str], code: int, message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (folder / file).write_text(json.dumps(content))
    assert see(folder, "-q", *words)[0] == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_files_that_are_missing_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, images = str(folder / "results.json"), str(folder / "images")
    assert run(["see", "nothing.json", images, "-o", "o.json"]) == 2
    assert run(["see", results, images, "-o", str(folder / "no" / "o.json")]) == 2
    assert run(["see", results, str(folder / "none"), "-o", str(folder / "o.json")]) == 2
    (folder / "categories.json").unlink()
    assert run(["see", results, images, "-o", str(folder / "o.json")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [word in line for word, line in zip(
        ("nothing.json: no such file", "make it first", "none", "--categories FILE"), lines,
        strict=True,
    )] == [True] * 4  # fmt: skip


def test_two_pictures_of_one_name_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "images" / "more").mkdir()
    name = f"{CLOSE:06}.png"
    (folder / "images" / "more" / name).write_bytes((folder / "images" / name).read_bytes())
    assert see(folder)[0] == 2
    assert "cannot tell images of one name apart" in capsys.readouterr().err
