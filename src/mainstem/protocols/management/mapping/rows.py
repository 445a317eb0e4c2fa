"""Queues, exchanges, bindings and clients as rows of a list."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote_plus

from mainstem.broker.administration import KIND_OF_QUEUE, Policies
from mainstem.broker.broker import Broker
from mainstem.broker.dialect import ChannelFacts, ConnectionFacts, ConsumerFacts
from mainstem.broker.queues import Queue
from mainstem.broker.routes import Binding, Destination, DestinationKind, Exchange
from mainstem.protocols.management.mapping.amqp_words import ORIGIN
from mainstem.protocols.management.mapping.listing import Row
from mainstem.protocols.management.mapping.words import host_of

NODE = "mainstem@localhost"
GIVEN_NAME = "connection_name"
"""The client property in which a client names its connection."""


def queue_row(queue: Queue, broker: Broker) -> Row:
    """A queue."""
    ready, unsettled = queue.ready_count, queue.unsettled_count
    dialect = broker.dialects.get(ORIGIN)
    arguments = {} if dialect is None else dict(dialect.queue_arguments(queue.properties))
    properties = queue.properties
    return {
        "name": queue.name,
        "vhost": host_of(queue.namespace),
        "type": properties.kind,
        "durable": properties.durable,
        "auto_delete": properties.auto_delete,
        "exclusive": properties.exclusive,
        "arguments": arguments,
        "node": NODE,
        "state": "stopped" if queue.is_paused else "running",
        "messages": ready + unsettled,
        "messages_ready": ready,
        "messages_unacknowledged": unsettled,
        "message_bytes": queue.ready_bytes,
        "message_bytes_ready": queue.ready_bytes,
        "messages_persistent": ready + unsettled if properties.durable else 0,
        "messages_expired": queue.expired,
        "messages_dropped": queue.dropped,
        "messages_refused": queue.refused,
        "consumers": queue.consumer_count,
        "consumer_utilisation": 1.0 if queue.consumer_count and not ready else 0.0,
        "single_active_consumer_tag": None,
        "exclusive_consumer_tag": None,
        **({} if properties.kind == "classic" else {"leader": NODE, "members": [NODE], "online": [NODE]}),
        **_policy_columns(broker.policies, queue.namespace, queue.name, KIND_OF_QUEUE[properties.kind]),
    }


def exchange_row(exchange: Exchange, namespace: str, broker: Broker) -> Row:
    """An exchange."""
    return {
        "name": exchange.name,
        "vhost": host_of(namespace),
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": dict(exchange.arguments),
        "user_who_performed_action": "rmq-internal",
        **_policy_columns(broker.policies, namespace, exchange.name, "exchanges"),
    }


def _policy_columns(policies: Policies, namespace: str, name: str, what: str) -> Row:
    here = policies.of(namespace)
    users = here.applying(name, what, is_operators=False)
    operators = here.applying(name, what, is_operators=True)
    return {
        "policy": None if users is None else users.name,
        "operator_policy": None if operators is None else operators.name,
        "effective_policy_definition": here.definition(name, what),
    }


def properties_key(binding: Binding) -> str:
    """What tells two bindings between the same ends apart, in a path."""
    key = quote_plus(binding.routing_key).replace("~", "%7E")
    if binding.arguments:
        return f"{key}~{binding.arguments_digest}"
    return key or "~"


def binding_row(binding: Binding, namespace: str) -> Row:
    """A binding."""
    return {
        "source": binding.source,
        "vhost": host_of(namespace),
        "destination": binding.destination.name,
        "destination_type": "queue" if binding.destination.kind is DestinationKind.QUEUE else "exchange",
        "routing_key": binding.routing_key,
        "arguments": dict(binding.arguments),
        "properties_key": properties_key(binding),
    }


def binding_rows(bindings: Iterable[Binding], namespace: str) -> list[Row]:
    """Bindings in RabbitMQ's order."""
    order = operator.itemgetter("source", "destination", "routing_key", "properties_key")
    return sorted((binding_row(binding, namespace) for binding in bindings), key=order)


def default_binding(queue: Queue) -> Binding:
    """Every queue is bound to the exchange without a name, by its own name."""
    destination = Destination(DestinationKind.QUEUE, queue.name)
    return Binding("", destination, queue.name, {}, queue.properties.durable, 0)


def connection_row(connection: ConnectionFacts) -> Row:
    """A client."""
    ends, properties = connection.endpoints, connection.client_properties
    return {
        "name": connection.name,
        "node": NODE,
        "vhost": host_of(connection.namespace),
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "peer_host": ends.peer_host,
        "peer_port": ends.peer_port,
        "host": ends.host,
        "port": ends.port,
        "protocol": "AMQP 0-9-1",
        "auth_mechanism": connection.mechanism,
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_bytes_max,
        "timeout": connection.heartbeat_s,
        "type": "network",
        "state": "running",
        "channels": len(connection.channels),
        "connected_at": connection.connected_ms,
        "client_properties": dict(properties),
        **({"user_provided_name": properties[GIVEN_NAME]} if GIVEN_NAME in properties else {}),
        "ssl": ends.is_encrypted,
        "peer_cert_subject": None if ends.certificate is None else ends.certificate.subject,
    }


def channel_row(connection: ConnectionFacts, channel: ChannelFacts) -> Row:
    """A channel."""
    return {
        "name": f"{connection.name} ({channel.number})",
        "number": channel.number,
        "node": NODE,
        "vhost": host_of(connection.namespace),
        "user": connection.user,
        "state": "running",
        "confirm": channel.is_confirming,
        "transactional": channel.is_transactional,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": channel.unacknowledged,
        "messages_unconfirmed": channel.unconfirmed,
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.prefetch_all,
        "user_who_performed_action": connection.user,
        "connection_details": {
            "name": connection.name,
            "peer_host": connection.endpoints.peer_host,
            "peer_port": connection.endpoints.peer_port,
        },
    }


def consumer_row(connection: ConnectionFacts, channel: ChannelFacts, consumer: ConsumerFacts) -> Row:
    """A consumer."""
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": consumer.queue.name, "vhost": host_of(consumer.queue.namespace)},
        "channel_details": {
            "name": f"{connection.name} ({channel.number})",
            "number": channel.number,
            "connection_name": connection.name,
            "node": NODE,
            "user": connection.user,
            "peer_host": connection.endpoints.peer_host,
            "peer_port": connection.endpoints.peer_port,
        },
        "ack_required": consumer.needs_acknowledgement,
        "exclusive": consumer.is_exclusive,
        "active": consumer.is_active,
        "activity_status": "up" if consumer.is_active else "waiting",
        "prefetch_count": consumer.prefetch,
        "consumer_timeout": consumer.timeout_ms,
        "arguments": dict(consumer.arguments),
    }


def found_in(rows: list[Row], **wanted: Any) -> list[Row]:
    """Rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]
