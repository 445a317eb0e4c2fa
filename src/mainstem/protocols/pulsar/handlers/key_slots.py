"""Whose keys are whose, in a Key_Shared subscription: by a ring of hashes, or by the ranges that consumers name."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainstem.broker.queues import Message
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError
from mainstem.protocols.pulsar.mapping.messages import ordering_key_of

if TYPE_CHECKING:
    from mainstem.broker.queues.delivery.consumers import Consumer
    from mainstem.protocols.pulsar.handlers.consuming import PulsarConsumer

SLOTS = 65_536
POINTS = 100
"""Of each consumer on the ring."""
STICKY = 1
RANGES_MAX = 1_000
_MASK = 0xFFFF_FFFF
_C1, _C2 = 0xCC9E_2D51, 0x1B87_3593


@functools.lru_cache(65_536)
def murmur3(data: bytes) -> int:
    """The 32-bit hash of this name, seed 0, by which all clients count keys."""
    value, whole = 0, len(data) & ~3
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little")
        value ^= _mixed(block)
        value = ((value << 13 | value >> 19) & _MASK) * 5 + 0xE654_6B64 & _MASK
    if len(data) > whole:
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EB_CA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2_AE35 & _MASK
    return value ^ value >> 16


def _mixed(block: int) -> int:
    block = block * _C1 & _MASK
    return (block << 15 | block >> 17) * _C2 & _MASK


def slot_of(message: Message) -> int | None:
    """Of its ordering key, else its key; 0 is 1, as in Pulsar. None: it has none."""
    key = ordering_key_of(message)
    if key is None:
        return None
    return slot_of_key(bytes(key))


def slot_of_key(key: bytes) -> int:
    """Of a key."""
    return (murmur3(key) & 0x7FFF_FFFF) % SLOTS or 1


class KeySlots:
    """The consumers of one subscription and their slots."""

    def __init__(self) -> None:
        self._consumers: list[PulsarConsumer] = []
        self._ring: list[tuple[int, int, PulsarConsumer]] = []
        self._ranges: list[tuple[int, int, PulsarConsumer]] = []

    def add(self, consumer: PulsarConsumer) -> None:
        """One more. Raises CommandRefused."""
        wish = consumer.said.keySharedMeta
        is_sticky = wish.keySharedMode == STICKY
        if self._consumers and is_sticky != bool(self._ranges):
            raise CommandRefused(ServerError.CONSUMER_ASSIGN, "the subscription has consumers of the other mode")
        if is_sticky:
            self._ranges = sorted([*self._ranges, *self._new_ranges(wish.hashRanges, consumer)], key=lambda one: one[0])
        self._consumers.append(consumer)
        self._make_ring()

    def _new_ranges(self, wished: Sequence[Any], consumer: PulsarConsumer) -> list[tuple[int, int, PulsarConsumer]]:
        if not 0 < len(wished) <= RANGES_MAX:
            raise CommandRefused(ServerError.CONSUMER_ASSIGN, "Ranges for KeyShared policy must not be empty.")
        found: list[tuple[int, int, PulsarConsumer]] = []
        for one in wished:
            if not 0 <= one.start <= one.end < SLOTS:
                raise CommandRefused(ServerError.CONSUMER_ASSIGN, f"a range from {one.start} to {one.end}")
            for start, end, _ in (*self._ranges, *found):
                if one.start <= end and start <= one.end:
                    raise CommandRefused(ServerError.CONSUMER_ASSIGN, "Range conflict with another consumer")
            found.append((one.start, one.end, consumer))
        return found

    def remove(self, consumer: PulsarConsumer) -> None:
        """One less."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)
            self._ranges = [one for one in self._ranges if one[2] is not consumer]
            self._make_ring()

    def _make_ring(self) -> None:
        points = [
            (slot_of_key(f"{consumer.name} {consumer.id} {point}".encode()), number, consumer)
            for number, consumer in enumerate(self._consumers)
            for point in range(POINTS)
        ]
        self._ring = sorted(points, key=lambda one: one[:2])

    def owner_of(self, slot: int) -> Consumer | None:
        """Whose it is now."""
        if self._ranges:
            at = bisect_left(self._ranges, slot + 1, key=lambda one: one[0]) - 1
            return self._ranges[at][2] if at >= 0 and slot <= self._ranges[at][1] else None
        if not self._ring:
            return None
        at = bisect_left(self._ring, slot, key=lambda one: one[0])
        return self._ring[at % len(self._ring)][2]
