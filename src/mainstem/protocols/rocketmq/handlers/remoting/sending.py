"""Messages of producers: one, a batch, with an answer or without.

What lay ready on a connection is handed to the log together, a commit for each request, and answered when it is durable.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Answer, Commit, CommitResult, Committed
from mainstem.broker.records.publication import NewRecord, check_record, seal
from mainstem.broker.subscriptions.undecided import Undecided, UndecidedFacts
from mainstem.protocols.rocketmq.codec.remoting.messages import SentMessage, decode_batch
from mainstem.protocols.rocketmq.codec.remoting.properties import decode_properties
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import MalformedFrame, RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.connection import RemotingConnection
from mainstem.protocols.rocketmq.mapping.delays import due_ms_of
from mainstem.protocols.rocketmq.mapping.messages import (
    PREPARED,
    TRANSACTION_MASK,
    UNIQUE_KEY,
    content_of,
    decompressed,
    new_record,
)
from mainstem.protocols.rocketmq.mapping.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_TOPIC,
    RETRY_PREFIX,
    find_topic,
    name_of,
    new_topic,
    physical_offset,
)
from mainstem.protocols.rocketmq.mapping.recalls import decode_handle, encode_handle
from mainstem.protocols.rocketmq.session.settings import RemotingSettings

ANSWER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
SEPARATOR = ","
"""Between the ids of a batch."""
SHORT = {
    "topic": "b", "queues": "d", "queue": "e", "sys_flag": "f", "born_ms": "g", "flag": "h", "properties": "i",
    "reconsume_times": "j", "reconsume_times_max": "l", "is_batch": "m",
}  # fmt: skip
LONG = {
    "topic": "topic", "queues": "defaultTopicQueueNums", "queue": "queueId", "sys_flag": "sysFlag",
    "born_ms": "bornTimestamp", "flag": "flag", "properties": "properties", "reconsume_times": "reconsumeTimes",
    "reconsume_times_max": "maxReconsumeTimes", "is_batch": "batch",
}  # fmt: skip


class Sent(NamedTuple):
    """A request that is on its way to the log."""

    call: Call
    topic: Topic
    queue: int
    unique_key: str
    messages: int


class _Pass:
    """What one connection sent while its requests were handed on."""

    __slots__ = ("commits", "sent")

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.sent: list[Sent] = []


class SendHandlers:
    """Of all connections."""

    def __init__(self, broker: Broker, settings: RemotingSettings, undecided: Undecided) -> None:
        self._broker = broker
        self._undecided = undecided
        self._topics = broker.topics
        self._settings = settings
        self._now_ms = broker.clock.now_ms
        self._passes: dict[RemotingConnection, _Pass] = {}
        self._turn = 0

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
            RequestCode.RECALL_MESSAGE: self.recall,
        }

    def send(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """To a topic that is there, or is made by it."""
        names = field_names(call)
        name = self._target(call, names)
        topic = find_topic(self._topics, name)
        if topic is None:
            return self._create(call, names, name)
        later = self._put(call, names, topic)
        return None if later is None else self._publish(later, topic)

    def _target(self, call: Call, names: dict[str, str]) -> str:
        """The topic; of a retry that was one too many, that of dead letters."""
        name = call.text(names["topic"])
        if not name.startswith(RETRY_PREFIX):
            return name
        times_max = call.number(names["reconsume_times_max"], self._settings.reconsume_times_max)
        if call.number(names["reconsume_times"], 0) > times_max:
            return DEAD_LETTER_PREFIX + name.removeprefix(RETRY_PREFIX)
        return name

    async def _create(self, call: Call, names: dict[str, str], name: str) -> None:
        if name == DEFAULT_TOPIC:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic {name} conflicts with system reserved words")
        queues = min(max(call.number(names["queues"], 4), 1), self._settings.queues_default)
        if name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            queues = 1
        topic = await self._topics.ensure(new_topic(name, queues, self._settings.message_bytes_max))
        later = self._put(call, names, topic)
        if later is not None:
            await self._publish(later, topic)
        elif (connection := call.connection) in self._passes:
            connection.pass_ended()

    def _put(self, call: Call, names: dict[str, str], topic: Topic) -> _Delayed | None:
        """Take it into this pass; answers what is due later. Raises RequestRefused, and what the topic does not take."""
        queue = call.number(names["queue"], -1)
        if queue < 0:
            self._turn += 1
            queue = self._turn % len(topic.logs)
        if queue >= len(topic.logs):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"topic {topic.name} has no queue {queue}")
        sys_flag = call.number(names["sys_flag"], 0)
        now_ms, born_ms = self._now_ms(), call.number(names["born_ms"], -1)
        records: list[NewRecord] = []
        keys: list[str] = []
        due_ms = None
        for sent in self._messages(call, names):
            body = decompressed(sent.body, sys_flag, self._settings.message_bytes_max)
            due_ms = due_ms_of(sent.properties, now_ms)
            content = content_of(body, sent.properties, sent.flag, call.number(names["reconsume_times"], 0))
            record = new_record(content, queue, born_ms, due_ms)
            check_record(topic, record, len(records), now_ms)
            records.append(record)
            keys.append(sent.properties.get(UNIQUE_KEY, ""))
        sent_all = Sent(call, topic, queue, SEPARATOR.join(keys), len(records))
        is_half = sys_flag & TRANSACTION_MASK == PREPARED
        if due_ms is not None or is_half:
            return _Delayed(sent_all, records, is_half)
        waiting = self._passes.get(call.connection)
        if waiting is None:
            waiting = self._passes[call.connection] = _Pass()
            call.connection.on_pass.append(lambda: self._flush(call.connection))
        waiting.commits.append(Commit(seal(topic, records, [queue] * len(records), now_ms).appends))
        waiting.sent.append(sent_all)
        return None

    def _messages(self, call: Call, names: dict[str, str]) -> Sequence[SentMessage]:
        body = bytes(call.command.body)
        if call.command.code == RequestCode.SEND_BATCH_MESSAGE or call.is_set(names["is_batch"]):
            try:
                found = decode_batch(body)
            except MalformedFrame as error:
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
            if not found:
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
            if any(due_ms_of(sent.properties, 0) is not None for sent in found):
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "messages of a batch cannot be delayed")
            return found
        properties = decode_properties(call.fields.get(names["properties"], ""))
        return [SentMessage(body, properties, call.number(names["flag"], 0))]

    def _flush(self, connection: RemotingConnection) -> None:
        commits, sent = (waiting := self._passes.pop(connection)).commits, waiting.sent
        self._broker.publish(commits).on_done(lambda answer: _committed(answer, sent))

    async def _publish(self, delayed: _Delayed, topic: Topic) -> None:
        if delayed.is_half:
            await self._publish_half(delayed, topic)
            return
        published = await self._broker.publications.publish(topic, delayed.records)
        (record,), (place,) = delayed.records, published.positions
        handle = encode_handle(name_of(topic), self._settings.broker_name, record.due_ms or 0, place.scheduled)
        _answer(delayed.sent, 0, {**ANSWER, "recallHandle": handle})

    async def recall(self, call: Call) -> None:
        """A delayed message is never published, if it is not due. Raises NotScheduled, RequestRefused."""
        record_id = decode_handle(call.text("recallHandle"), call.text("topic"))
        await self._broker.schedules.cancel(record_id)
        call.answer({"msgId": record_id.hex()})

    async def _publish_half(self, delayed: _Delayed, topic: Topic) -> None:
        """Stored, and shown to nobody until the producer decides."""
        call, queue = delayed.sent.call, delayed.sent.queue
        (record,) = delayed.records
        properties = decode_properties(call.fields.get(field_names(call)["properties"], ""))
        seconds = properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS", "")
        first_ms = int(seconds) * 1_000 if seconds.isdecimal() and len(seconds) < 8 else None
        group = call.fields.get("a") or call.fields.get("producerGroup", "")
        facts = UndecidedFacts(topic.name, queue, group, record.time_ms, first_ms, topic.namespace)
        log, offset = await self._undecided.put(record, facts)
        call.answer(
            {
                "msgId": message_id(call.connection.host, log, offset),
                "queueId": queue,
                "queueOffset": offset,
                "transactionId": delayed.sent.unique_key,
                **ANSWER,
            }
        )


def field_names(call: Call) -> dict[str, str]:
    """Of the fields of a request."""
    return LONG if call.command.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE) else SHORT


class _Delayed(NamedTuple):
    sent: Sent
    records: list[NewRecord]
    is_half: bool = False


def _committed(answer: Answer[list[CommitResult]], sent: list[Sent]) -> None:
    if answer.error is not None:
        for one in sent:
            one.call.refuse(answer.error)
        return
    for one, result in zip(sent, answer.result(), strict=True):
        if isinstance(result, Committed):
            _answer(one, result.bases[0])
        else:
            one.call.refuse(result)


def _answer(sent: Sent, offset: int, more: Mapping[str, str] = ANSWER) -> None:
    call, topic, queue, unique_key, messages = sent
    ids = [message_id(call.connection.host, topic.logs[queue], offset + at) for at in range(messages)]
    call.answer(
        {"msgId": SEPARATOR.join(ids), "queueId": queue, "queueOffset": offset, "transactionId": unique_key, **more}
    )


def message_id(host: bytes, log: int, offset: int) -> str:
    """Where a message is, as clients keep it."""
    return (host + physical_offset(log, offset).to_bytes(8)).hex().upper()
