"""Topics that are kept as tables, as they are shown."""

from __future__ import annotations

import msgspec


class TablePartition(msgspec.Struct, frozen=True):
    """How far the table has come in a partition."""

    partition: int
    table_end: int | None
    """All before this offset is in the table; null: nothing was taken over yet."""
    end: int
    """Of the log."""


class TableFacts(msgspec.Struct, frozen=True):
    """A table in a list."""

    topic: str
    topic_id: str
    location: str
    version: int | None
    """Grows with everything that is written to it; null: there is none yet, or it lies where the broker cannot look."""
    rows: int
    bytes: int
    files: int
    lag_messages: int | None
    """Offsets that are in the log alone; null: unknown."""
    gaps: int
    """Stretches that retention took from the log before the table had them."""
    written_ms: int | None


class TableDocument(TableFacts, frozen=True):
    """With its partitions."""

    partitions: list[TablePartition]


class TablePage(msgspec.Struct, frozen=True):
    """Some tables, by topic."""

    tables: list[TableFacts]
    next: str | None
    """Where the list goes on."""


class ManifestHead(msgspec.Struct, frozen=True):
    """What is read of a manifest: its first line."""

    version: int
    written_ms: int = 0
    ends: dict[int, int] = {}
    gaps: list[msgspec.Raw] = []
    rows: int = 0
    bytes: int = 0
    file_count: int = 0


_decode_head = msgspec.json.Decoder(ManifestHead, strict=False).decode


def decode_head(line: bytes) -> ManifestHead | None:
    """None if it is not one that is understood here."""
    try:
        return _decode_head(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
