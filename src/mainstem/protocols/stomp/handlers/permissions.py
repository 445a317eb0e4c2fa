"""What the caller of a connection may do, and how much a virtual host may hold. All raise StompError."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.users.callers import Action
from mainstem.protocols.stomp.errors import access_refused, precondition_failed
from mainstem.protocols.stomp.mapping.words import exchange_words, queue_words

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection


def check_queue(connection: StompConnection, action: Action, name: str) -> None:
    """Whether this may be done with a queue."""
    if not connection.caller.may(connection.namespace, action, name):
        _refuse(connection, action, queue_words(name, connection.host))


def check_exchange(connection: StompConnection, action: Action, name: str) -> None:
    """Whether this may be done with an exchange."""
    if not connection.caller.may(connection.namespace, action, name):
        _refuse(connection, action, exchange_words(name, connection.host))


def check_key(connection: StompConnection, action: Action, exchange: str, routing_key: str) -> None:
    """Whether this routing key of a topic exchange may be used."""
    found = connection.router.find(exchange)
    if found is None or found.kind != "topic":
        return
    if not connection.caller.may_use_key(connection.namespace, exchange, action, routing_key, connection.host):
        _refuse(connection, action, f"topic '{routing_key}' in {exchange_words(exchange, connection.host)}")


def check_queue_count(connection: StompConnection, name: str) -> None:
    """Whether the virtual host may have one more queue."""
    found = connection.node.broker.namespaces.find(connection.namespace)
    limit = -1 if found is None else found.limits.get("max-queues", -1)
    if 0 <= limit <= sum(1 for _ in connection.queues.all(connection.namespace)):
        precondition_failed(
            f"cannot declare queue '{name}': queue limit in vhost '{connection.host}' ({limit}) is reached"
        )


def _refuse(connection: StompConnection, action: Action, what: str) -> None:
    access_refused(f"{action} access to {what} refused for user '{connection.user}'")
