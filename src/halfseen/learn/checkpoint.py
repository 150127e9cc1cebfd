"""The state of training on disk, so that a killed run goes on and ends in the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halfseen.data.arrays import read_arrays
from halfseen.data.files import write_atomically
from halfseen.errors import AnnotationError, TrainingError

if TYPE_CHECKING:
    from halfseen.learn.mining import NegativeStore
    from halfseen.learn.trainer import Round, State, Trainer

VERSION = 1
DIGEST = 32  # bytes of SHA-256 that stand before the archive


def fingerprint(trainer: Trainer) -> str:
    """Names the data, class and settings: a checkpoint is good only for the same ones."""
    chosen = trainer.settings.as_json()
    for name in ("masks", "calibrate"):  # They are learnt after the last checkpoint.
        del chosen[name]
    settings = json.dumps(chosen, sort_keys=True)
    return trainer.dataset.digest(f"{VERSION} {trainer.label} {settings}")


def save(path: Path, trainer: Trainer, state: State, store: NegativeStore) -> None:
    """Replaces the checkpoint. The windows themselves are not kept: their places say it all."""
    latent = [
        (-1, 0, 0, 0, 0) if a is None else (a.component, int(a.mirrored), a.crop, a.y, a.x)
        for a in state.assignments
    ]
    flags = [np.zeros(0, bool) if a is None else a.visible.ravel() for a in state.assignments]
    header = {
        "fingerprint": fingerprint(trainer),
        "stage": state.stage,
        "round": state.round,
        "history": [asdict(entry) for entry in state.history],
    }
    arrays: dict[str, NDArray[Any]] = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "vector": state.vector,
        "latent": np.array(latent, np.int64),
        "flags": np.concatenate([*flags, np.zeros(0, bool)]),
        "flag_counts": np.array([len(f) for f in flags], np.int64),
    }
    arrays |= {f"keys{m}": keys for m, keys in enumerate(store.keys)}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    try:
        archive = content.getvalue()
        write_atomically(path, hashlib.sha256(archive).digest() + archive)
    except OSError as error:
        raise TrainingError(
            f"{path}: the checkpoint cannot be written: {error.strerror}; nothing learnt before "
            "this round is lost: make room, then go on with the same command and --resume"
        ) from None


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TrainingError(f"{path}: cannot be read: {error.strerror}") from None
    digest, archive = content[:DIGEST], content[DIGEST:]
    if digest != hashlib.sha256(archive).digest():
        raise TrainingError(f"{path}: a damaged checkpoint, or none; delete it to start anew")
    try:
        return read_arrays(archive, ("header", "vector", "latent", "flags", "flag_counts"))
    except AnnotationError as error:
        raise TrainingError(f"{path}: {error}; delete it to start anew") from None


def load(path: Path, trainer: Trainer) -> State:
    """The state that a checkpoint holds; TrainingError if it belongs to something else."""
    from halfseen.learn.trainer import State

    arrays = _read(path)
    try:
        header = json.loads(arrays["header"].tobytes())
        if header["fingerprint"] != fingerprint(trainer):
            raise TrainingError(
                f"{path}: belongs to other data or settings; go on with those it was started "
                "with, or delete it to start anew"
            )
        flags = np.split(arrays["flags"], np.cumsum(arrays["flag_counts"])[:-1])
        rows = [tuple(int(v) for v in row) for row in arrays["latent"]]
        history = [_as_round(entry) for entry in header["history"]]
        assignments = trainer.reassign(rows, flags)  # type: ignore[arg-type]
        stage, number = int(header["stage"]), int(header["round"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise TrainingError(
            f"{path}: not a checkpoint of halfseen: {error}; delete it to start anew"
        ) from None
    return State(stage, number, arrays["vector"], assignments, history)


def _as_round(entry: dict[str, Any]) -> Round:
    """JSON has lists where a Round has tuples."""
    from halfseen.learn.trainer import Round

    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return Round(**values)


def load_keys(path: Path) -> list[NDArray[np.int64]]:
    """Where the stored negatives come from, by component, in their order."""
    arrays = _read(path)
    names = [f"keys{m}" for m in range(sum(name.startswith("keys") for name in arrays))]
    if any(name not in arrays or arrays[name].shape[1:] != (6,) for name in names):
        raise TrainingError(f"{path}: not a checkpoint of halfseen; delete it to start anew")
    return [arrays[name] for name in names]
