"""The worked example runs and shows what it says."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_covering_keeps_a_neighbour_that_greedy_loses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = runpy.run_path(str(ROOT / "examples" / "suppress_coco_results.py"))
    assert names["main"](tmp_path) >= 1
    rows, kept = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("results", "kept"))
    assert names["objects"](kept) == names["objects"](rows)
    assert len(kept) < len(rows) / 4
    assert (tmp_path / "neighbour.png").stat().st_size > 10_000
    assert "greedy by boxes" in capsys.readouterr().out
