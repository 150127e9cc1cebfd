"""The sweep over VOC: what it tests on, what it cuts texture from, and that it goes on."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.data.scenes import render_scenes
from halfseen.evaluate.visibility import whole
from halfseen.model.mixture import METHODS
from halfseen.web.catalogue import model_file

SWEEP = Path(__file__).parents[2] / "benchmarks" / "voc" / "sweep.py"


def test_texture_comes_from_other_images_without_the_class() -> None:
    dataset = render_scenes(24, 4, size=(96, 128))
    choose = runpy.run_path(str(SWEEP))["choose"]
    test, texture = choose(dataset, "car", 3, 2, 0)
    owns = [bool((whole(truth) & (truth.label == "car")).any()) for truth in test]
    assert owns == sorted(owns, reverse=True)
    assert len(test) - sum(owns) == 2
    assert sum(int((whole(t) & (t.label == "car")).sum()) for t in test) >= 3
    assert len(texture)
    assert not any((truth.label == "car").any() for truth in texture)
    assert not {t.image for t in texture} & {t.image for t in test}


def test_a_class_that_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, study = tmp_path / "voc", tmp_path / "study"
    size = ["--width", "160", "--height", "120"]
    assert run(["scenes", str(data), "--count", "12", "--seed", "4", *size, "-q"]) == 0
    study.mkdir()
    for method in METHODS:
        hs.save(hs.load(model_file(method)), study / f"car-{method}.safetensors")
    capsys.readouterr()

    def sweep(*more: str) -> tuple[str, Any]:
        words = [str(data), str(study), "--test", "train", "--class", "car", "--objects", "2"]
        words += ["--negatives", "1", "--cores", "1", "--picture", str(tmp_path / "p.png")]
        monkeypatch.setattr(sys, "argv", [str(SWEEP), *words, *more])
        runpy.run_path(str(SWEEP), run_name="__main__")
        text = capsys.readouterr().out
        return text, json.loads(text.splitlines()[-1])

    text, first = sweep()
    assert "car: " in text
    assert list(first["mean"]) == ["BL", "BLT", "VIS", "VIS+NMS"]
    assert list(first["mean"]["VIS"]) == ["0", "0.2", "0.4", "0.6"]
    assert (tmp_path / "p.png").stat().st_size > 1000
    again, same = sweep()
    assert same == first
    assert "s of processor" not in again
    other, _ = sweep("--seed", "1")
    assert "s of processor" in other
