"""Clients as their heartbeats describe them: which producers and consumers they have, and who shares a group.

A client balances by itself, from the list of its group. So it is notified when that list changes.
Nothing here outlives a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainstem.broker.broker import Broker
from mainstem.protocols.rocketmq.codec.remoting.documents import (
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    decode_document,
    encode_document,
)
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.connection import RemotingConnection
from mainstem.protocols.rocketmq.mapping.filters import TAG, make_filter
from mainstem.protocols.rocketmq.mapping.names import RETRY_PREFIX, check_group, find_topic, new_topic
from mainstem.protocols.rocketmq.session.settings import RemotingSettings

GROUPS_MAX = 1_000
"""Of producers and consumers that one client has."""
CLUSTERING = "CLUSTERING"


class Member(NamedTuple):
    """A consumer of a group."""

    client_id: str
    consumer: ConsumerData
    version: int


class Membership:
    """Of all connections."""

    def __init__(self, broker: Broker, settings: RemotingSettings) -> None:
        self._topics = broker.topics
        self._settings = settings
        self._consumers: dict[str, dict[RemotingConnection, Member]] = {}
        self._producers: dict[str, dict[RemotingConnection, tuple[str, int]]] = {}
        self._known: set[RemotingConnection] = set()
        self._clients: dict[str, RemotingConnection] = {}
        """By id; of several with one id the newest."""
        self.on_leave: list[Callable[[str, str], None]] = []
        """Called with a group and the id of a client that is no member any more."""

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {
            RequestCode.HEART_BEAT: self.beat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.list_consumers,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
        }

    # Questions

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What members of a group want of a topic, as the newest heartbeat says."""
        for member in reversed(self._consumers.get(group, {}).values()):
            for subscription in member.consumer.subscriptions:
                if subscription.topic == topic:
                    return subscription
        return None

    def consumers(self, group: str) -> dict[RemotingConnection, Member]:
        """The members of a group."""
        return self._consumers.get(group, {})

    def producers(self, group: str) -> dict[RemotingConnection, tuple[str, int]]:
        """Ids and versions of clients with producers of a group."""
        return self._producers.get(group, {})

    def client(self, client_id: str) -> RemotingConnection | None:
        """The connection of a client."""
        return self._clients.get(client_id)

    def groups(self) -> Iterable[str]:
        """Those that have consumers."""
        return self._consumers.keys()

    # Requests

    async def beat(self, call: Call) -> None:
        """A client says what it has."""
        beat = decode_document(bytes(call.command.body), Heartbeat)
        if len(beat.consumers) + len(beat.producers) > GROUPS_MAX:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"a client has at most {GROUPS_MAX} groups")
        for consumer in beat.consumers:
            check_group(consumer.group)
            for subscription in consumer.subscriptions:
                make_filter(subscription.sub_string, subscription.expression_type or TAG)
        connection = call.connection
        if connection not in self._known:
            self._known.add(connection)
            connection.on_close.append(self._closed)
        self._clients[beat.client_id] = connection
        for producer in beat.producers:
            group = self._producers.setdefault(check_group(producer.group), {})
            group[connection] = (beat.client_id, call.command.version)
        for consumer in beat.consumers:
            if consumer.model == CLUSTERING:
                await self._make_retry_topic(consumer.group)
            if connection.is_closed:
                return
            self._join(connection, Member(beat.client_id, consumer, call.command.version))
        call.answer()

    async def _make_retry_topic(self, group: str) -> None:
        name = RETRY_PREFIX + group
        if find_topic(self._topics, name) is None:
            await self._topics.ensure(new_topic(name, 1, self._settings.message_bytes_max))

    def _join(self, connection: RemotingConnection, member: Member) -> None:
        group = self._consumers.setdefault(member.consumer.group, {})
        known = group.pop(connection, None)
        group[connection] = member  # The newest is the last.
        if known is None or known.client_id != member.client_id:
            self._notify(member.consumer.group)

    def unregister(self, call: Call) -> None:
        """A client has one producer or consumer less."""
        producer, consumer = call.fields.get("producerGroup"), call.fields.get("consumerGroup")
        if producer:
            self._remove_producer(producer, call.connection)
        if consumer:
            self._remove_consumer(consumer, call.connection)
        call.answer()

    def list_consumers(self, call: Call) -> None:
        """The ids of a group's clients, each once."""
        group = call.text("consumerGroup")
        ids = sorted({member.client_id for member in self._consumers.get(group, {}).values()})
        if not ids:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer of group {group} is connected")
        call.answer(body=encode_document({"consumerIdList": ids}))

    def check_config(self, call: Call) -> None:
        """Whether a filter can be served."""
        body = decode_document(bytes(call.command.body), dict[str, object])
        data = body.get("subscriptionData")
        if isinstance(data, dict):
            make_filter(str(data.get("subString") or ""), str(data.get("expressionType") or TAG))
        call.answer()

    # Leaving

    def _closed(self, connection: RemotingConnection) -> None:
        self._known.discard(connection)
        for client_id in [name for name, found in self._clients.items() if found is connection]:
            del self._clients[client_id]
        for group in [name for name, found in self._producers.items() if connection in found]:
            self._remove_producer(group, connection)
        for group in [name for name, found in self._consumers.items() if connection in found]:
            self._remove_consumer(group, connection)

    def _remove_producer(self, group: str, connection: RemotingConnection) -> None:
        found = self._producers.get(group, {})
        if found.pop(connection, None) is not None and not found:
            del self._producers[group]

    def _remove_consumer(self, group: str, connection: RemotingConnection) -> None:
        found = self._consumers.get(group, {})
        member = found.pop(connection, None)
        if member is None:
            return
        if not found:
            del self._consumers[group]
        for call in self.on_leave:
            call(group, member.client_id)
        self._notify(group)

    def _notify(self, group: str) -> None:
        for connection in self._consumers.get(group, ()):
            connection.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
