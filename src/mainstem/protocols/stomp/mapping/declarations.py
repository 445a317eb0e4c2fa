"""Headers of SUBSCRIBE and SEND that say what a queue is: arguments, and how long it lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mainstem.protocols.stomp.errors import invalid_header


def _integer(name: str, value: str) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        invalid_header(f"'{name}' is a number")
    return int(value)


def read_boolean(name: str, value: str) -> bool:
    """Raises StompError."""
    if value not in ("true", "false"):
        invalid_header(f"'{name}' is true or false")
    return value == "true"


def _text(name: str, value: str) -> str:
    return value


ARGUMENTS: dict[str, Callable[[str, str], object]] = {
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _text,
    "x-dead-letter-strategy": _text,
    "x-overflow": _text,
    "x-max-age": _text,
    "x-queue-type": _text,
    "x-expires": _integer,
    "x-message-ttl": _integer,
    "x-max-length": _integer,
    "x-max-length-bytes": _integer,
    "x-max-priority": _integer,
    "x-delivery-limit": _integer,
    "x-consumer-timeout": _integer,
    "x-stream-max-segment-size-bytes": _integer,
    "x-stream-filter-size-bytes": _integer,
    "x-mainstem-retention-ms": _integer,
    "x-mainstem-retention-bytes": _integer,
    "x-mainstem-lease-ms": _integer,
    "x-mainstem-ordering": _text,
    "x-mainstem-retry": _text,
    "x-single-active-consumer": read_boolean,
}


class Wish(NamedTuple):
    """What a queue is to be."""

    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Mapping[str, object]


def read_wish(headers: Mapping[str, str], *, durable: bool) -> Wish:
    """What the headers ask for; `durable` where they do not say. One that does not last is for this connection alone, and goes
    with its last subscription, as in RabbitMQ. Raises StompError.
    """
    arguments = {name: read(name, headers[name]) for name, read in ARGUMENTS.items() if name in headers}
    flags = {
        name: read_boolean(name, headers[name]) for name in ("durable", "auto-delete", "exclusive") if name in headers
    }
    is_durable = flags.get("durable", durable)
    if not is_durable:
        return Wish(False, True, True, arguments)
    return Wish(True, flags.get("auto-delete", False), flags.get("exclusive", False), arguments)


def is_lasting(headers: Mapping[str, str]) -> bool:
    """Whether a subscription of a topic outlives its connection."""
    return headers.get("durable") == "true" or headers.get("persistent") == "true"
