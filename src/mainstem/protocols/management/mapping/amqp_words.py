"""What AMQP, whose administrators this API serves, has said of itself to the broker."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.dialect import ConnectionFacts, Dialect
from mainstem.protocols.management.errors import Unavailable

ORIGIN = "amqp"


def dialect_of(broker: Broker) -> Dialect:
    """How queues are worded. Raises Unavailable."""
    dialect = broker.dialects.get(ORIGIN)
    if dialect is None:
        raise Unavailable("nobody speaks AMQP here")
    return dialect


def connections_of(broker: Broker) -> list[ConnectionFacts]:
    """Who is connected."""
    dialect = broker.dialects.get(ORIGIN)
    return [] if dialect is None else dialect.connections()
