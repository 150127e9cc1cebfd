"""The command line: exit codes, files, one line for each thing that goes wrong."""

import csv
import inspect
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import app, run
from halfseen.data.coco import read_results
from halfseen.data.image import read_image, write_image
from halfseen.data.rle import area
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.calibration import EVIDENCE, Calibration
from halfseen.model.mixture import Component, Mixture

SHAPE = (4, 6)
CELL = 8
COMMANDS = [info.name for info in app.registered_commands if info.name]


@pytest.fixture(scope="module")
def pattern() -> np.ndarray:
    """An object of 48 x 32 pixels that no noise looks like."""
    coarse = np.random.default_rng(5).integers(0, 2, (8, 12)) * 200 + 25
    return np.repeat(np.kron(coarse, np.ones((4, 4)))[:, :, None], 3, axis=2).astype(np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, pattern: np.ndarray) -> Path:
    """A template of the pattern, scaled so that the pattern itself scores 1 and grey -1."""
    descriptor = Fhog(CELL)
    framed = np.pad(pattern, ((CELL, CELL), (CELL, CELL), (0, 0)), constant_values=128)
    planes = np.ascontiguousarray(framed.transpose(2, 0, 1), dtype=np.float32)
    template = descriptor(planes)[1:-1, 1:-1]
    template = template - template.mean((0, 1))
    weights = (2 * template / (template**2).sum()).astype(np.float32)
    component = Component(weights, -1.0, -0.2, 0.0, np.array([0.0, 0.0, SHAPE[1], SHAPE[0]]))
    path = tmp_path_factory.mktemp("models") / "pattern.safetensors"
    mixture = Mixture(
        "pattern", "VIS", (component,), False, 0.01, descriptor, PyramidSettings(1.2, 1.0)
    )
    hs.save(mixture, path)
    return path


