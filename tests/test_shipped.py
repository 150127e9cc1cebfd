"""The models inside the package: found by name, listed, and made from a reproduction."""

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
from halfseen.cli.models import complete_model, name_models
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scene
from halfseen.errors import ModelError
from halfseen.model.calibration import EVIDENCE, Calibration
from halfseen.model.shipped import FOLDER, find_model, shipped
from halfseen.paper import CLASSES

SHIP = Path(__file__).parents[1] / "benchmarks" / "voc" / "ship_models.py"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    write_image(tmp_path / "photo.png", render_scene(3, 0, ("car",), (120, 160)).truth.source)
    return tmp_path / "photo.png"


def test_every_shipped_model_is_of_the_class_it_is_named_after() -> None:
    models = shipped()
    assert models.keys() == set(CLASSES)
    for name in models:
        model = hs.load(name)
        assert (model.label, model.method) == (name, "VIS")


def test_every_shipped_model_is_there_with_a_mask_head() -> None:
    """The same model, but for the head: what it finds does not change."""
    masked = shipped(masks=True)
    assert list(masked) == [f"{name}+masks" for name in shipped()]
    for name in masked:
        model, plain = hs.load(name), hs.load(name.removesuffix("+masks"))
        assert model.head is not None
        assert model.head.grouping is not None
        assert len(model.head.figure) == len(model.components)
        assert (model.label, model.pyramid) == (plain.label, plain.pyramid)
        for ours, theirs in zip(model.components, plain.components, strict=True):
            np.testing.assert_array_equal(ours.weights, theirs.weights)
            assert (ours.bias, ours.u, ours.u_t) == (theirs.bias, theirs.u, theirs.u_t)


def test_all_of_them_with_mask_heads_are_named_together(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name_models(["car", "all+masks"]) == ["car", *shipped(masks=True)]
    assert run(["detect", "car+masks", str(photo), "--json", "-q", "--threshold", "-1.3"]) == 0
    with_masks = json.loads(capsys.readouterr().out)["detections"]
    assert run(["detect", "car", str(photo), "--json", "-q", "--threshold", "-1.3"]) == 0
    without = json.loads(capsys.readouterr().out)["detections"]
    assert [row["window"] for row in with_masks] == [row["window"] for row in without]
    assert all("figure" in row for row in with_masks)
    assert {"car", "car+masks"} <= set(complete_model("car"))
    assert complete_model("all") == ["all", "all+masks"]
    for wrong in ("motobike+masks", "motorbike+mask", "MOTORBIKE+masks"):
        with pytest.raises(ModelError, match=r"did you mean 'motorbike\+masks'\?"):
            hs.load(wrong)
    for wrong in ("zzz+masks", "+masks", "zzz"):
        with pytest.raises(ModelError, match=r"known: aeroplane.*one of them and \+masks"):
            hs.load(wrong)
    for every in ("all", "all+masks"):
        with pytest.raises(ModelError, match="load one after another: aeroplane"):
            hs.load(every)


def test_shipped_models_share_one_pyramid_from_some_level_on() -> None:
    models = [hs.load(name) for name in shipped()]
    assert len({repr(model.descriptor) for model in models}) == 1
    assert {model.pyramid.factor for model in models} == {1.2}
    largest = max((model.pyramid for model in models), key=lambda pyramid: pyramid.largest)
    assert {largest.find(model.pyramid) for model in models} == {0, 4}


def test_a_file_comes_before_a_shipped_model_and_a_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model("car") == FOLDER / "car.safetensors"
    Path("car").mkdir()
    assert find_model("car") == FOLDER / "car.safetensors"
    Path("car").rmdir()
    hs.save(hs.load("bus"), "car")
    assert find_model("car") == Path("car")
    assert hs.load("car").label == "bus"


def test_a_name_that_is_none_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"motobike: .* did you mean 'motorbike'\?"):
        hs.load("motobike")
    with pytest.raises(ModelError, match=r"known: .*car"):
        hs.load("zzz")
    with pytest.raises(ModelError, match="no such file; make one"):
        hs.load(tmp_path / "car.safetensors")


def test_detect_by_name_lists_what_it_finds(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", "car", str(photo), "-q", "--strong", "-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = hs.Detector(hs.load("car")).detect(str(photo))
    assert lines[0] == f"{photo}: {len(found)} objects"
    assert len(lines) == 1 + len(found)
    assert run(["detect", "car", str(photo), "-q", "--strong", "99"]) == 0
    weak = f", {len(found)} of them weak and not listed" if len(found) else ""
    assert capsys.readouterr().out == f"{photo}: {len(found)} objects{weak}\n"


def test_detect_all_finds_what_each_model_finds(
    photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", "all", str(photo), "--json", "-q", "--threshold", "-1.3"]) == 0
    together = json.loads(capsys.readouterr().out)["detections"]
    apart: list[Any] = []
    for name in shipped():
        assert run(["detect", name, str(photo), "--json", "-q", "--threshold", "-1.3"]) == 0
        apart += json.loads(capsys.readouterr().out)["detections"]
    assert len({row["label"] for row in together}) > 1

    def key(row: Any) -> tuple[str, float, list[float]]:
        return row["label"], row["score"], row["full"]

    assert sorted(map(key, together)) == sorted(map(key, apart))


def test_a_collection_is_searched_with_all_models(photo: Path, tmp_path: Path) -> None:
    words = ["detect", "all", str(photo), "-o", str(tmp_path / "out"), "--shard", "1", "-q"]
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
        assert row["ap"] == hs.load(row["class"]).training["tested"]["ap"]
        assert row["ap_with_masks"] == hs.load(f"{row['class']}+masks").training["tested"]["ap"]


def test_a_reproduction_becomes_models_and_their_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out, card = tmp_path / "default", tmp_path / "models", tmp_path / "card.md"
    study.mkdir()
    out.mkdir()
    for name in ("car", "bus"):
        hs.save(hs.load(name), study / f"{name}-VIS.safetensors")
    hs.save(hs.load("horse"), out / "horse.safetensors")  # of an earlier study
    scores = {"car": {"BLT": 30.0, "VIS": 31.25, "VIS+NMS": 32.0}, "bus": {"VIS": 4.0}}
    (study / "results.json").write_text(json.dumps(scores))
    # The calibrated models are elsewhere, with what calibration brings.
    calibrated = tmp_path / "calibrated"
    calibrated.mkdir()
    known = Calibration(np.zeros(2), np.ones((2, len(EVIDENCE))), 0.5)
    for name, ap in (("car", 35.5), ("bus", 7.0)):
        path = calibrated / f"{name}-VIS.safetensors"
        hs.save(replace(hs.load(name), calibration=known), path)
        (calibrated / f"{name}.json").write_text(json.dumps({"ap": {"VIS": {"all": ap}}}))
    words = [str(study), "--out", str(out), "--card", str(card), "--test", "these images",
             "--calibrated", str(calibrated)]  # fmt: skip
    monkeypatch.setattr(sys, "argv", [str(SHIP), *words])
    runpy.run_path(str(SHIP), run_name="__main__")
    assert list(shipped(out)) == ["bus", "car"]
    for name, ap in (("car", 35.5), ("bus", 7.0)):
        again, before = hs.load(out / f"{name}.safetensors"), hs.load(name)
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
