"""`halfseen backbone`: what is there, made and checked."""

import json
from pathlib import Path

import pytest

from halfseen.cli import run


def test_it_shows_makes_and_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(["backbone"]) == 0
    assert "not made yet" in capsys.readouterr().out
    assert run(["backbone", "--make", "--check"]) == 0
    said = capsys.readouterr().out
    assert ": ready" in said
    assert "4 x 6 x 64" in said
    assert run(["backbone", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == "lite0"
    assert row["state"] == "ready"
    assert Path(row["network"]).is_file()