@pytest.fixture
def photos(tmp_path: Path, pattern: np.ndarray) -> Path:
    """Two photographs with the object at a known place, one in a folder of its own."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for name, (x, y) in {"7.png": (64, 32), "more/8.jpg": (16, 40)}.items():
        image = np.full((96, 144, 3), 128, np.uint8)
        image[y : y + 32, x : x + 48] = pattern
        write_image(folder / name, image)
    return folder


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.startswith("halfseen: ")
    assert error.count("\n") == 1
    return error


def test_detect_writes_lines_and_pictures(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["detect", str(model), str(photos), "-o", str(out), "--threshold", "0.3"]) == 0
    lines = [json.loads(line) for line in (out / "detections.jsonl").read_text().splitlines()]
    assert [Path(line["image"]).name for line in lines] == ["7.png", "8.jpg"]
    best = lines[0]["detections"][0]
    assert best["label"] == "pattern"
    assert best["full"] == [64, 32, 112, 64]
    assert best["visible_fraction"] > 0.9
    assert len(best["blocks"]) == SHAPE[0]
    assert all(len(row) == SHAPE[1] and set(row) <= set("ogh.") for row in best["blocks"])
    drawn = read_image(out / "pictures" / "7.png")
    assert drawn.shape == (96, 144, 3)
    assert (drawn != read_image(photos / "7.png")).any()
    assert (out / "pictures" / "more" / "8.jpg").exists()
    said = capsys.readouterr()
    assert said.out == ""
    assert "2 images, 2 objects" in said.err
    assert str(out / "detections.jsonl") in said.err
    assert not list(out.glob(".*"))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """The same model with probabilities: 50% at score 0.2, more above."""
    weights = np.zeros((1, len(EVIDENCE)))
    weights[0, EVIDENCE.index("score")] = 5.0
    path = tmp_path_factory.mktemp("calibrated") / "pattern.safetensors"
    hs.save(replace(hs.load(model), calibration=Calibration(np.array([-1.0]), weights)), path)
    return path


def test_probabilities_are_what_a_person_reads(
    calibrated: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = hs.Detector(hs.load(calibrated)).detect(str(photos / "7.png"))
    assert found.probability is not None
    probable = found.probability >= 0.5
    assert 0 < probable.sum() < len(found)
    words = ["detect", str(calibrated), str(photos / "7.png"), "-q"]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(f": 1 object, {len(found) - 1} less probable (--all lists them)")
    seen = round(100 * found.visible_fraction[0])
    assert lines[1].startswith(f"  pattern {100 * found.probability[0]:.0f}%, {seen}% seen")
    assert run([*words, "--json"]) == 0
    everything = json.loads(capsys.readouterr().out)["detections"]
    assert len(everything) == len(found)  # files keep all, with probability and score
    assert sorted(row["score"] for row in everything) == sorted(found.score.tolist())
    likely = [row["probability"] for row in everything]
    assert likely == sorted(likely, reverse=True)
    assert run([*words, "--json", "--threshold", "0.01"]) == 0
    some = json.loads(capsys.readouterr().out)["detections"]
    assert some == [row for row in everything if row["probability"] >= 0.01]
    assert 0 < len(some) < len(everything)


@pytest.mark.parametrize("option", ["--threshold", "--strong"])
def test_a_level_that_is_no_probability_is_refused(
    option: str, calibrated: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", str(calibrated), str(photos), option, "-0.5"]) == 2
    assert f"{option} -0.5: expected a probability from 0 to 1" in one_line(capsys)


def test_one_image_one_object(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["detect", str(model), str(photos / "7.png"), "-o", str(tmp_path / "out")]
    assert run([*words, "--threshold", "0.3"]) == 0
    assert "1 image, 1 object\n" in capsys.readouterr().err


def test_the_photograph_stands_beside_what_is_seen(
    model: Path, photos: Path, tmp_path: Path
) -> None:
    words = ["detect", str(model), str(photos / "7.png"), "-o", str(tmp_path / "out"), "-q"]
    assert run([*words, "--compare"]) == 0
    drawn = read_image(tmp_path / "out" / "pictures" / "7.png")
    assert drawn.shape[1] > 2 * 144
    assert np.array_equal(drawn[:, :144], read_image(photos / "7.png"))


def test_one_bad_image_does_not_stop_the_others(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "a-bad.jpg").write_bytes(b"not an image")
    out = tmp_path / "out"
    code = run(["detect", str(model), str(photos), "-o", str(out), "--quiet", "--no-pictures"])
    assert code == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"failed: {photos / 'a-bad.jpg'}: not an image")
    lines = [json.loads(line) for line in (out / "detections.jsonl").read_text().splitlines()]
    assert ["error" in line for line in lines] == [False, True, False]
    assert not (out / "pictures").exists()


def test_json_goes_to_stdout_and_is_the_same_on_any_cores(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for cores in ("1", "3"):
        words = ["detect", str(model), str(photos / "*.png"), str(photos / "more"), "--json"]
        assert run([*words, "--cores", cores, "--explain", "--method", "greedy"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    first = json.loads(printed[0].splitlines()[0])
    assert first["suppressed"]
    for dropped in first["suppressed"]:
        winner = first["detections"][dropped["by"]]
        assert winner["score"] >= dropped["score"]
        assert dropped["overlap"] >= 0.4


def test_coco_results_have_the_masks(model: Path, photos: Path, tmp_path: Path) -> None:
    words = ["detect", str(model), str(photos), "-o", str(tmp_path / "out"), "-q"]
    assert run([*words, "--format", "coco", "--threshold", "0.3"]) == 0
    rows = read_results(tmp_path / "out" / "detections.coco.json")
    assert [row["image_id"] for row in rows] == [7, 8]
    assert rows[0]["bbox"] == [64, 32, 48, 32]
    assert 0.8 * 48 * 32 <= area(rows[0]["segmentation"]) <= 48 * 32
    names = json.loads((tmp_path / "out" / "categories.json").read_text())
    assert names == [{"id": 1, "name": "pattern"}]


def test_coco_results_without_any_detection(model: Path, photos: Path, tmp_path: Path) -> None:
    words = ["detect", str(model), str(photos), "-o", str(tmp_path / "out"), "-q"]
    assert run([*words, "--format", "coco", "--threshold", "50"]) == 0
    assert read_results(tmp_path / "out" / "detections.coco.json") == []


def test_csv_and_voc_results(model: Path, photos: Path, tmp_path: Path) -> None:
    words = ["detect", str(model), str(photos), "-o", str(tmp_path / "out"), "-q"]
    for name in ("csv", "voc"):
        assert run([*words, "--format", name, "--threshold", "0.3", "--no-pictures"]) == 0
    with (tmp_path / "out" / "detections.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    assert [float(rows[0][f"full_{end}"]) for end in ("x1", "y1", "x2", "y2")] == [64, 32, 112, 64]
    line = (tmp_path / "out" / "comp3_det_val_pattern.txt").read_text().splitlines()[0].split()
    assert line[0] == "7"
    assert [float(v) for v in line[2:]] == [65, 33, 112, 64]


def test_names_that_coco_cannot_tell_apart(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_image(photos / "more" / "7.jpg", np.zeros((9, 9, 3), np.uint8))
    words = ["detect", str(model), str(photos), "-o", str(photos / "out")]
    assert run([*words, "--format", "coco"]) == 2
    assert "cannot tell images of one name apart" in one_line(capsys)
    (photos / "more" / "7.jpg").rename(photos / "more" / "007.jpg")
    assert run([*words, "--format", "coco"]) == 2  # number 7, too
    assert "cannot tell images of one name apart" in one_line(capsys)
    (photos / "more" / "007.jpg").rename(photos / "more" / "7.jpg")
    write_image(photos / "7.jpg", np.full((96, 144, 3), 128, np.uint8))
    assert run([*words, "-q"]) == 0
    pictures = [p for p in (photos / "out" / "pictures").rglob("*.*") if p.is_file()]
    assert len(pictures) == 4


def test_names_that_voc_cannot_hold_are_told_before_any_work(
    model: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_image(photos / "photo 1.png", np.zeros((9, 9, 3), np.uint8))
    words = ["detect", str(model), str(photos), "-o", str(photos / "out"), "--format", "voc"]
    assert run(words) == 2
    assert "photo 1.png: voc results cannot hold a name with a space" in one_line(capsys)
    assert not (photos / "out").exists()


def test_a_name_that_is_not_text_costs_no_row(model: Path, photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in ("caf\udce9.png", "plain.png"):
        shutil.copy(photos / "7.png", folder / name)
    words = ["detect", str(model), str(folder), "-o", str(tmp_path / "out"), "-q"]
    assert run([*words, "--format", "csv", "--threshold", "0.3", "--no-pictures"]) == 0
    with (tmp_path / "out" / "detections.csv").open() as file:
        names = [row["image"].rsplit("/")[-1] for row in csv.DictReader(file)]
    assert sorted(names) == ["caf\\udce9.png", "plain.png"]
    start = "from halfseen.cli import main; main()"
    command = [sys.executable, "-c", start, "detect", str(model), str(folder), "-q"]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    listed = subprocess.run(command, capture_output=True, text=True, env=strict, check=True).stdout
    assert "caf\\udce9.png: " in listed
    assert "plain.png: " in listed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["detcet"], "Did you mean 'detect'?"),
        (["detect", "--thershold", "1", "m", "x"], "--threshold"),
        (["detect", "{model}"], "IMAGES are missing"),
        (["detect", "car"], "IMAGES are missing"),
        (["detect", "{photos}"], "MODEL is missing"),
        (["evaluate", "{model}"], "DATA is missing"),
        (["evaluate", "{photos}"], "MODEL is missing"),
        (["detect", "motorbik", "{photos}"], "did you mean 'motorbike'?"),
        (["detect", "{model}", "nowhere.png", "--json"], "nowhere.png: no such file"),
        (["detect", "{model}s", "{photos}", "--json"], "did you mean 'pattern.safetensors'?"),
        (["detect", "{model}", "{photos}", "--json", "--method", "no"], "method must be one of"),
        (["detect", "{model}", "{photos}", "--json", "--overlap", "2"], "overlap must lie between"),
        (["detect", "{model}", "{photos}", "--json", "--threshold", "nan"], "threshold must be"),
        (["detect", "{model}", "{photos}", "--json", "--cores", "0"], "--cores"),
        (["detect", "{model}", "{photos}", "-o", "{model}"], "cannot write results there"),
        (["scenes", "{photos}", "--class", "cra"], "did you mean 'car'?"),
        (["demo", "-o", "{photos}/demo", "--class", "hrose"], "did you mean 'horse'?"),
        (["evaluate", "{model}s", "{photos}"], "did you mean 'pattern.safetensors'?"),
        (["suppress", "nothing.json", "-o", "out.json"], "nothing.json: no such file"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_two(
    words: list[str], expected: str, model: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [word.format(model=model, photos=photos) for word in words]
    assert run(filled) == 2
    assert expected in one_line(capsys)


def test_a_damaged_model_is_one_line_and_exit_code_one(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"nonsense")
    assert run(["detect", str(bad), str(photos), "--json"]) == 1
    assert str(bad) in one_line(capsys)


def test_an_unexpected_error_is_short_unless_debugging(
    model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("halfseen.compute.map.map_images", broken)
    words = ["detect", str(model), str(photos), "--json"]
    monkeypatch.setenv("HALFSEEN_DEBUG", "")
    assert run(words) == 1
    assert "unexpected ZeroDivisionError: surprise; this is a bug" in one_line(capsys)
    with pytest.raises(ZeroDivisionError):
        run(["--debug", *words])


def test_an_interrupted_run_leaves_no_half_file(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("halfseen.compute.map.map_images", interrupted)
    assert run(["detect", str(model), str(photos), "-o", str(tmp_path / "out")]) == 130
    assert "interrupted" in one_line(capsys)
    assert list((tmp_path / "out").iterdir()) == []


def test_scenes_are_a_voc_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["scenes", str(tmp_path / "s"), "--count", "2", "--seed", "4", "--split", "val"]
    assert run([*words, "--class", "car", "--width", "160", "--height", "120"]) == 0
    assert "2 scenes" in capsys.readouterr().err
    dataset = hs.read_voc(tmp_path / "s", "val")
    assert len(dataset) == 2
    drawn = hs.render_scenes(2, 4, ["car"], (120, 160))
    for i in range(2):
        assert np.array_equal(dataset.image(i), drawn.image(i))
        assert np.array_equal(dataset[i].box, drawn[i].box)


def test_suppress_keeps_the_better_of_two_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "results.json", tmp_path / "kept.json"
    boxes = {0.9: [10, 10, 40, 30], 0.8: [12, 10, 40, 30], 0.7: [100, 10, 40, 30]}
    rows = [
        {"image_id": 1, "category_id": 3, "bbox": box, "score": score}
        for score, box in boxes.items()
    ]
    source.write_text(json.dumps(rows))
    assert run(["suppress", str(source), "-o", str(target), "--keep-scores"]) == 0
    assert [row["score"] for row in read_results(target)] == [0.9, 0.7]
    assert "3 results, 2 kept" in capsys.readouterr().err
    source.write_text("[{]")
    assert run(["suppress", str(source), "-o", str(tmp_path / "no.json")]) == 1
    assert str(source) in one_line(capsys)
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_fits_eighty_columns_and_shows_an_example(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(f"halfseen {' '.join(command)}" in line for line in lines[2:])


def test_no_words_give_the_help_and_the_version_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 2
    assert "Usage: halfseen" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"halfseen {hs.__version__}\n"


def test_every_public_name_is_there() -> None:
    for name in hs.__all__:
        assert getattr(hs, name) is not None
        assert name in dir(hs)
    assert inspect.isfunction(hs.suppress)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hs.nothing  # noqa: B018


def test_the_package_and_its_help_start_light() -> None:
    code = (
        "import sys; from halfseen.cli import run; run(['detect', '--help']);"
        "print(*sorted({'numba', 'scipy', 'matplotlib', 'numpy', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
