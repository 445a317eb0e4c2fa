"""Messages of a group: received for a time, acknowledged, kept for longer, given up.

A group is a subscription of each of its topics. Whichever queue a call names, it is given messages of all: so no message waits
for a client that is busy. What a group filters out is settled at once.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.clock import Timer
from mainstem.broker.log import Edge
from mainstem.broker.queues import Message, Queue, QueueProperties, decode_headers
from mainstem.broker.queues.delivery.sieve import Sieve
from mainstem.broker.subscriptions.pulling import PullRequest
from mainstem.broker.subscriptions.topic_subscriptions import SubscriptionWish
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import SQL_FILTER, Code
from mainstem.protocols.rocketmq.handlers.book import GroupBook
from mainstem.protocols.rocketmq.handlers.grpc.calls import Refused, code_of, group_name, status, topic_name
from mainstem.protocols.rocketmq.handlers.grpc.handles import Handle, Handles
from mainstem.protocols.rocketmq.handlers.grpc.routes import RouteCalls
from mainstem.protocols.rocketmq.mapping.filters import ALL, SQL92, TAG, Wants, make_filter
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused, message_of, milliseconds, set_time
from mainstem.protocols.rocketmq.mapping.messages import shown
from mainstem.protocols.rocketmq.mapping.names import DEAD_LETTER_PREFIX, new_topic, place_of
from mainstem.protocols.rocketmq.session.settings import GrpcSettings
from mainstem.wire.http2.grpc import GrpcCall
from mainstem.wire.record_batch import Record

INVISIBLE_MS_MIN, INVISIBLE_MS_MAX = 10_000, 12 * 3_600_000
RENEWED_MS, RENEWAL_S, RENEWED_S_MAX = 60_000, 20.0, 3 * 3_600.0
"""A message that is renewed by itself: for how long, how often, and until when at most."""
WAIT_S_MAX, WAIT_MARGIN_S = 60.0, 0.5
"""Nobody waits longer; the answer comes before the client gives up."""
BATCH_MAX = 1_024
RECEIVE_BYTES_MAX = 4 << 20
"""Of one call, but for a single message that is larger."""
YOUNG_BYTES_MAX = 64 << 20
"""As for groups of the remoting protocol: a group that is new reads a young topic from its beginning."""


class Filter(NamedTuple):
    """What a group wants of a topic."""

    expression: str
    kind: str


class Groups:
    """Subscriptions of groups, of all connections."""

    def __init__(self, broker: Broker, settings: GrpcSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._filters: dict[Queue, Filter] = {}
        self._book = GroupBook(broker)
        self.handles = Handles()

    def is_ordered(self, group: str) -> bool:
        """Whether messages of one message group are given out one after the other."""
        return self._book.is_ordered(group)

    def find(self, topic: str, group: str) -> Queue | None:
        """What is open of a group."""
        namespace, name = place_of(topic)
        found = self._broker.topic_subscriptions.find(namespace, name, group)
        return None if found is None else found.queue

    async def open(self, topic: Topic, group: str, asked: Filter) -> Queue:
        """Made where there is none. Raises kinds of MainstemError, RequestRefused."""
        subscriptions = self._broker.topic_subscriptions
        known = subscriptions.find(topic.namespace, topic.name, group)
        properties = QueueProperties(
            ordering="key" if self._book.is_ordered(group) or self._book.is_fifo(topic) else "shared",
            delivery_limit=self._settings.delivery_attempts_max - 1,
        )
        if known is not None and known.queue is not None and self._filters.get(known.queue) == asked:
            if known.entry.properties == properties or known.queue.consumers.all:
                return known.queue
        wants = make_filter(*asked)
        letters = new_topic(DEAD_LETTER_PREFIX + group, 1, self._settings.message_bytes_max)
        await self._broker.topics.ensure(letters)
        wish = SubscriptionWish(
            topic.namespace,
            topic.name,
            group,
            properties,
            start=await self._start(topic),
            letter_topic=letters.name,
            sieve=None if wants is None else Sieve(lambda message: _wanted(message, wants)),
        )
        queue = await subscriptions.open(wish)
        self._filters = {one: known for one, known in self._filters.items() if not one.is_gone}
        self._filters[queue] = asked
        return queue

    async def _start(self, topic: Topic) -> Edge:
        size = 0
        for log in topic.logs:
            first = (await self._broker.find(log, Edge.START)).offset
            size += (await self._broker.read(log, first, 0)).stored_bytes
            if first > 0 or size > YOUNG_BYTES_MAX:
                return Edge.END
        return Edge.START


def record_of(message: Message) -> Record:
    """A message of a queue as a record."""
    headers = decode_headers(message.headers)
    return Record(message.offset, message.timestamp_ms, message.key, bytes(message.value), headers)


def _wanted(message: Message, wants: Wants) -> bool:
    return wants(shown(record_of(message)).properties)


class ReceiveCalls:
    """ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue; of one connection."""

    def __init__(self, broker: Broker, groups: Groups, routes: RouteCalls) -> None:
        self._broker = broker
        self._pulling = broker.pulling
        self._settling = broker.queues.settling
        self._groups = groups
        self._handles = groups.handles
        self._routes = routes
        self._renewed: dict[Handle, float] = {}
        """Handles that are renewed until they are settled, and since when."""
        self._timer: Timer | None = None
        self._waiting: set[asyncio.Task[Any]] = set()
        self._is_hurried = False

    async def receive(self, call: GrpcCall, request: Any) -> None:
        """Some messages, or none when the time is over."""
        try:
            group, topic = group_name(request.group), await self._routes.topic_of(request.message_queue.topic)
            queue = await self._groups.open(topic, group, _filter_of(request))
            lease_ms = self._lease_ms(request)
            wait_s = self._wait_s(call, request)
            count = self._handles.reserve(min(max(request.batch_size, 1), BATCH_MAX))
        except Refused as error:
            self._end(call, code_of(error), str(error))
            return
        wish = PullRequest(count, RECEIVE_BYTES_MAX, lease_ms, wait_s)
        task = asyncio.ensure_future(self._pulling.take(queue, wish))
        self._waiting.add(task)
        call.context = task
        try:
            messages = await task
        except asyncio.CancelledError:
            self._end(call, Code.MESSAGE_NOT_FOUND, "the call ended")
            return
        finally:
            self._waiting.discard(task)
        if call.is_done:
            queue.give_back(messages)
            return
        self._give(call, request, topic, self._handles.issue(queue, messages), lease_ms)

    def _lease_ms(self, request: Any) -> int:
        if request.auto_renew or not request.HasField("invisible_duration"):
            return RENEWED_MS
        return _invisible_ms(request.invisible_duration)

    def _wait_s(self, call: GrpcCall, request: Any) -> float:
        if self._is_hurried:
            return 0.0
        wait_s = WAIT_S_MAX
        if request.HasField("long_polling_timeout"):
            wait_s = min(wait_s, max(milliseconds(request.long_polling_timeout) / 1_000, 0.0))
        bound = call.timeout_s
        return wait_s if bound is None else max(min(wait_s, bound - WAIT_MARGIN_S), 0.0)

    def _give(self, call: GrpcCall, request: Any, topic: Topic, handles: list[Handle], lease_ms: int) -> None:
        for handle in handles:
            message = handle.message
            log = message.lane.cursor.log
            content = message_of(request.message_queue.topic, topic.logs.index(log), log, record_of(message))
            system = content.system_properties
            system.receipt_handle = handle.id
            system.delivery_attempt = message.deliveries + 1
            set_time(system.invisible_duration, lease_ms)
            call.send(schema.encode(schema.new("ReceiveMessageResponse", message=content)))
            if request.auto_renew:
                self._renewed[handle] = self._broker.clock.monotonic()
        if self._renewed and self._timer is None:
            self._timer = self._broker.clock.call_later(RENEWAL_S, self._renew)
        if handles:
            at = schema.new("ReceiveMessageResponse")
            set_time(at.delivery_timestamp, self._broker.clock.now_ms())
            call.send(schema.encode(at))
            self._end(call, Code.OK, "OK")
        else:
            self._end(call, Code.MESSAGE_NOT_FOUND, "no new message")

    def _end(self, call: GrpcCall, code: Code, text: str) -> None:
        call.send(schema.encode(schema.new("ReceiveMessageResponse", status=status(code, text))))
        call.finish()

    def _renew(self) -> None:
        """While the connection is there, what its client works on stays with it."""
        self._timer = None
        oldest = self._broker.clock.monotonic() - RENEWED_S_MAX
        self._renewed = {one: since for one, since in self._renewed.items() if one.is_good and since > oldest}
        self._pulling.renew([handle.message for handle in self._renewed], RENEWED_MS)
        if self._renewed:
            self._timer = self._broker.clock.call_later(RENEWAL_S, self._renew)

    # Settling

    def _queue(self, request: Any) -> Queue:
        topic, group = topic_name(request.topic), group_name(request.group)
        queue = self._groups.find(topic, group)
        if queue is None:
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, f"group {group} has received nothing of topic {topic}")
        return queue

    async def acknowledge(self, call: GrpcCall, request: Any) -> Any:
        """They are done with."""
        queue = self._queue(request)
        names = [entry.receipt_handle for entry in request.entries]
        found = {name: self._handles.redeem(queue, name) for name in names}
        self._settling.settle([message for message in found.values() if message is not None])
        await self._broker.queues.outbox.wait_durable()
        unknown = {name for name, message in found.items() if message is None}
        entries = [
            schema.new(
                "AckResult",
                message_id=entry.message_id,
                receipt_handle=entry.receipt_handle,
                status=_unknown() if entry.receipt_handle in unknown else status(),
            )
            for entry in request.entries
        ]
        whole = status()
        if unknown:
            whole = _unknown() if len(unknown) == len(entries) else status(Code.MULTIPLE_RESULTS, "see each of them")
        return schema.new("AckMessageResponse", status=whole, entries=entries)

    async def change_time(self, call: GrpcCall, request: Any) -> Any:
        """The client has the message for this time; then others are given it."""
        queue = self._queue(request)
        handle, lease_ms = request.receipt_handle, milliseconds(request.invisible_duration)
        if not 0 <= lease_ms <= INVISIBLE_MS_MAX:
            raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, f"{lease_ms} ms is not within 0 and {INVISIBLE_MS_MAX}")
        message = self._handles.find(queue, handle)
        if message is None:
            return schema.new("ChangeInvisibleDurationResponse", status=_unknown(), receipt_handle=handle)
        self._renewed = {one: since for one, since in self._renewed.items() if one.id != handle}
        if lease_ms:
            self._pulling.renew([message], lease_ms)
        else:
            self._handles.redeem(queue, handle)
            self._settling.requeue([message], failed=True, error="its consumer gave it back")
        await self._broker.queues.outbox.wait_durable()
        return schema.new("ChangeInvisibleDurationResponse", status=status(), receipt_handle=handle)

    async def forward(self, call: GrpcCall, request: Any) -> Any:
        """The message is given up: it is a dead letter."""
        queue = self._queue(request)
        message = self._handles.redeem(queue, request.receipt_handle)
        if message is None:
            return schema.new("StatusResponse", status=_unknown())
        self._settling.reject([message], "rejected", "the consumer gave it up")
        await self._broker.queues.outbox.wait_durable()
        return schema.new("StatusResponse", status=status())

    # The end of a connection

    def hurry(self) -> None:
        """Answer now what waits."""
        self._is_hurried = True
        for task in self._waiting:
            task.cancel()

    def closed(self) -> None:
        """What was given out comes back when its time is over."""
        self.hurry()
        if self._timer is not None:
            self._timer.cancel()


def _unknown() -> Any:
    return status(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is good no more")


def _invisible_ms(duration: Any) -> int:
    lease_ms = milliseconds(duration)
    if not INVISIBLE_MS_MIN <= lease_ms <= INVISIBLE_MS_MAX:
        raise CallRefused(
            Code.ILLEGAL_INVISIBLE_TIME, f"{lease_ms} ms is not within {INVISIBLE_MS_MIN} and {INVISIBLE_MS_MAX}"
        )
    return lease_ms


def _filter_of(request: Any) -> Filter:
    asked = request.filter_expression
    return Filter(str(asked.expression) or ALL, SQL92 if asked.type == SQL_FILTER else TAG)
