"""A run over a collection: shard after shard, which may stop and go on at any moment."""

from __future__ import annotations

import json
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from halfseen.collection.journal import Journal
from halfseen.collection.photo import Photo
from halfseen.collection.result import Record
from halfseen.compute.map import map_images
from halfseen.data.files import open_atomically
from halfseen.errors import HalfseenError

if TYPE_CHECKING:
    from distributed import Client

# Images from which processes are worth the second that they take to start.
MANY = 1000


@dataclass(frozen=True)
class Summary:
    """What a run has done so far, earlier parts of it included."""

    images: int
    done: int
    failed: int
    objects: int
    shards: int

    @property
    def complete(self) -> bool:
        return self.done == self.images


@dataclass
class Job:
    """A shard to be made: its photos, and their records, None where one is to come."""

    shard: int
    photos: list[Photo]
    records: list[Record | None]

    def __post_init__(self) -> None:
        self.missing = deque(n for n, record in enumerate(self.records) if record is None)


class Stop:
    """Whether to stop after the current shard. Set by a signal or another thread."""

    def __init__(self) -> None:
        self.requested = False


def run_collection(
    journal: Journal,
    record: Callable[[Photo], Record],
    *,
    retry_failed: bool = False,
    cores: int | None = None,
    cluster: str | Client | None = None,
    on_done: Callable[[int], None] | None = None,
    on_failed: Callable[[str], None] | None = None,
    stop: Stop | None = None,
) -> Summary:
    """Make the record of every image that has none yet, and write the shards.

    record        returns the record of an image; it must not raise for a bad one
    retry_failed  also repeat images whose record is an error
    on_done       called with the images done so far, earlier runs included
    on_failed     called with the reason for each image that fails now
    stop          requests to end after the current shard

    Memory holds one shard and a bounded number of images, whatever the number of all. What is left
    in the folder beside the shards: failed.jsonl, the failed images with their reasons, and
    summary.json.
    """
    waiting: deque[Job] = deque()

    def photos() -> Iterator[Photo]:
        for job in _jobs(journal, retry_failed):
            waiting.append(job)
            yield from [job.photos[n] for n in job.missing]

    done = sum(note.images - note.failed * retry_failed for note in journal.notes.values())
    processes = journal.images >= MANY
    results = map_images(record, photos(), cores, None, cluster, _lost, processes=processes)
    with closing(results):  # type: ignore[type-var]  # a generator, which may have work ahead
        for result in results:
            job = waiting[0]
            job.records[job.missing.popleft()] = result
            done += 1
            if on_done is not None:
                on_done(done)
            if on_failed is not None and "error" in result:
                on_failed(result["error"])
            if not job.missing:
                journal.write(job.shard, [r for r in job.records if r is not None])
                waiting.popleft()
                if stop is not None and stop.requested:
                    break
    return _summarise(journal)


def _jobs(journal: Journal, retry_failed: bool) -> Iterator[Job]:
    for shard, photos in journal.photos():
        if shard not in journal.notes:
            yield Job(shard, photos, [None] * len(photos))
        elif retry_failed and journal.notes[shard].failed:
            records = journal.read(shard)
            yield Job(shard, photos, [None if "error" in r else r for r in records])


def _lost(photo: Photo) -> Record:
    return {"image": photo.name, "error": f"{photo.name}: every worker that took it died"}


def _summarise(journal: Journal) -> Summary:
    notes = journal.notes.values()
    summary = Summary(
        journal.images,
        sum(note.images for note in notes),
        sum(note.failed for note in notes),
        sum(note.objects for note in notes),
        len(notes),
    )
    _write(journal.folder / "failed.jsonl", journal.failures())
    _write(journal.folder / "summary.json", [vars(summary)])
    return summary


def _write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    try:
        with open_atomically(path) as file:
            for record in records:
                file.write(json.dumps(record).encode() + b"\n")
    except OSError as error:
        raise HalfseenError(
            f"{path}: cannot be written: {error.strerror or error}; all finished shards are kept: "
            "make room, then give the same command"
        ) from None


@contextmanager
def interrupts() -> Iterator[Stop]:
    """Ctrl-C once requests to stop after the current shard; a second one stops at once."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals are the main thread's
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
