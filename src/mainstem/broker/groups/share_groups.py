"""Share groups: members that work on the same logs side by side, over a subscription that bears the group's name."""

from __future__ import annotations

from collections.abc import Callable, Container

from mainstem.broker.clock import Clock
from mainstem.broker.groups.group_configs import GroupConfigs
from mainstem.broker.groups.group_registry import GroupRegistry
from mainstem.broker.subscriptions.subscriptions import Subscriptions
from mainstem.coordination.errors import GroupNotEmpty, UnknownGroup
from mainstem.coordination.groups.group_config import DURATION_PREFIX, duration_ms
from mainstem.coordination.groups.heartbeats import Beat, BeatRules, HeartbeatReply
from mainstem.coordination.groups.share_group import ShareGroup, ShareMember, decode_epoch
from mainstem.coordination.groups.topology import Topology
from mainstem.storage.contract import Edge, Engine, Place, TimeAfter

__all__ = ["Beat", "HeartbeatReply", "ShareGroup", "ShareGroups", "ShareMember"]


class ShareGroups(GroupRegistry[ShareGroup, BeatRules]):
    """All share groups of a broker."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        topology: Topology,
        configs: GroupConfigs,
        subscriptions: Subscriptions,
        rules: Callable[[str], BeatRules],
    ) -> None:
        super().__init__(clock, rules)
        self._engine = engine
        self._topology = topology
        self.configs = configs
        self.subscriptions = subscriptions
        self.is_held: Callable[[str], bool] = lambda name: False
        """Whether records of a group are held by somebody who is no member; acquisitions set it."""
        self.is_taken: Callable[[str], bool] = lambda name: False
        """Whether a group of another kind has the name; the broker sets it."""

    async def load(self, logs: Container[int]) -> None:
        """Take back what is stored, but for logs that are gone."""
        for name, value in (await self.subscriptions.load()).items():
            self._hold(ShareGroup(name, self.rules(name), decode_epoch(value)))
            gone = [log for log in self.subscriptions.cursors(name) if log not in logs]
            if gone:
                await self.subscriptions.forget(name, gone)

    async def beat(self, name: str, beat: Beat) -> HeartbeatReply:
        """What a member says, and what it is told. Raises kinds of GroupError.

        Who leaves may still settle what it holds: that is given back when its session ends, not here.
        """
        self.check_kind(name)
        group = self._met(name, beat.epoch)
        told = group.beat(beat, self._topology, self._now_ms())
        self._arm(self._hold(group))
        epoch = group.epoch
        if epoch != group.stored_epoch:
            await self._engine.alter((), group.decide_epoch())
            group.stored_epoch = epoch
        return told

    async def ensure(self, name: str) -> None:
        """See to it that there is such a group, with members or without. Raises UnknownGroup if it is of another kind."""
        self.check_kind(name)
        if name not in self:
            group = self._hold(self._create(name))
            await self._engine.alter((), group.decide_epoch())

    def check_kind(self, name: str) -> None:
        """Names are common to all kinds of groups. Raises UnknownGroup, in the words of Kafka's brokers."""
        if name not in self and self.is_taken(name):
            raise UnknownGroup(f"Group {name} is not a share group.")

    async def open(self, name: str, log: int, place: Place | None = None) -> None:
        """Begin to read a log there, or where the group's setting says, unless it is read already. Raises UnknownGroup."""
        self.get(name)
        if log not in self.subscriptions.cursors(name):
            await self.subscriptions.open(name, log, place or self._beginning(name))

    async def delete(self, name: str) -> None:
        """Remove a group that has no members. Raises UnknownGroup, GroupNotEmpty."""
        self.check_empty(name)
        await self.subscriptions.delete(name)
        self._drop(name)

    def check_empty(self, name: str) -> None:
        """Raises UnknownGroup, GroupNotEmpty."""
        if self.get(name).members:
            raise GroupNotEmpty(f"{name} has members")
        if self.is_held(name):
            raise GroupNotEmpty(f"records of {name} are acquired: `mainstem queue acquisitions` names them")

    # -----------------------------------------------------------------------------------------------------------------

    def _beginning(self, name: str) -> Place:
        reset = self.configs.rules(name).reset
        if reset.startswith(DURATION_PREFIX):
            back_ms = duration_ms(reset.removeprefix(DURATION_PREFIX)) or 0
            return TimeAfter(self._clock.now_ms() - back_ms)
        return Edge.START if reset == "earliest" else Edge.END

    def _create(self, name: str) -> ShareGroup:
        return ShareGroup(name, self.rules(name))

    def _on_timer(self, group: ShareGroup) -> None:
        for member in group.late(self._now_ms()):
            group.remove(member, self._topology)
        self._arm(group)
