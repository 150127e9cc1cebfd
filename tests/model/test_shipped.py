"""The models inside the package: found by name, listed, and made from a reproduction."""

import importlib.util
import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scene
from halfseen.errors import ModelError, install
from halfseen.features.net import Net
from halfseen.model.calibration import EVIDENCE, Calibration
from halfseen.model.shipped import (
    FOLDER,
    VARIANTS,
    _say_once,
    find_model,
    find_shipped,
    name_models,
    shipped,
)
from halfseen.studies.paper import CLASSES

SHIP = Path(__file__).parents[2] / "benchmarks" / "voc" / "ship_models.py"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    write_image(tmp_path / "photo.png", render_scene(3, 0, ("car",), (120, 160)).truth.source)
    return tmp_path / "photo.png"


@pytest.fixture
def without_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra `net` is not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name)
    )
    _say_once.cache_clear()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_shipped_model_is_of_the_class_it_is_named_after(variant: str) -> None:
    models = shipped(variant)
    assert models.keys() == set(CLASSES)
    for name, path in models.items():
        model = hs.load(f"{name}.{variant}")
        assert find_model(f"{name}.{variant}") == path
        assert (model.label, model.method) == (name, "VIS")
        assert (model.descriptor == Net()) == (variant == "net")
        assert model.head is not None or variant != "fhog"


def test_models_on_gradients_differ_by_their_heads_alone() -> None:
    for name in CLASSES:
        model, plain = hs.load(f"{name}.fhog"), hs.load(f"{name}.fast")
        assert model.head is not None
        assert plain.head is None
        assert model.head.grouping is not None
        assert len(model.head.figure) == len(model.components)
        assert (model.label, model.pyramid) == (plain.label, plain.pyramid)
        for ours, theirs in zip(model.components, plain.components, strict=True):
            np.testing.assert_array_equal(ours.weights, theirs.weights)
            assert (ours.bias, ours.u, ours.u_t) == (theirs.bias, theirs.u, theirs.u_t)


def test_a_class_alone_is_the_best_that_can_run() -> None:
    notes: list[str] = []
    assert hs.load("car").descriptor == Net()
    assert name_models(["car", "all"], notes.append) == [
        "car.net",
        *(f"{name}.net" for name in CLASSES),
    ]
    assert name_models(["all.fast"], notes.append) == [f"{name}.fast" for name in CLASSES]
    assert notes == []


