"""Directed groups: heartbeats in, shares out, each stored before it is told."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping

from mainstem.broker.clock import Clock, Timer
from mainstem.coordination.assignors import TopicShape
from mainstem.coordination.catalog import Topic
from mainstem.coordination.directed_group import DirectedGroup, DirectedState
from mainstem.coordination.directed_members import (
    ENTRY_KEY,
    INDEX_SCOPE,
    JOINS,
    Beat,
    Told,
    put_member,
    scope_of,
)
from mainstem.coordination.errors import UnknownGroup, UnknownMember
from mainstem.model.errors import MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Engine, Mutation

__all__ = ["Beat", "DirectedGroup", "DirectedGroups", "DirectedState", "Told"]

log = logging.getLogger(__name__)


class _Held:
    """A group and its timer."""

    __slots__ = ("due_ms", "group", "timer")

    def __init__(self, group: DirectedGroup) -> None:
        self.group = group
        self.timer: Timer | None = None
        self.due_ms = 0


class Shapes(Mapping[str, TopicShape]):
    """Topics as assignors see them."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics

    def __getitem__(self, name: str) -> TopicShape:
        topic = self._topics[name]
        return TopicShape(topic.id, len(topic.logs))

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: object) -> bool:
        return name in self._topics


class DirectedGroups:
    """All directed groups of a broker."""

    def __init__(self, engine: Engine, clock: Clock, topics: Mapping[str, Topic]) -> None:
        self._engine = engine
        self._clock = clock
        self._shapes = Shapes(topics)
        self._held: dict[str, _Held] = {}
        self._members_max = 10_000
        self._session_timeout_ms = 45_000

    async def load(self) -> None:
        """Take back what is stored."""
        for key in (await self._engine.load(INDEX_SCOPE)).entries:
            await self._restore(key.decode())

    def govern(self, members_max: int, session_timeout_ms: int) -> None:
        """Set the rules of groups that are met from now on."""
        self._members_max, self._session_timeout_ms = members_max, session_timeout_ms

    def has_members(self, name: str) -> bool:
        """Whether this is a directed group in use."""
        held = self._held.get(name)
        return held is not None and bool(held.group.members)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a group, with members or without."""
        return name in self._held

    def names(self) -> list[str]:
        """Of all that are known."""
        return list(self._held)

    def get(self, name: str) -> DirectedGroup:
        """One of them. Raises UnknownGroup."""
        held = self._held.get(name)
        if held is None:
            raise UnknownGroup(f"group {name}")
        return held.group

    async def beat(self, name: str, beat: Beat) -> Told:
        """What a member says, and, once it is stored, what it is told. Raises kinds of GroupError."""
        held = self._held.get(name)
        if held is None:
            if beat.epoch != JOINS:
                raise UnknownMember(f"{name} has no members")
            held = self._held[name] = _Held(DirectedGroup(name, self._members_max, self._session_timeout_ms))
        told = held.group.beat(beat, self._shapes, lambda: str(uuid.uuid4()), self._now_ms())
        self._arm(held)
        changes = held.group.take_changes()
        if changes:
            try:
                await self._engine.alter((), changes)
            except MainstemError:
                # What could not be stored must not be told to anybody: back to what is stored.
                await self._restore(name)
                raise
        return told

    async def delete(self, name: str) -> None:
        """Forget a group that has no members; of one that is not known there is nothing to forget."""
        held = self._held.get(name)
        if held is None:
            return
        assert not held.group.members
        changes = [Mutation(INDEX_SCOPE, name.encode(), None), Mutation(scope_of(name), ENTRY_KEY, None)]
        await self._engine.alter((), changes + [put_member(name, member, None) for member in held.group.target])
        self._held.pop(name, None)

    # -----------------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    async def _restore(self, name: str) -> None:
        before = self._held.pop(name, None)
        if before is not None and before.timer is not None:
            before.timer.cancel()
        entries = (await self._engine.load(scope_of(name))).entries
        if not entries:
            return
        group = DirectedGroup(name, self._members_max, self._session_timeout_ms)
        for key, value in entries.items():
            group.replay(key, value)
        group.wake(self._now_ms())
        held = self._held[name] = _Held(group)
        self._arm(held)

    def _arm(self, held: _Held) -> None:
        due_ms = held.group.next_deadline_ms()
        if due_ms is None or (held.timer is not None and held.due_ms <= due_ms):
            return
        if held.timer is not None:
            held.timer.cancel()
        held.due_ms = due_ms
        held.timer = self._clock.call_later((due_ms - self._now_ms()) / 1000 + 0.001, lambda: self._look(held))

    def _look(self, held: _Held) -> None:
        held.timer = None
        held.group.pass_time(self._shapes, self._now_ms())
        self._arm(held)
        changes = held.group.take_changes()
        if changes:

            def stored(answer: Answer[None]) -> None:
                if answer.error is not None:
                    # Stored later, with the next change; until a restart nobody can tell.
                    log.warning(
                        "group %s: what time has changed could not be stored: %s", held.group.name, answer.error
                    )

            self._engine.alter((), changes).on_done(stored)
