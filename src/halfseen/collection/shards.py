"""Shards: files of the results of a fixed number of images each, as JSON lines or Parquet.

A record is {"image", "width", "height", "detections", ...}, or {"image", "error"} of an image that
failed. The same records give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from halfseen.collection.result import Record
from halfseen.errors import HalfseenError, SettingsError, install


class ShardCodec(NamedTuple):
    """Records to the bytes of a shard, and back; `check` raises where a library is missing."""

    encode: Callable[[Sequence[Record]], bytes]
    decode: Callable[[bytes], list[Record]]
    check: Callable[[], object] = lambda: None


def _encode_lines(records: Sequence[Record]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _decode_lines(content: bytes) -> list[Record]:
    try:
        records = [json.loads(line) for line in content.splitlines()]
    except (ValueError, RecursionError) as error:
        raise HalfseenError(f"not JSON lines: {error}") from None
    return _checked(records)


def _checked(records: list[Any]) -> list[Record]:
    for number, record in enumerate(records, start=1):
        known = isinstance(record, dict) and isinstance(record.get("image"), str)
        if not known or not isinstance(record.get("detections", []), list):
            raise HalfseenError(f"record {number} is not the result of an image")
    return records


def _encode_parquet(records: Sequence[Record]) -> bytes:
    import io

    pa, parquet = _pyarrow()
    content = io.BytesIO()
    rows = [_with_text(record) for record in records]
    table = pa.Table.from_pylist(rows, schema=_schema(pa))
    parquet.write_table(table, content, compression="zstd")
    return content.getvalue()


def _with_text(record: Record) -> Record:
    """Return a record whose texts are valid, in its detections too."""
    texts = {name: _text(record.get(name)) for name in ("image", "error")}
    found = {
        name: [row | {"label": _text(row.get("label"))} for row in record[name]]
        for name in record.keys() & {"detections", "suppressed"}
    }
    return record | texts | found


def _text(value: str | None) -> str | None:
    """Escape what is not valid text, as a file's name may be: Parquet cannot hold it."""
    return value and value.encode("utf-8", "backslashreplace").decode()


def _decode_parquet(content: bytes) -> list[Record]:
    """Return the records as they were: Parquet's empty fields are left out again."""
    pa, parquet = _pyarrow()
    try:
        rows = parquet.read_table(pa.BufferReader(content)).to_pylist()
    except Exception as error:  # Arrow raises of many kinds for damaged files
        raise HalfseenError(f"not a Parquet file: {' '.join(str(error).split())}") from None
    return _checked([_without_empty(row) for row in rows])


def _without_empty(row: Record) -> Record:
    """Return a row without empty fields, in its detections too."""
    known = {name: value for name, value in row.items() if value is not None}
    for name in known.keys() & {"detections", "suppressed"}:
        if not isinstance(known[name], list) or not all(isinstance(f, dict) for f in known[name]):
            raise HalfseenError(f"not a shard: {name} are not rows of fields")
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
        ("window", box), ("blocks", pa.list_(pa.string())), ("probability", pa.float64()),
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
        raise SettingsError(f"Parquet needs pyarrow: {install('collections')}") from None
    return pyarrow, pyarrow.parquet


JSON_LINES = ShardCodec(_encode_lines, _decode_lines)
PARQUET = ShardCodec(_encode_parquet, _decode_parquet, _pyarrow)
