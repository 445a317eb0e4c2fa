"""Names: virtual hosts are namespaces, and the exchange without a name has one here."""

from __future__ import annotations

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.protocols.management.errors import BadRequest

DEFAULT_HOST = "/"
DEFAULT_EXCHANGE = "amq.default"


def namespace_of(host: str) -> str:
    """A virtual host is a namespace; the first one has a name of its own in each world. Raises BadRequest."""
    if host == DEFAULT_NAMESPACE:
        raise BadRequest(f"the name {DEFAULT_NAMESPACE} means the virtual host {DEFAULT_HOST} here")
    return DEFAULT_NAMESPACE if host == DEFAULT_HOST else host


def host_of(namespace: str) -> str:
    """The inverse."""
    return DEFAULT_HOST if namespace == DEFAULT_NAMESPACE else namespace


def exchange_of(name: str) -> str:
    """The exchange that a path or body means."""
    return "" if name == DEFAULT_EXCHANGE else name
