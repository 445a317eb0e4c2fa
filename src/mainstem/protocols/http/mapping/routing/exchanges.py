"""Exchanges and bindings as they are asked for and shown."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.routes import Binding, Destination, DestinationKind, Exchange
from mainstem.protocols.http.errors import InvalidContent
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, After, Limit

NAME_BYTES_MAX = 255
ARGUMENTS_MAX = 100

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Key: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Argument: TypeAlias = bool | Number | str
Arguments: TypeAlias = Annotated[dict[Name, Argument], msgspec.Meta(max_length=ARGUMENTS_MAX)]


class ExchangePath(msgspec.Struct, frozen=True):
    """Which exchange."""

    name: Name


class NamespaceQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where it is."""

    namespace: str = DEFAULT_NAMESPACE


class ExchangeDeletion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Under which condition it is deleted."""

    namespace: str = DEFAULT_NAMESPACE
    if_unused: bool = False
    """Only if no binding begins at it."""


class ExchangesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which exchanges."""

    namespace: str = DEFAULT_NAMESPACE
    search: Annotated[str, msgspec.Meta(description="Only names that contain this text.")] = ""
    after: After = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class ExchangeWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An exchange to be declared."""

    name: Name
    kind: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    """Only other exchanges lead to it; clients cannot publish to it."""
    arguments: Arguments = {}
    namespace: str = DEFAULT_NAMESPACE


class ExchangeDocument(msgspec.Struct, frozen=True):
    """An exchange."""

    name: str
    namespace: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any]
    bindings: int
    """How many begin at it."""


class ExchangePage(msgspec.Struct, frozen=True):
    """Some exchanges, by name."""

    exchanges: list[ExchangeDocument]
    next: str | None


class BindingPath(msgspec.Struct, frozen=True):
    """Which binding."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class BindingsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which bindings: from an exchange, to a queue or exchange, or all."""

    namespace: str = DEFAULT_NAMESPACE
    exchange: str | None = None
    queue: str | None = None
    to_exchange: str | None = None
    after: After = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class BindingWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A binding to be made, to a queue or to another exchange."""

    exchange: Name
    queue: Name | None = None
    to_exchange: Name | None = None
    routing_key: Key = ""
    arguments: Arguments = {}
    namespace: str = DEFAULT_NAMESPACE


class BindingDocument(msgspec.Struct, frozen=True):
    """A binding."""

    id: str
    exchange: str
    destination: str
    destination_kind: Literal["queue", "exchange"]
    routing_key: str
    arguments: dict[str, Any]
    namespace: str
    durable: bool


class BindingPage(msgspec.Struct, frozen=True):
    """Some bindings, by id."""

    bindings: list[BindingDocument]
    next: str | None


def describe_exchange(exchange: Exchange, namespace: str, bindings: int) -> ExchangeDocument:
    """One exchange."""
    return ExchangeDocument(
        name=exchange.name,
        namespace=namespace,
        kind=exchange.kind,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=shown(exchange.arguments),
        bindings=bindings,
    )


def describe_binding(binding: Binding, namespace: str) -> BindingDocument:
    """One binding."""
    kind: Literal["queue", "exchange"] = "queue" if binding.destination.kind is DestinationKind.QUEUE else "exchange"
    return BindingDocument(
        id=id_of(binding),
        exchange=binding.source,
        destination=binding.destination.name,
        destination_kind=kind,
        routing_key=binding.routing_key,
        arguments=shown(binding.arguments),
        namespace=namespace,
        durable=binding.durable,
    )


def id_of(binding: Binding) -> str:
    """The same for the same binding, also after a restart."""
    return hashlib.sha256(binding.identity).hexdigest()[:20]


def shown(arguments: Any) -> dict[str, Any]:
    """Arguments for JSON: AMQP has bytes, which are shown as text."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(arguments, enc_hook=str))
    return plain


def destination_of(wish: BindingWish) -> Destination:
    """Where it leads. Raises InvalidContent."""
    if (wish.queue is None) is (wish.to_exchange is None):
        raise InvalidContent("either queue or to_exchange", "/queue")
    if wish.queue is not None:
        return Destination(DestinationKind.QUEUE, wish.queue)
    return Destination(DestinationKind.EXCHANGE, wish.to_exchange or "")


def check_short(text: str, pointer: str) -> str:
    """What AMQP can carry as a name or key. Raises InvalidContent."""
    if len(text.encode()) > NAME_BYTES_MAX:
        raise InvalidContent(f"longer than {NAME_BYTES_MAX} bytes", pointer)
    return text
