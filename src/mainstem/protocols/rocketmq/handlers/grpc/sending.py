"""Messages of producers. What lay ready on a connection is handed to the log together, a commit for each call."""

from __future__ import annotations

from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Answer, Commit, CommitResult, Committed
from mainstem.broker.records.publication import NewRecord, check_record, seal
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import Code, MessageType
from mainstem.protocols.rocketmq.handlers.book import FIFO, GroupBook
from mainstem.protocols.rocketmq.handlers.grpc.calls import refusal, status, topic_name
from mainstem.protocols.rocketmq.handlers.grpc.routes import RouteCalls
from mainstem.protocols.rocketmq.handlers.grpc.transactions import Transactions
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused, milliseconds, record_of
from mainstem.protocols.rocketmq.mapping.names import find_topic
from mainstem.protocols.rocketmq.session.settings import GrpcSettings
from mainstem.wire.http2.grpc import GrpcCall

MESSAGES_MAX = 1_000
"""Of one call."""


class _Sent(NamedTuple):
    call: GrpcCall
    ids: list[str]


class SendCalls:
    """SendMessage, RecallMessage; of one connection."""

    def __init__(self, broker: Broker, settings: GrpcSettings, routes: RouteCalls, transactions: Transactions) -> None:
        self._broker = broker
        self._transactions = transactions
        self._settings = settings
        self._routes = routes
        self._book = GroupBook(broker)
        self._commits: list[Commit] = []
        self._sent: list[_Sent] = []
        self._withheld = 0

    def send(self, call: GrpcCall, request: Any) -> Any:
        """To a topic that is there, or is made by it. Raises CallRefused."""
        messages = request.messages
        if not 0 < len(messages) <= MESSAGES_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"a call sends 1 to {MESSAGES_MAX} messages")
        name = topic_name(messages[0].topic)
        if any(topic_name(message.topic) != name for message in messages):
            raise CallRefused(Code.BAD_REQUEST, "the messages of a call are of one topic")
        topic = find_topic(self._broker.topics, name)
        is_fifo = any(message.system_properties.message_group for message in messages)
        if topic is None or (is_fifo and not self._book.type_of(topic)):
            return self._create(call, request, is_fifo=is_fifo)
        return self._put(call, topic, messages)

    async def _create(self, call: GrpcCall, request: Any, *, is_fifo: bool) -> Any:
        """The topic comes with its first message, and is FIFO from its first message group on."""
        topic = await self._routes.topic_of(request.messages[0].topic)
        if is_fifo and not self._book.type_of(topic):
            await self._book.put_type(topic, FIFO)
        later = self._put(call, topic, request.messages)
        if later is None:
            self.flush()
            return None
        return await later

    def _put(self, call: GrpcCall, topic: Topic, messages: Any) -> Any:
        now_ms = self._broker.clock.now_ms()
        records: list[NewRecord] = []
        for message in messages:
            record = record_of(message, self._settings.message_bytes_max, now_ms)
            if not 0 <= record.partition < len(topic.logs):
                raise CallRefused(Code.BAD_REQUEST, f"topic {topic.name} has no queue {record.partition}")
            check_record(topic, record, len(records), now_ms)
            records.append(record)
        ids = [message.system_properties.message_id for message in messages]
        if any(message.system_properties.message_type == MessageType.TRANSACTION for message in messages):
            return self._put_half(topic, messages, records)
        if any(record.due_ms is not None for record in records):
            return self._publish(topic, records, ids)
        places = [record.partition for record in records]
        self._commits.append(Commit(seal(topic, records, places, now_ms).appends))
        self._sent.append(_Sent(call, ids))
        self._withheld += sum(len(record.value or b"") for record in records)
        return None

    async def _put_half(self, topic: Topic, messages: Any, records: list[NewRecord]) -> Any:
        if len(messages) > 1:
            raise CallRefused(Code.BAD_REQUEST, "a transaction has one message")
        system = messages[0].system_properties
        first_ms = None
        if system.HasField("orphaned_transaction_recovery_duration"):
            first_ms = milliseconds(system.orphaned_transaction_recovery_duration)
        transaction = await self._transactions.put(topic, records[0], first_ms)
        entry = schema.new("SendResult", status=status(), message_id=system.message_id, transaction_id=transaction)
        return schema.new("SendMessageResponse", status=status(), entries=[entry])

    async def _publish(self, topic: Topic, records: list[NewRecord], ids: list[str]) -> Any:
        published = await self._broker.publications.publish(topic, records)
        entries = [
            schema.new("SendResult", status=status(), message_id=one, transaction_id=one, recall_handle=place.scheduled)
            for one, place in zip(ids, published.positions, strict=True)
        ]
        return schema.new("SendMessageResponse", status=status(), entries=entries)

    def flush(self) -> None:
        """Hand all to the log; hold the client back while too much waits there."""
        if not self._commits:
            return
        commits, self._commits = self._commits, []
        sent, self._sent = self._sent, []
        size, self._withheld = self._withheld, 0
        self._broker.publish(commits).on_done(lambda answer: _committed(answer, sent))
        if self._broker.intake.is_pressed:
            session = sent[0].call.session
            session.withhold(size)
            self._broker.intake.when_relieved(lambda: session.release(size))

    async def recall(self, call: GrpcCall, request: Any) -> Any:
        """A message that is not due yet is never published."""
        topic_name(request.topic)
        try:
            record_id = bytes.fromhex(request.recall_handle)
        except ValueError:
            raise CallRefused(Code.BAD_REQUEST, "this is no recall handle") from None
        if len(record_id) != RECALL_BYTES:
            raise CallRefused(Code.BAD_REQUEST, "this is no recall handle")
        await self._broker.schedules.cancel(record_id)
        return schema.new("RecallMessageResponse", status=status(), message_id=request.recall_handle)


RECALL_BYTES = 16


def _committed(answer: Answer[list[CommitResult]], sent: list[_Sent]) -> None:
    if answer.error is not None:
        for one in sent:
            _finish(one.call, schema.new("SendMessageResponse", status=refusal(answer.error)))
        return
    for one, result in zip(sent, answer.result(), strict=True):
        if isinstance(result, Committed):
            base = result.bases[0]
            entries = [
                schema.new("SendResult", status=status(), message_id=name, transaction_id=name, offset=base + at)
                for at, name in enumerate(one.ids)
            ]
            response = schema.new("SendMessageResponse", status=status(), entries=entries)
        else:
            response = schema.new("SendMessageResponse", status=refusal(result))
        _finish(one.call, response)


def _finish(call: GrpcCall, response: Any) -> None:
    call.send(schema.encode(response))
    call.finish()
