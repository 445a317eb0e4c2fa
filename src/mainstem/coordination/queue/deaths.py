"""Deaths: what a dead letter says of how it came to be, the same for every protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from mainstem.coordination.queue.header_block import decode_headers

Reason: TypeAlias = Literal["rejected", "expired", "maxlen", "delivery_limit"]
DEAD_HEADER, ORIGIN_HEADER, TTL_HEADER = "mainstem-dead", "mainstem-origin", "mainstem-ttl"
ATTEMPTS_MAX = 16
"""Attempts that are remembered of one message: the last ones."""
ERROR_BYTES_MAX = 1_024
"""Of an error text."""
DEATHS_MAX = 64
"""Deaths that are remembered of one message, by queue and reason."""


class Death(msgspec.Struct, frozen=True, array_like=True):
    """Once or more often a message was given up by this queue for this reason."""

    queue: str
    reason: Reason
    count: int
    first_ms: int
    last_ms: int
    exchange: str
    routing_keys: list[str]
    ttl_ms: int = -1
    """The time to live that the message had of its own."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """Once a message was given out in vain."""

    time_ms: int
    error: str = ""
    """Why, if anybody said so."""


class Origin(msgspec.Struct, frozen=True):
    """Where a dead letter comes from."""

    reason: Reason
    namespace: str
    queue: str
    topic: str | None
    partition: int
    offset: int
    timestamp_ms: int
    died_ms: int
    deliveries: int
    failures: int
    error: str = ""
    attempts: list[Attempt] = []
    """The last ones, the newest last."""


encode_facts = msgspec.msgpack.Encoder().encode
_decode_deaths = msgspec.msgpack.Decoder(list[Death]).decode
decode_origin = msgspec.msgpack.Decoder(Origin).decode


def deaths_of(headers: bytes) -> list[Death]:
    """The history of a message, the newest first."""
    if DEAD_HEADER.encode() not in headers:
        return []
    for name, content in decode_headers(headers):
        if name == DEAD_HEADER and content is not None:
            try:
                return _decode_deaths(content)
            except msgspec.MsgspecError:
                return []
    return []


def with_death(deaths: list[Death], death: Death) -> list[Death]:
    """One more death, in front; the same queue and reason count together."""
    for number, known in enumerate(deaths):
        if known.queue == death.queue and known.reason == death.reason:
            again = msgspec.structs.replace(known, count=known.count + 1, last_ms=death.last_ms)
            return [again, *deaths[:number], *deaths[number + 1 :]]
    return [death, *deaths][:DEATHS_MAX]


def is_cycle(target: str, deaths: Sequence[Death]) -> bool:
    """Whether a message comes back to a queue that gave it up, without anybody having rejected it in between."""
    for death in deaths:
        if death.reason == "rejected":
            return False
        if death.queue == target:
            return True
    return False
