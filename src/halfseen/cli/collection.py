"""`halfseen detect --shard`: runs over large collections."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import halfseen
from halfseen.cli.terminal import Report
from halfseen.errors import HalfseenError, SettingsError
from halfseen.model.shipped import find_model

if TYPE_CHECKING:
    from halfseen.cli.detect import Look
    from halfseen.collection.photo import Photo
    from halfseen.collection.run import Summary

INTERRUPTED = 130


@dataclass(frozen=True)
class Request:
    """What the user asked for: models, words that name images, a format, images a shard."""

    models: list[str]
    words: list[str]
    format: str
    shard: int

    def as_json(self, look: Look) -> dict[str, Any]:
        """All that decides the results: a run goes on only under the same."""
        content = b"".join(find_model(name).read_bytes() for name in self.models)
        return {
            "collection": self.words,
            "model": hashlib.sha256(content).hexdigest(),
            "threshold": look.threshold,
            "method": look.method,
            "settings": look.settings,
            "explain": look.explain,
            "format": self.format,
            "shard": self.shard,
            "halfseen": halfseen.__version__,
        }


class Recorder:
    """Looks at an image and gives the record of it. Sent to every worker of a cluster."""

    def __init__(self, look: Look) -> None:
        self.look = look

    def __call__(self, photo: Photo) -> dict[str, Any]:
        return self.look(photo).record()


def detect_collection(
    look: Look, request: Request, out: Path, retry_failed: bool, cores: int | None,
    cluster: str | None, report: Report,
) -> int:  # fmt: skip
    """Starts a run in a folder or goes on with it; the exit code."""
    from halfseen.collection.journal import open_journal
    from halfseen.collection.run import interrupts, run_collection

    with open_journal(out, request.as_json(look), _photos(request.words)) as journal:
        if journal.notes:
            already = f"{len(journal.notes)} of {journal.shards} shards are done"
            report.say(f"{out}: {already}; images added since it began are not in this run")
        with (
            report.progress("detecting", journal.images) as advance,
            report.compiling(),
            interrupts() as stop,
        ):
            told = False

            def done(count: int) -> None:
                nonlocal told
                advance(count)
                if stop.asked and not told:
                    told = True
                    report.say("stopping after this shard; Ctrl-C again stops at once")

            summary = run_collection(
                journal, Recorder(look), retry_failed=retry_failed, cores=cores, cluster=cluster,
                on_done=done, on_failed=report.fail, stop=stop,
            )  # fmt: skip
    return _tell(summary, out, report)


def _tell(summary: Summary, out: Path, report: Report) -> int:
    failed = f", {summary.failed} failed" if summary.failed else ""
    report.say(
        f"{summary.done} of {summary.images} images, {summary.objects} objects{failed}, "
        f"{summary.shards} shards"
    )
    report.say(f"wrote {out / 'shards'} and {out / 'summary.json'}")
    if summary.failed:
        report.say(f"wrote {out / 'failed.jsonl'}; look again with --retry-failed")
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
