"""`halfseen check`, `train` and `tune` as a user runs them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.cli.options import show_check
from halfseen.cli.terminal import Report
from halfseen.data.image import write_image
from halfseen.data.voc_writer import write_voc
from halfseen.learn import checkpoint
from halfseen.learn.check import Check, Unreached
from halfseen.learn.estimate import Cost
from tests.builders import tiny_scenes

FAST = [
    f"--set={word}"
    for word in (
        "blocks=24", "updates=1", "rounds=2", "mining-images=6", "iterations=8", "stop=0",
        "store_bytes=4194304",
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("scenes")
    write_voc(tiny_scenes(), place, "train", "png")
    return place


@pytest.fixture(scope="module")
def model_bytes(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("model") / "car.safetensors"
    assert run(["train", str(folder), "--class", "car", "-o", str(out), *FAST, "--fast", "-q"]) == 0
    return out.read_bytes()


def train_arguments(folder: Path, out: Path, *more: str) -> list[str]:
    return ["train", str(folder), "--class", "car", "-o", str(out), *FAST, "--fast", *more]


def test_train_writes_a_model_and_pictures_and_removes_its_checkpoint(
    folder: Path, tmp_path: Path, model_bytes: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "car.safetensors"
    assert run(train_arguments(folder, out)) == 0
    said = capsys.readouterr().err
    assert "component of" in said
    assert "energy" in said
    assert "at most" in said
    assert {p.name for p in tmp_path.iterdir()} == {
        "car.safetensors", "car.templates.png", "car.hidden.png", "car.energy.png"
    }  # fmt: skip
    assert out.read_bytes() == model_bytes
    assert hs.load(out).label == "car"


def test_json_has_one_line_a_round_and_quiet_says_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "car.safetensors"
    assert run(train_arguments(folder, out, "--json", "--quiet", "--method", "BL")) == 0
    printed = capsys.readouterr()
    rounds = [json.loads(line) for line in printed.out.splitlines()]
    assert [(r["stage"], r["round"]) for r in rounds] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert printed.err == ""
    assert not (tmp_path / "car.hidden.png").exists()


def test_a_killed_process_is_resumed_to_the_same_bytes(
    folder: Path, tmp_path: Path, model_bytes: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "car.safetensors"
    kept = tmp_path / "car.safetensors.checkpoint"
    program = "import sys; from halfseen.cli import run; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", program, *train_arguments(folder, out, "-q")])
    while not kept.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if kept.exists():  # else it was quicker than the signal
        assert run(train_arguments(folder, out, "-q")) == 2
        assert "--resume" in capsys.readouterr().err
        assert run(train_arguments(folder, out, "-q", "--resume")) == 0
    assert out.read_bytes() == model_bytes
    assert not kept.exists()


def test_an_interrupt_says_how_to_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    put, count = checkpoint.Checkpoint.put, 0

    def interrupted(*arguments: object) -> None:
        nonlocal count
        put(*arguments)  # type: ignore[arg-type]
        count += 1
        if count == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "put", interrupted)
    out = tmp_path / "car.safetensors"
    assert run(train_arguments(folder, out, "-q")) == 130
    said = capsys.readouterr().err
    assert "--resume" in said
    assert str(out) + ".checkpoint" in said
    assert not out.exists()


def test_a_full_disk_is_one_line_that_says_how_to_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_atomically", full)
    assert run(train_arguments(folder, tmp_path / "car.safetensors", "-q")) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "No space left" in line
    assert "--resume" in line


def test_of_two_trainings_of_one_file_at_once_the_second_is_refused(
    folder: Path, tmp_path: Path, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Refused while the first is at work; that one goes on and leaves nothing behind."""
    out, put, codes = tmp_path / "car.safetensors", checkpoint.Checkpoint.put, list[int]()

    def again(*arguments: object) -> None:
        if not codes:
            codes.append(0)
            codes.append(run(train_arguments(folder, out, "-q")))
        put(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint.Checkpoint, "put", again)
    assert run(train_arguments(folder, out, "-q")) == 0
    assert codes == [0, 2]
    assert "another training is at work on it" in capsys.readouterr().err
    assert out.read_bytes() == model_bytes
    assert not list(tmp_path.glob(".*"))


