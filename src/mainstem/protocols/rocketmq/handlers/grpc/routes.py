"""Where topics are, what clients are told to do, and that they live."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.schedules.schedules import DELAY_LEVELS_MS
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import (
    DOMAIN_NAME,
    IPV4,
    IPV6,
    READ_WRITE,
    ClientType,
    Code,
    MessageType,
)
from mainstem.protocols.rocketmq.errors import MalformedFrame
from mainstem.protocols.rocketmq.handlers.grpc.calls import group_name, status, topic_name
from mainstem.protocols.rocketmq.handlers.grpc.transactions import Transactions
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused, set_time
from mainstem.protocols.rocketmq.mapping.names import find_topic, new_topic
from mainstem.protocols.rocketmq.session.settings import GrpcSettings
from mainstem.wire.http2.grpc import GrpcCall, GrpcStatus

BROKER = "mainstem"
SEND_ATTEMPTS, SEND_BACKOFF_MS, SEND_BACKOFF_MS_MAX, SEND_BACKOFF_FACTOR = 3, 10, 1_000, 2.0
RECEIVE_BATCH, LONG_POLL_MS = 32, 20_000
RETRY_LEVEL_FIRST = 3
TYPES = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)
LITE = (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)


class RouteCalls:
    """QueryRoute, QueryAssignment, Heartbeat, NotifyClientTermination."""

    def __init__(self, broker: Broker, settings: GrpcSettings, advertised: Callable[[], str]) -> None:
        self._topics = broker.topics
        self._settings = settings
        self._advertised = advertised

    async def query_route(self, call: GrpcCall, request: Any) -> Any:
        """All queues of a topic, which comes with the first question for it."""
        topic = await self.topic_of(request.topic)
        queues = [self._queue(request.topic, number) for number in range(len(topic.logs))]
        return schema.new("QueryRouteResponse", status=status(), message_queues=queues)

    async def topic_of(self, resource: Any) -> Topic:
        """The topic of this name, made where there is none. Raises CallRefused, and kinds of MainstemError."""
        name = topic_name(resource)
        topic = find_topic(self._topics, name)
        if topic is None:
            wish = new_topic(name, self._settings.queues_default, self._settings.message_bytes_max)
            topic = await self._topics.ensure(wish)
        return topic

    def _queue(self, topic: Any, number: int) -> Any:
        broker = schema.new("Broker", name=BROKER, id=0, endpoints=self._endpoints())
        return schema.new(
            "MessageQueue", topic=topic, id=number, permission=READ_WRITE, broker=broker, accept_message_types=TYPES
        )

    def _endpoints(self) -> Any:
        host, _, port = self._advertised().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        try:
            scheme = IPV4 if ipaddress.ip_address(host).version == 4 else IPV6
        except ValueError:
            scheme = DOMAIN_NAME
        return schema.new("Endpoints", scheme=scheme, addresses=[schema.new("Address", host=host, port=int(port))])

    async def query_assignment(self, call: GrpcCall, request: Any) -> Any:
        """One for each member: whichever queue it names, it is given messages of all."""
        group_name(request.group)
        await self.topic_of(request.topic)
        assignment = schema.new("Assignment", message_queue=self._queue(request.topic, 0))
        return schema.new("QueryAssignmentResponse", status=status(), assignments=[assignment])

    def heartbeat(self, call: GrpcCall, request: Any) -> Any:
        """Connections say who lives; the answer is for the client."""
        if request.client_type in LITE:
            raise CallRefused(Code.NOT_IMPLEMENTED, "lite topics are not supported")
        return schema.new("StatusResponse", status=status())

    def terminate(self, call: GrpcCall, request: Any) -> Any:
        """The client goes."""
        return schema.new("StatusResponse", status=status())


class Telemetry:
    """A lasting stream for each client: it says its settings, and is told ours."""

    def __init__(self, settings: GrpcSettings, is_ordered: Callable[[str], bool], transactions: Transactions) -> None:
        self._settings = settings
        self._transactions = transactions
        self._is_ordered = is_ordered

    def message(self, call: GrpcCall, data: bytes) -> None:
        """Settings are answered; what else clients report has no reader."""
        try:
            command = schema.decode("TelemetryCommand", data)
            if command.HasField("settings"):
                answer = schema.new("TelemetryCommand", status=status(), settings=self._merged(command.settings))
                topics = [topic_name(topic) for topic in command.settings.publishing.topics]
                self._transactions.register(call, topics)
                call.send(schema.encode(answer))
        except (MalformedFrame, CallRefused) as error:
            call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))

    def _merged(self, settings: Any) -> Any:
        """Raises CallRefused."""
        if settings.client_type in LITE:
            raise CallRefused(Code.NOT_IMPLEMENTED, "lite topics are not supported")
        backoff = settings.backoff_policy
        if settings.HasField("publishing"):
            settings.publishing.max_body_size = self._settings.message_bytes_max
            settings.publishing.validate_message_type = True
            backoff.max_attempts = SEND_ATTEMPTS
            exponential = backoff.exponential_backoff
            set_time(exponential.initial, SEND_BACKOFF_MS)
            set_time(exponential.max, SEND_BACKOFF_MS_MAX)
            exponential.multiplier = SEND_BACKOFF_FACTOR
        elif settings.HasField("subscription"):
            subscription = settings.subscription
            subscription.fifo = self._is_ordered(group_name(subscription.group))
            subscription.receive_batch_size = RECEIVE_BATCH
            if not subscription.HasField("long_polling_timeout"):
                set_time(subscription.long_polling_timeout, LONG_POLL_MS)
            backoff.max_attempts = self._settings.delivery_attempts_max
            del backoff.customized_backoff.next[:]
            for delay_ms in DELAY_LEVELS_MS[RETRY_LEVEL_FIRST - 1 :]:
                set_time(backoff.customized_backoff.next.add(), delay_ms)
        else:
            raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE, "settings are of a producer or a consumer")
        settings.metric.on = False
        return settings

    def ended(self, call: GrpcCall) -> None:
        """The client has said all."""
        self._transactions.forget(call)
        call.finish()

    def cancelled(self, call: GrpcCall) -> None:
        """The client is gone."""
        self._transactions.forget(call)
