"""Names of things, as RabbitMQ's messages write them, and virtual hosts."""

from __future__ import annotations

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE

DEFAULT_HOST = "/"


def namespace_of(host: str) -> str:
    """A virtual host is a namespace; the first one has a name of its own in each world."""
    return DEFAULT_NAMESPACE if host == DEFAULT_HOST else host


def queue_words(name: str, host: str) -> str:
    """A queue."""
    return f"queue '{name}' in vhost '{host}'"


def exchange_words(name: str, host: str) -> str:
    """An exchange."""
    return f"exchange '{name or 'amq.default'}' in vhost '{host}'"
