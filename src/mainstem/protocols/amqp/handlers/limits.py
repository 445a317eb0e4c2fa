"""How many connections, channels and queues a virtual host or a user may have, where that was set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.protocols.amqp.errors import not_allowed, precondition_failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mainstem.protocols.amqp.handlers.connection import AmqpConnection


def check_connections(connection: AmqpConnection, host: str, namespace: str) -> None:
    """Whether there may be one more. Raises ConnectionError_."""
    broker = connection.node.broker
    others = connection.node.connections
    found = broker.namespaces.find(namespace)
    limit = _limit(found.limits if found is not None else {}, "max-connections")
    if limit is not None and sum(other.namespace == namespace for other in others) >= limit:
        not_allowed(
            f"access to vhost '{host}' refused for user '{connection.user}': connection limit ({limit}) is reached"
        )
    limit = _user_limit(connection, "max-connections")
    if limit is not None and sum(other.user == connection.user for other in others) >= limit:
        not_allowed(f"connection refused for user '{connection.user}': user connection limit ({limit}) is reached")


def check_channels(connection: AmqpConnection) -> None:
    """Whether the user may have one more. Raises ConnectionError_."""
    limit = _user_limit(connection, "max-channels")
    if limit is None:
        return
    mine = [other for other in connection.node.connections if other.user == connection.user]
    if sum(len(other.session.channels) for other in mine) >= limit:
        not_allowed(
            f"number of channels opened for user '{connection.user}' has reached "
            f"the maximum allowed user limit of ({limit})"
        )


def check_queues(connection: AmqpConnection, name: str) -> None:
    """Whether the virtual host may have one more. Raises ChannelError."""
    found = connection.node.broker.namespaces.find(connection.namespace)
    limit = _limit(found.limits if found is not None else {}, "max-queues")
    if limit is not None and sum(1 for _ in connection.queues.all(connection.namespace)) >= limit:
        precondition_failed(
            f"cannot declare queue '{name}': queue limit in vhost '{connection.host}' ({limit}) is reached"
        )


def _user_limit(connection: AmqpConnection, what: str) -> int | None:
    user = connection.node.broker.access.find(connection.user)
    return _limit(user.limits if user is not None else {}, what)


def _limit(limits: Mapping[str, int], what: str) -> int | None:
    value = limits.get(what, -1)
    return None if value < 0 else value
