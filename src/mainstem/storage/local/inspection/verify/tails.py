"""Batches that are only in the write-ahead log, by log: columns, because there may be millions."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.storage.local.wal.stored_group import StoredGroup


class TailBatch(NamedTuple):
    """What is known of a batch without looking into it."""

    sequence: int
    """Its group."""
    first: int
    next: int
    bytes: int
    time: int


class Tails:
    """Take groups in, in order; then ask for what was not merged."""

    def __init__(self) -> None:
        self._columns: dict[int, tuple[array[int], ...]] = {}

    def take(self, group: StoredGroup) -> None:
        """The batches of a group, and the references in it."""
        for head in (group.data, group.refs):
            if head is None:
                continue
            rows = zip(head.logs, head.bases, head.counts, head.sizes, head.times, strict=True)
            for log, base, count, size, time in rows:
                columns = self._columns.get(log)
                if columns is None:
                    columns = self._columns[log] = tuple(array(typecode) for typecode in "QqqIq")
                for column, value in zip(columns, (group.sequence, base, base + count, size, time), strict=True):
                    column.append(value)

    def logs(self) -> Iterator[int]:
        """Logs that were met."""
        return iter(self._columns)

    def batches(self, log: int, merged: int) -> list[TailBatch]:
        """The batches of a log in groups above `merged`, by offset."""
        columns = self._columns.get(log)
        if columns is None:
            return []
        found = [TailBatch(*row) for row in zip(*columns, strict=True) if row[0] > merged]
        found.sort(key=lambda batch: batch.first)
        return found
