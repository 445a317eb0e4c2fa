"""The rows that `mainstem log dump` prints: one object each as JSON, one line each as text."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from mainstem.storage.local.inspection.dump.printable import Cut, Hex


class Row(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Base of all; `kind` is the first field of the object."""


class FileRow(Row, frozen=True, tag="file"):
    """A file begins. What follows is in it, up to the next file."""

    file: str
    type: str
    bytes: int
    facts: dict[str, Any] = {}


class GroupRow(Row, frozen=True, tag="group"):
    """A group of the write-ahead log."""

    position: int
    sequence: int
    proven: int
    time_ms: int
    bytes: int
    merged: bool = False
    """Its batches are in runs, and not shown here."""


class FrameRow(Row, frozen=True, tag="frame"):
    """A frame of a group."""

    position: int
    frame: str
    head_bytes: int
    body_bytes: int
    crc: int


class LogRow(Row, frozen=True, tag="log"):
    """What the index of a run says about a log."""

    log: int
    first: int
    next: int
    bytes: int
    newest_ms: int
    blocks: int


class BlockRow(Row, frozen=True, tag="block"):
    """A block of a run."""

    log: int
    first: int
    next: int
    newest_ms: int
    position: int
    bytes: int
    batches: int
    crc: int
    foreign: bool = False
    """Whether the batches are stored with the offsets of another log; they are shown with those of this one."""


class BatchRow(Row, frozen=True, tag="batch"):
    """A batch at its place in its log."""

    log: int
    first: int
    next: int
    position: int
    bytes: int
    records: int
    newest_ms: int
    crc: int
    compression: str | None = None
    producer: int | None = None
    epoch: int | None = None
    sequence: int | None = None
    transactional: bool = False
    marker: str | None = None
    """commit or abort, for the batch that ends a transaction."""
    delete_horizon_ms: int | None = None
    source: tuple[int, int] | None = None
    """For a reference: log and first offset of the batch that was written."""


class RecordRow(Row, frozen=True, tag="record"):
    """A record."""

    log: int
    offset: int
    timestamp_ms: int
    key: str | Hex | Cut | None
    value: str | Hex | Cut | None
    headers: list[tuple[str, str | Hex | Cut | None]] = []


class StateRow(Row, frozen=True, tag="state"):
    """An item of state; the value of a deleted key is null."""

    scope: str
    key: str | Hex | Cut | None
    value: str | Hex | Cut | None
    log: int | None = None
    facts: dict[str, Any] | None = None
    """What key and value mean, in scopes of the engine."""


class KeyTableRow(Row, frozen=True, tag="key-table"):
    """A key table of a run."""

    log: int
    position: int
    entries: int
    crc: int


class KeyRow(Row, frozen=True, tag="key"):
    """An entry of a key table."""

    log: int
    hash: str
    offset: int


class EndRow(Row, frozen=True, tag="end"):
    """The groups of a file end here."""

    position: int
    what: str


class TroubleRow(Row, frozen=True, tag="trouble"):
    """Something cannot be read; what follows goes on as well as it can."""

    file: str
    position: int
    what: str
    logs: tuple[int, ...] = ()


AnyRow: TypeAlias = (
    FileRow
    | GroupRow
    | FrameRow
    | LogRow
    | BlockRow
    | BatchRow
    | RecordRow
    | StateRow
    | KeyTableRow
    | KeyRow
    | EndRow
    | TroubleRow
)
