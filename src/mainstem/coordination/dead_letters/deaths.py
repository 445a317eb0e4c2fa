"""Deaths: what a dead letter says of how it came to be, the same for every protocol.

Both headers are JSON, because many clients take every header for UTF-8 text. Records of earlier versions hold msgpack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from mainstem.model.header_names import DEAD_HEADER
from mainstem.wire.messages.header_block import decode_headers

Reason: TypeAlias = Literal["rejected", "expired", "maxlen", "delivery_limit"]
ATTEMPTS_MAX = 16
"""Attempts that are remembered of one message: the last ones."""
ERROR_BYTES_MAX = 1_024
"""Of an error text."""
DEATHS_MAX = 64
"""Deaths that are remembered of one message, by queue and reason."""


class Death(msgspec.Struct, frozen=True):
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


class _PackedDeath(Death, frozen=True, array_like=True):
    """The same, as earlier versions stored it."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One delivery that failed."""

    time_ms: int
    error: str = ""
    """Why, if anybody said so."""


def attempt_at(time_ms: int, error: str) -> Attempt:
    """An attempt that failed now; a long error text is cut."""
    return Attempt(time_ms, error.encode("utf-8", "replace")[:ERROR_BYTES_MAX].decode("utf-8", "ignore"))


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


_encode = msgspec.json.Encoder().encode
_decode_deaths = msgspec.json.Decoder(list[Death]).decode
_decode_packed_deaths = msgspec.msgpack.Decoder(list[_PackedDeath]).decode
_decode_origin = msgspec.json.Decoder(Origin).decode
_decode_packed_origin = msgspec.msgpack.Decoder(Origin).decode


def encode_facts(facts: Sequence[Death] | Origin) -> bytes:
    """As the content of a header."""
    try:
        return _encode(facts)
    except UnicodeEncodeError:  # a routing key may hold bytes that are no UTF-8
        return _encode(_as_text(msgspec.to_builtins(facts)))


def _as_text(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        case list():
            return [_as_text(entry) for entry in value]
        case dict():
            return {name: _as_text(entry) for name, entry in value.items()}
        case _:
            return value


def decode_origin(content: bytes) -> Origin:
    """The content of `mainstem-origin`. Raises msgspec.DecodeError."""
    return _decode_origin(content) if content.startswith(b"{") else _decode_packed_origin(content)


def _deaths_in(content: bytes) -> list[Death]:
    if content.startswith(b"["):
        return _decode_deaths(content)
    return [Death(*msgspec.structs.astuple(death)) for death in _decode_packed_deaths(content)]


def deaths_of(headers: bytes) -> list[Death]:
    """The history of a message, the newest first."""
    if DEAD_HEADER.encode() not in headers:
        return []
    for name, content in decode_headers(headers):
        if name == DEAD_HEADER and content is not None:
            try:
                return _deaths_in(content)
            except (msgspec.MsgspecError, UnicodeDecodeError):
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
