"""Files of candidates: what goes in comes out, and nothing else is taken for one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

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


def zeros(**changes: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The arrays of a file without any image, but for some."""
    rows = {"score": 0, "component": 0, "mirrored": 0, "counts": 0, "flags": 0}
    boxes = dict.fromkeys(("window", "full", "visible"), (0, 4))
    pairs = dict.fromkeys(("shapes", "sizes"), (0, 2))
    made = {n: np.zeros(shape, np.uint8) for n, shape in (rows | boxes | pairs).items()}
    return made | {"label": np.zeros(0, "U1")} | changes


MANY = 120_000
BOMBS = {
    "images": (zeros(sizes=np.zeros((MANY, 2), np.uint8), counts=np.zeros(MANY, np.uint8)),
               "sizes of more than 100,000 rows in "),
    "detections": (zeros(score=np.zeros(MANY, np.uint8)), "score of more than 100,000 rows in "),
    "blocks": (zeros(score=np.zeros(1), flags=np.zeros(10**8 // 8, np.uint8),
                     shapes=np.full((1, 2), 10_000), counts=np.ones(1, np.uint8)),
               "100,000,000 blocks in "),
    "bytes": (zeros(score=np.zeros(10**7)), "its arrays exceed the limit of 67,108,864 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_what_multiplies_is_refused(tmp_path: Path, name: str) -> None:
    arrays, expected = BOMBS[name]
    np.savez_compressed(tmp_path / "c.npz", **arrays)  # type: ignore[arg-type]
    assert (tmp_path / "c.npz").stat().st_size < 100_000
    with pytest.raises(AnnotationError, match=expected):
        read_candidates(tmp_path / "c.npz")
