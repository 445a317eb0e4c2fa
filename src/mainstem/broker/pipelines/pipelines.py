"""Deployed pipelines: kept, given to workers under leases, and reported on."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from mainstem.broker.catalog.topics import Topics
from mainstem.broker.clock import Clock
from mainstem.broker.pipelines.foreground_runs import ForegroundRuns
from mainstem.coordination.pipelines.deployments import (
    RESERVED_PREFIX,
    SCOPE,
    DefinitionEntry,
    DeploymentTable,
    Holder,
    StandEntry,
    Wanted,
)
from mainstem.coordination.pipelines.errors import BuiltInPipeline, StaleLease, UnknownPipeline
from mainstem.coordination.pipelines.report import Condition, Report, SinkReport
from mainstem.storage.contract import Engine, Mutation

__all__ = [
    "LEASE_S",
    "Assignment",
    "Condition",
    "DefinitionEntry",
    "Holder",
    "Orders",
    "Pipelines",
    "Report",
    "SinkReport",
    "StandEntry",
    "Wanted",
    "WorkerReport",
    "built_in",
    "table_pipelines",
]

TABLES = "tables"
"""What a driver runs for topics that are kept as tables."""
LEASE_S = 30.0
"""How long a worker may be silent before another one gets what it runs."""


class WorkerReport(NamedTuple):
    """What a worker says of one pipeline that it runs, or has begun to end."""

    name: str
    epoch: int
    revision: int
    condition: Condition
    error: str = ""
    restarts: int = 0
    log_position: int = 0
    log: str = ""


class Assignment(NamedTuple):
    """What a worker is to run."""

    name: str
    epoch: int
    definition: DefinitionEntry
    log_end: int
    """How much of its log is known here."""


class Orders(NamedTuple):
    """What a worker is answered."""

    assignments: list[Assignment]
    removed: list[str]
    """Of those it runs: what it keeps of them is not needed any more."""


class Pipelines:
    """By name."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._table = DeploymentTable()
        self._reports: dict[str, Report] = {}
        self._leases: dict[str, float] = {}
        """Until when, by the monotonic clock."""
        self._changes_lock = asyncio.Lock()
        self.foreground = ForegroundRuns(clock)
        self.origins: list[Callable[[], Iterable[tuple[str, DefinitionEntry]]]] = []
        """Further pipelines that other parts of the broker bring: asked whenever somebody wants to know."""

    async def load(self) -> None:
        """Take in what is stored; leases begin anew."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._table.replay(key, value)
        until = self._clock.monotonic() + LEASE_S
        self._leases = {name: until for name, stand in self._table.stands.items() if stand.worker}

    # Questions

    def all(self, *, with_built_in: bool = False) -> dict[str, DefinitionEntry]:
        """What was deployed, and what the broker itself brings."""
        found = dict(self._table.definitions)
        if with_built_in:
            for origin in self.origins:
                for name, entry in origin():
                    found.setdefault(name, entry)
        return found

    def get(self, name: str) -> DefinitionEntry:
        """One of them. Raises UnknownPipeline."""
        found = self._table.definitions.get(name) or self.all(with_built_in=True).get(name)
        if found is None:
            raise UnknownPipeline(f"there is no pipeline {name!r}")
        return found

    def stand(self, name: str) -> StandEntry:
        """What is wanted of it, and who runs it."""
        return self._table.stand(name)

    def report(self, name: str) -> Report:
        """What was last heard of it."""
        return self._reports.get(name) or Report()

    def is_leased(self, name: str) -> bool:
        """Whether a worker runs it, as far as we know."""
        return bool(self.stand(name).worker) and self._clock.monotonic() < self._leases.get(name, 0.0)

    def state(self, name: str) -> str:
        """In one word."""
        stand = self.stand(name)
        is_held = self.is_leased(name)
        if stand.wanted != "running":
            return "stopping" if is_held else stand.wanted
        if stand.finished_ms:
            return "finished"
        return self.report(name).condition if is_held else "waiting"

    # Administration

    async def deploy(self, name: str, file: str, text: str, files: Mapping[str, str]) -> bool:
        """Keep it, in place of what was deployed by this name; durable when answered. Answers whether it is new."""
        async with self._changes_lock:
            if name.startswith(RESERVED_PREFIX):
                raise BuiltInPipeline(f"names that begin with {RESERVED_PREFIX} are for the broker's own pipelines")
            is_new = name not in self._table.definitions
            await self._store(self._table.decide_deploy(name, file, text, files, self._clock.now_ms()))
            return is_new

    async def wish(self, name: str, wanted: Wanted) -> None:
        """It is to run, or not; durable when answered. Raises UnknownPipeline."""
        async with self._changes_lock:
            self.get(name)
            await self._store(self._table.decide_wish(name, wanted))

    async def remove(self, name: str) -> None:
        """It is not there any more; durable when answered. Raises UnknownPipeline, BuiltInPipeline."""
        async with self._changes_lock:
            if name not in self._table.definitions and name in self.all(with_built_in=True):
                raise BuiltInPipeline(f"{name!r} is the broker's own: it goes with what it is for, or can be stopped")
            await self._store(self._table.decide_remove(name))
            self._reports.pop(name, None)
            self._leases.pop(name, None)

    # Workers

    async def beat(
        self, holder: Holder, room: int, reports: Sequence[WorkerReport], *, is_leaving: bool = False
    ) -> Orders:
        """A worker lives: what it runs is renewed, what nobody runs is granted as far as it has room.

        One that is leaving gives back what it does not run any more.
        """
        async with self._changes_lock:
            known = self.all(with_built_in=True)
            now_ms = self._clock.now_ms()
            named = {report.name: report for report in reports}
            state = self._table.decide_forget([name for name in self._table.stands if name not in known])
            finished = set()
            for report in reports:
                if report.name in known and self._is_held(report.name, holder, report.epoch):
                    self._note(report, holder, now_ms)
                    # of an older revision it says nothing: the new one has not begun
                    if report.condition == "finished" and report.revision == known[report.name].revision:
                        finished.add(report.name)
                        state += self._table.decide_finished(report.name, now_ms)
            mine = [name for name in known if self._is_held(name, holder) and name not in finished]
            kept = [name for name in mine if self._is_wanted(name) and not is_leaving]
            state += self._table.decide_release([name for name in mine if name not in kept and name not in named])
            free = [
                name
                for name in known
                if name not in mine and name not in finished and self._is_wanted(name) and self._is_free(name, holder)
            ]
            granted = [] if is_leaving else free[: max(0, room)]
            state += self._table.decide_grant(granted, holder)
            await self._store(state)
            self._renew([*mine, *granted], granted)
            wanted = [self._assignment(name, known[name], holder) for name in [*kept, *granted]]
            return Orders(wanted, [name for name in named if name not in known])

    def progress(
        self, name: str, epoch: int, run: str, sinks: Sequence[SinkReport], broken: Mapping[str, int]
    ) -> float:
        """A driver reports; answers for how many seconds it may go on. Raises UnknownPipeline, StaleLease.

        One without an epoch runs in the foreground, under nobody's lease.
        """
        if not epoch and name not in self.all(with_built_in=True):
            self.foreground.note(name, run, sinks, broken)
            return LEASE_S
        self.get(name)
        stand = self.stand(name)
        if not epoch or stand.epoch != epoch:
            raise StaleLease(f"pipeline {name!r} is run under epoch {stand.epoch}, not {epoch}")
        self._report(name).note_progress(run, sinks, broken, self._clock.now_ms())
        return max(0.0, self._leases.get(name, 0.0) - self._clock.monotonic())

    def _assignment(self, name: str, definition: DefinitionEntry, holder: Holder) -> Assignment:
        log = self._report(name).log
        end = log.end if log.source == holder.incarnation else 0
        return Assignment(name, self.stand(name).epoch, definition, end)

    def _renew(self, names: Iterable[str], granted: Iterable[str]) -> None:
        until = self._clock.monotonic() + LEASE_S
        for name in names:
            self._leases[name] = until
        for name in granted:
            self._report(name).note_condition("starting", "", self._report(name).restarts, self._clock.now_ms())

    def _note(self, report: WorkerReport, holder: Holder, now_ms: int) -> None:
        known = self._report(report.name)
        known.note_condition(report.condition, report.error, report.restarts, now_ms)
        if report.log:
            known.log.append(holder.incarnation, report.log_position, report.log)

    def _report(self, name: str) -> Report:
        return self._reports.setdefault(name, Report())

    def _is_held(self, name: str, holder: Holder, epoch: int | None = None) -> bool:
        stand = self.stand(name)
        is_his = (stand.worker, stand.incarnation) == holder
        return is_his and (epoch is None or epoch == stand.epoch)

    def _is_wanted(self, name: str) -> bool:
        stand = self.stand(name)
        return stand.wanted == "running" and not stand.finished_ms

    def _is_free(self, name: str, holder: Holder) -> bool:
        """Nobody has it, or its holder is silent, or its holder was this worker before a restart."""
        return not self.is_leased(name) or self.stand(name).worker == holder.worker

    async def _store(self, state: list[Mutation]) -> None:
        if state:
            await self._engine.alter((), state)
            for mutation in state:
                self._table.replay(mutation.key, mutation.value)


def table_pipelines(topics: Topics) -> Iterable[tuple[str, DefinitionEntry]]:
    """One pipeline for all topics that are kept as tables, while there are any."""
    if topics.tables():
        yield RESERVED_PREFIX + TABLES, built_in(TABLES, TABLES, "table")


def built_in(identity: str, text: str, origin: str) -> DefinitionEntry:
    """What the broker itself brings: the text is the name of what a driver runs."""
    return DefinitionEntry(identity, zlib.crc32(text.encode()), f"{text}.builtin", text, {}, 0, origin)
