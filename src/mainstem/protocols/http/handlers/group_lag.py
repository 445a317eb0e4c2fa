"""How far a group is behind, partition by partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.groups import CommittedOffset
from mainstem.model.errors import UnknownLog
from mainstem.protocols.http.handlers.lag import Lag, LagMeter
from mainstem.protocols.http.handlers.pace import Pace


class Behind(NamedTuple):
    """A committed offset and what lies behind it."""

    topic: str
    partition: int
    committed: CommittedOffset
    lag: Lag


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

    async def walk(self, name: str, pace: Pace) -> AsyncIterator[Behind]:
        """Every committed offset whose partition is still there."""
        for place, committed in list(self._broker.groups.offsets(name).items()):
            await pace.step()
            topic = self._broker.topics.by_id.get(place.topic)
            if topic is None or place.partition >= len(topic.logs):
                continue
            try:
                lag = await self._meter.measure(topic.logs[place.partition], committed.offset)
            except UnknownLog:
                continue  # deleted while we looked
            yield Behind(topic.name, place.partition, committed, lag)
