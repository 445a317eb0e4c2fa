"""Streams groups: heartbeats in, tasks out, each stored before it is told; and the internal topics that the tasks need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mainstem.broker.catalog.topics import NewTopic, Topic, Topics
from mainstem.broker.clock import Clock
from mainstem.broker.groups.stored_groups import StoredGroups
from mainstem.coordination.errors import TopicExists, UnknownGroup
from mainstem.coordination.groups.heartbeats import JOINS
from mainstem.coordination.groups.streams.group import StreamsGroup, StreamsState
from mainstem.coordination.groups.streams.heartbeats import (
    EndpointPartitions,
    StatusCode,
    StreamsBeat,
    StreamsHeartbeatReply,
    StreamsRules,
    UserEndpoint,
)
from mainstem.coordination.groups.streams.members import INDEX_SCOPE, StreamsMember
from mainstem.coordination.groups.streams.tasks import Task, Tasks
from mainstem.coordination.groups.streams.topic_plan import TopicPlan
from mainstem.coordination.groups.streams.topology import InternalTopic, StreamsTopology, Subtopology
from mainstem.coordination.groups.topology import Topology
from mainstem.storage.contract import Engine

__all__ = [
    "JOINS",
    "EndpointPartitions",
    "InternalTopic",
    "StreamsBeat",
    "StreamsGroup",
    "StreamsGroups",
    "StreamsHeartbeatReply",
    "StreamsMember",
    "StreamsRules",
    "StreamsState",
    "StreamsTopology",
    "Subtopology",
    "Task",
    "Tasks",
    "TopicPlan",
    "UserEndpoint",
]

FAILURES_SHOWN_MAX = 3
ONE_COPY = (-1, 0, 1)
"""Replication factors that one node can give: its default, or one."""


class StreamsGroups(StoredGroups[StreamsGroup, StreamsRules]):
    """All streams groups of a broker."""

    def __init__(
        self, engine: Engine, clock: Clock, topology: Topology, topics: Topics, rules: Callable[[str], StreamsRules]
    ) -> None:
        super().__init__(engine, clock, rules, INDEX_SCOPE)
        self._topology = topology
        self._topics = topics
        self.is_taken: Callable[[str], bool] = lambda name: False
        """Whether a group of another kind has the name; the other groups set it."""

    async def beat(self, name: str, beat: StreamsBeat) -> StreamsHeartbeatReply:
        """What a member says, and, once it is stored, what it is told. Raises kinds of GroupError.

        Missing internal topics are created before the group looks at its topics, so that it need not wait for them.
        """
        failures: list[str] = []
        if beat.epoch >= JOINS:
            missing = self._group(name, beat).check(beat, self._topology).missing
            if missing:
                failures = await self._create_topics(missing)
        group = self._group(name, beat)
        told = group.beat(beat, self._topology, self._now_ms())
        await self._store(self._hold(group))
        return _with_failures(told, failures) if failures else told

    def check_commit(self, name: str, member_id: str, epoch: int, places: Iterable[tuple[str, int]]) -> None:
        """Whether this caller may commit offsets of these partitions now. Raises kinds of GroupError."""
        group = self.get(name)
        if epoch >= 0 or group.members:
            group.check_commit(member_id, epoch, places)

    # -----------------------------------------------------------------------------------------------------------------

    def _group(self, name: str, beat: StreamsBeat) -> StreamsGroup:
        """The group of a heartbeat, in the words of Kafka's brokers where there is none. Raises UnknownGroup."""
        if name not in self:
            if self.is_taken(name):
                raise UnknownGroup(f"Group {name} is not a streams group.")
            if beat.epoch != JOINS:
                raise UnknownGroup(f"Streams group {name} not found.")
        return self._met(name, beat.epoch)

    async def _create_topics(self, wanted: Sequence[InternalTopic]) -> list[str]:
        """Create topics; answers which of them could not be, and why."""
        failures = [
            f"{topic.name} (one node cannot keep {topic.replication_factor} copies)"
            for topic in wanted
            if topic.replication_factor not in ONE_COPY
        ]
        wishes = [
            NewTopic(topic.name, topic.partitions, dict(topic.configs))
            for topic in wanted
            if topic.replication_factor in ONE_COPY
        ]
        for wish, outcome in zip(wishes, await self._topics.create(wishes) if wishes else (), strict=True):
            # Another member may have been quicker.
            if not isinstance(outcome, Topic | TopicExists):
                failures.append(f"{wish.name} ({outcome})")
        return failures

    def _create(self, name: str) -> StreamsGroup:
        return StreamsGroup(name, self.rules(name))

    def _pass_time(self, group: StreamsGroup) -> None:
        group.pass_time(self._now_ms())


def _with_failures(told: StreamsHeartbeatReply, failures: list[str]) -> StreamsHeartbeatReply:
    more = len(failures) - FAILURES_SHOWN_MAX
    shown = ", ".join(failures[:FAILURES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return told._replace(
        statuses=tuple(
            status._replace(detail=f"{status.detail}; Creation failed: {shown}.")
            if status.code is StatusCode.MISSING_INTERNAL_TOPICS
            else status
            for status in told.statuses
        )
    )
