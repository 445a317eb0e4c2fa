"""Destinations, as RabbitMQ has them.

    /queue/NAME, NAME      a queue, declared with the first use; sent to by its name
    /topic/KEY             routing key KEY of exchange amq.topic; each subscription has a queue of its own
    /exchange/NAME[/KEY]   the same of another exchange
    /amq/queue/NAME        a queue that somebody else has declared
    /temp-queue/ID         as `reply-to` alone: a queue of this connection, which it consumes without SUBSCRIBE
    /reply-queue/NAME      such a queue, as who replies sees it; the name may have slashes in it

In other names a slash is `%2F`; any other byte may be written so, too.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, NoReturn, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from mainstem.protocols.stomp.errors import StompError

Kind: TypeAlias = Literal["queue", "topic", "exchange", "amqqueue", "temp_queue", "reply_queue"]

TOPIC_EXCHANGE = "amq.topic"
NAME_BYTES_MAX = 255
_PREFIXES: dict[str, Kind] = {
    "/queue": "queue",
    "/topic": "topic",
    "/exchange": "exchange",
    "/amq/queue": "amqqueue",
    "/temp-queue": "temp_queue",
    "/reply-queue": "reply_queue",
}
TEMP_PREFIX = "/temp-queue/"
REPLY_PREFIX = "/reply-queue/"
_UNQUOTED = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "/%")


class Destination(NamedTuple):
    """What a `destination` header means."""

    kind: Kind
    name: str
    """Of a queue; of an exchange; the key of a topic."""
    key: str = ""
    """Of an exchange."""

    @property
    def exchange(self) -> str:
        """Where it is sent to."""
        if self.kind == "exchange":
            return self.name
        return TOPIC_EXCHANGE if self.kind == "topic" else ""

    @property
    def routing_key(self) -> str:
        """Under which."""
        return self.key if self.kind == "exchange" else self.name


def parse_destination(text: str) -> Destination:
    """What is meant. Raises StompError."""
    if "/" not in text:
        if not text:
            raise StompError("Invalid destination", "Destination cannot be blank")
        return Destination("queue", _unquoted(text, "queue", text))
    prefix = next((prefix for prefix in _PREFIXES if text == prefix or text.startswith(f"{prefix}/")), None)
    if prefix is None:
        raise StompError(
            "Unknown destination",
            f"'{text}' is not a valid destination.\nValid destination types are: {', '.join(_PREFIXES)}.\n",
        )
    kind, rest = _PREFIXES[prefix], text[len(prefix) :]
    if kind == "reply_queue":
        parts = [rest[1:]]
    else:
        parts = rest.split("/")[1:]
    if kind == "exchange":
        if not 1 <= len(parts) <= 2 or not parts[0]:
            _refuse(kind, rest)
        return Destination(kind, *(_unquoted(part, kind, rest) for part in parts))
    if len(parts) != 1 or not parts[0]:
        _refuse(kind, rest)
    return Destination(kind, parts[0] if kind == "reply_queue" else _unquoted(parts[0], kind, rest))


def _unquoted(part: str, kind: Kind, rest: str) -> str:
    try:
        name = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        _refuse(kind, rest)
    if len(name.encode()) > NAME_BYTES_MAX:
        _refuse(kind, rest)
    return name


def _refuse(kind: Kind, rest: str) -> NoReturn:
    raise StompError("Invalid destination", f"'{rest}' is not a valid {kind} destination\n")


def write_destination(exchange: str, routing_key: str) -> str:
    """The destination of a message that was published there."""
    key = quote(routing_key, safe=_UNQUOTED)
    if not exchange:
        return f"/queue/{key}"
    if exchange == TOPIC_EXCHANGE:
        return f"/topic/{key}"
    name = quote(exchange, safe=_UNQUOTED)
    return f"/exchange/{name}/{key}" if routing_key else f"/exchange/{name}"


def reply_destination(name: str) -> str:
    """Where to reply: a queue's name is not enough, because /queue would declare it."""
    return name if name.startswith("/") else f"{REPLY_PREFIX}{name}"
