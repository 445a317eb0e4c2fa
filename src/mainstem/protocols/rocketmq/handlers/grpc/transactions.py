"""Half messages of gRPC producers: how they are decided, and how producers are asked over their telemetry streams."""

from __future__ import annotations

import itertools
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.publication import NewRecord
from mainstem.broker.subscriptions.undecided import Undecided, UndecidedFacts, UndecidedMessage, UnknownUndecided
from mainstem.protocols.rocketmq.codec.grpc import schema
from mainstem.protocols.rocketmq.codec.grpc.codes import COMMIT, ROLLBACK, Code
from mainstem.protocols.rocketmq.handlers.grpc.calls import status
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused, message_of
from mainstem.protocols.rocketmq.mapping.names import name_of
from mainstem.wire.http2.grpc import GrpcCall
from mainstem.wire.record_batch import Record


class Transactions:
    """Of all connections."""

    def __init__(self, broker: Broker, undecided: Undecided) -> None:
        self._topics = broker.topics
        self._undecided = undecided
        self._producers: dict[str, dict[GrpcCall, None]] = {}
        """By topic, the telemetry streams of its producers."""
        self._turn = itertools.count()
        undecided.on_check.append(self._ask)

    def register(self, call: GrpcCall, topics: list[str]) -> None:
        """A producer says which topics it sends to."""
        for topic in topics:
            self._producers.setdefault(topic, {})[call] = None

    def forget(self, call: GrpcCall) -> None:
        """Its stream has ended."""
        for topic in [name for name, calls in self._producers.items() if call in calls]:
            calls = self._producers[topic]
            del calls[call]
            if not calls:
                del self._producers[topic]

    async def put(self, topic: Topic, record: NewRecord, first_check_ms: int | None) -> str:
        """Answers the id of the transaction, once the message is durable."""
        facts = UndecidedFacts(topic.name, record.partition, "", record.time_ms, first_check_ms, topic.namespace)
        _, offset = await self._undecided.put(record, facts)
        return f"{offset:x}"

    async def end(self, call: GrpcCall, request: Any) -> Any:
        """A producer decides. Raises CallRefused."""
        try:
            offset = int(request.transaction_id, 16)
        except ValueError:
            raise CallRefused(Code.INVALID_TRANSACTION_ID, "this is no id of a transaction") from None
        if request.resolution not in (COMMIT, ROLLBACK):
            raise CallRefused(Code.BAD_REQUEST, "a transaction is committed or rolled back")
        try:
            await self._undecided.decide(offset, is_published=request.resolution == COMMIT)
        except UnknownUndecided as error:
            raise CallRefused(Code.INVALID_TRANSACTION_ID, str(error)) from None
        return schema.new("StatusResponse", status=status())

    def _ask(self, waiting: UndecidedMessage) -> bool:
        facts, message = waiting.facts, waiting.message
        topic = self._topics.named(facts.namespace).get(facts.topic)
        if facts.group or topic is None:
            return False
        name = name_of(topic)
        calls = [call for call in self._producers.get(name, ()) if not call.is_done]
        if not calls:
            return False
        record = Record(message.offset, facts.timestamp_ms, message.key, bytes(message.value), waiting.headers)
        content = message_of(schema.new("Resource", name=name), facts.partition, message.lane.cursor.log, record)
        command = schema.new("RecoverOrphaned", message=content, transaction_id=f"{message.offset:x}")
        whole = schema.new("TelemetryCommand", status=status(), recover_orphaned_transaction_command=command)
        calls[next(self._turn) % len(calls)].send(schema.encode(whole))
        return True
