"""Directed groups: heartbeats in, shares out, each stored before it is told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from mainstem.broker.clock import Clock
from mainstem.broker.groups.stored_groups import StoredGroups
from mainstem.coordination.groups.classic_members import Assigned, Joined, JoinWish
from mainstem.coordination.groups.directed_group import DirectedGroup, DirectedState
from mainstem.coordination.groups.directed_members import INDEX_SCOPE, DirectedMember
from mainstem.coordination.groups.heartbeats import JOINS, Beat, BeatRules, HeartbeatReply
from mainstem.coordination.groups.mixed_group import ClassicMembers
from mainstem.coordination.groups.topology import Topology
from mainstem.storage.contract import Engine, Mutation

__all__ = [
    "JOINS",
    "Beat",
    "BeatRules",
    "DirectedGroup",
    "DirectedGroups",
    "DirectedMember",
    "DirectedState",
    "HeartbeatReply",
]


def _new_id() -> str:
    return str(uuid.uuid4())


class DirectedGroups(StoredGroups[DirectedGroup, BeatRules]):
    """All directed groups of a broker."""

    def __init__(self, engine: Engine, clock: Clock, topology: Topology, rules: Callable[[str], BeatRules]) -> None:
        super().__init__(engine, clock, rules, INDEX_SCOPE)
        self.topology = topology
        self.downgrade: Callable[[DirectedGroup], list[Mutation]] | None = None
        """Takes over a group whose members all speak the classic protocol; answers what that changes."""
        self.reinstate: Callable[[str], None] = lambda name: None
        """What `downgrade` did could not be stored."""

    async def beat(self, name: str, beat: Beat) -> HeartbeatReply:
        """What a member says, and, once it is stored, what it is told. Raises kinds of GroupError."""
        group = self._met(name, beat.epoch)
        told = group.beat(beat, self.topology, _new_id, self._now_ms())
        await self._store(self._hold(group))
        return told

    async def adopt(self, group: DirectedGroup, beat: Beat, changes: Sequence[Mutation]) -> HeartbeatReply:
        """Take over a group that was of another kind, for a member that joins, with what else that changes."""
        told = group.beat(beat, self.topology, _new_id, self._now_ms())
        await self._store(self._hold(group), changes)
        return told

    # Members of the classic protocol

    async def join(self, name: str, wish: JoinWish) -> Joined:
        """Take part. Raises kinds of GroupError."""
        group = self.get(name)
        joined = self._classic(group).join(wish, _new_id, self._now_ms())
        await self._store(group)
        return joined

    def sync(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocols: tuple[str | None, str | None],
    ) -> Assigned:
        """Learn one's share. Raises kinds of GroupError."""
        group = self.get(name)
        try:
            return self._classic(group).sync(member_id, instance_id, generation, protocols, self._now_ms())
        finally:
            self._arm(group)

    def heartbeat(self, name: str, member_id: str, instance_id: str | None, generation: int) -> None:
        """The member lives. Raises kinds of GroupError."""
        group = self.get(name)
        try:
            self._classic(group).heartbeat(member_id, instance_id, generation, self._now_ms())
        finally:
            self._arm(group)

    async def leave(self, name: str, member_id: str, instance_id: str | None) -> str:
        """The member goes; answers its id. Raises kinds of GroupError."""
        group = self.get(name)
        gone = self._classic(group).leave(member_id, instance_id)
        await self._store(group)
        return gone

    # -----------------------------------------------------------------------------------------------------------------

    def _classic(self, group: DirectedGroup) -> ClassicMembers:
        group.rules = self.rules(group.name)
        return ClassicMembers(group, self.topology)

    def _create(self, name: str) -> DirectedGroup:
        return DirectedGroup(name, self.rules(name))

    def _changes(self, group: DirectedGroup) -> list[Mutation]:
        if self.downgrade is None or not group.is_to_downgrade:
            return group.take_changes()
        self._drop(group.name)
        return [*group.decide_delete(), *self.downgrade(group)]

    def _forget(self, name: str) -> None:
        super()._forget(name)
        self.reinstate(name)

    def _pass_time(self, group: DirectedGroup) -> None:
        group.pass_time(self.topology, self._now_ms())
