"""A subscription as it is stored: for each log its floor, and one key for each page above it that has something to say.

State of the scope `subscriptions/NAME`. What is stored grows with the holes among the settled offsets, never with the backlog.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec
from pyroaring import BitMap

from mainstem.storage.contract import Mutation

INDEX_SCOPE = "subscriptions"
"""Which subscriptions there are: a key for each."""
_LOG_PREFIX, _PAGE_PREFIX = b"log/", b"page/"
_LOG, _PAGE = struct.Struct(">Q"), struct.Struct(">QQ")


class PageEntry(msgspec.Struct, frozen=True, array_like=True):
    """One page of one log: what is settled in it, and how often what is not was tried (deliveries, failures)."""

    settled: bytes
    counts: dict[int, tuple[int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode_floor = msgspec.msgpack.Decoder(int).decode
_decode_page = msgspec.msgpack.Decoder(PageEntry).decode


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
    return Mutation(scope, _PAGE_PREFIX + _PAGE.pack(log, page), value)


def decode_floor_key(key: bytes) -> int | None:
    """The log whose floor this is."""
    return int(_LOG.unpack_from(key, len(_LOG_PREFIX))[0]) if key.startswith(_LOG_PREFIX) else None


def decode_page_key(key: bytes) -> tuple[int, int] | None:
    """The log and the page that this is."""
    if not key.startswith(_PAGE_PREFIX):
        return None
    log, page = _PAGE.unpack_from(key, len(_PAGE_PREFIX))
    return log, page


def decode_floor(value: bytes) -> int:
    """The floor."""
    return _decode_floor(value)


def decode_page(value: bytes) -> tuple[BitMap, dict[int, tuple[int, int]]]:
    """What is settled, and the counters."""
    entry = _decode_page(value)
    return BitMap.deserialize(entry.settled), entry.counts
