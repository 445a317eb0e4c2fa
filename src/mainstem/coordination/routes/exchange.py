"""An exchange: what was declared, and what may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mainstem.coordination.routes.errors import (
    DefaultExchange,
    ExchangeDiffers,
    InvalidExchangeArgument,
    ReservedExchange,
    UnknownExchangeKind,
)

DIRECT: Final = "direct"
FANOUT: Final = "fanout"
TOPIC: Final = "topic"
HEADERS: Final = "headers"
CONSISTENT_HASH: Final = "x-consistent-hash"
DELAYED: Final = "x-delayed-message"

KINDS = frozenset({DIRECT, FANOUT, TOPIC, HEADERS, CONSISTENT_HASH, DELAYED})
HASHED_PROPERTIES = frozenset({"message_id", "correlation_id", "timestamp"})
RESERVED_PREFIX = "amq."


def _text(arguments: Mapping[str, object], name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None


class NewExchange(msgspec.Struct, frozen=True):
    """A wish for an exchange; also how one is stored."""

    name: str
    kind: str = DIRECT
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = {}


class Exchange:
    """An exchange as it is, with what its arguments mean."""

    __slots__ = (
        "alternate", "arguments", "auto_delete", "durable", "hash_header", "hash_property", "internal", "is_delayed", "kind",
        "matches_by", "name",
    )  # fmt: skip

    def __init__(self, wish: NewExchange) -> None:
        self.name = wish.name
        self.kind = wish.kind
        self.durable = wish.durable
        self.auto_delete = wish.auto_delete
        self.internal = wish.internal
        self.arguments = wish.arguments
        self.alternate = _text(wish.arguments, "alternate-exchange")
        """Where a message goes that matches no binding here."""
        self.is_delayed = wish.kind == DELAYED
        self.matches_by = _text(wish.arguments, "x-delayed-type") or DIRECT if self.is_delayed else wish.kind
        """The kind that decides: that of the delayed exchange is in its arguments."""
        self.hash_header = _text(wish.arguments, "hash-header")
        self.hash_property = _text(wish.arguments, "hash-property")

    def wish(self) -> NewExchange:
        """What would declare it again."""
        return NewExchange(self.name, self.kind, self.durable, self.auto_delete, self.internal, self.arguments)


PREDECLARED: tuple[Exchange, ...] = tuple(
    Exchange(wish)
    for wish in (
        NewExchange("", DIRECT),
        NewExchange("amq.direct", DIRECT),
        NewExchange("amq.fanout", FANOUT),
        NewExchange("amq.topic", TOPIC),
        NewExchange("amq.headers", HEADERS),
        NewExchange("amq.match", HEADERS),
        NewExchange("amq.rabbitmq.trace", TOPIC, internal=True),
    )
)
"""There from the start in every namespace, and never stored. In the one without a name every queue has its own name as key."""


def check_exchange(wish: NewExchange) -> None:
    """Whether such an exchange could be. Raises kinds of RouteError."""
    if wish.kind not in KINDS:
        raise UnknownExchangeKind(wish.kind)
    if not wish.name:
        raise DefaultExchange
    if wish.name.startswith(RESERVED_PREFIX):
        raise ReservedExchange(wish.name)
    _check_text(wish, "alternate-exchange")
    kind = wish.kind
    if kind == DELAYED:
        kind = _check_text(wish, "x-delayed-type") or ""
        if kind not in KINDS or kind == DELAYED:
            raise InvalidExchangeArgument(
                f"Invalid argument, 'x-delayed-type' must be an existing exchange type, but got '{kind}'"
            )
    if kind == CONSISTENT_HASH:
        _check_hash(wish)


def check_same(exchange: Exchange, wish: NewExchange) -> None:
    """Whether the wish is for the exchange that is there. Raises ExchangeDiffers."""
    pairs = (
        ("type", wish.kind, exchange.kind),
        ("durable", wish.durable, exchange.durable),
        ("auto_delete", wish.auto_delete, exchange.auto_delete),
        ("internal", wish.internal, exchange.internal),
        ("alternate-exchange", wish.arguments.get("alternate-exchange"), exchange.arguments.get("alternate-exchange")),
    )
    for field, wanted, present in pairs:
        if wanted != present:
            raise ExchangeDiffers(exchange.name, field, wanted, present)


def _check_hash(wish: NewExchange) -> None:
    _check_text(wish, "hash-header")
    hashed = _check_text(wish, "hash-property")
    if hashed is None:
        return
    if "hash-header" in wish.arguments:
        raise InvalidExchangeArgument("hash-header and hash-property are mutually exclusive")
    if hashed not in HASHED_PROPERTIES:
        raise InvalidExchangeArgument(f"Unsupported property: {hashed}")


def _check_text(wish: NewExchange, argument: str) -> str | None:
    value = wish.arguments.get(argument)
    if value is not None and not isinstance(value, str):
        raise InvalidExchangeArgument(f"invalid arg '{argument}' for exchange '{wish.name}': it must be a text")
    return value
