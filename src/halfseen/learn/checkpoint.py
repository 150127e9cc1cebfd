"""A training on disk: what is finished is kept, so that a killed run ends in the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.npz import read_arrays
from halfseen.errors import AnnotationError, TrainingError

VERSION = 2
DIGEST = 32  # bytes of SHA-256 that stand before the archive

Value = TypeVar("Value")


def fingerprint(dataset: Dataset, label: str, settings: dict[str, Any]) -> str:
    """Names what a checkpoint is of. Mask head and calibration may be asked for later."""
    chosen = {k: v for k, v in settings.items() if k not in ("masks", "calibrate")}
    return dataset.digest(f"{VERSION} {label} {json.dumps(chosen, sort_keys=True)}")


class Saved(NamedTuple):
    """One entry of a checkpoint: JSON values and arrays, by name."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The entries of one training, by name, in a file that is replaced whenever one is put.

    path         None keeps entries in memory only
    fingerprint  names the data, class and settings: a file is good only for the same ones
    prefix       what the names of all entries begin with; see `part`
    """

    path: Path | None = None
    fingerprint: str = ""
    prefix: str = ""
    entries: dict[str, Saved] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, fingerprint: str, resume: bool) -> Checkpoint:
        """The checkpoint in a file, if there is one to resume from, else an empty one."""
        if resume and path is not None and path.exists():
            return cls.load(path, fingerprint)
        return cls(path, fingerprint)

    @classmethod
    def load(cls, path: Path, fingerprint: str) -> Checkpoint:
        """The checkpoint in a file; TrainingError if it is damaged or of something else."""
        arrays = _read(path)
        try:
            header = json.loads(arrays.pop("header").tobytes())
            known, entries = header["fingerprint"], header["entries"]
            saved = {str(name): Saved(dict(values), {}) for name, values in entries.items()}
            for name, array in arrays.items():
                entry, _, short = name.rpartition("/")
                saved[entry].arrays[short] = array
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _not_one(path, error) from None
        if known != fingerprint:
            raise TrainingError(
                f"{path}: belongs to other data or settings; go on with those it was started "
                "with, or delete it to start anew"
            )
        return cls(path, fingerprint, entries=saved)

    def part(self, name: str) -> Checkpoint:
        """The same checkpoint for a part of the work, which may use names of its own choice."""
        return replace(self, prefix=f"{self.prefix}{name}/")

    def get(self, name: str, decode: Callable[[Saved], Value]) -> Value | None:
        """An entry as `decode` reads it; None without one, TrainingError for a damaged one."""
        saved = self.entries.get(self.prefix + name)
        if saved is None:
            return None
        try:
            return decode(saved)
        except (
            ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError,
            OverflowError,
        ) as error:  # fmt: skip
            raise _not_one(self.path, error) from None

    def put(self, name: str, saved: Saved) -> None:
        """Keeps an entry, in place of one of the same name."""
        self.entries[self.prefix + name] = saved
        self._write()

    def drop(self, name: str) -> None:
        """Forgets the entries of a part that is finished; the next `put` writes it."""
        for known in [k for k in self.entries if k.startswith(f"{self.prefix}{name}/")]:
            del self.entries[known]

    def _write(self) -> None:
        if self.path is None:
            return
        header = {
            "fingerprint": self.fingerprint,
            "entries": {name: saved.header for name, saved in self.entries.items()},
        }
        arrays: dict[str, NDArray[Any]] = {
            f"{name}/{short}": array
            for name, saved in self.entries.items()
            for short, array in saved.arrays.items()
        }
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        archive = content.getvalue()
        try:
            write_atomically(self.path, hashlib.sha256(archive).digest() + archive)
        except OSError as error:
            raise TrainingError(
                f"{self.path}: the checkpoint cannot be written: {error.strerror}; nothing learnt "
                "before is lost: make room, then go on with the same command and --resume"
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
        return read_arrays(archive, ("header",))
    except AnnotationError as error:
        raise TrainingError(f"{path}: {error}; delete it to start anew") from None


def _not_one(path: Path | None, error: Exception) -> TrainingError:
    return TrainingError(
        f"{path}: not a checkpoint of halfseen, or of another version ({error}); delete it to "
        "start anew"
    )
