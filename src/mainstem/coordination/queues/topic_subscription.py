"""Subscriptions of topics by name, as they are stored: many of one topic, each with a number that it keeps for life.

    topic-subscriptions           NUMBER: the subscription
    topic-subscriptions/NUMBER    its logs, as of every subscription (`coordination/subscriptions/entries.py`)

A rename changes one key, whatever the subscription has settled.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import msgspec

from mainstem.coordination.queues.properties import QueueProperties
from mainstem.storage.contract import Mutation

INDEX_SCOPE = "topic-subscriptions"
ALL_PARTITIONS = -1
SubscriptionKey: TypeAlias = tuple[str, str, str, int]
"""Namespace, topic, name, partition."""
_NUMBER = struct.Struct(">Q")


class SubscriptionEntry(msgspec.Struct, frozen=True, array_like=True):
    """One subscription."""

    namespace: str
    topic: str
    name: str
    partition: int
    """The one that it reads, or ALL_PARTITIONS."""
    logs: tuple[int, ...]
    properties: QueueProperties
    letter_topic: str = ""
    """Where its dead letters are written; empty: nowhere."""

    @property
    def key(self) -> SubscriptionKey:
        """What it is known by."""
        return self.namespace, self.topic, self.name, self.partition


_encode = msgspec.msgpack.Encoder().encode
decode_subscription = msgspec.msgpack.Decoder(SubscriptionEntry).decode


def scope_of(number: int) -> str:
    """Where the state of a subscription is."""
    return f"{INDEX_SCOPE}/{number}"


def put_subscription(number: int, entry: SubscriptionEntry | None) -> Mutation:
    """Store a subscription; None: there is none of this number."""
    return Mutation(INDEX_SCOPE, _NUMBER.pack(number), None if entry is None else _encode(entry))


def decode_number(key: bytes) -> int:
    """Which one a key is about."""
    return int(_NUMBER.unpack(key)[0])
