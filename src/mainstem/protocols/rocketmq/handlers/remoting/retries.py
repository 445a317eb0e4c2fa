"""Messages that a consumer could not deal with: again after a while, and dead letters in the end. And messages by their place."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.strands import open_committed
from mainstem.model.errors import OffsetOutOfRange
from mainstem.protocols.rocketmq.codec.remoting.messages import encode_message
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.book import GroupBook
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.sending import message_id
from mainstem.protocols.rocketmq.mapping.delays import retry_due_ms
from mainstem.protocols.rocketmq.mapping.messages import (
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    UNIQUE_KEY,
    content_of,
    new_record,
    shown,
    stored_message,
)
from mainstem.protocols.rocketmq.mapping.names import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    check_group,
    log_and_offset,
    name_of,
    new_topic,
)
from mainstem.protocols.rocketmq.session.settings import RemotingSettings
from mainstem.wire.record_batch import Record

AT_ONCE_DEAD = -1


class RetryHandlers:
    """Of all connections."""

    def __init__(self, broker: Broker, settings: RemotingSettings) -> None:
        self._broker = broker
        self._topics = broker.topics
        self._settings = settings
        self._book = GroupBook(broker)

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back,
            RequestCode.VIEW_MESSAGE_BY_ID: self.view,
        }

    async def _find(self, number: int) -> tuple[Topic, int, Record]:
        """The message at a place. Raises RequestRefused."""
        log, offset = log_and_offset(max(number, 0))
        origin = self._topics.origin(log)
        if origin is not None:
            topic, queue = origin
            try:
                result = await self._broker.read(log, offset, 1)
            except OffsetOutOfRange:
                result = None
            if result is not None and offset < result.stable:
                records, _ = open_committed(result, offset, offset + 1)
                if records:
                    return topic, queue, records[0]
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset: {number}")

    async def send_back(self, call: Call) -> None:
        """Into the retry topic of the group, or among its dead letters."""
        group, level = check_group(call.text("group")), call.number("delayLevel", 0)
        origin, _, record = await self._find(call.number("offset"))
        properties, times, flag = shown(record)
        properties.setdefault(RETRY_TOPIC, call.fields.get("originTopic") or name_of(origin))
        unique = properties.get(UNIQUE_KEY) or call.fields.get("originMsgId") or ""
        properties.setdefault(ORIGIN_MESSAGE_ID, unique or message_id(call.connection.host, 0, record.offset))
        times_max = call.number("maxReconsumeTimes", -1)
        if times_max < 0:
            times_max = self._book.retries_max(group, self._settings.reconsume_times_max)
        is_dead = level <= AT_ONCE_DEAD or times >= times_max
        now_ms = self._broker.clock.now_ms()
        content = content_of(record.value or b"", properties, flag, times + (not is_dead))
        due_ms = None if is_dead else retry_due_ms(level, times, now_ms)
        prefix = DEAD_LETTER_PREFIX if is_dead else RETRY_PREFIX
        topic = await self._topics.ensure(new_topic(prefix + group, 1, self._settings.message_bytes_max))
        sent = new_record(content, 0, record.timestamp_ms, due_ms)
        await self._broker.publications.publish(topic, [sent._replace(key=record.key)])
        call.answer()

    async def view(self, call: Call) -> None:
        """One message by its place."""
        topic, queue, record = await self._find(call.number("offset"))
        call.answer(body=encode_message(stored_message(topic, queue, record, call.connection.host)))
