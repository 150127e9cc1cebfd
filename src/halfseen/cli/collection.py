"""`halfseen detect --shard`: runs over large collections."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import halfseen
from halfseen.cli.terminal import Report, count
from halfseen.errors import HalfseenError, SettingsError
from halfseen.model.shipped import find_model

if TYPE_CHECKING:
    from halfseen.collection.photo import Photo
    from halfseen.collection.run import Summary
    from halfseen.studies.photos import PhotoDetector, PhotoSettings

INTERRUPTED = 130


@dataclass(frozen=True)
class Request:
    """A run as the user requested it.

    models        names of model files or shipped models
    words         that name images
    format        of the shards
    shard         images a shard
    out           the folder of the run
    retry_failed  detect again in images that failed
    """

    models: list[str]
    words: list[str]
    format: str
    shard: int
    out: Path
    retry_failed: bool = False

    def as_json(self, settings: PhotoSettings) -> dict[str, Any]:
        """Return all that decides the results: a run goes on only under the same."""
        content = b"".join(find_model(name).read_bytes() for name in self.models)
        return {
            "collection": self.words,
            "model": hashlib.sha256(content).hexdigest(),
            "threshold": settings.threshold,
            "method": settings.method,
            "settings": settings.settings,
            "explain": settings.explain,
            "every_class": settings.every_class,
            "format": self.format,
            "shard": self.shard,
            "halfseen": halfseen.__version__,
        }


def detect_collection(
    detect: PhotoDetector, request: Request, cores: int | None, cluster: str | None, report: Report
) -> int:
    """Start a run in a folder, or go on with it; return the exit code."""
    from halfseen.collection.journal import open_journal
    from halfseen.collection.run import interrupts, run_collection

    plan = request.as_json(detect.settings)
    with open_journal(request.out, plan, _photos(request.words)) as journal:
        if journal.notes:
            already = f"{len(journal.notes)} of {journal.shards} shards are done"
            report.say(f"{request.out}: {already}; images added since it began are not in this run")
        with (
            report.progress("detecting", journal.images) as advance,
            report.compiling(),
            interrupts() as stop,
        ):
            announced = False

            def done(count: int) -> None:
                nonlocal announced
                advance(count)
                if stop.requested and not announced:
                    announced = True
                    report.say("stopping after this shard; Ctrl-C again stops at once")

            summary = run_collection(
                journal, detect.record, retry_failed=request.retry_failed, cores=cores,
                cluster=cluster, on_done=done, on_failed=report.fail, stop=stop,
            )  # fmt: skip
    return _summarise(summary, request.out, report)


def _summarise(summary: Summary, out: Path, report: Report) -> int:
    failed = f", {summary.failed} failed" if summary.failed else ""
    report.say(
        f"{summary.done} of {count(summary.images, 'image')}, "
        f"{count(summary.objects, 'object')}{failed}, {count(summary.shards, 'shard')}"
    )
    report.say(f"wrote {out / 'shards'} and {out / 'summary.json'}")
    if summary.failed:
        report.say(f"wrote {out / 'failed.jsonl'}; try them again with --retry-failed")
    if not summary.complete:
        report.say("stopped; the same command goes on")
        return INTERRUPTED
    return 1 if summary.failed else 0


def _photos(words: list[str]) -> Iterator[Photo]:
    from halfseen.collection.sources import find_photos

    try:
        yield from find_photos(words)
    except HalfseenError as error:
        raise SettingsError(str(error)) from None
