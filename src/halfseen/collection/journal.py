"""The state of a run on disk, so that a killed one goes on with no image lost or done twice.

FOLDER/run.json      the request; another one in the same folder is refused
FOLDER/images.jsonl  the images, listed once: image n belongs to shard n // size for good
FOLDER/shards/       the results; a shard that is there is whole and done, whatever else happened
FOLDER/notes.jsonl   what each shard holds, to be counted without decoding it again

Only the shards decide what is done. A note lost in a kill is made again from its shard; a shard
whose digest is not the noted one is decoded and checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from halfseen.collection.formats import FORMATS, shard_codec
from halfseen.collection.photo import Photo
from halfseen.collection.result import Record
from halfseen.data.files import locked, open_atomically, write_atomically
from halfseen.errors import HalfseenError, SettingsError

VERSION = 1
# Images of a shard that is being made again: no shard has so many, so it is read to be counted.
UNKNOWN = -1


@dataclass(frozen=True)
class Note:
    """What a shard holds: images, those of them that failed, objects, and its bytes' digest."""

    shard: int
    images: int
    failed: int
    objects: int
    digest: str

    @classmethod
    def parse(cls, line: bytes) -> Note | None:
        """Read a line of notes.jsonl; half a line of a killed run is None."""
        try:
            note = cls(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            return None
        right = (int, int, int, int, str)
        return note if tuple(map(type, astuple(note))) == right else None


class Journal:
    """A run in a folder. Use `open_journal`."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.folder = folder
        self.size = int(plan["shard"])
        self.images = int(plan["count"])
        self.suffix = FORMATS[plan["format"]].suffix
        self.codec = shard_codec(plan["format"])
        self.notes: dict[int, Note] = {}

    @property
    def shards(self) -> int:
        """How many shards the whole collection has."""
        return -(-self.images // self.size)

    def path(self, shard: int) -> Path:
        return self.folder / "shards" / f"{shard:06}{self.suffix}"

    def photos(self) -> Iterator[tuple[int, list[Photo]]]:
        """Yield the images of each shard, in order."""
        with (self.folder / "images.jsonl").open("rb") as lines:
            for shard in range(self.shards):
                yield shard, [Photo(*json.loads(line)) for line in islice(lines, self.size)]

    def read(self, shard: int) -> list[Record]:
        """Return the records of a finished shard."""
        path = self.path(shard)
        try:
            records = self.codec.decode(path.read_bytes())
            if len(records) != self._count(shard):
                expected = self._count(shard)
                raise HalfseenError(f"expected {expected} images, found {len(records)}")
        except OSError as error:
            raise HalfseenError(f"{path}: cannot be read: {error.strerror}") from None
        except HalfseenError as error:
            raise HalfseenError(f"{path}: {error}; delete it to have it made again") from None
        return records

    def write(self, shard: int, records: Sequence[Record]) -> None:
        """Put a whole shard in place, then note it. Nothing after this can lose it."""
        try:
            if shard in self.notes:
                # What is noted of the old shard is not true of the new one.
                self._write_note(Note(shard, UNKNOWN, 0, 0, ""))
            write_atomically(self.path(shard), self.codec.encode(records), durable=True)
            self._note(shard, records)
        except OSError as error:
            raise HalfseenError(
                f"{self.path(shard)}: cannot be written: {error.strerror}; finished shards are "
                "kept: make room, then give the same command"
            ) from None

    def _note(self, shard: int, records: Sequence[Record]) -> None:
        failed = sum("error" in record for record in records)
        objects = sum(len(record.get("detections", ())) for record in records)
        self.notes[shard] = Note(shard, len(records), failed, objects, self._digest(shard))
        self._write_note(self.notes[shard])

    def _write_note(self, note: Note) -> None:
        with (self.folder / "notes.jsonl").open("a") as file:
            file.write(json.dumps(asdict(note)) + "\n")

    def recall(self) -> None:
        """Find what is done: the shards that are there."""
        for part in [*self.folder.glob(".*.part"), *self.folder.glob("shards/.*.part")]:
            part.unlink(missing_ok=True)  # of a killed run
        path = self.folder / "notes.jsonl"
        content = path.read_bytes() if path.exists() else b""
        notes = filter(None, map(Note.parse, content.splitlines()))
        known = {note.shard: note for note in notes}
        if content and not content.endswith(b"\n"):
            with path.open("a") as file:
                file.write("\n")
        for shard in range(self.shards):
            if self.path(shard).exists():
                note = known.get(shard)
                expected = (self._count(shard), self._digest(shard))
                if note is not None and (note.images, note.digest) == expected:
                    self.notes[shard] = note
                else:
                    self._note(shard, self.read(shard))

    def _digest(self, shard: int) -> str:
        return _digest(self.path(shard))[1]

    def _count(self, shard: int) -> int:
        return min(self.size, self.images - shard * self.size)

    def failures(self) -> Iterator[Record]:
        """Yield the records of all failed images, in order."""
        for shard in sorted(self.notes):
            if self.notes[shard].failed:
                yield from (record for record in self.read(shard) if "error" in record)


@contextmanager
def open_journal(
    folder: Path, request: dict[str, Any], photos: Iterable[Photo]
) -> Iterator[Journal]:
    """Open the journal of a run: a new one, or the one that an earlier run of this request left.

    request  all that decides the results, as JSON can hold it, with `shard` and `format`
    photos   the images; only a new journal takes them
    """
    shard_codec(request["format"])
    with ExitStack() as stack:
        try:
            (folder / "shards").mkdir(parents=True, exist_ok=True)
            busy = f"{folder}: another run is at work there"
            stack.enter_context(locked(folder / ".lock", busy))
            journal = Journal(folder, _begin(folder, request, photos))
            journal.recall()
        except OSError as error:
            raise SettingsError(
                f"{error.filename or folder}: cannot keep a run there: {error.strerror or error}"
            ) from None
        yield journal


def _begin(folder: Path, request: dict[str, Any], photos: Iterable[Photo]) -> dict[str, Any]:
    plan = _plan(folder / "run.json", request)
    if plan is None:
        _list(folder / "images.jsonl", photos)
        count, digest = _digest(folder / "images.jsonl")
        plan = {"version": VERSION, "count": count, "digest": digest, **request}
        content = json.dumps(plan, indent=1).encode()
        write_atomically(folder / "run.json", content, durable=True)
    elif _digest(folder / "images.jsonl") != (plan["count"], plan["digest"]):
        raise HalfseenError(
            f"{folder / 'images.jsonl'}: changed since the run began; use another folder"
        )
    return plan


def _plan(path: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        plan = json.loads(path.read_bytes())
        if plan["version"] != VERSION or not isinstance(plan["digest"], str):
            raise ValueError("of another version")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise SettingsError(
            f"{path}: not a run of halfseen: {reason}; use another folder"
        ) from None
    plain = json.loads(json.dumps(request))
    different = [name for name in plain if plan.get(name) != plain[name]]
    if different:
        raise SettingsError(
            f"{path.parent}: holds a run with another {' and '.join(different)}; "
            "give the same command to go on with it, or another folder"
        )
    return dict(plan)


def _list(path: Path, photos: Iterable[Photo]) -> None:
    with open_atomically(path, durable=True) as file:
        for photo in photos:
            file.write(json.dumps(astuple(photo)).encode() + b"\n")


def _digest(path: Path) -> tuple[int, str]:
    """Return the number of lines of a file, and its digest."""
    digest, lines = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
            lines += part.count(b"\n")
    return lines, digest.hexdigest()
