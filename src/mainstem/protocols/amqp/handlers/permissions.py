"""What the caller of a connection may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.users.callers import Action
from mainstem.protocols.amqp.errors import access_refused
from mainstem.protocols.amqp.mapping.words import exchange_words, queue_words

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.connection import AmqpConnection

DEFAULT_EXCHANGE_ALIAS = "amq.default"


def check_queue(connection: AmqpConnection, action: Action, name: str) -> None:
    """Raises ChannelError."""
    if not connection.caller.may(connection.namespace, action, name):
        _refuse(connection, action, queue_words(name, connection.host))


def check_exchange(connection: AmqpConnection, action: Action, name: str) -> None:
    """Raises ChannelError."""
    if not connection.caller.may(connection.namespace, action, name):
        _refuse(connection, action, exchange_words(name or DEFAULT_EXCHANGE_ALIAS, connection.host))


def check_key(connection: AmqpConnection, action: Action, exchange: str, routing_key: str) -> None:
    """Of a topic exchange. Raises ChannelError."""
    found = connection.router.find(exchange)
    if found is None or found.kind != "topic":
        return
    if not connection.caller.may_use_key(connection.namespace, exchange, action, routing_key, connection.host):
        words = exchange_words(exchange, connection.host)
        _refuse(connection, action, f"topic '{routing_key}' in {words}")


def _refuse(connection: AmqpConnection, action: Action, what: str) -> None:
    access_refused(f"{action} access to {what} refused for user '{connection.user}'")
