"""`halfseen convert`: from one format to another, with a line on what was lost."""

import json
from pathlib import Path

import pytest

from halfseen.cli import run
from halfseen.data.formats import read_dataset


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "000001.txt").write_text(
        f"Pedestrian 0.5 2 -1 10 20 30 60{' 0' * 7}\nPedestrian 0 0 -1 40 20 60 60{' 0' * 7}\n"
    )
    return folder


def test_the_last_line_says_what_was_lost(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gt.txt"
    words = ["--to", "mot", "--rename", "Pedestrian=pedestrian"]
    assert run(["convert", str(labels), str(out), *words]) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        "lost: truncated flag of 1 object, occluded flag of 1 object, truncation of 2 objects, "
        "level of occlusion of 2 objects\n"
    )
    assert "1 images, 2 objects: kitti to mot" in printed.err
    assert len(read_dataset(out)[0]) == 2


def test_nothing_is_lost_where_the_format_holds_it(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", str(labels), str(tmp_path / "again"), "--to", "kitti", "-q"]) == 0
    assert capsys.readouterr() == ("nothing was lost\n", "")
    assert (tmp_path / "again" / "000001.txt").read_text().startswith("Pedestrian 0.5 2 -10 10 20")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--to", "kiti"], 2, "no format 'kiti'; did you mean 'kitti'?"),
        (["--to", "cocoa"], 1, "its size is not known; give its images, --images FOLDER"),
        (["--to", "voc"], 1, "no image '000001'; a VOC folder holds the images"),
        (["--to", "bdd"], 1, ".: cannot be written: Is a directory"),
        (["--to", "coco"], 1, "its size is not known"),
        (["--to", "mot"], 1, "did you mean 'pedestrian'? (--rename 'Pedestrian=...' renames"),
        (["--to", "kitti", "--rename", "x"], 2, "expected OLD=NEW"),
        (["--to", "kitti", "--rename", "cat=dog"], 2, "no class 'cat'"),
    ],
)
def test_wrong_use_is_one_line(
    labels: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    out = "." if "bdd" in words else str(tmp_path / "out")
    assert run(["convert", str(labels), out, *words]) == code
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


def test_the_annotations_that_are_read_are_not_overwritten(
    labels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (labels / "000001.txt").read_text()
    assert run(["convert", str(labels), str(labels / ".." / "labels"), "--to", "bdd"]) == 2
    assert "is what is read; give another place to write" in capsys.readouterr().err
    assert (labels / "000001.txt").read_text() == before


def test_what_is_left_out_is_named_and_the_rest_converted(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (labels / "000002.txt").write_text("nonsense")
    out = tmp_path / "out.odgt"
    assert run(["convert", str(labels), str(out), "--to", "crowdhuman", "--format", "kitti"]) == 1
    assert "000002.txt, line 1: expected 15 fields" in capsys.readouterr().err
    assert [json.loads(line)["ID"] for line in out.read_text().splitlines()] == ["000001"]
