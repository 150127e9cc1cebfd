"""The worked example runs and shows what it says; candidate sets of benchmarks survive storage."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from halfseen.detections import Detections

ROOT = Path(__file__).parents[1]


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


def test_candidates_survive_storage(tmp_path: Path) -> None:
    names = runpy.run_path(str(ROOT / "benchmarks" / "candidates" / "storage.py"))
    rng = np.random.default_rng(0)
    images = []
    for count in (3, 0, 5):
        window = rng.uniform(0, 100, (count, 4)).astype(np.float32).astype(float)
        flags = tuple(rng.random((int(rng.integers(1, 9)), 7)) < 0.5 for _ in range(count))
        score = rng.normal(size=count).astype(np.float32).astype(float)
        images.append(
            (
                f"image {count}",
                Detections(
                    score, np.full(count, "car"), rng.integers(0, 4, count),
                    rng.random(count) < 0.5, window, window + 1, window + 1, flags,
                    (100, 200 + count),
                ),
            )
        )  # fmt: skip
    names["save"](tmp_path / "car.npz", "car", images)
    name, again = names["load"](tmp_path / "car.npz")
    assert name == "car"
    for (image, found), (other, same) in zip(images, again, strict=True):
        assert (image, found.size) == (other, same.size)
        for field in ("score", "label", "component", "mirrored", "window"):
            np.testing.assert_array_equal(getattr(same, field), getattr(found, field))
        np.testing.assert_allclose(same.full, found.full, rtol=1e-6)
        for grid, expected in zip(same.visibility, found.visibility, strict=True):
            np.testing.assert_array_equal(grid, expected)