def test_a_model_that_cannot_be_written_leaves_the_checkpoint(
    folder: Path, tmp_path: Path, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from halfseen.errors import HalfseenError
    from halfseen.model import store

    def full(model: object, path: Path) -> None:
        raise HalfseenError(f"{path}: cannot be written: No space left on device")

    out = tmp_path / "car.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(store, "save", full)
        assert run(train_arguments(folder, out, "-q")) == 1
    assert "--resume" in capsys.readouterr().err
    assert run(train_arguments(folder, out, "-q", "--resume")) == 0
    assert out.read_bytes() == model_bytes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--class", "cra", "-o", "m.safetensors"], "did you mean 'car'"),
        (["--class", "car", "-o", "."], "is a folder"),
        (["--class", "car", "-o", "no/such/m.safetensors"], "no such folder"),
        (["--class", "car", "-o", "m.safetensors", "--resume"], "no checkpoint"),
        (["--class", "car", "-o", "m.safetensors", "--set", "alpah=1"], "did you mean 'alpha'"),
        (["--class", "car", "-o", "m.safetensors", "--set", "rounds=many"], "a whole number"),
        (["--class", "car", "-o", "m.safetensors", "--set", "mirrored=maybe"], "yes or no"),
        (["--class", "car", "-o", "m.safetensors", "--set", "blocks=1"], "between 4"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    arguments: list[str], words: str, folder: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["train", str(folder), *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words in line
    assert list(tmp_path.iterdir()) == []


def test_lambda_is_the_papers_name_of_the_regularisation(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    assert run(train_arguments(folder, out, "-q", "--set", "lambda=3", "--set", "updates=0")) == 0
    assert hs.load(out).training["settings"]["regularisation"] == 3


def test_train_learns_masks_and_probability_unless_it_is_to_be_fast(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--class", "car", "--json", *FAST]
    assert run(["check", str(folder), *few]) == 0
    steps = [cost["step"] for cost in json.loads(capsys.readouterr().out)["costs"]]
    assert steps == ["detector", "mask head", "calibration"]
    for words in (["--fast"], ["--preset", "paper"], ["--method", "BL"]):
        assert run(["check", str(folder), *few, *words]) == 0
        [only] = json.loads(capsys.readouterr().out)["costs"]
        assert only["step"] == "detector"
    assert run(["check", str(folder), *few, "--set", "calibrate=no"]) == 0
    assert len(json.loads(capsys.readouterr().out)["costs"]) == 2


def test_train_says_what_it_left_out_of_few_data_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    write_voc(tiny_scenes()[:6], tmp_path, "train", "png")
    out = tmp_path / "m.safetensors"
    assert run(["train", str(tmp_path), "--class", "car", "-o", str(out), *FAST]) == 0
    said = capsys.readouterr().err
    assert "that is: detector" in said
    assert "--fast learns the detector alone" in said
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in lines] == [
        "left out the mask head", "left out the calibration"
    ]  # fmt: skip
    model = hs.load(out)
    assert model.head is None
    assert model.calibration is None


def test_check_reads_voc_and_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_voc(tiny_scenes(), tmp_path, "train", "png")
    assert run(["check", str(tmp_path), "--class", "car", *FAST]) == 0
    assert "GiB of memory" in capsys.readouterr().err
    broken = sorted((tmp_path / "JPEGImages").iterdir())[0]
    broken.write_bytes(b"\x89PNG no more")
    arguments = ["check", str(tmp_path), "--class", "car", *FAST, "--set=mining_images=99"]
    assert run([*arguments, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert str(broken) in found["problems"][0]
    assert found["components"][0]["rows"] >= 2


def test_check_reads_coco(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    rows, boxes = [], []
    for k in range(3):
        write_image(tmp_path / f"{k}.png", rng.integers(0, 255, (90, 120, 3)).astype(np.uint8))
        rows.append({"id": k, "file_name": f"{k}.png", "width": 120, "height": 90})
        boxes.append({"id": k, "image_id": k, "category_id": 1, "bbox": [10, 10, 70, 50],
                      "iscrowd": 0, "area": 3500})  # fmt: skip
    file = tmp_path / "labels.json"
    content = {"images": rows, "annotations": boxes, "categories": [{"id": 1, "name": "mug"}]}
    file.write_text(json.dumps(content))
    assert run(["check", str(file), "--class", "mug", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["objects"] == 3
    assert run(["check", str(tmp_path / "none.json"), "--class", "mug"]) == 2


def test_train_leaves_out_what_cannot_be_read_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_voc(tiny_scenes(), tmp_path, "train", "png")
    broken = sorted((tmp_path / "JPEGImages").iterdir())[3]
    broken.write_bytes(b"")
    out = tmp_path / "m.safetensors"
    assert run(train_arguments(tmp_path, out, "--set", "mining_images=99")) == 0
    assert f"left out: {broken}" in capsys.readouterr().err
    assert hs.load(out).training["images"] == len(tiny_scenes()) - 1


def test_tune_prints_a_table_and_draws_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "tune", str(folder), "--class", "car", "-o", str(tmp_path), *FAST,
        "--folds", "2", "--lambdas", "10", "--alphas", "0.05", "--overlaps", "0.5", "--most", "12",
        "--threshold", "0.2",
    ]  # fmt: skip
    assert run(arguments) == 0
    printed = capsys.readouterr()
    assert printed.out.count("best") == 4
    assert "--set lambda=10" in printed.err
    assert (tmp_path / "tuning.png").exists()
    assert run([*arguments, "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["alpha"] == 0.05
    assert run([*arguments, "--lambdas", "ten"]) == 2


def test_the_summary_of_a_check_rounds_no_overlap_up_and_counts_one_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missed = Unreached("a", "a.png", (1, 2, 30, 40), 0.699)
    costs = (Cost("detector", 1.2, 1 << 29),)
    show_check(Check("mug", 1, 1, 1, 1, (), (), (missed,), 0.7, (), costs, 1), Report())
    text = capsys.readouterr().err
    assert "the best window overlaps it by 0.69, where 0.70 are needed" in text
    assert "about 1 second on 1 core" in text
