"""Groups that the broker assigns, of one kind, by name: each is looked at when something of it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from mainstem.broker.alarm import Alarm
from mainstem.broker.clock import Clock
from mainstem.coordination.errors import UnknownGroup, UnknownMember
from mainstem.coordination.groups.heartbeats import JOINS

R = TypeVar("R")


class AnyGroup(Protocol[R]):
    """What is common to the kinds."""

    rules: R

    @property
    def name(self) -> str:
        """Of the group."""

    @property
    def members(self) -> Mapping[str, object]:
        """By id."""

    def next_deadline_ms(self) -> int | None:
        """When there is something to do."""


G = TypeVar("G", bound=AnyGroup[Any])


class GroupRegistry(Generic[G, R]):
    """All groups of a kind."""

    def __init__(self, clock: Clock, rules: Callable[[str], R]) -> None:
        self._clock = clock
        self.rules = rules
        """What holds for a group of this name now."""
        self._groups: dict[str, G] = {}
        self._alarms: dict[str, Alarm] = {}

    def __contains__(self, name: str) -> bool:
        """Whether there is such a group, with members or without."""
        return name in self._groups

    def names(self) -> list[str]:
        """Of all that are known."""
        return list(self._groups)

    def get(self, name: str) -> G:
        """One of them. Raises UnknownGroup."""
        group = self._groups.get(name)
        if group is None:
            raise UnknownGroup(f"group {name}")
        return group

    def has_members(self, name: str) -> bool:
        """Whether there is such a group and it is in use."""
        group = self._groups.get(name)
        return group is not None and bool(group.members)

    # For the kinds

    def _create(self, name: str) -> G:
        raise NotImplementedError

    def _on_timer(self, group: G) -> None:
        """Time has passed."""
        raise NotImplementedError

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _met(self, name: str, epoch: int) -> G:
        """The group of a heartbeat, with the rules of today; held once it has a member. Raises UnknownMember."""
        group = self._groups.get(name)
        if group is None:
            if epoch != JOINS:
                raise UnknownMember(f"{name} has no members")
            return self._create(name)
        group.rules = self.rules(name)
        return group

    def _hold(self, group: G) -> G:
        if self._groups.get(group.name) is group:
            return group
        self._drop(group.name)
        self._groups[group.name] = group
        self._alarms[group.name] = Alarm(self._clock, lambda: self._on_timer(group))
        return group

    def _drop(self, name: str) -> None:
        self._groups.pop(name, None)
        alarm = self._alarms.pop(name, None)
        if alarm is not None:
            alarm.cancel()

    def _arm(self, group: G) -> None:
        if self._groups.get(group.name) is group:
            self._alarms[group.name].set(group.next_deadline_ms())
