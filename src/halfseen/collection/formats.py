"""The formats of results: one table for single files and for shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from halfseen.collection import writers
from halfseen.collection.shards import JSON_LINES, PARQUET, ShardCodec
from halfseen.errors import SettingsError

Writer = Callable[[Sequence[Path], Sequence[str]], AbstractContextManager[writers.Add]]


class OutputFormat(NamedTuple):
    """A format of results.

    suffix  of a shard
    names   of the files of a whole run, given the labels
    write   opens these files; None of a format that comes in shards only
    shards  None of a format that comes in whole files only
    """

    suffix: str
    names: Callable[[Sequence[str]], list[str]]
    write: Writer | None
    shards: ShardCodec | None = None


FORMATS = {
    "jsonl": OutputFormat(
        ".jsonl", lambda _: ["detections.jsonl"], writers.write_jsonl, JSON_LINES
    ),
    "coco": OutputFormat(
        ".json", lambda _: ["detections.coco.json", "categories.json"], writers.write_coco
    ),
    "voc": OutputFormat(".txt", writers.voc_file_names, writers.write_voc),
    "csv": OutputFormat(".csv", lambda _: ["detections.csv"], writers.write_csv),
    "parquet": OutputFormat(".parquet", lambda _: [], None, PARQUET),
}


def shard_codec(name: str) -> ShardCodec:
    """Return the codec of a format, after a check that its library is there."""
    codec = FORMATS[name].shards if name in FORMATS else None
    if codec is None:
        known = [name for name, one in FORMATS.items() if one.shards is not None]
        raise SettingsError(
            f"shards are {' or '.join(known)} files, not {name}; for one {name} file, leave "
            "--shard away"
        )
    codec.check()
    return codec
