"""How far a group is behind, partition by partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.groups.groups import TopicPlace
from mainstem.model.errors import UnknownLog
from mainstem.protocols.http.handlers.groups.lag import Lag, LagMeter
from mainstem.protocols.http.handlers.pace import Pace


class Behind(NamedTuple):
    """Where a group is in a partition, and what lies behind that."""

    topic: str
    partition: int
    offset: int
    lag: Lag
    committed_ms: int | None = None
    note: str = ""


class TotalLag:
    """Messages add up; the oldest record counts."""

    def __init__(self) -> None:
        self.messages = 0
        self.seconds: float | None = 0.0

    def add(self, lag: Lag) -> None:
        """One partition more."""
        self.messages += lag.messages
        if lag.seconds is not None:
            self.seconds = max(self.seconds or 0.0, lag.seconds)
        elif not self.seconds:
            self.seconds = None


class GroupLag:
    """Walks over the offsets of a group."""

    def __init__(self, broker: Broker, meter: LagMeter) -> None:
        self._broker = broker
        self._meter = meter

    def reads(self, name: str, topic: Topic) -> bool:
        """Whether the group has a position in the topic."""
        if name in self._broker.share_groups:
            cursors = self._broker.share_groups.subscriptions.cursors(name)
            return any(log in cursors for log in topic.logs)
        offsets = self._broker.groups.offsets(name)
        if len(topic.logs) < len(offsets):
            return any(TopicPlace(topic.id, partition) in offsets for partition in range(len(topic.logs)))
        return any(place.topic == topic.id for place in offsets)

    async def walk(self, name: str, pace: Pace, only: Topic | None = None) -> AsyncIterator[Behind]:
        """Every position of the group whose partition is still there; of one topic, or all."""
        if name in self._broker.share_groups:
            walk = self._walk_shared(name, pace, only)
        else:
            walk = self._walk_committed(name, pace, only)
        async for behind in walk:
            yield behind

    def count(self, name: str) -> int:
        """How many positions there are."""
        if name in self._broker.share_groups:
            return len(self._broker.share_groups.subscriptions.cursors(name))
        return len(self._broker.groups.offsets(name))

    async def _walk_committed(self, name: str, pace: Pace, only: Topic | None) -> AsyncIterator[Behind]:
        for place, committed in list(self._broker.groups.offsets(name).items()):
            await pace.step()
            if only is not None and place.topic != only.id:
                continue
            topic = self._broker.topics.by_id.get(place.topic)
            if topic is None or place.partition >= len(topic.logs):
                continue
            try:
                lag = await self._meter.measure(topic.logs[place.partition], committed.offset)
            except UnknownLog:
                continue  # deleted while we looked
            yield Behind(topic.name, place.partition, committed.offset, lag, committed.committed_ms, committed.note)

    async def _walk_shared(self, name: str, pace: Pace, only: Topic | None) -> AsyncIterator[Behind]:
        """Of a share group: below its floor all is settled, above it some."""
        for log, cursor in list(self._broker.share_groups.subscriptions.cursors(name).items()):
            await pace.step()
            origin = self._broker.topics.origin(log)
            if origin is None or (only is not None and origin[0].id != only.id):
                continue
            try:
                lag = await self._meter.measure(log, cursor.floor)
            except UnknownLog:
                continue
            topic, partition = origin
            left = max(0, lag.messages - cursor.settled_count)
            yield Behind(topic.name, partition, cursor.floor, lag._replace(messages=left))