def test_without_the_extra_it_is_the_best_on_gradients_and_says_so_once(
    without_net: None, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert find_model("car") == shipped("fhog")["car"]
    assert [record.getMessage() for record in caplog.records] == [
        f"using models on gradients; those on network blocks find far more: {install('net')}"
    ]
    notes: list[str] = []
    named = name_models(["all", "car"], notes.append)
    assert named == [*(f"{name}.fhog" for name in CLASSES), "car.fhog"]
    assert notes == [caplog.records[0].getMessage()]
    assert find_model("car.net") == shipped("net")["car"]  # named, it is not replaced


def test_a_variant_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "voc"
    folder.mkdir()
    hs.save(hs.load("bus.fast"), folder / "bus.safetensors")
    assert find_model("bus", folder) == folder / "bus.safetensors"
    assert find_shipped("bus", folder) == [("bus.fast", folder / "bus.safetensors", "")]
    with pytest.raises(ModelError, match=r"bus\.net: no such file"):
        find_model("bus.net", folder)


def test_the_names_of_earlier_releases_still_work(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    _say_once.cache_clear()
    assert find_model("car+masks") == shipped("fhog")["car"]
    assert "car+masks is now called car.fhog" in caplog.text
    notes: list[str] = []
    assert name_models(["all+masks"], notes.append) == [f"{name}.fhog" for name in CLASSES]
    assert [note.partition(";")[0] for note in notes] == ["all+masks is now called all.fhog"]


def test_mask_heads_change_no_window(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for name in ("car.fhog", "car.fast"):
        assert run(["detect", name, str(photo), "--json", "-q", "--threshold", "-1.3"]) == 0
        found.append(json.loads(capsys.readouterr().out)["detections"])
    with_masks, without = found
    assert [row["window"] for row in with_masks] == [row["window"] for row in without]
    blocks = ["".join("".join(row["blocks"]) for row in rows) for rows in (with_masks, without)]
    assert "g" in blocks[0]
    assert "g" not in blocks[1]


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("motobike", r"did you mean 'motorbike'\?"),
        ("motobike.net", r"did you mean 'motorbike\.net'\?"),
        ("motorbike.nett", r"did you mean 'motorbike\.net'\?"),
        ("motobike+masks", r"did you mean 'motorbike\.fhog'\?"),
        ("MOTORBIKE.fast", r"did you mean 'motorbike\.fast'\?"),
        ("car.", r"did you mean 'car'\?"),
        ("car.huge", r"car comes as car, car\.net, car\.fhog, car\.fast"),
        ("zzz", r"known: aeroplane.*with a variant: net, fhog, fast"),
        ("zzz.net", r"known: aeroplane.*with a variant: net, fhog, fast"),
        ("+masks", r"known: aeroplane.*with a variant: net, fhog, fast"),
        ("all", r"several models; load one after another: aeroplane"),
        ("all.net", r"several models; load one after another: aeroplane\.net"),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest(wrong: str, advice: str) -> None:
    with pytest.raises(ModelError, match=advice):
        hs.load(wrong)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file; make one"):
        hs.load(tmp_path / "car.safetensors")


def test_shipped_models_share_one_pyramid_from_some_level_on() -> None:
    models = [hs.load(path) for path in shipped().values()]
    assert len({repr(model.descriptor) for model in models}) == 1
    assert {model.pyramid.factor for model in models} == {1.2}
    largest = max((model.pyramid for model in models), key=lambda pyramid: pyramid.largest)
    assert {largest.find(model.pyramid) for model in models} == {0, 4}


def test_a_file_comes_before_a_shipped_model_and_a_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model("car.fast") == FOLDER / "car.safetensors"
    Path("car").mkdir()
    assert find_model("car") == shipped("net")["car"]
    Path("car").rmdir()
    hs.save(hs.load("bus.fast"), "car")
    assert find_model("car") == Path("car")
    assert hs.load("car").label == "bus"


def test_detect_by_name_lists_what_it_finds(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["detect", "car.fast", str(photo), "-q"]
    assert run([*words, "--strong", "-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = hs.Detector(hs.load("car.fast")).detect(str(photo))
    assert len(found) > 1
    assert lines[0] == f"{photo}: {len(found)} objects"
    assert len(lines) == 1 + len(found)
    assert run([*words, "--strong", "99"]) == 0
    weak = f"no object, {len(found)} less probable"
    assert capsys.readouterr().out == f"{photo}: {weak} (--all lists them)\n"
    assert run([*words, "--strong", "99", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{photo}: {weak}"
    assert len(lines) == 1 + len(found)
    assert lines[1].startswith(f"  car {found.score[0]:.2f}, ")


def test_detect_all_finds_what_each_model_finds(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", "all.fast", str(photo), "--json", "-q", "--threshold", "-1.3"]) == 0
    together = json.loads(capsys.readouterr().out)["detections"]
    apart: list[Any] = []
    for name in shipped():
        words = ["detect", f"{name}.fast", str(photo), "--json", "-q", "--threshold", "-1.3"]
        assert run(words) == 0
        apart += json.loads(capsys.readouterr().out)["detections"]
    assert len({row["label"] for row in together}) > 1

    def key(row: Any) -> tuple[str, float, list[float]]:
        return row["label"], row["score"], row["full"]

    assert sorted(map(key, together)) == sorted(map(key, apart))


def test_a_collection_is_searched_with_all_models(photo: Path, tmp_path: Path) -> None:
    words = ["detect", "all.fast", str(photo), "-o", str(tmp_path / "out"), "--shard", "1", "-q"]
    assert run(words) == 0
    assert run(words) == 0  # goes on with the same run: nothing is left to do


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in shipped())
    assert max(map(len, text.splitlines())) <= 80
    assert run(["models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["class"] for row in rows] == list(shipped())
    for row in rows:
        assert row["best"] == f"{row['class']}.net"
        for variant in VARIANTS:
            tested = hs.load(f"{row['class']}.{variant}").training["tested"]
            assert row[f"ap_{variant}"] == tested["ap"]


def test_a_reproduction_becomes_models_and_their_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out, card = tmp_path / "default", tmp_path / "models", tmp_path / "card.md"
    study.mkdir()
    out.mkdir()
    for name in ("car", "bus"):
        hs.save(hs.load(f"{name}.fast"), study / f"{name}-VIS.safetensors")
    hs.save(hs.load("horse.fast"), out / "horse.safetensors")  # of an earlier study
    scores = {"car": {"BLT": 30.0, "VIS": 31.25, "VIS+NMS": 32.0}, "bus": {"VIS": 4.0}}
    (study / "results.json").write_text(json.dumps(scores))
    # The calibrated models are elsewhere, with what calibration brings.
    calibrated = tmp_path / "calibrated"
    calibrated.mkdir()
    known = Calibration(np.zeros(2), np.ones((2, len(EVIDENCE))), 0.5)
    for name, ap in (("car", 35.5), ("bus", 7.0)):
        path = calibrated / f"{name}-VIS.safetensors"
        hs.save(replace(hs.load(f"{name}.fast"), calibration=known), path)
        (calibrated / f"{name}.json").write_text(json.dumps({"ap": {"VIS": {"all": ap}}}))
    words = [str(study), "--out", str(out), "--card", str(card), "--test", "these images",
             "--calibrated", str(calibrated)]  # fmt: skip
    monkeypatch.setattr(sys, "argv", [str(SHIP), *words])
    runpy.run_path(str(SHIP), run_name="__main__")
    assert list(shipped("fast", out)) == ["bus", "car"]
    for name, ap in (("car", 35.5), ("bus", 7.0)):
        again, before = hs.load(out / f"{name}.safetensors"), hs.load(f"{name}.fast")
        tested = {"data": "these images", "ap": scores[name]["VIS"], "ap_by_probability": ap}
        assert again.training["tested"] == tested
        assert again.calibration is not None
        assert again.calibration.scale == 0.5
        for one, other in zip(again.components, before.components, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)
    text = card.read_text()
    assert "AP under 10: bus." in text
    assert "| car | 30.0 | 31.2 | 35.5 | 32.0 |" in " ".join(text.split())
    assert "{" not in text
    assert "wrote 2 models" in capsys.readouterr().out
