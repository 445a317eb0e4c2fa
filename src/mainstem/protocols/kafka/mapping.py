"""Kafka's words for what the broker has: one node that leads everything, one copy of everything, no access rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from mainstem.broker.catalog.topics import Topic
from mainstem.model.endpoints import Endpoints

REPLICATION_FACTOR = 1

NOT_ASKED = -(2**31)
"""In place of a set of operations that was not asked for."""
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
GROUP_OPERATIONS = sum(1 << bit for bit in (3, 6, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
"""What a client may do, one bit per operation of Kafka's AclOperation: everything, without access rules."""


class Endpoint(NamedTuple):
    """Where clients are told to connect."""

    host: str
    port: int


Advertised: TypeAlias = Callable[[Endpoints], Endpoint]
Brokers: TypeAlias = Callable[[Endpoints], Mapping[int, Endpoint]]
"""Where clients may connect, by number: this broker, and those that stand by. As the listener serves by which they came."""


class Store(NamedTuple):
    """Where the log is, as far as administrators ask."""

    directory: str
    total_bytes: int
    usable_bytes: int
    commit_groups: int
    """Groups of commits that were written: the sequence number of the last one, which stands for the end of the one log."""


StoreFacts: TypeAlias = Callable[[], Store]


def log_of(topic: Topic, partition: int) -> int | None:
    """The log of a partition, if there is such a one."""
    return topic.logs[partition] if 0 <= partition < len(topic.logs) else None


def written_host(host: str) -> str:
    """An address as Kafka writes it, which is how Java writes one without a name."""
    return f"/{host}" if host else ""
