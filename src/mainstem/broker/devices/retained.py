"""Retained messages: the last one of each topic that its publisher wanted to be kept for subscribers to come.

They are records of the compacted topic `mqtt.retained`, by key. Memory has all of them, found by the levels of their topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.devices.messages import DeviceMessage, FactBook
from mainstem.broker.records.strands import open_committed
from mainstem.coordination.devices.filter_trie import NameTrie
from mainstem.coordination.devices.topic_filters import check_name
from mainstem.model.errors import MainstemError, OffsetOutOfRange
from mainstem.storage.contract import Edge, Engine, ReadHint
from mainstem.wire.record_batch import encode_headers

if TYPE_CHECKING:
    from mainstem.broker.devices.limits import DeviceLimits
    from mainstem.wire.record_batch import Record

TOPIC = "mqtt.retained"
OVERHEAD_BYTES = 200
"""What a retained message costs besides its name and payload."""
READ_BYTES = 1 << 20


class Retained:
    """Those of one namespace."""

    def __init__(self, limits: DeviceLimits, facts: FactBook) -> None:
        self.limits = limits
        self._facts = facts
        self._by_name: dict[str, DeviceMessage] = {}
        self._names: NameTrie[DeviceMessage] = NameTrie()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def has_room_for(self, name: str, payload: bytes) -> bool:
        """Whether one more may be kept."""
        if not payload or name in self._by_name:
            return self.bytes + len(payload) <= self.limits.retained_bytes_max or not payload
        size = len(name) + len(payload) + OVERHEAD_BYTES
        return (
            len(self._by_name) < self.limits.retained_messages_max
            and self.bytes + size <= self.limits.retained_bytes_max
        )

    def put(self, message: DeviceMessage) -> None:
        """It is durable. One without a payload removes the one before."""
        name = message.topic
        before = self._by_name.pop(name, None)
        if before is not None:
            self.bytes -= len(name) + len(before.payload) + OVERHEAD_BYTES
        if not message.payload:
            self._names.remove(name)
            return
        message.payload = bytes(message.payload)
        self._by_name[name] = message
        self._names.put(name, message)
        self.bytes += len(name) + len(message.payload) + OVERHEAD_BYTES

    def match(self, text: str, now_ms: int) -> list[DeviceMessage]:
        """Those that fit a filter and have not expired."""
        found = self._names.match(text)
        late = [message for message in found if 0 < message.expires_ms <= now_ms]
        for message in late:
            self.put(DeviceMessage(message.topic, b"", 0, True, b"\0"))
        return [message for message in found if not 0 < message.expires_ms <= now_ms] if late else found

    def put_record(self, record: Record) -> None:
        """A record of the topic, by any writer."""
        try:
            name = (record.key or b"").decode()
            check_name(name)
        except (UnicodeDecodeError, MainstemError):
            return
        headers = encode_headers(record.headers)
        facts = self._facts.of(headers)
        value = record.value or b""
        if not self.has_room_for(name, value):
            return
        expires_ms = record.timestamp_ms + facts.ttl_ms if facts.ttl_ms >= 0 else 0
        self.put(DeviceMessage(name, bytes(value), facts.qos, True, headers, expires_ms))

    async def load(self, engine: Engine, log: int) -> int:
        """Read the whole topic; answers where it ended. Raises kinds of MainstemError."""
        at = (await engine.offset_at(log, Edge.START)).offset
        end = (await engine.offset_at(log, Edge.STABLE)).offset
        while at < end:
            try:
                result = await engine.read(log, at, READ_BYTES, ReadHint.CATCH_UP)
            except OffsetOutOfRange as error:
                at = max(error.start, at + 1)
                continue
            following = min(result.next_offset, end)
            if following <= at:
                break
            for record in open_committed(result, at, following)[0]:
                self.put_record(record)
            at = following
        return at
