"""`halfseen evaluate`: its files, its exit codes, and one line for each thing that goes wrong."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc, write_voc
from halfseen.evaluate.results import read_voc_results
from halfseen.report.files import write_files
from halfseen.studies.evaluate import name_methods
from halfseen.studies.reproduce import Study, claim
from tests.builders import make_dataset, make_model

QUICK = ["--threshold", "-0.8", "--no-sweep", "--cores", "1"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for method in ("BL", "BLT", "VIS"):
        hs.save(make_model(method), folder / f"{method}.safetensors")
    hs.save(make_model("BLT", "zebra"), folder / "zebra.safetensors")
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "voc"
    write_voc(make_dataset(), folder, "val")
    return folder


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A VOC folder that a test may spoil."""
    return Path(shutil.copytree(written, tmp_path / "voc"))


def evaluate(*words: str | Path) -> int:
    return run(["evaluate", *map(str, words), *QUICK])


def test_it_prints_a_table_and_writes_everything(
    models: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    files = [models / "BL.safetensors", models / "BLT.safetensors", models / "VIS.safetensors"]
    command = ["evaluate", *map(str, files), str(written), "-o", str(out), "--cores", "1"]
    assert run([*command, "--threshold", "-0.8"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "pattern, 8 images: AP %"
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("VIS against BLT: ") for line in lines)
    document = json.loads((out / "results.json").read_text())
    methods = document["classes"]["pattern"]["methods"]
    names = ["BL", "BLT", "VIS", "VIS+NMS"]
    assert [m["name"] for m in methods] == names
    assert [len(m["sweep"]) for m in methods] == [4] * 4
    with (out / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["ap"]) for row in rows] == [m["ap"] for m in methods]
    truth = read_voc(written, "val").truths
    for name, method in zip(names, methods, strict=True):
        results = read_voc_results(out / name / "comp3_det_val_pattern.txt", truth)
        assert hs.average_precision(truth, results, "pattern").ap == method["ap"]
    assert (out / "report.html").read_text().endswith("</html>\n")
    assert f"wrote {out / 'report.html'}" in printed.err


def test_json_is_all_that_is_printed(
    models: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert evaluate(models / "BLT.safetensors", written, "--json", "--quiet", "-o", out) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    kept = json.loads((out / "results.json").read_text())
    assert json.loads(printed.out)["classes"] == kept["classes"]
    assert (out / "comp3_det_val_pattern.txt").is_file()


def test_quiet_says_nothing(
    models: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(models / "BLT.safetensors", written, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_covering_is_named_and_not_shown_twice(
    models: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (models / "VIS.safetensors", written, "--method", "covering", "--json")
    assert evaluate(*files) == 0
    (method,) = json.loads(capsys.readouterr().out)["classes"]["pattern"]["methods"]
    assert method["name"] == "VIS+NMS"
    assert method["settings"]["suppression"] == "covering"


def test_a_results_file_is_compared_with_models(
    models: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(models / "BLT.safetensors", written, "-o", tmp_path, "-q") == 0
    file = tmp_path / "comp3_det_val_pattern.txt"
    assert evaluate(models / "BLT.safetensors", file, written, "--json") == 0
    methods = json.loads(capsys.readouterr().out)["classes"]["pattern"]["methods"]
    assert [m["name"] for m in methods] == ["BLT", "comp3_det_val_pattern"]
    assert methods[0]["ap"] == methods[1]["ap"]


def test_results_for_unknown_images_are_refused_and_models_go_on(
    models: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "comp3_det_val_pattern.txt"
    file.write_text("elsewhere 0.5 1 1 20 20\n")
    assert evaluate(models / "BLT.safetensors", file, written, "--json") == 1
    printed = capsys.readouterr()
    assert [line for line in printed.err.splitlines() if "failed" in line] == [
        f'failed: {file}, line 1: image "elsewhere" is not among the 8 images evaluated: '
        "use the split that the results were made on"
    ]
    methods = json.loads(printed.out)["classes"]["pattern"]["methods"]
    assert [m["name"] for m in methods] == ["BLT"]


def test_a_class_without_objects_does_not_stop_the_others(
    models: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = evaluate(models / "zebra.safetensors", models / "BLT.safetensors", written, "--json")
    printed = capsys.readouterr()
    assert code == 1
    assert list(json.loads(printed.out)["classes"]) == ["pattern"]
    assert printed.err == (
        "failed: voc val: no class 'zebra'; known: disc, pattern; "
        "if the data call it otherwise, say --as NAME\n"
    )


def test_a_class_may_have_another_name_in_the_data(
    models: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zebra = models / "zebra.safetensors"  # the same templates as BLT's
    assert evaluate(models / "BLT.safetensors", written, "--json") == 0
    expected = json.loads(capsys.readouterr().out)["classes"]["pattern"]["methods"][0]["ap"]
    assert evaluate(zebra, written, "--json") == 1
    assert "--as NAME" in capsys.readouterr().err
    assert evaluate(zebra, written, "--json", "--as", "pattern") == 0
    (method,) = json.loads(capsys.readouterr().out)["classes"]["pattern"]["methods"]
    assert method["ap"] == expected > 0
    assert evaluate(zebra, models / "BLT.safetensors", written, "--as", "pattern") == 2
    assert "models of one class" in capsys.readouterr().err


def test_data_without_an_empty_image_have_no_sweep_and_that_is_no_failure(
    models: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [truth.image for truth in read_voc(data, "val") if "pattern" in truth.label]
    (data / "ImageSets" / "Main" / "val.txt").write_text("\n".join(shown))
    command = ["evaluate", str(models / "BLT.safetensors"), str(data), "--json"]
    assert run(command) == 0
    printed = capsys.readouterr()
    assert "note: no sweep" in printed.err
    assert "failed" not in printed.err
    (method,) = json.loads(printed.out)["classes"]["pattern"]["methods"]
    assert not method["sweep"]


def test_no_class_at_all_is_an_error(
    models: Path, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(models / "zebra.safetensors", written, "-o", tmp_path / "out") == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"halfseen: {written}: no class could be evaluated"
    )
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_annotations_are_named(
    models: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "Annotations" / "cut.xml").unlink()
    (data / "JPEGImages" / "two.png").write_bytes(b"not an image")
    assert evaluate(models / "BLT.safetensors", data, "-o", tmp_path / "out") == 1
    failed = [line for line in capsys.readouterr().err.splitlines() if "failed" in line]
    assert len(failed) == 2
    assert f"{data / 'Annotations' / 'cut.xml'}: no such file" in failed[0]
    assert f"{data / 'JPEGImages' / 'two.png'}" in failed[1]
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["classes"]["pattern"]["methods"][0]["images"] == 6


@pytest.mark.parametrize("part", ["Annotations", "ImageSets", "JPEGImages"])
def test_half_a_devkit_is_one_line(
    part: str, models: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(data / part)
    assert evaluate(models / "BLT.safetensors", data) == 1
    error = capsys.readouterr().err
    assert error.startswith("halfseen: ")
    assert error.count("\n") == 1
    assert part in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--class", "patern"], "no model of class 'patern' was given; did you mean 'pattern'?"),
        (["--method", "greed"], "method must be one of"),
        (["--threshold", "nan"], "threshold must be a finite number"),
        (["-o", "/proc/nowhere"], "cannot write results there"),
    ],
)
def test_wrong_use_is_told_before_any_work(
    words: list[str],
    said: str,
    models: Path,
    written: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Dataset, "image", lambda self, i: pytest.fail("an image was read"))
    command = ["evaluate", str(models / "BLT.safetensors"), str(written), *words]
    assert run(command) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_models_of_one_method_are_told_apart_by_file(models: Path, tmp_path: Path) -> None:
    other = tmp_path / "second.safetensors"
    shutil.copy(models / "VIS.safetensors", other)
    rows = name_methods([str(models / "VIS.safetensors"), str(other)], "soft")
    assert [row.name for row in rows] == ["VIS+soft VIS", "VIS+soft second"]
    with pytest.raises(hs.HalfseenError, match="two files of the same name and class"):
        name_methods([str(other), str(other)])


def test_what_is_measured_is_what_detect_returns() -> None:
    """With a mask head, too."""
    from halfseen.evaluate.evaluation import Conditions, Method
    from halfseen.studies.evaluate import evaluate as measure_all

    model = hs.load(Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors")
    scenes = hs.render_scenes(6, seed=9, classes=["car"])
    for suppression in ("greedy", "covering"):
        method = Method("VIS", "car", model, "a", suppression)
        result = measure_all(scenes, "car", [method], Conditions(-1.0, ()), cores=1)
        for i, found in enumerate(result.found["VIS"]):
            expected = hs.Detector(model).detect(scenes.image(i), -1.0, suppression)
            np.testing.assert_array_equal(found.full, expected.full)
            np.testing.assert_array_equal(found.visible, expected.visible)
            np.testing.assert_array_equal(found.score, expected.score)
            for one, other in zip(found.blocks, expected.blocks, strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_head_is_compared_with_the_papers_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(hs.__file__).parent / "models" / "scenes-car-VIS.safetensors"
    write_voc(hs.render_scenes(4, seed=9, classes=["car"]), tmp_path / "voc", "val")
    words = ["evaluate", str(model), str(tmp_path / "voc"), "--no-sweep", "--json", "-q"]
    assert run([*words, "--paper-flags"]) == 0
    rows = json.loads(capsys.readouterr().out)["classes"]["car"]["methods"]
    assert [row["name"] for row in rows] == ["VIS", "VIS paper", "VIS+NMS", "VIS+NMS paper"]
    assert rows[0]["visible_share"] < rows[1]["visible_share"]


def test_a_strangers_class_name_stays_in_the_folder(tmp_path: Path) -> None:
    from dataclasses import replace

    from halfseen.evaluate.evaluation import Conditions, Method
    from halfseen.studies.evaluate import evaluate as measure_all

    label = "../../evil"
    truths = tuple(replace(t, label=t.label.astype("U10")) for t in make_dataset())
    for truth in truths:
        truth.label[truth.label == "pattern"] = label
    dataset = Dataset("named", ("disc", label), truths)
    method = Method("../BLT", label, make_model("BLT", label), "a")
    second = Method("BLT", label, make_model("BLT", label), "b")
    result = measure_all(dataset, label, [method, second], Conditions(-0.8, ()), cores=1)
    folder = tmp_path / "deep" / "out"
    folder.mkdir(parents=True)
    written = write_files(folder, [result], "../val", {})
    assert all(path.resolve().is_relative_to(folder) for path in written)
    assert not list(tmp_path.glob("*.txt"))


def test_a_reproduction_of_other_images_needs_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "voc", tmp_path / "out"
    write_voc(make_dataset(), data, "train")
    write_voc(make_dataset()[:5], data, "val")
    first, second = read_voc(data, "train"), read_voc(data, "val")
    claim(Study(first, second, out, ["pattern"]))
    claim(Study(first, second, out, ["disc"]))  # classes may be added
    words = ["reproduce", str(data), "-o", str(out), "--class", "pattern"]
    for changed, what in (
        (["--test", "train"], "images to test"),
        (["--train", "val"], "images to train"),
        (["--seed", "7"], "seed"),
    ):
        assert run([*words, *changed]) == 2
        message = capsys.readouterr().err
        assert f"holds a study with other {what}; choose another folder" in message
        assert message.count("\n") == 1
    (out / "default" / "study.json").write_text("[]")
    assert run(words) == 2
    assert "not a study's" in capsys.readouterr().err


def test_a_reproduction_without_any_class_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "voc", tmp_path / "out"
    size = ["--width", "96", "--height", "96"]
    assert run(["scenes", str(data), "--count", "2", *size, "-q"]) == 0
    capsys.readouterr()
    words = ["reproduce", str(data), "--train", "train", "--test", "train", "--class", "bus"]
    assert run([*words, "-o", str(out)]) == 1
    message = capsys.readouterr().err.splitlines()
    assert len(message) == 2
    assert "no class 'bus'" in message[0]
    assert message[1].endswith("no class could be learnt; nothing was written")
    assert not out.exists()
