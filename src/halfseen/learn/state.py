"""The state of a detector's training after each round, and how a checkpoint keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool
from halfseen.learn.checkpoint import Saved
from halfseen.learn.latent import Assignment, Place
from halfseen.learn.mining import Keys
from halfseen.learn.objective import Vector


@dataclass(frozen=True)
class Round:
    """What one round of mining and fitting did: for the live view, and the model's history."""

    stage: int
    round: int
    energy: float
    positives: int
    negatives: int
    found: int
    hidden_share: float
    u: tuple[float, ...]
    u_t: tuple[float, ...]
    bias: tuple[float, ...]

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Round:
        """JSON has lists where a Round has tuples."""
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()
        }
        return cls(**values)


@dataclass
class State:
    """All that decides how training goes on, but for the stored negatives."""

    stage: int = 0
    round: int = 0
    vector: Vector = field(default_factory=lambda: np.zeros(0))
    assignments: list[Assignment | None] = field(default_factory=list)
    history: list[Round] = field(default_factory=list)


class Restored(NamedTuple):
    """What a checkpoint keeps of a state and of the stored negatives.

    Windows themselves are not kept: their places in the images say it all.
    """

    stage: int
    round: int
    vector: Vector
    history: list[Round]
    places: list[Place | None]
    flags: list[Bool]
    keys: list[Keys]


def pack(state: State, keys: list[Keys]) -> Saved:
    """A state and the keys of the stored negatives by component, as a checkpoint takes them."""
    places = [Place(-1, 0, 0, 0, 0) if a is None else a.place for a in state.assignments]
    flags = [np.zeros(0, bool) if a is None else a.visible.ravel() for a in state.assignments]
    header = {
        "stage": state.stage,
        "round": state.round,
        "history": [asdict(entry) for entry in state.history],
    }
    arrays: dict[str, NDArray[Any]] = {
        "vector": state.vector,
        "latent": np.array(places, np.int64).reshape(-1, len(Place._fields)),
        "flags": np.concatenate([*flags, np.zeros(0, bool)]),
        "flag_counts": np.array([len(f) for f in flags], np.int64),
    }
    return Saved(header, arrays | {f"keys{m}": k.rows for m, k in enumerate(keys)})


def unpack(saved: Saved) -> Restored:
    """The inverse of `pack`; ValueError, KeyError or the like for anything else."""
    header, arrays = saved
    names = [f"keys{m}" for m in range(sum(name.startswith("keys") for name in arrays))]
    places = [Place(*(int(v) for v in row)) for row in arrays["latent"]]
    flags = np.split(arrays["flags"], np.cumsum(arrays["flag_counts"])[:-1])
    return Restored(
        int(header["stage"]),
        int(header["round"]),
        arrays["vector"],
        [Round.from_json(entry) for entry in header["history"]],
        [None if place.component < 0 else place for place in places],
        flags if places else [],
        [Keys(arrays[name]) for name in names],
    )
