"""The schedule: which bucket log holds records of which time, and which of them are gone.

    level   width    for what is due within
    0       1 s      2 min
    1       1 min    2 h
    2       1 h      2 days
    3       1 day    60 days
    4       30 days  ever

A bucket of level 0 is taken into memory shortly before its time. One of a higher level is handed on to the next lower
ones when its time comes near. So a record is written again at most four times on its way through years, there are never
more than some four hundred buckets besides one for each month ahead, and memory holds only what is due in seconds.

`gone` are the records of a bucket that were moved or cancelled. They are noted in the commit that moves them; a bucket
from which all are gone is deleted with what was noted of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from pyroaring import BitMap

from mainstem.coordination.decision import Decision
from mainstem.coordination.offset_pages import PAGE_BITS, PagedOffsets
from mainstem.storage.contract import CreateLog, DeleteLog, LogConfig, Mutation

SCOPE = "schedule"
LOG_BASE = 1 << 62
"""Bucket logs are numbered from here: far from those of topics."""

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
WIDTHS_MS = (SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS, 30 * DAY_MS)
LOG_CONFIG = LogConfig(delete=False, key_index=True, batch_bytes_max=256 << 20)
"""Ids are found by their key. What one commit may hold limits a batch, nothing else."""

_BUCKET, _GONE, _NEXT = b"b", b"g", b"n"
_PAGE_KEY = struct.Struct(">cQQ")
_encode = msgspec.msgpack.Encoder().encode
_decode_bucket = msgspec.msgpack.Decoder(tuple[int, int]).decode
_decode_number = msgspec.msgpack.Decoder(int).decode


class Span(NamedTuple):
    """What identifies a bucket: a stretch of time."""

    level: int
    start_ms: int

    @property
    def end_ms(self) -> int:
        """Where the next one begins."""
        return self.start_ms + WIDTHS_MS[self.level]

    @property
    def opens_ms(self) -> int:
        """When a bucket of a higher level is to be handed on: before that, records may still be added to it."""
        return self.start_ms - (WIDTHS_MS[self.level] if self.level else 0)


def span_for(due_ms: int, now_ms: int) -> Span:
    """Where a record belongs that is due then."""
    for level in range(len(WIDTHS_MS) - 1):
        if due_ms - now_ms < 2 * WIDTHS_MS[level + 1]:
            return span_at(level, due_ms)
    return span_at(len(WIDTHS_MS) - 1, due_ms)


def span_at(level: int, due_ms: int) -> Span:
    """The stretch of this level that contains a time."""
    return Span(level, due_ms - due_ms % WIDTHS_MS[level])


class Bucket:
    """One bucket log."""

    __slots__ = ("_changed", "_stored", "end", "gone", "gone_count", "log", "span", "under_way")

    def __init__(self, log: int, span: Span) -> None:
        self.log = log
        self.span = span
        self.end = 0
        """Offsets below are durable."""
        self.under_way = 0
        """How many records are being added."""
        self.gone = PagedOffsets()
        self.gone_count = 0
        self._changed: set[int] = set()
        self._stored: set[int] = set()

    @property
    def pending(self) -> int:
        """How many records wait here."""
        return self.end - self.gone_count

    @property
    def is_empty(self) -> bool:
        """Nothing is here, nor on its way."""
        return not self.under_way and self.gone_count == self.end

    def mark_gone(self, offsets: Sequence[int]) -> None:
        """These, which rise and are not gone, are moved or cancelled; stored with `take_changes`."""
        self.gone.add_all(offsets)
        self.gone_count += len(offsets)
        self._changed.update(offset >> PAGE_BITS for offset in offsets)

    def mark_back(self, offsets: Iterable[int]) -> None:
        """They are not gone after all: the commit was refused."""
        for offset in offsets:
            self.gone.discard(offset, offset)
            self.gone_count -= 1
            self._changed.add(offset >> PAGE_BITS)

    def take_changes(self) -> list[Mutation]:
        """What is to be stored since the last call."""
        pages, self._changed = sorted(self._changed), set()
        self._stored.update(pages)
        empty = BitMap()
        return [
            Mutation(SCOPE, _PAGE_KEY.pack(_GONE, self.log, page), self.gone.pages.get(page, empty).serialize())
            for page in pages
        ]

    def replay_page(self, page: int, value: bytes) -> None:
        """Take a stored page back."""
        bitmap = BitMap.deserialize(value)
        self._stored.add(page)
        if bitmap:
            self.gone.pages[page] = bitmap
            self.gone_count += len(bitmap)

    def stored_keys(self) -> list[bytes]:
        """What is stored of it."""
        return [_bucket_key(self.log), *(_PAGE_KEY.pack(_GONE, self.log, page) for page in sorted(self._stored))]


class ScheduleBook:
    """The buckets there are."""

    def __init__(self) -> None:
        self.buckets: dict[Span, Bucket] = {}
        self._next = 1

    @property
    def pending(self) -> int:
        """How many records wait for their time."""
        return sum(bucket.pending for bucket in self.buckets.values())

    def open_bucket(self, span: Span) -> tuple[Bucket, Decision]:
        """A new one, known at once; the change is to be committed before anything is added."""
        number = self._next
        self._next += 1
        bucket = self.buckets[span] = Bucket(LOG_BASE + number, span)
        state = [
            Mutation(SCOPE, _bucket_key(bucket.log), _encode((span.level, span.start_ms))),
            Mutation(SCOPE, _NEXT, _encode(self._next)),
        ]
        return bucket, Decision([CreateLog(bucket.log, LOG_CONFIG)], state)

    def close_bucket(self, bucket: Bucket) -> Decision:
        """All are gone from it: forget it, and its log."""
        assert bucket.is_empty, f"{bucket.pending} records wait in {bucket.span}"
        self.drop(bucket)
        return Decision([DeleteLog(bucket.log)], [Mutation(SCOPE, key, None) for key in bucket.stored_keys()])

    def drop(self, bucket: Bucket) -> None:
        """It is not there, or not any more."""
        if self.buckets.get(bucket.span) is bucket:
            del self.buckets[bucket.span]

    def holding(self, due_ms: int) -> list[Bucket]:
        """Where a record that is due then can be."""
        spans = (span_at(level, due_ms) for level in range(len(WIDTHS_MS)))
        return [self.buckets[span] for span in spans if span in self.buckets]

    def replay_all(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take back what is stored. The ends of the logs are not known yet."""
        pages: list[tuple[int, int, bytes]] = []
        by_log: dict[int, Bucket] = {}
        for key, value in entries:
            if key == _NEXT:
                self._next = _decode_number(value)
            elif key.startswith(_BUCKET):
                bucket = Bucket(int.from_bytes(key[1:]), Span(*_decode_bucket(value)))
                by_log[bucket.log] = self.buckets[bucket.span] = bucket
            elif key.startswith(_GONE):
                _, log, page = _PAGE_KEY.unpack(key)
                pages.append((log, page, value))
        for log, page, value in pages:
            if log in by_log:
                by_log[log].replay_page(page, value)


def _bucket_key(log: int) -> bytes:
    return _BUCKET + log.to_bytes(8)
