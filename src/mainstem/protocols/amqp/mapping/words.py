"""Names of things, as RabbitMQ's messages write them, and the names of virtual hosts."""

from __future__ import annotations

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.protocols.amqp.codec.field_table import Field

DEFAULT_HOST = "/"


def namespace_of(host: str) -> str:
    """A virtual host is a namespace; the first one has a name of its own in each world."""
    return DEFAULT_NAMESPACE if host == DEFAULT_HOST else host


def host_of(namespace: str) -> str:
    """The inverse."""
    return DEFAULT_HOST if namespace == DEFAULT_NAMESPACE else namespace


def queue_words(name: str, host: str) -> str:
    """A queue."""
    return f"queue '{name}' in vhost '{host}'"


def exchange_words(name: str, host: str) -> str:
    """An exchange."""
    return f"exchange '{name}' in vhost '{host}'"


def plain_name(name: str) -> str:
    """A name as it is used: without line ends."""
    return name.replace("\n", "").replace("\r", "")


def inequivalent(argument: str, what: str, received: object, current: object) -> str:
    """That a declaration does not fit what is there."""
    return f"inequivalent arg '{argument}' for {what}: received {_shown(received)} but current is {_shown(current)}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Field):
        return f"the value '{term(value.value)}' of type '{value.type}'"
    return f"'{term(value)}'"


def term(value: object) -> str:
    """A value in Erlang's notation, as far as it comes up."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
