"""A client that watches logs, and checks every report against the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.model.errors import UnknownLog
from mainstem.storage.contract import LogEnd, Watch
from tests.simulation.invariants import WatchesTellTheTruth
from tests.simulation.model import LogFact

if TYPE_CHECKING:
    from tests.simulation.world import World


class Watcher:
    """A watch, and what it was told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._incarnation = world.incarnation
        self.closed = False
        self.told: dict[int, LogFact] = {}
        """Log -> the last fact told."""
        self.handle: Watch = world.engine.watch(self._hear)

    def add(self, log: int) -> None:
        """Take a log in."""
        world = self._world
        known, sequenced = world.known, world.model.last_ordinal
        try:
            told = self.handle.add(log)
        except UnknownLog:
            world.check_unknown(log, known)
            return
        fact = world.try_check(lambda: WatchesTellTheTruth.check(world.model, log, told, known, sequenced))
        if fact is not None:
            self.told[log] = fact
            world.shown(log, fact.ordinal, f"a new watch of log {log}")

    def remove(self, log: int) -> None:
        """Let a log go."""
        self.handle.remove(log)
        self.told.pop(log, None)

    def close(self) -> None:
        """Hear nothing any more."""
        self.handle.close()
        self.closed = True
        self.told.clear()

    def _hear(self, moved: Mapping[int, LogEnd]) -> None:
        world = self._world
        if self._incarnation == world.incarnation:
            world.try_check(lambda: self._check(moved))

    def _check(self, moved: Mapping[int, LogEnd]) -> None:
        world = self._world
        WatchesTellTheTruth.require(not self.closed, "a closed watch is told something")
        WatchesTellTheTruth.require(not world.in_call, "a watch is told something from within a call")
        WatchesTellTheTruth.require(moved, "a watch is told nothing")
        for log, told in moved.items():
            WatchesTellTheTruth.require(log in self.told, f"a watch without log {log} is told about it")
            known = self.told[log].ordinal
            fact = WatchesTellTheTruth.check(world.model, log, told, known, world.model.last_ordinal)
            world.shown(log, fact.ordinal, f"a watch of log {log}")
            if told.end < 0:
                del self.told[log]
            else:
                self.told[log] = fact

    def check_current(self) -> None:
        """When nothing is pending, it has been told all."""
        for log, fact in self.told.items():
            watched = self._world.model.logs.get(log)
            ends = None if watched is None else (watched.end, watched.stable)
            WatchesTellTheTruth.require(
                ends == (fact.end, fact.stable), f"log {log} is at {ends}, but the last report was {fact}"
            )
