"""What is asked over a connection, in our words: raw batches, positions, a group's offsets."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mainstem.sdk.connection import BrokerConnection
from mainstem.sdk.errors import BrokerRefused, OffsetMissing, UnknownTopic
from mainstem.wire.kafka import ApiKey, ErrorCode

Buffer = bytes | bytearray | memoryview

EARLIEST = -2
LATEST = -1
"""Of `list_offsets`; anything else is a time in ms since 1970."""

NO_OFFSET = -1
READ_COMMITTED = 1
ALL_IN_SYNC = -1
FETCH_BYTES_MAX = 8 << 20
FETCH_WAIT_MS = 500
PRODUCE_TIMEOUT_MS = 30_000


class TopicPartition(NamedTuple):
    """One log, by name."""

    topic: str
    partition: int


class Node(NamedTuple):
    """A broker as it advertises itself."""

    host: str
    port: int


class Cluster(NamedTuple):
    """What a broker tells of itself and its topics."""

    nodes: Mapping[int, Node]
    leaders: Mapping[str, Sequence[int]]
    """Node of each partition, by topic."""
    ids: Mapping[str, uuid.UUID]
    """Of topics: one that is deleted and made anew has another."""


class Fetched(NamedTuple):
    """Whole batches, the first of which may begin before the offset asked for."""

    batches: memoryview
    start: int
    last_stable: int
    end: int
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of each aborted transaction that touches these batches."""


class Placed(NamedTuple):
    """Where produced records are now."""

    base_offset: int
    log_append_time_ms: int


def describe_cluster(connection: BrokerConnection, topics: Iterable[str] | None, *, create: bool = False) -> Cluster:
    """All topics, or those named; raises `UnknownTopic` for one that is not there."""
    wanted = None if topics is None else [{"name": name} for name in topics]
    answer = connection.request(ApiKey.METADATA, {"topics": wanted, "allow_auto_topic_creation": create})
    leaders: dict[str, Sequence[int]] = {}
    ids: dict[str, uuid.UUID] = {}
    for topic in answer.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(topic.name)
        if topic.error_code:
            raise BrokerRefused(f"Topic {topic.name!r}", topic.error_code)
        if not topic.is_internal or wanted is not None:
            ordered = sorted(topic.partitions, key=lambda entry: entry.partition_index)
            leaders[topic.name] = [entry.leader_id for entry in ordered]
            ids[topic.name] = topic.topic_id
    return Cluster({node.node_id: Node(node.host, node.port) for node in answer.brokers}, leaders, ids)


