"""`halfseen evaluate RESULTS --truth DATA`, and the example that does the same."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from halfseen.cli import run
from halfseen.data.image import write_image

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Annotations of two images with three people, and two results files."""
    images = [{"id": n, "file_name": f"{n}.png", "width": 200, "height": 150} for n in (1, 2)]
    boxes = [(1, [10, 20, 30, 80], 0.3), (1, [100, 20, 30, 80], 1.0), (2, [50, 30, 40, 90], 0.4)]
    annotations = [
        {"id": n, "image_id": image, "category_id": 1, "bbox": box, "vis_ratio": seen,
         "attributes": {"occluded": seen < 1}}
        for n, (image, box, seen) in enumerate(boxes)
    ]  # fmt: skip
    content = {"images": images, "annotations": annotations,
               "categories": [{"id": 1, "name": "person"}]}  # fmt: skip
    truth = tmp_path / "truth.json"
    truth.write_text(json.dumps(content))
    for n in (1, 2):
        write_image(tmp_path / f"{n}.png", np.full((150, 200, 3), 90 * n, np.uint8))
    rows = [{"image_id": image, "category_id": 1, "bbox": box, "score": 0.9 - k / 10}
            for k, (image, box, _) in enumerate(boxes)]  # fmt: skip
    good, blind = tmp_path / "good.json", tmp_path / "blind.json"
    good.write_text(json.dumps(rows))
    blind.write_text(json.dumps([rows[1]]))
    return truth, good, blind


def test_tables_of_two_detectors(
    files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    truth, good, blind = map(str, files)
    assert (
        run(["evaluate", blind, good, "--truth", truth, "--by", "visible", "--by", "occluded"]) == 0
    )
    printed = capsys.readouterr().out
    assert "person, 2 images: AP %" in printed
    assert "by visible fraction, %" in printed
    assert "25-50% visible   good" in printed
    assert "against blind, percentage points" in printed
    assert "occluded" in printed


def test_the_report_and_the_json(
    files: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, good, blind = map(str, files)
    words = ["--truth", truth, "--by", "visible", "--images", str(tmp_path), "--json"]
    assert run(["evaluate", blind, good, *words, "-o", str(tmp_path / "out")]) == 0
    document = json.loads(capsys.readouterr().out)
    tables = document["classes"]["person"]["tables"]
    assert [table["title"] for table in tables][1] == "by visible fraction, %"
    assert document["classes"]["person"]["methods"][1]["ap"] == 1.0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "by visible fraction, %" in page
    assert "Missed" in page or "Best" in page
    assert page.count("data:image/jpeg") > 0
    assert "boxes, masks and hidden blocks" not in page
    assert page.lower().count("by visible fraction, %") == 1
    assert "Share missed against false positives per image" in page
    # Boxes say nothing of what is visible.
    assert "% seen" not in page


def test_a_detector_that_finds_nothing_is_measured(
    files: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, good, _ = map(str, files)
    nothing, lines = tmp_path / "nothing.json", tmp_path / "det.txt"
    nothing.write_text("[]")
    lines.write_text("")
    for words in ([str(nothing)], [str(lines)], [str(nothing), good], [good, str(lines)]):
        words += ["--truth", truth, "--by", "visible", "--json"]
        assert run(["evaluate", *words, "-o", str(tmp_path / "out")]) == 0
        methods = json.loads(capsys.readouterr().out)["classes"]["person"]["methods"]
        assert min(one["ap"] for one in methods) == 0


def test_many_classes_have_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a", "b", "c", "d"]
    content = {
        "images": [{"id": 1, "file_name": "1.png", "width": 200, "height": 150}],
        "annotations": [{"id": n, "image_id": 1, "category_id": n, "bbox": [10 * n, 9, 20, 30]}
                        for n in range(4)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(names)],
    }  # fmt: skip
    truth, found = tmp_path / "truth.json", tmp_path / "found.json"
    truth.write_text(json.dumps(content))
    found.write_text(json.dumps([
        {"image_id": 1, "category_id": n, "bbox": [10 * n, 9, 20, 30], "score": 1} for n in range(3)
    ]))  # fmt: skip
    assert run(["evaluate", str(found), "--truth", str(truth)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "all classes, %"
    assert [row.split() for row in rows if row.startswith("mean")] == [
        ["mean", "4", "75.0", "75.0"]
    ]
    assert run(["evaluate", str(found), "--truth", str(truth), "--class", "b"]) == 0
    assert "b, 1 images: AP %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["RESULTS", "--by", "visible"], 2, "give --truth DATA"),
        (["RESULTS"], 2, "MODEL is missing"),
        (["absent.json", "--truth", "TRUTH"], 2, "no such file or folder; expected results"),
        (["RESULTS", "--truth", "absent"], 2, "no such file or folder; expected annotations"),
        (["RESULTS", "--truth", "TRUTH", "--by", "colour"], 2, "can be grouped by visible"),
        (["RESULTS", "--truth", "TRUTH", "--by", "truncated"], 2, "annotations do not say"),
        (["RESULTS", "--truth", "TRUTH", "--class", "persn"], 2, "did you mean 'person'"),
        (["RESULTS", "--truth", "TRUTH", "--boxes", "half"], 2, "boxes must be"),
        (["RESULTS", "--truth", "TRUTH", "--format", "coc"], 2, "did you mean 'coco"),
        (["TRUTH", "--truth", "TRUTH"], 1, "expected a list of results"),
        (["RESULTS", "--truth", "EMPTY"], 1, "empty: the annotations hold no object to be found"),
    ],
)
def test_wrong_use_is_one_line(
    files: tuple[Path, Path, Path],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    truth, good, _ = map(str, files)
    empty = files[0].with_name("empty.json")
    empty.write_text(json.dumps(json.loads(files[0].read_text()) | {"annotations": []}))
    places = {"TRUTH": truth, "RESULTS": good, "EMPTY": str(empty)}
    assert run(["evaluate", *(places.get(word, word) for word in words)]) == code
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


def test_the_example_says_which_detector_is_better(tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "examples" / "occlusion_report.py"), "-o", str(tmp_path)]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert "that are less than half visible, detector 2 is better:" in printed
    assert (tmp_path / "report.html").is_file()


def test_the_example_reads_files(files: tuple[Path, Path, Path]) -> None:
    truth, good, blind = map(str, files)
    program = [sys.executable, str(ROOT / "examples" / "occlusion_report.py"), good, blind]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "give two results files and --truth, or nothing at all" in done.stderr
    wrong = [*program, "--truth", truth, "--label", "persn"]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "truth: no class 'persn'; did you mean 'person'?\n"
    done = subprocess.run([*program, "--truth", truth], capture_output=True, text=True, check=True)
    assert "On the 2 that are less than half visible, good is better" in done.stdout


def test_without_images_the_report_says_what_it_lacks(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    truth, good, blind = map(str, files)
    for n in (1, 2):
        (tmp_path / f"{n}.png").unlink()
    assert run(["evaluate", blind, good, "--truth", truth, "-q", "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("no such file") == 1
    assert "--images FOLDER says where they are" in page
    assert "data:image/jpeg" not in page
