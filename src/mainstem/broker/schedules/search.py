"""Looking into the schedule: what waits, for when, for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mainstem.broker.schedules.reading import records_in
from mainstem.coordination.schedules.schedule import Bucket, ScheduleBook, Span
from mainstem.coordination.schedules.scheduled_record import Letter, decode_letter
from mainstem.model.errors import UnknownLog
from mainstem.storage.contract import Engine, KeyAfter, ReadHint
from mainstem.wire.messages.header_block import decode_headers

SCAN_BYTES = 256 << 10
"""Read at a time."""
SCAN_RECORDS_MAX = 50_000
"""Looked at for one page: a page may be short, or empty, and still have a next one."""


class Pending(NamedTuple):
    """A record that waits."""

    id: bytes
    due_ms: int
    letter: Letter
    bucket: Bucket
    offset: int


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for: all that is given must hold."""

    namespace: str | None = None
    topic: str | None = None
    """The topic, or one of the routing keys."""
    exchange: str | None = None
    due_from_ms: int = 0
    due_before_ms: int = 1 << 62
    header: tuple[str, bytes | None] | None = None
    """Name, and content if that is to be compared."""

    def matches(self, due_ms: int, letter: Letter) -> bool:
        """Whether a record is looked for."""
        target = letter.target
        return (
            self.due_from_ms <= due_ms < self.due_before_ms
            and (self.namespace is None or target.namespace == self.namespace)
            and (self.exchange is None or target.exchange == self.exchange)
            and (self.topic is None or target.topic == self.topic or self.topic in target.routing_keys)
            and (self.header is None or self._has_header(letter.headers, *self.header))
        )

    @staticmethod
    def _has_header(block: bytes, name: str, content: bytes | None) -> bool:
        return any(
            name == present and (content is None or content == value) for present, value in decode_headers(block)
        )


class SearchPosition(NamedTuple):
    """Where a page ended: buckets come in the order of their time, then the coarser one first."""

    start_ms: int = -1
    level: int = 0
    log: int = 0
    offset: int = -1

    def encode(self) -> str:
        """As text."""
        return f"{self.start_ms}.{self.level}.{self.log}.{self.offset}"

    @classmethod
    def decode(cls, text: str) -> SearchPosition | None:
        """From text; None when it is not one."""
        parts = text.split(".")
        if len(parts) != len(cls._fields) or not all(part.isdecimal() and len(part) < 20 for part in parts):
            return None
        return cls(*map(int, parts))


class PendingPage(NamedTuple):
    """Some of what was found, and where to go on."""

    found: list[Pending]
    after: SearchPosition | None


class ScheduleSearch:
    """Questions about what waits."""

    def __init__(self, engine: Engine, book: ScheduleBook) -> None:
        self._engine = engine
        self._book = book

    async def find(self, record_id: bytes, due_ms: int) -> Pending | None:
        """The record of this id, if it still waits."""
        for bucket in self._book.holding(due_ms):
            try:
                found = await self._engine.offset_at(bucket.log, KeyAfter(record_id))
                if found.offset < 0 or found.offset in bucket.gone:
                    continue
                result = await self._engine.read(bucket.log, found.offset, 1)
            except UnknownLog:
                continue
            for record in records_in(result.batches):
                if record.offset == found.offset and record.value is not None and record.offset not in bucket.gone:
                    return Pending(record_id, due_ms, decode_letter(record.value), bucket, record.offset)
        return None

    async def page(self, search: Search, after: SearchPosition | None, limit: int) -> PendingPage:
        """Up to `limit` that match, behind a place."""
        found: list[Pending] = []
        looked_at = 0
        at = after or SearchPosition()
        for bucket in self._buckets(search, at):
            place = _place(bucket, -1)
            position = at.offset + 1 if at[:3] == place[:3] else 0
            while position < bucket.end:
                try:
                    result = await self._engine.read(bucket.log, position, SCAN_BYTES, ReadHint.CATCH_UP)
                except UnknownLog:
                    break  # It was emptied and closed while we looked.
                for record in records_in(result.batches):
                    if record.offset < position or record.offset in bucket.gone:
                        continue
                    looked_at += 1
                    assert record.key is not None
                    assert record.value is not None
                    letter = decode_letter(record.value)
                    if search.matches(record.timestamp_ms, letter):
                        found.append(Pending(record.key, record.timestamp_ms, letter, bucket, record.offset))
                        if len(found) == limit:
                            return PendingPage(found, _place(bucket, record.offset))
                position = max(position + 1, result.next_offset)
                if looked_at >= SCAN_RECORDS_MAX:
                    return PendingPage(found, _place(bucket, position - 1))
        return PendingPage(found, None)

    def _buckets(self, search: Search, after: SearchPosition) -> Iterator[Bucket]:
        spans = sorted(self._book.buckets, key=lambda span: (span.start_ms, -span.level))
        for span in spans:
            bucket = self._book.buckets.get(span)
            if (
                bucket is not None
                and span.end_ms > search.due_from_ms
                and span.start_ms < search.due_before_ms
                and _order(span) >= (after.start_ms, -after.level)
            ):
                yield bucket


def _order(span: Span) -> tuple[int, int]:
    return span.start_ms, -span.level


def _place(bucket: Bucket, offset: int) -> SearchPosition:
    return SearchPosition(bucket.span.start_ms, bucket.span.level, bucket.log, offset)
