"""What members of streams groups say, what they are told, and the rules that hold for them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from mainstem.coordination.groups.streams.tasks import Tasks
from mainstem.coordination.groups.streams.topology import StreamsTopology


class StatusCode(enum.IntEnum):
    """What keeps a group from working, by Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One of them, with a sentence."""

    code: StatusCode
    detail: str


class UserEndpoint(NamedTuple):
    """Where a process answers queries of its state."""

    host: str
    port: int


class EndpointPartitions(NamedTuple):
    """What can be asked at an endpoint: partitions by the name of their topic."""

    endpoint: UserEndpoint
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


class StreamsBeat(NamedTuple):
    """What a member says. None: as before."""

    member_id: str
    epoch: int
    client_id: str = ""
    client_host: str = ""
    endpoint_epoch: int = 0
    """Of the endpoints that it was told last."""
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsTopology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] | None = None
    is_shutting_down: bool = False
    """Whether the whole application shall end."""


class StreamsHeartbeatReply(NamedTuple):
    """What a member is told."""

    member_id: str
    epoch: int
    tasks: Tasks | None = None
    """All its tasks; None when they have not changed."""
    statuses: tuple[Status, ...] = ()
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    """Of all members; None when the member knows them."""


class StreamsRules(NamedTuple):
    """What holds for a group."""

    members_max: int = 10_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    standby_replicas: int = 0
    initial_delay_ms: int = 3_000
    """How long the first assignment waits for further members."""
    assignment_interval_ms: int = 1_000
    """The shortest time between two assignments."""
