"""What is finished of a training, on disk."""

from pathlib import Path

import numpy as np
import pytest

from halfseen.errors import TrainingError
from halfseen.learn.checkpoint import Checkpoint, Saved
from halfseen.learn.mining import Keys
from halfseen.learn.state import Round, State, pack, unpack


def entry(value: float) -> Saved:
    return Saved({"value": value}, {"numbers": np.full(3, value)})


def value_of(saved: Saved) -> float:
    assert (saved.arrays["numbers"] == saved.header["value"]).all()
    return float(saved.header["value"])


def test_entries_of_all_parts_are_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first = Checkpoint.open(path, "mine", resume=True)
    first.put("a", entry(1))
    first.part("half").put("a", entry(2))
    first.part("half").part("detector").put("rounds", entry(3))
    again = Checkpoint.open(path, "mine", resume=True)
    assert again.get("a", value_of) == 1
    assert again.part("half").get("a", value_of) == 2
    assert again.part("half").part("detector").get("rounds", value_of) == 3
    assert again.get("b", value_of) is None
    again.part("half").drop("detector")
    again.part("half").put("a", entry(4))
    last = Checkpoint.load(path, "mine")
    assert sorted(last.entries) == ["a", "half/a"]
    assert last.part("half").get("a", value_of) == 4
    assert Checkpoint.open(path, "mine", resume=False).entries == {}


def test_nothing_is_written_without_a_path() -> None:
    here = Checkpoint()
    here.put("a", entry(1))
    assert here.get("a", value_of) == 1


def test_other_data_and_strange_entries_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    Checkpoint(path, "mine").put("a", entry(1))
    with pytest.raises(TrainingError, match="belongs to other data or settings"):
        Checkpoint.load(path, "yours")
    with pytest.raises(TrainingError, match=r"not a checkpoint.*delete it") as caught:
        Checkpoint.load(path, "mine").get("a", unpack)
    assert "\n" not in str(caught.value)


def test_a_state_comes_back_as_it_was() -> None:
    history = [Round(0, 1, 0.1 + 0.2, 2, 3, 4, 0.1, (0.1, 0.2), (0.3, 0.4), (-1.0, -0.5))]
    state = State(1, 2, np.linspace(0, 1, 7), [None, None], history)
    keys = [Keys.make(np.arange(3), 1, 2, 3, 0, 1), Keys.join([])]
    kept = unpack(pack(state, keys))
    assert (kept.stage, kept.round, kept.history) == (1, 2, history)
    np.testing.assert_array_equal(kept.vector, state.vector)
    assert kept.places == [None, None]
    for ours, theirs in zip(kept.keys, keys, strict=True):
        np.testing.assert_array_equal(ours.rows, theirs.rows)
