"""The position of a stream, as it is written into Spark's checkpoint and progress.

    {"orders": {"0": 12, "1": 7}, "@group": "billing", "@address": "127.0.0.1:9092"}

Topics are as in Spark's Kafka source. The two other names, which no topic can have, say whose progress this is, so that the
listener or the sink, which see a position, can report it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mainstem.sdk.operations import TopicPartition

GROUP = "@group"
ADDRESS = "@address"


class StreamOffsets(NamedTuple):
    """The next offset of each partition."""

    offsets: Mapping[TopicPartition, int]
    group: str
    address: str

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> StreamOffsets:
        """From what Spark hands back."""
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in given.items()
            if not topic.startswith("@")
            for partition, offset in partitions.items()
        }
        return cls(offsets, str(given.get(GROUP, "")), str(given.get(ADDRESS, "")))

    def plain(self) -> dict[str, Any]:
        """In one order always, because Spark compares positions as text."""
        topics: dict[str, Any] = {}
        for at, offset in sorted(self.offsets.items()):
            topics.setdefault(at.topic, {})[str(at.partition)] = offset
        return {**topics, GROUP: self.group, ADDRESS: self.address}
