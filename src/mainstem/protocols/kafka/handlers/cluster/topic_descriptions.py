"""What Metadata says of a topic, encoded once: thousands of partitions would otherwise hold the event loop up each time.

A topic is never changed but replaced, so what was encoded of it holds as long as it is the same object. And what is said of
partitions depends on nothing but their number.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from mainstem.broker.catalog.topics import Topic
from mainstem.wire.kafka import ApiKey, Encoded, ErrorCode, api_of, element_encoder

PARTITION_LISTS_MAX = 64
"""Encoded lists of partitions that are kept, by their length and version."""
STALE_MAX = 100
"""Topics that are gone or replaced, and may still be kept."""

RESPONSE = api_of(ApiKey.METADATA).response


class TopicDescriptions:
    """By version, and by whether it was asked what clients may do."""

    def __init__(self, node: int, term: int) -> None:
        self._place = (node, term)
        self._kept: dict[tuple[int, int], dict[Topic, Encoded]] = {}

    def of(self, topic: Topic, version: int, operations: int, current: Collection[Topic]) -> Encoded:
        """The element of a Metadata response. `current` are all topics that there are."""
        kept = self._kept.setdefault((version, operations), {})
        encoded = kept.get(topic)
        if encoded is None:
            if len(kept) > 2 * len(current) + STALE_MAX:
                for gone in kept.keys() - set(current):
                    del kept[gone]
            encoded = kept[topic] = _encode(topic, version, operations, *self._place)
        return encoded


def _encode(topic: Topic, version: int, operations: int, node: int, term: int) -> Encoded:
    out = bytearray()
    element_encoder(RESPONSE, "topics", version)(
        out,
        {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": topic.id,
            "partitions": _encode_partitions(len(topic.logs), version, node, term),
            "topic_authorized_operations": operations,
        },
    )
    return Encoded(out)


@functools.lru_cache(maxsize=PARTITION_LISTS_MAX)
def _encode_partitions(count: int, version: int, node: int, term: int) -> Encoded:
    partitions: list[dict[str, Any]] = [describe_partition(index, node, term) for index in range(count)]
    out = bytearray()
    element_encoder(RESPONSE, "topics.partitions", version, whole=True)(out, partitions)
    return Encoded(out)


def describe_partition(index: int, node: int, term: int) -> dict[str, Any]:
    """All of it is at this node, which leads in this term."""
    return {
        "error_code": ErrorCode.NONE,
        "partition_index": index,
        "leader_id": node,
        "leader_epoch": term,
        "replica_nodes": (node,),
        "isr_nodes": (node,),
    }
