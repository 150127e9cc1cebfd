"""Files of results of a fixed number of images each: JSON lines, or Parquet.

A record is what became of one image: {"image", "width", "height", "detections", ...}, or {"image",
"error"} where it failed. The same records give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from halfseen.errors import HalfseenError, SettingsError

Record = dict[str, Any]


class ShardFormat(NamedTuple):
    """A format of shards: its suffix, and records to bytes and back."""

    suffix: str
    encode: Callable[[Sequence[Record]], bytes]
    decode: Callable[[bytes], list[Record]]


def shard_format(name: str) -> ShardFormat:
    """The format of a name, after its needs have been checked."""
    if name not in FORMATS:
        raise SettingsError(
            f"shards are {' or '.join(FORMATS)} files, not {name}; for one {name} file, leave "
            "--shard away"
        )
    if name == "parquet":
        _pyarrow()
    return FORMATS[name]


def _encode_lines(records: Sequence[Record]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _decode_lines(content: bytes) -> list[Record]:
    try:
        return [json.loads(line) for line in content.splitlines()]
    except ValueError as error:
        raise HalfseenError(f"not JSON lines: {error}") from None


def _encode_parquet(records: Sequence[Record]) -> bytes:
    import io

    pa, parquet = _pyarrow()
    content = io.BytesIO()
    rows = [
        record | {name: _text(record.get(name)) for name in ("image", "error")}
        for record in records
    ]
    table = pa.Table.from_pylist(rows, schema=_schema(pa))
    parquet.write_table(table, content, compression="zstd")
    return content.getvalue()


def _text(value: str | None) -> str | None:
    """A file's name may hold bytes that are no text, which Parquet cannot."""
    return value and value.encode("utf-8", "backslashreplace").decode()


def _decode_parquet(content: bytes) -> list[Record]:
    """The records as they were: Parquet's empty fields are left out again."""
    pa, parquet = _pyarrow()
    try:
        rows = parquet.read_table(pa.BufferReader(content)).to_pylist()
    except (OSError, ValueError) as error:
        raise HalfseenError(f"not a Parquet file: {error}") from None
    return [_without_empty(row) for row in rows]


def _without_empty(row: Record) -> Record:
    """The same without empty fields, its detections' too."""
    known = {name: value for name, value in row.items() if value is not None}
    for name in known.keys() & {"detections", "suppressed"}:
        known[name] = [
            {field: value for field, value in found.items() if value is not None or field == "by"}
            for found in known[name]
        ]
    return known


def _schema(pa: Any) -> Any:
    box = pa.list_(pa.float64(), 4)
    detection = [
        ("label", pa.string()), ("score", pa.float64()), ("full", box), ("visible", box),
        ("visible_fraction", pa.float64()), ("component", pa.int64()), ("mirrored", pa.bool_()),
        ("window", box), ("visibility", pa.list_(pa.string())), ("probability", pa.float64()),
        ("figure", pa.list_(pa.string())),
    ]  # fmt: skip
    dropped = [*detection, ("by", pa.int64()), ("overlap", pa.float64())]
    return pa.schema(
        [
            ("image", pa.string()), ("width", pa.int64()), ("height", pa.int64()),
            ("detections", pa.list_(pa.struct(detection))),
            ("suppressed", pa.list_(pa.struct(dropped))), ("error", pa.string()),
        ]
    )  # fmt: skip


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise SettingsError("Parquet needs pyarrow: pip install 'halfseen[collections]'") from None
    return pyarrow, pyarrow.parquet


FORMATS = {
    "jsonl": ShardFormat(".jsonl", _encode_lines, _decode_lines),
    "parquet": ShardFormat(".parquet", _encode_parquet, _decode_parquet),
}
