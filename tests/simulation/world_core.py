"""What a simulated node and its model know, and how calls are made and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from mainstem.model.errors import DiskError, EngineClosed, EngineFailed, Overloaded, StorageFull
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Committed, Engine, Lease, LogChange
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.disk import SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime, Stuck
from tests.simulation.invariants import (
    EarlyDeletionTakesWholeBatches,
    EveryCallIsAnswered,
    FullDisksHeal,
    NoAnswerShowsUndurableState,
    NothingAcknowledgedLost,
    RetentionTakesOnlyWhatIsDue,
    StateEqualsReplay,
    Violation,
)
from tests.simulation.model import LogFact, LogModel, Model, SentCommit, SentLease
from tests.simulation.recovery_check import NOTHING_YET, STEPS_MAX, Requirement, Sequenced
from tests.simulation.watcher import Watcher

FLUSH_RANKS = {"os": 0, "interval": 1, "sync": 2}


class OpenEngine(Protocol):
    """Makes the engine under test. Recovery is part of it."""

    def __call__(self, *, disk: SimulatedDisk, runtime: SimulatedRuntime, settings: EngineSettings) -> Engine:
        """Open, or raise."""


class WorldCore:
    """The node without its calls."""

    def __init__(
        self,
        rng: Random,
        settings: EngineSettings,
        open_engine: OpenEngine,
        *,
        run_merge: Callable[[SimulatedDisk, bytes], bytes] | None = None,
        scopes: Sequence[str] = (),
        roles: Sequence[str] = (),
    ) -> None:
        self.rng = rng
        self.settings = settings
        self.scopes = scopes
        self.roles = roles
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk(rng, mounts=("fast",))
        self.history: list[tuple[str, tuple[object, ...]]] = []
        self.incarnation = 0
        self.recoveries = 0
        self.recovery_interrupts = 0
        """How many of the next recoveries are to be interrupted."""
        self.violation: Violation | None = None
        self.in_call = False

        self.model = Model(settings.commit_bytes_max)
        self.baseline = self.model.copy()
        self.entries: list[Sequenced] = []
        """Commits since the baseline that were not refused, in order."""
        self.next_ordinal = 0
        self.start_seen: dict[int, int] = {}
        self.known = -1
        """The newest Commit that was acknowledged."""
        self.survives_power = NOTHING_YET
        self.survives_kill = NOTHING_YET
        self.leases: dict[str, Lease] = {}

        self.outstanding: dict[int, str] = {}
        self.calls = 0
        self.watchers: list[Watcher] = []
        self.failed = False
        self.closing = False
        self.serial = False
        """One Commit at a time: whether the disk is full is not for the model to know, and shows in the answer only."""
        self.overloads = False
        """Whether limits are so tight that refusing as overloaded is right."""
        self.full = False
        """Whether there is little room, or the engine was not told yet that there is more."""
        self.early_deletion = False
        """Whether the engine was told to delete data before its time when the disk is nearly full."""
        self.was_full = False
        """Whether there ever was little room: then what was acknowledged need not be held any longer."""
        self.pressed = False
        """Whether it was, and the disk was ever that full."""
        self._open_engine = open_engine
        self._run_merge = run_merge
        self.runtime: SimulatedRuntime
        self.engine: Any
        for directory in ("data", "fast"):
            self.disk.make_directory(directory)
        self.disk.sync_directory("")

    def note(self, text: str, *values: object) -> None:
        """Remember what happened; formatted only when it must be told."""
        self.history.append((text, values))

    # Checking

    def try_check(self, check: Callable[[], Any]) -> Any:
        """Run a check; the first violation is kept until the history can be stopped."""
        if self.violation is not None:
            return None
        try:
            return check()
        except Violation as violation:
            self.violation = violation
            return None

    def stop_if_broken(self) -> None:
        """End the history with the violation, if there is one."""
        if self.violation is not None:
            raise self.violation

    def acknowledged(self, entry: SentCommit | SentLease, rank: int) -> None:
        """A Commit was answered."""
        self.known = max(self.known, entry.ordinal)
        requirement = Requirement(entry.ordinal, NothingAcknowledgedLost, f"{entry} was acknowledged")
        self._must_survive(requirement, power=rank == FLUSH_RANKS["sync"])

    def shown(self, log: int | None, ordinal: int, what: str) -> None:
        """An answer shows a Commit, of a log or of state."""
        watched = None if log is None else self.model.find(log)
        flush = (watched.config.flush if watched else None) or self.settings.flush
        requirement = Requirement(ordinal, NoAnswerShowsUndurableState, f"{what} shows #{ordinal}")
        self._must_survive(requirement, power=flush == "sync")

    def _must_survive(self, requirement: Requirement, *, power: bool) -> None:
        if requirement.ordinal > self.survives_kill.ordinal:
            self.survives_kill = requirement
        if power and requirement.ordinal > self.survives_power.ordinal:
            self.survives_power = requirement

    def rank_of(self, sent: SentCommit, outcome: Committed) -> int:
        """How durable a Commit is when answered: as the most careful of the logs that it wrote to."""
        default = FLUSH_RANKS[self.settings.flush]
        ranks = [default] if sent.state or sent.changes else [0]
        written = [batch.log for place, batch in enumerate(sent.appends) if place not in outcome.repeated]
        written += [refer.log for refer in sent.refers if refer.append not in outcome.repeated]
        written += [change.log for change in sent.changes]
        for log_id in written:
            log = self.model.find(log_id)
            if log is not None:
                ranks.append(default if log.config.flush is None else FLUSH_RANKS[log.config.flush])
        return max(ranks)

    def check_unknown(self, log: int, known: int) -> None:
        """An answer says that there is no such log."""
        watched = self.model.find(log)
        if watched is None or watched.facts[0].ordinal > known:
            return
        for fact in watched.facts_between(known, self.model.last_ordinal):
            if fact.end < 0:
                self.shown(log, fact.ordinal, f"log {log} being unknown")
                return
        self.try_check(lambda: StateEqualsReplay.broken(f"log {log} is unknown, but was never deleted"))

    # Calls

    def _call(self, what: str, start: Callable[[], Answer[Any]], finish: Callable[[Answer[Any]], None]) -> Answer[Any]:
        """Start a call of the engine and have its answer checked, unless the engine is gone by then."""
        self.calls += 1
        call, incarnation = self.calls, self.incarnation
        self.in_call = True
        try:
            answer = start()
        finally:
            self.in_call = False
        self.outstanding[call] = what

        def check(done: Answer[Any]) -> None:
            if incarnation == self.incarnation:
                del self.outstanding[call]
                self.try_check(lambda: finish(done))

        answer.on_done(check)
        return answer

    def _excused(self, error: BaseException, what: str) -> None:
        """An error that says nothing about the request: it must have its cause in the history."""
        if isinstance(error, EngineFailed):
            caused = self.disk.faults or self.disk.refused_for_space or self.full
        elif isinstance(error, EngineClosed):
            caused = self.closing
        elif isinstance(error, Overloaded):
            caused = self.overloads
        elif isinstance(error, StorageFull):
            FullDisksHeal.require(self.full, f"{what} is refused although there is room again: {error}")
            caused = True
        elif isinstance(error, (DiskError, OSError)):
            caused = self.disk.faults or self.disk.refused_for_space
        else:
            raise error
        EveryCallIsAnswered.require(caused, f"{what} failed with {error!r} without a cause")

    def _ordinal(self) -> int:
        self.next_ordinal += 1
        return self.next_ordinal - 1

    def sent(self, **parts: Any) -> SentCommit:
        """A Commit with the next ordinal."""
        return SentCommit(self._ordinal(), **parts)

    def change(self, *changes: LogChange) -> SentCommit:
        """A Commit of log changes."""
        return self.sent(changes=changes)

    def _loose(self, log: LogModel) -> bool:
        """Whether the engine may move the start of a log by itself."""
        return log.retained or (self.pressed and any(config.delete for config in log.configs))

    def _shows(self, log: LogModel, known: int, start: int, end: int, stable: int, start_seen: int) -> LogFact | None:
        """The first fact that an answer can be showing."""
        loose = self._loose(log)
        for fact in log.facts_between(known, self.model.last_ordinal):
            if (fact.end, fact.stable) != (end, stable):
                continue
            if start == fact.start and not loose:
                return fact
            if loose and max(fact.start, start_seen) <= start <= end:
                return fact
        return None

    def _see_start(self, log: LogModel, start: int) -> None:
        """A start that was shown never goes back, and was not moved too far."""
        if start > self.start_seen.get(log.id, 0):
            self.start_seen[log.id] = start
            limit = RetentionTakesOnlyWhatIsDue.start_max(log, self.clock.now_ms(), was_full=self.was_full)
            if start > limit and self.pressed:
                EarlyDeletionTakesWholeBatches.check(log, start, limit)
                return
            RetentionTakesOnlyWhatIsDue.require(start <= limit, f"log {log.id} begins at {start}, may only at {limit}")

    # Time

    def drain(self) -> None:
        """Until every call is answered and nothing is under way."""
        try:
            self.runtime.run_until(
                lambda: self.violation is not None or (not self.outstanding and self.runtime.idle), STEPS_MAX
            )
        except Stuck as stuck:
            waiting = ", ".join(self.outstanding.values()) or "an event"
            EveryCallIsAnswered.broken(f"{waiting}: {stuck}")
        self.stop_if_broken()
        if not self.failed:
            for watcher in self.watchers:
                watcher.check_current()

    def wait(self, answer: Answer[Any]) -> None:
        """Until one call is answered."""
        try:
            self.runtime.run_until(lambda: answer.done or self.violation is not None, STEPS_MAX)
        except Stuck as stuck:
            EveryCallIsAnswered.broken(f"{', '.join(self.outstanding.values())}: {stuck}")
        self.stop_if_broken()

    def rest(self, milliseconds: int) -> None:
        """Nothing is asked for a while; what is flushed in intervals becomes durable."""
        self.note("rest %s ms", milliseconds)
        self.drain()
        interval_ms = self.settings.flush_interval_ms
        written = self.survives_kill
        lazy = self.settings.flush == "os" or any(log.config.flush == "os" for log in self.model.logs.values())
        self.runtime.pass_time(milliseconds)
        self.drain()
        if milliseconds >= 2 * interval_ms and not lazy and not self.failed:
            self._must_survive(written, power=True)
