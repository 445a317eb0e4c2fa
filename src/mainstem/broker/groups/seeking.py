"""Moving the offsets of a group that nobody reads for: shown first, then done in one commit."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mainstem.coordination.errors import UnknownGroup
from mainstem.coordination.groups.group_offsets import CommittedOffset, TopicPlace
from mainstem.storage.contract import Edge, Engine, Place, TimeAfter

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.clock import Clock
    from mainstem.broker.groups.groups import Groups
    from mainstem.broker.groups.share_groups import ShareGroups
    from mainstem.coordination.catalog.catalog import Topic


class SeekTarget(NamedTuple):
    """Where to: one of these."""

    edge: Edge | None = None
    time_ms: int | None = None
    offset: int | None = None
    by: int | None = None
    """This number of records on, or back."""


class Move(NamedTuple):
    """Of one partition."""

    topic: Topic
    partition: int
    before: int | None
    """None: the group had no offset there."""
    after: int


class GroupSeeking:
    """Of groups with committed offsets, and of share groups."""

    def __init__(self, engine: Engine, clock: Clock, topics: Topics, groups: Groups, shared: ShareGroups) -> None:
        self._engine = engine
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._shared = shared

    async def plan(
        self, name: str, target: SeekTarget, topics: Sequence[Topic] = (), partition: int | None = None
    ) -> list[Move]:
        """What would move: partitions that the group has an offset of, and all of the topics named.

        Offsets stay within what the partition holds. Raises UnknownGroup, GroupNotEmpty, UnknownLog.
        """
        self._check(name)
        places = self._places(name)
        wanted = {topic.id for topic in topics}
        for topic in topics:
            for number in range(len(topic.logs)):
                places.setdefault((topic.id, number), None)
        moves: list[Move] = []
        for (topic_id, number), before in places.items():
            found = self._topics.by_id.get(topic_id)
            if found is None or number >= len(found.logs):
                continue
            if (wanted and topic_id not in wanted) or partition not in (None, number):
                continue
            after = await self._find(found.logs[number], target, before)
            if after is not None:
                moves.append(Move(found, number, before, after))
        return sorted(moves, key=lambda move: (move.topic.name, move.partition))

    async def seek(self, name: str, moves: Sequence[Move]) -> None:
        """Do it; durable when answered. Raises UnknownGroup, GroupNotEmpty."""
        self._check(name)
        if name in self._shared:
            await self._shared.subscriptions.move(name, {m.topic.logs[m.partition]: m.after for m in moves})
            return
        now_ms = self._clock.now_ms()
        offsets = {TopicPlace(m.topic.id, m.partition): CommittedOffset(m.after, -1, "", now_ms) for m in moves}
        await self._groups.commit(name, offsets)

    async def delete(self, name: str) -> None:
        """Remove a group that has no members. Raises UnknownGroup, GroupNotEmpty."""
        if name in self._shared:
            await self._shared.delete(name)
        else:
            await self._groups.delete(name)

    def _check(self, name: str) -> None:
        if name in self._shared:
            self._shared.check_empty(name)
            return
        if name not in self._groups:
            raise UnknownGroup(f"no group {name}")
        self._groups.check_unused(name)

    def _places(self, name: str) -> dict[tuple[uuid.UUID, int], int | None]:
        if name not in self._shared:
            return {(place.topic, place.partition): at.offset for place, at in self._groups.offsets(name).items()}
        places: dict[tuple[uuid.UUID, int], int | None] = {}
        for log, cursor in self._shared.subscriptions.cursors(name).items():
            origin = self._topics.origin(log)
            if origin is not None:
                places[origin[0].id, origin[1]] = cursor.floor
        return places

    async def _find(self, log: int, target: SeekTarget, before: int | None) -> int | None:
        start = (await self._engine.offset_at(log, Edge.START)).offset
        end = (await self._engine.offset_at(log, Edge.END)).offset
        if target.time_ms is not None or target.edge is not None:
            place: Place = TimeAfter(target.time_ms) if target.time_ms is not None else target.edge or Edge.END
            found = (await self._engine.offset_at(log, place)).offset
            return end if found < 0 else found
        if target.by is not None:
            return None if before is None else min(max(before + target.by, start), end)
        assert target.offset is not None
        return min(max(target.offset, start), end)
