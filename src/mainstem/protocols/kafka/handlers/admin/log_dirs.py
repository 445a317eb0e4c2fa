"""How much is stored of each partition, and how much can be."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.broker.broker import Broker
from mainstem.broker.log import Edge
from mainstem.model.errors import MainstemError, UnknownLog
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.mapping import StoreFacts, log_of
from mainstem.wire.kafka import ApiKey, ErrorCode


class LogDirHandlers:
    """DescribeLogDirs. All logs share their files, so there is one directory."""

    def __init__(self, broker: Broker, store: StoreFacts) -> None:
        self._broker = broker
        self._store = store
        self._topics = broker.topics.named()

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {ApiKey.DESCRIBE_LOG_DIRS: Served(self.describe_log_dirs, 1, 5)}

    async def describe_log_dirs(self, call: Call) -> Body:
        """Of all topics, or of some of their partitions; what does not exist is left out, as in Kafka."""
        asked: Iterable[tuple[str, Iterable[int]]]
        if call.body.topics is None:
            asked = [(name, range(len(topic.logs))) for name, topic in self._topics.items()]
        else:
            asked = [(topic.topic, topic.partitions) for topic in call.body.topics]
        store = self._store()
        try:
            topics = [{"name": name, "partitions": await self._sizes(name, partitions)} for name, partitions in asked]
        except MainstemError as error:
            return {"results": [{"error_code": code_of(error), "log_dir": store.directory}]}
        found = [topic for topic in topics if topic["partitions"]]
        directory = {
            "error_code": ErrorCode.NONE,
            "log_dir": store.directory,
            "topics": found,
            "total_bytes": store.total_bytes,
            "usable_bytes": store.usable_bytes,
        }
        return {"results": [directory]}

    async def _sizes(self, name: str, partitions: Iterable[int]) -> list[Body]:
        topic = self._topics.get(name)
        sizes: list[Body] = []
        for index in partitions if topic is not None else ():
            log = None if topic is None else log_of(topic, index)
            if log is None:
                continue
            try:
                start = await self._broker.find(log, Edge.START)
                facts = await self._broker.read(log, start.offset, 0)
            except UnknownLog:
                continue  # deleted meanwhile
            sizes.append({"partition_index": index, "partition_size": facts.stored_bytes, "offset_lag": 0})
        return sizes
