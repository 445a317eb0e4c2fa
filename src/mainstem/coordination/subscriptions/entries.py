"""One log of a subscription as it is stored.

    log/LOG            the floor: all below is settled
    page/LOG PAGE      what is settled above it, and how often the rest was tried; only where there is something to say
    rest/LOG OFFSET    until when a record is not given out
    tried/LOG OFFSET   when a record failed, and why

Each subscription has a scope; those of queues are all in one. What is stored grows with the holes among the settled
offsets, never with the backlog.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec
from pyroaring import BitMap

from mainstem.coordination.dead_letters.deaths import Attempt
from mainstem.storage.contract import Mutation

INDEX_SCOPE = "subscriptions"
"""Which subscriptions there are: a key for each."""
_LOG_PREFIX, _PAGE_PREFIX, _REST_PREFIX, _TRIED_PREFIX = b"log/", b"page/", b"rest/", b"tried/"
_LOG, _PLACE = struct.Struct(">Q"), struct.Struct(">QQ")


class PageEntry(msgspec.Struct, frozen=True, array_like=True):
    """One page of one log: what is settled in it, and how often what is not was tried (deliveries, failures)."""

    settled: bytes
    counts: dict[int, tuple[int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode_floor = msgspec.msgpack.Decoder(int).decode
_decode_page = msgspec.msgpack.Decoder(PageEntry).decode
decode_attempts = msgspec.msgpack.Decoder(list[Attempt]).decode
decode_due = msgspec.msgpack.Decoder(int).decode


def scope_of(name: str) -> str:
    """Where the state of a subscription is."""
    return f"{INDEX_SCOPE}/{name}"


def put_floor(scope: str, log: int, floor: int | None) -> Mutation:
    """Store a floor, or that the log is not subscribed to any more."""
    return Mutation(scope, _LOG_PREFIX + _LOG.pack(log), None if floor is None else _encode(floor))


def put_page(
    scope: str, log: int, page: int, settled: BitMap | None, counts: Mapping[int, tuple[int, int]]
) -> Mutation:
    """Store a page, or that there is nothing to say of it."""
    value = None
    if settled or counts:
        bitmap = BitMap() if settled is None else settled
        bitmap.run_optimize()
        value = _encode(PageEntry(bitmap.serialize(), dict(counts)))
    return Mutation(scope, _PAGE_PREFIX + _PLACE.pack(log, page), value)


def put_rest(scope: str, log: int, offset: int, due_ms: int | None) -> Mutation:
    """Store until when a record rests; None: it does not."""
    return Mutation(scope, _REST_PREFIX + _PLACE.pack(log, offset), None if due_ms is None else _encode(due_ms))


def put_attempts(scope: str, log: int, offset: int, attempts: list[Attempt] | None) -> Mutation:
    """Store when a record failed; None: it is done with."""
    return Mutation(scope, _TRIED_PREFIX + _PLACE.pack(log, offset), None if attempts is None else _encode(attempts))


def decode_floor_key(key: bytes) -> int | None:
    """The log whose floor this is."""
    return int(_LOG.unpack_from(key, len(_LOG_PREFIX))[0]) if key.startswith(_LOG_PREFIX) else None


def decode_page_key(key: bytes) -> tuple[int, int] | None:
    """The log and the page that this is."""
    return _decode_place(key, _PAGE_PREFIX)


def decode_rest_key(key: bytes) -> tuple[int, int] | None:
    """The log and the offset of a record that rests."""
    return _decode_place(key, _REST_PREFIX)


def decode_tried_key(key: bytes) -> tuple[int, int] | None:
    """The log and the offset of a record that failed."""
    return _decode_place(key, _TRIED_PREFIX)


def _decode_place(key: bytes, prefix: bytes) -> tuple[int, int] | None:
    if not key.startswith(prefix):
        return None
    log, number = _PLACE.unpack_from(key, len(prefix))
    return log, number


def decode_floor(value: bytes) -> int:
    """The floor."""
    return _decode_floor(value)


def decode_page(value: bytes) -> tuple[BitMap, dict[int, tuple[int, int]]]:
    """What is settled, and the counters."""
    entry = _decode_page(value)
    return BitMap.deserialize(entry.settled), entry.counts
