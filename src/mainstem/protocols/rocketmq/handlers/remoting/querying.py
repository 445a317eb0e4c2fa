"""Messages by their keys, and by the ids that producers gave them.

There is no index of keys: messages of the time that is asked for are looked through, the newest first, within a bound of time.
"""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.log import Edge
from mainstem.protocols.rocketmq.codec.remoting.messages import encode_message
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.mapping.messages import KEYS, UNIQUE_KEY, shown, stored_message
from mainstem.protocols.rocketmq.mapping.names import find_topic
from mainstem.wire.record_batch import Record

BY_ID, BY_ID_INDEX = "_UNIQUE_KEY_QUERY", "U"
MESSAGES_MAX = 64
SECONDS_MAX = 2.0


class QueryHandlers:
    """Of all connections."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {RequestCode.QUERY_MESSAGE: self.query}

    async def query(self, call: Call) -> None:
        """The newest that match. Raises RequestRefused."""
        name, key = call.text("topic"), call.text("key")
        topic = find_topic(self._broker.topics, name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic {name} does not exist")
        begin_ms, end_ms = call.number("beginTimestamp", 0), call.number("endTimestamp", 2**62)
        by_id = call.is_set(BY_ID) or call.fields.get("indexType") == BY_ID_INDEX

        def is_wanted(_partition: int, record: Record) -> bool:
            if not begin_ms <= record.timestamp_ms <= end_ms:
                return False
            properties = shown(record).properties
            return properties.get(UNIQUE_KEY) == key if by_id else key in properties.get(KEYS, "").split()

        clock, records = self._broker.clock, self._broker.records
        limit = min(max(call.number("maxNum", 32), 1), MESSAGES_MAX)
        positions = await records.positions(topic, list(range(len(topic.logs))), at=Edge.STABLE)
        until = clock.monotonic() + SECONDS_MAX
        parts: list[bytes] = []
        newest_ms = 0
        while True:
            page = await records.page(topic, positions, limit - len(parts), is_wanted, newest_first=True)
            for partition, record in page.found:
                newest_ms = max(newest_ms, record.timestamp_ms)
                parts.append(encode_message(stored_message(topic, partition, record, call.connection.host)))
            positions = page.positions
            if page.is_complete or len(parts) >= limit or clock.monotonic() > until:
                break
        if not parts:
            raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"topic {name} has no message of key {key[:100]!r}")
        call.answer({"indexLastUpdateTimestamp": newest_ms, "indexLastUpdatePhyoffset": 0}, b"".join(parts))