def list_offsets(connection: BrokerConnection, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset at `EARLIEST`, at `LATEST` (the last stable one), or of the first record not older than a time.

    `NO_OFFSET` where no record is so young.
    """
    answer = connection.request(
        ApiKey.LIST_OFFSETS,
        {
            "replica_id": -1,
            "isolation_level": READ_COMMITTED,
            "topics": [
                {
                    "name": topic,
                    "partitions": [{"partition_index": index, "timestamp": at} for index, at in entries],
                }
                for topic, entries in _by_topic(positions).items()
            ],
        },
    )
    found: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for entry in topic.partitions:
            _check(topic.name, entry.partition_index, entry.error_code, "Asking for offsets")
            found[TopicPartition(topic.name, entry.partition_index)] = entry.offset
    return found


def send_fetch(
    connection: BrokerConnection,
    at: TopicPartition,
    offset: int,
    *,
    bytes_max: int = FETCH_BYTES_MAX,
    wait_ms: int = FETCH_WAIT_MS,
) -> None:
    """Asks for whole batches from the one that holds `offset` on, up to the last stable offset."""
    partition = {"partition": at.partition, "fetch_offset": offset, "partition_max_bytes": bytes_max}
    connection.send(
        ApiKey.FETCH,
        {
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": bytes_max,
            "isolation_level": READ_COMMITTED,
            "topics": [{"topic": at.topic, "partitions": [partition]}],
        },
    )


def receive_fetch(connection: BrokerConnection, at: TopicPartition, offset: int) -> Fetched:
    """The answer to `send_fetch`; raises `OffsetMissing` if the log does not hold the offset."""
    answer = connection.receive()
    if answer.error_code:
        raise BrokerRefused(f"Reading {at.topic}-{at.partition}", answer.error_code)
    part = answer.responses[0].partitions[0]
    if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetMissing(at.topic, at.partition, offset, part.log_start_offset)
    _check(at.topic, at.partition, part.error_code, "Reading")
    aborted = [(entry.producer_id, entry.first_offset) for entry in part.aborted_transactions or ()]
    batches = memoryview(b"") if part.records is None else memoryview(part.records)
    return Fetched(batches, part.log_start_offset, part.last_stable_offset, part.high_watermark, aborted)


def fetch(
    connection: BrokerConnection, at: TopicPartition, offset: int, *, bytes_max: int = FETCH_BYTES_MAX
) -> Fetched:
    """Batches from `offset` on; empty after half a second without any."""
    send_fetch(connection, at, offset, bytes_max=bytes_max)
    return receive_fetch(connection, at, offset)


def produce(
    connection: BrokerConnection, at: TopicPartition, batch: Buffer, *, transactional_id: str | None = None
) -> Placed:
    """Appends one v2 batch as it is; returns when it is durable. Never tries again by itself."""
    answer = connection.request(
        ApiKey.PRODUCE,
        {
            "transactional_id": transactional_id,
            "acks": ALL_IN_SYNC,
            "timeout_ms": PRODUCE_TIMEOUT_MS,
            "topic_data": [{"name": at.topic, "partition_data": [{"index": at.partition, "records": batch}]}],
        },
    )
    part = answer.responses[0].partition_responses[0]
    _check(at.topic, at.partition, part.error_code, "Writing to", part.error_message)
    return Placed(part.base_offset, part.log_append_time_ms)


def find_coordinator(connection: BrokerConnection, group: str) -> Node:
    """The broker that keeps the group's offsets."""
    answer = connection.request(ApiKey.FIND_COORDINATOR, {"key": group, "coordinator_keys": [group], "key_type": 0})
    found: Any = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code:
        raise BrokerRefused(f"Group {group!r}", found.error_code, found.error_message)
    return Node(found.host, found.port)


def commit_offsets(
    connection: BrokerConnection, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
) -> None:
    """Stores how far a group without members has come: the offset of the next record it will read."""
    answer = connection.request(
        ApiKey.OFFSET_COMMIT,
        {
            "group_id": group,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
                        for index, offset in entries
                    ],
                }
                for topic, entries in _by_topic(offsets).items()
            ],
        },
    )
    for topic in answer.topics:
        for entry in topic.partitions:
            _check(topic.name, entry.partition_index, entry.error_code, f"Committing offsets of group {group!r} for")


def fetch_committed(
    connection: BrokerConnection, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """How far a group has come: partitions that it has stored nothing for are left out."""
    topics = _by_topic(dict.fromkeys(partitions, 0))
    wanted = [
        {"name": topic, "partition_indexes": [index for index, _ in entries]} for topic, entries in topics.items()
    ]
    answer = connection.request(ApiKey.OFFSET_FETCH, {"groups": [{"group_id": group, "topics": wanted}]})
    found: dict[TopicPartition, int] = {}
    for described in answer.groups:
        if described.error_code:
            raise BrokerRefused(f"Group {group!r}", described.error_code)
        for topic in described.topics:
            for entry in topic.partitions:
                _check(topic.name, entry.partition_index, entry.error_code, f"Offsets of group {group!r} for")
                if entry.committed_offset >= 0:
                    found[TopicPartition(topic.name, entry.partition_index)] = entry.committed_offset
    return found


def _by_topic(values: Mapping[TopicPartition, int]) -> dict[str, list[tuple[int, int]]]:
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, []).append((partition, value))
    return topics


def _check(topic: str, partition: int, code: int, what: str, message: str | None = None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(topic, partition)
    if code:
        raise BrokerRefused(f"{what} {topic}-{partition}", code, message)
