"""Files of candidates: what goes in comes out, and nothing else is taken for one."""

from pathlib import Path

import numpy as np
import pytest

from halfseen.data.candidates import read_candidates, write_candidates
from halfseen.detections import Detections
from halfseen.errors import AnnotationError


def some(count: int, seed: int) -> Detections:
    rng = np.random.default_rng(seed)
    boxes = np.round(rng.uniform(-20, 400, (3, count, 4)), 1).astype(np.float32).astype(float)
    grids = tuple(rng.random((3 + n % 2, 5)) < 0.7 for n in range(count))
    return Detections(
        np.sort(rng.normal(size=count))[::-1], np.full(count, "car"), rng.integers(2, size=count),
        rng.random(count) < 0.5, boxes[0], boxes[1], boxes[2], grids, (375, 500 + seed),
    )  # fmt: skip


@pytest.mark.parametrize("counts", [(), (0,), (0, 0), (3, 0, 5), (1,)])
def test_what_is_written_is_read(tmp_path: Path, counts: tuple[int, ...]) -> None:
    found = [some(count, seed) for seed, count in enumerate(counts)]
    write_candidates(tmp_path / "c.npz", found)
    again = read_candidates(tmp_path / "c.npz")
    assert len(again) == len(found)
    for one, other in zip(found, again, strict=True):
        assert one.size == other.size
        for name in ("score", "label", "component", "mirrored", "window", "full", "visible"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for grid, same in zip(one.visibility, other.visibility, strict=True):
            np.testing.assert_array_equal(grid, same)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "other arrays", "absent"])
def test_anything_else_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.npz"
    write_candidates(path, [some(4, 1)])
    whole = path.read_bytes()
    if damage == "absent":
        path.unlink()
    elif damage == "other arrays":
        np.savez(path, score=np.zeros(3))
    else:
        path.write_bytes({"empty": b"", "text": b"hello", "cut": whole[: len(whole) // 2]}[damage])
    with pytest.raises(
        AnnotationError, match=r"c\.npz: (expected a candidates file|no such)"
    ) as error:
        read_candidates(path)
    assert "\n" not in str(error.value)
