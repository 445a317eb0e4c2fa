"""Share groups: members that work on the same logs side by side, over a subscription that bears the group's name."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from mainstem.broker.clock import Clock, Timer
from mainstem.broker.directed_groups import Shapes
from mainstem.broker.group_configs import GroupConfigs
from mainstem.broker.subscriptions import Subscriptions
from mainstem.coordination.catalog import Topic
from mainstem.coordination.errors import GroupNotEmpty, UnknownGroup, UnknownMember
from mainstem.coordination.share_config import DURATION_PREFIX, duration_ms
from mainstem.coordination.share_group import JOINS, LEAVES, ShareBeat, ShareGroup, ShareMember, ShareTold
from mainstem.coordination.subscription_entries import INDEX_SCOPE
from mainstem.storage.contract import Edge, Engine, Mutation, Place, TimeAfter

__all__ = ["ShareBeat", "ShareGroup", "ShareGroups", "ShareMember", "ShareTold"]

_encode = msgspec.msgpack.Encoder().encode
_decode_epoch = msgspec.msgpack.Decoder(int).decode


class _Held:
    """A group and its timer."""

    __slots__ = ("due_ms", "group", "stored_epoch", "timer")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.stored_epoch = group.epoch
        self.timer: Timer | None = None
        self.due_ms = 0


class ShareGroups:
    """All share groups of a broker."""

    def __init__(self, engine: Engine, clock: Clock, topics: Mapping[str, Topic]) -> None:
        self._engine = engine
        self._clock = clock
        self._shapes = Shapes(topics)
        self.configs = GroupConfigs(engine)
        self.subscriptions = Subscriptions(engine, clock, topics, self.configs.rules)
        self._held: dict[str, _Held] = {}
        self._members_max = 200
        self._session_timeout_ms = 45_000

    async def load(self, logs: Container[int]) -> None:
        """Take back what is stored, but for logs that are gone."""
        await self.configs.load()
        for name, value in (await self.subscriptions.load()).items():
            self._hold(name, _decode_epoch(value))
            gone = [log for log in self.subscriptions.cursors(name) if log not in logs]
            if gone:
                await self.subscriptions.forget(name, gone)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a group, with members or without."""
        return name in self._held

    def names(self) -> list[str]:
        """Of all that are known."""
        return list(self._held)

    def get(self, name: str) -> ShareGroup:
        """One of them. Raises UnknownGroup."""
        held = self._held.get(name)
        if held is None:
            raise UnknownGroup(f"group {name}")
        return held.group

    async def beat(self, name: str, beat: ShareBeat) -> ShareTold:
        """What a member says, and what it is told. Raises kinds of GroupError."""
        held = self._held.get(name)
        if held is None:
            if beat.epoch != JOINS:
                raise UnknownMember(f"{name} has no members")
            held = self._hold(name, 0)
        told = held.group.beat(beat, self._shapes, self._now_ms())
        if beat.epoch == LEAVES:
            self.subscriptions.give_back(name, beat.member_id)
        self._arm(held)
        await self._store(held)
        return told

    async def open(self, name: str, log: int) -> None:
        """Begin to read a log where the group's setting says, unless it is read already. Raises UnknownGroup."""
        self.get(name)
        if log not in self.subscriptions.cursors(name):
            await self.subscriptions.open(name, log, self._beginning(name))

    async def delete(self, name: str) -> None:
        """Remove a group that has no members. Raises UnknownGroup, GroupNotEmpty."""
        self.check_empty(name)
        await self.subscriptions.delete(name)
        self._held.pop(name, None)

    def check_empty(self, name: str) -> None:
        """Raises UnknownGroup, GroupNotEmpty."""
        if self.get(name).members:
            raise GroupNotEmpty(f"{name} has members")

    # -----------------------------------------------------------------------------------------------------------------

    def _beginning(self, name: str) -> Place:
        reset = self.configs.rules(name).reset
        if reset.startswith(DURATION_PREFIX):
            back_ms = duration_ms(reset.removeprefix(DURATION_PREFIX)) or 0
            return TimeAfter(self._clock.now_ms() - back_ms)
        return Edge.START if reset == "earliest" else Edge.END

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _hold(self, name: str, epoch: int) -> _Held:
        held = self._held[name] = _Held(ShareGroup(name, epoch, self._members_max, self._session_timeout_ms))
        return held

    async def _store(self, held: _Held) -> None:
        """The epoch, so that it never goes back, and with it that there is the group."""
        epoch = held.group.epoch
        if epoch != held.stored_epoch:
            await self._engine.alter((), [Mutation(INDEX_SCOPE, held.group.name.encode(), _encode(epoch))])
            held.stored_epoch = epoch

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
        for member in held.group.late(self._now_ms()):
            held.group.remove(member, self._shapes)
            self.subscriptions.give_back(held.group.name, member.id)
        self._arm(held)
