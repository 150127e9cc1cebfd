"""`halfseen serve`: which models the page opens with."""

from typing import Any

import pytest

from halfseen.cli import run
from halfseen.web import server


def test_models_are_files_or_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    monkeypatch.setattr(server, "serve", lambda sets, *_: served.append(sets))
    assert run(["serve", "car.fast", "--quiet"]) == 0
    assert served[0][0].learnt == "yours"
    assert served[0][0].models["VIS"].label == "car"
    assert run(["serve", "kar"]) == 2
    assert "did you mean 'car'?" in capsys.readouterr().err
    assert run(["serve", "nothing.safetensors"]) == 2
    assert "found no such file" in capsys.readouterr().err
    assert len(served) == 1
