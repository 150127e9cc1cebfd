"""The tutorial runs as it stands, and its page is the same text."""

import runpy
from pathlib import Path

import pytest

import halfseen as hs

ROOT = Path(__file__).parents[2]


def test_the_tutorial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    left = runpy.run_path(str(ROOT / "examples" / "tutorial.py"))
    assert left["result"].ap > 0.3
    # Something of what was covered is said to be hidden.
    third = (
        (~left["covered"].visibility[0])[:, :4].sum(),
        (~left["first"].visibility[0])[:, :4].sum(),
    )
    assert third[0] > third[1]
    assert left["flags"][0].sum(axis=0).tolist() == [0, 0, 4, 4, 4, 4]
    assert left["kept"].optimal
    assert hs.load("tutorial-car.safetensors").label == "car"
    assert "AP " in capsys.readouterr().out


def test_the_page_of_the_tutorial_is_rendered_from_it() -> None:
    module = runpy.run_path(str(ROOT / "docs" / "make_tutorial.py"))
    source = (ROOT / "examples" / "tutorial.py").read_text()
    assert (ROOT / "docs" / "tutorial.md").read_text() == module["render"](source)
