"""Groups that the broker assigns and whose members are stored: every change is durable before somebody is told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from mainstem.broker.clock import Clock
from mainstem.broker.groups.group_registry import AnyGroup, GroupRegistry
from mainstem.model.errors import MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Engine, Mutation

log = logging.getLogger(__name__)

R = TypeVar("R")


class StoredGroup(AnyGroup[R], Protocol[R]):
    """What is common to the kinds."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one stored mutation."""

    def wake(self, now_ms: int) -> None:
        """Give every member a session to show that it still lives."""

    def take_changes(self) -> list[Mutation]:
        """What has changed since the last call, to be stored."""

    def decide_delete(self) -> list[Mutation]:
        """Nothing of the group stays."""


S = TypeVar("S", bound=StoredGroup[Any])


class StoredGroups(GroupRegistry[S, R]):
    """All groups of a kind. Each has a key in the index, and its state in the scope INDEX/NAME."""

    def __init__(self, engine: Engine, clock: Clock, rules: Callable[[str], R], index_scope: str) -> None:
        super().__init__(clock, rules)
        self._engine = engine
        self._index_scope = index_scope

    async def load(self) -> None:
        """Take back what is stored."""
        for key in (await self._engine.load(self._index_scope)).entries:
            await self._restore(key.decode())

    def wake(self) -> None:
        """After a start, once the rules are known: every member has a session to show that it still lives."""
        for group in self._groups.values():
            group.rules = self.rules(group.name)
            group.wake(self._now_ms())
            self._arm(group)

    async def delete(self, name: str) -> None:
        """Forget a group that has no members; of one that is not known there is nothing to forget."""
        group = self._groups.get(name)
        if group is None:
            return
        assert not group.members
        await self._engine.alter((), group.decide_delete())
        if self._groups.get(name) is group and not group.members:
            self._drop(name)

    # For the kinds

    def _pass_time(self, group: S) -> None:
        """Drop members whose time is up."""
        raise NotImplementedError

    def _changes(self, group: S) -> list[Mutation]:
        return group.take_changes()

    def _forget(self, name: str) -> None:
        """What is known of the group is not what is stored."""
        self._drop(name)

    async def _store(self, group: S, more: Sequence[Mutation] = ()) -> None:
        self._arm(group)
        changes = [*self._changes(group), *more]
        if changes:
            try:
                await self._engine.alter((), changes)
            except MainstemError:
                # What could not be stored must not be told to anybody: back to what is stored.
                await self._restore(group.name)
                raise

    async def _restore(self, name: str) -> None:
        self._forget(name)
        entries = (await self._engine.load(f"{self._index_scope}/{name}")).entries
        if not entries:
            return
        group = self._create(name)
        for key, value in entries.items():
            group.replay(key, value)
        group.wake(self._now_ms())
        self._arm(self._hold(group))

    def _on_timer(self, group: S) -> None:
        self._pass_time(group)
        self._arm(group)
        changes = self._changes(group)
        if changes:

            def stored(answer: Answer[None]) -> None:
                if answer.error is not None:
                    # After a restart they are members again, and dropped again when their time is over.
                    log.warning("group %s: what time has changed could not be stored: %s", group.name, answer.error)

            self._engine.alter((), changes).on_done(stored)
