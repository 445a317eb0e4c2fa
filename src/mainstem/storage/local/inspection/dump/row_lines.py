"""Rows as lines of text, indented by where they lie."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstem.storage.local.inspection.dump.printable import write_bytes, write_time
from mainstem.storage.local.inspection.dump.rows import (
    AnyRow,
    BatchRow,
    BlockRow,
    EndRow,
    FileRow,
    FrameRow,
    GroupRow,
    KeyRow,
    KeyTableRow,
    LogRow,
    RecordRow,
    StateRow,
    TroubleRow,
)
from mainstem.storage.local.inspection.dump.selection import depth_of

INDENT = "  "


class RowLines:
    """Writes rows in the order in which they come."""

    def __init__(self) -> None:
        self._depth = 0

    def line(self, row: AnyRow) -> str:
        """One row, without the end of the line."""
        if isinstance(row, TroubleRow):
            hit = f"; logs {', '.join(map(str, row.logs))}" if row.logs else ""
            return f"! {row.file} at {row.position}: {row.what}{hit}"
        depth = depth_of(row)
        if depth is None:
            return INDENT * (self._depth + 1) + _describe(row)
        self._depth = depth
        return INDENT * depth + _describe(row)


def _describe(row: AnyRow) -> str:  # noqa: C901 - a table, one case per kind
    match row:
        case FileRow():
            return f"{row.file}: {row.type}, {row.bytes} bytes{_facts(row.facts, ', ')}"
        case GroupRow():
            rest = f"proven {row.proven}{', merged' if row.merged else ''}"
            return f"group {row.sequence} at {row.position}: {write_time(row.time_ms)}, {row.bytes} bytes, {rest}"
        case FrameRow():
            return f"{row.frame} at {row.position}: head {row.head_bytes}, body {row.body_bytes}, crc {row.crc:08x}"
        case LogRow():
            covers = f"log {row.log}: offsets {row.first} to {row.next - 1}"
            return f"{covers}, {row.blocks} blocks, {row.bytes} bytes, newest {write_time(row.newest_ms)}"
        case BlockRow():
            covers = f"block at {row.position}: offsets {row.first} to {row.next - 1}, {row.batches} batches"
            shared = ", offsets of another log" if row.foreign else ""
            return f"{covers}, {row.bytes} bytes, newest {write_time(row.newest_ms)}, crc {row.crc:08x}{shared}"
        case BatchRow():
            return _describe_batch(row)
        case RecordRow():
            headers = "".join(f" {name}={write_bytes(value)}" for name, value in row.headers)
            pair = f"{write_bytes(row.key)} = {write_bytes(row.value)}"
            return f"{row.log}/{row.offset} {write_time(row.timestamp_ms)} {pair}{headers}"
        case StateRow():
            if row.facts is None:
                return f"{row.scope} {write_bytes(row.key)} = {write_bytes(row.value)}"
            what = "" if row.log is None else f" log={row.log}"
            deleted = " deleted" if row.value is None else ""
            return f"{row.scope}{what}{_facts(row.facts, ' ')}{deleted}"
        case KeyTableRow():
            return f"key table of log {row.log} at {row.position}: {row.entries} entries, crc {row.crc:08x}"
        case KeyRow():
            return f"{row.log}/{row.offset} key hash {row.hash}"
        case EndRow():
            return f"at {row.position}: {row.what}"
        case TroubleRow():
            return row.what


def _describe_batch(row: BatchRow) -> str:
    parts = [
        f"batch at {row.position}: log {row.log}, offsets {row.first} to {row.next - 1}",
        f"{row.records} records",
        f"{row.bytes} bytes",
        f"newest {write_time(row.newest_ms)}",
        f"crc {row.crc:08x}",
    ]
    if row.compression is not None:
        parts.append(row.compression)
    if row.producer is not None:
        sequence = "" if row.sequence is None else f" sequence {row.sequence}"
        parts.append(f"producer {row.producer} epoch {row.epoch}{sequence}")
    if row.marker is not None:
        parts.append(f"{row.marker} marker")
    elif row.transactional:
        parts.append("transactional")
    if row.delete_horizon_ms is not None:
        parts.append(f"delete horizon {write_time(row.delete_horizon_ms)}")
    if row.source is not None:
        parts.append("reference to log {} offset {}".format(*row.source))
    return ", ".join(parts)


def _facts(facts: dict[str, Any], separator: str) -> str:
    return "".join(f"{separator}{name}={_fact(name, value)}" for name, value in facts.items())


def _fact(name: str, value: Any) -> str:
    if name.endswith("_ms") and isinstance(value, int):
        return write_time(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
