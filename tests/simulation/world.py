"""One simulated node: an engine on a disk that forgets, and a model beside it that says what must be.

Every call goes to the engine first and then, unless refused at once, to the model; every answer is compared with what the
model says at that moment. An answer may show anything between the Commits that were acknowledged when it was asked for and
those sequenced when it came, and the newest Commit that it shows must survive every later crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Protocol

from mainstem.model.errors import (
    DiskError,
    EngineClosed,
    EngineFailed,
    OffsetOutOfRange,
    Overloaded,
    StorageFull,
    UnknownLog,
)
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    CommitResult,
    Committed,
    Edge,
    Engine,
    Found,
    Lease,
    LogChange,
    MaintainReport,
    Place,
    ReadHint,
    ReadResult,
    StateSnapshot,
    TrimLog,
)
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.disk import Interrupted, PowerLoss, ProcessKilled, SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime, Stuck
from mainstem.wire.record_batch import batches_in, decode_records
from tests.simulation.invariants import (
    AlwaysRecovers,
    BytesVerbatim,
    CompactionKeepsTheLast,
    EveryCallIsAnswered,
    FullDisksHeal,
    IdempotenceSurvives,
    NoAnswerShowsUndurableState,
    NothingAcknowledgedLost,
    OffsetsDenseAndNeverReused,
    PositionsAreFound,
    ReadsAreWhole,
    RefusalsChangeNothing,
    RetentionTakesOnlyWhatIsDue,
    StableOffsetAndAborted,
    StateEqualsReplay,
    Violation,
)
from tests.simulation.model import LogFact, LogModel, Model, Refused, SentCommit, SentLease, replay
from tests.simulation.recovery_check import (
    NOTHING_YET,
    STEPS_MAX,
    Observation,
    RecoveryCheck,
    Requirement,
    Sequenced,
    observe,
)
from tests.simulation.watcher import Watcher

FLUSH_RANKS = {"os": 0, "interval": 1, "sync": 2}


class OpenEngine(Protocol):
    """Makes the engine under test. Recovery is part of it."""

    def __call__(self, *, disk: SimulatedDisk, runtime: SimulatedRuntime, settings: EngineSettings) -> Engine:
        """Open, or raise."""


class World:
    """The node, its clients and what they know."""

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
        self.pressed = False
        """Whether the disk was ever so full that data may go before its time."""
        self._open_engine = open_engine
        self._run_merge = run_merge
        self.runtime: SimulatedRuntime
        self.engine: Any
        for directory in ("data", "fast"):
            self.disk.make_directory(directory)
        self.disk.sync_directory("")
        self._open()

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
            caused = self.disk.faults or self.disk.refused_for_space
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

    def commit(self, *commits: SentCommit) -> Answer[list[CommitResult]]:
        """Hand in a list of Commits."""
        self.note("commit " + "%s " * len(commits), *commits)
        expected: list[tuple[SentCommit, Committed | Refused, int]] = []

        def start() -> Answer[list[CommitResult]]:
            answer: Answer[list[CommitResult]] = self.engine.commit([sent.commit() for sent in commits])
            if answer.done and answer.error is not None:
                return answer
            for sent in commits:
                expected.append(self._sequence(sent))
            return answer

        def finish(answer: Answer[list[CommitResult]]) -> None:
            if answer.error is not None:
                self._excused(answer.error, f"commit of {commits[0]}")
                return
            results = answer.result()
            EveryCallIsAnswered.require(
                len(results) == len(commits), f"{len(results)} results for {len(commits)} commits"
            )
            for (sent, outcome, rank), result in zip(expected, results, strict=True):
                self._check_result(sent, outcome, rank, result)

        return self._call(f"commit of {commits[0]}", start, finish)

    def _sequence(self, sent: SentCommit) -> tuple[SentCommit, Committed | Refused, int]:
        outcome = self.model.judge(sent)
        if isinstance(outcome, Refused):
            return sent, outcome, 0
        if self.model.apply(sent, outcome):
            self.entries.append((sent, outcome))
        return sent, outcome, self.rank_of(sent, outcome)

    def _check_result(self, sent: SentCommit, expected: Committed | Refused, rank: int, result: CommitResult) -> None:
        if isinstance(result, (StorageFull, Overloaded)):
            self._excused(result, str(sent))
            space_needed = sent.appends or sent.refers or any(hasattr(change, "config") for change in sent.changes)
            FullDisksHeal.require(space_needed, f"{sent} needs no space and was refused: {result!r}")
            assert self.serial, "results that depend on space are only known in order"
            self._forget(sent)
            return
        RefusalsChangeNothing.check(sent, expected, result)
        if isinstance(expected, Refused):
            return
        assert isinstance(result, Committed)
        IdempotenceSurvives.check_repeated(sent, expected, result)
        OffsetsDenseAndNeverReused.check_bases(sent, expected, result)
        if self.entries and any(entry is sent for entry, _ in reversed(self.entries)):
            self.acknowledged(sent, rank)

    def _forget(self, sent: SentCommit) -> None:
        """It was refused for want of space: the model goes back and does the others again."""
        self.entries = [(entry, outcome) for entry, outcome in self.entries if entry is not sent]
        self.model = self.baseline.copy()
        for entry, outcome in self.entries:
            replay(self.model, entry, outcome)

    def alter(self, sent: SentCommit) -> Answer[None]:
        """Changes of logs, with state."""
        self.note("alter %s", sent)
        expected: list[tuple[SentCommit, Committed | Refused, int]] = []

        def start() -> Answer[None]:
            answer: Answer[None] = self.engine.alter(sent.changes, sent.state, sent.fences)
            if not (answer.done and isinstance(answer.error, (EngineFailed, EngineClosed, Overloaded))):
                expected.append(self._sequence(sent))
            return answer

        def finish(answer: Answer[None]) -> None:
            if isinstance(answer.error, (EngineFailed, EngineClosed, Overloaded)):
                self._excused(answer.error, str(sent))
                return
            (_, outcome, rank), error = expected[0], answer.error
            success = outcome if isinstance(outcome, Committed) else Committed()
            self._check_result(sent, outcome, rank, success if error is None else error)  # type: ignore[arg-type]

        return self._call(str(sent), start, finish)

    def trim(self, sent: SentCommit) -> Answer[int]:
        """Trim by the method of its own."""
        change = sent.changes[0]
        assert isinstance(change, TrimLog)
        self.note("trim log %s before %s (%s)", change.log, change.before, sent)
        expected: list[tuple[SentCommit, Committed | Refused, int]] = []

        def start() -> Answer[int]:
            answer: Answer[int] = self.engine.trim(change.log, change.before)
            if not (answer.done and isinstance(answer.error, (EngineFailed, EngineClosed, Overloaded))):
                expected.append(self._sequence(sent))
            return answer

        def finish(answer: Answer[int]) -> None:
            if isinstance(answer.error, (EngineFailed, EngineClosed, Overloaded)):
                self._excused(answer.error, str(sent))
                return
            _, outcome, rank = expected[0]
            error = answer.error
            log = self.model.find(change.log)
            deleted = isinstance(error, UnknownLog) and change.log in self.model.deleted
            if not deleted:
                success = outcome if isinstance(outcome, Committed) else Committed()
                self._check_result(sent, outcome, rank, success if error is None else error)  # type: ignore[arg-type]
            if error is None and log is not None:
                starts = [fact.start for fact in log.facts_between(sent.ordinal, self.model.last_ordinal)]
                loose = self._loose(log)
                start = answer.result()
                OffsetsDenseAndNeverReused.require(
                    start in starts or (loose and min(starts) <= start <= log.end),
                    f"{sent} moved the start to {start}, not to one of {starts}",
                )

        return self._call(str(sent), start, finish)

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
            limit = RetentionTakesOnlyWhatIsDue.start_max(log, self.clock.now_ms(), pressed=self.pressed)
            RetentionTakesOnlyWhatIsDue.require(start <= limit, f"log {log.id} begins at {start}, may only at {limit}")

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint) -> Answer[ReadResult]:
        """Read, and compare every byte."""
        known, start_seen = self.known, self.start_seen.get(log, 0)
        self.note("read log %s at %s, %s bytes, %s", log, offset, max_bytes, hint.value)

        def finish(answer: Answer[ReadResult]) -> None:
            self._check_read(answer, log, offset, max_bytes, known, start_seen)

        return self._call(
            f"read of log {log} at {offset}", lambda: self.engine.read(log, offset, max_bytes, hint), finish
        )

    def _check_read(
        self, answer: Answer[ReadResult], log: int, offset: int, max_bytes: int, known: int, start_seen: int
    ) -> None:
        error = answer.error
        what = f"read of log {log} at {offset}"
        watched = self.model.find(log)
        if isinstance(error, UnknownLog):
            self.check_unknown(log, known)
        elif isinstance(error, OffsetOutOfRange):
            assert watched is not None
            self._check_out_of_range(watched, error, offset, known, start_seen)
        elif error is not None:
            self._excused(error, what)
        else:
            result = answer.result()
            if watched is None:
                StateEqualsReplay.broken(f"log {log} is read, but was never created")
            fact = self._shows(watched, known, result.start, result.end, result.stable, start_seen)
            if fact is None:
                facts = watched.facts_between(known, self.model.last_ordinal)[:4]
                ends = f"start {result.start}, end {result.end}, stable {result.stable}"
                invariant = (
                    StableOffsetAndAborted
                    if any(fact.end == result.end for fact in facts)
                    else OffsetsDenseAndNeverReused
                )
                invariant.broken(f"{what} shows {ends}; possible were {facts}")
            self._see_start(watched, result.start)
            self.shown(log, fact.ordinal, what)
            if not self._loose(watched) and fact.start == 0:
                ReadsAreWhole.check_size(watched, result)
            self._check_batches(watched, offset, max_bytes, result, fact)

    def _check_batches(self, log: LogModel, offset: int, max_bytes: int, result: ReadResult, fact: LogFact) -> None:
        first = offset
        for number, batch in enumerate(ReadsAreWhole.check(log, offset, max_bytes, result)):
            if log.compacted:
                CompactionKeepsTheLast.check_batch(log, batch)
            else:
                stored = BytesVerbatim.check(log, batch)
                self.shown(log.id, stored.ordinal, f"read of log {log.id} at {offset}")
                first = stored.base if number == 0 else first
        if result.batches:
            StableOffsetAndAborted.check_aborted(log, result, max(first, result.start), fact)

    def _check_out_of_range(
        self, log: LogModel, error: OffsetOutOfRange, offset: int, known: int, start_seen: int
    ) -> None:
        for fact in log.facts_between(known, self.model.last_ordinal):
            start_max = log.end if self._loose(log) else fact.start
            if fact.end >= 0 and (offset < max(start_max, start_seen) or offset > fact.end):
                self.shown(log.id, fact.ordinal if offset < start_max else -1, f"offset {offset} out of range")
                return
        OffsetsDenseAndNeverReused.broken(
            f"offset {offset} of log {log.id} is refused: {error}; facts {log.facts[-3:]}"
        )

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find, and compare."""
        known, start_seen = self.known, self.start_seen.get(log, 0)
        self.note("offset_at log %s %s", log, place)

        def finish(answer: Answer[Found]) -> None:
            watched = self.model.find(log)
            if isinstance(answer.error, UnknownLog):
                self.check_unknown(log, known)
            elif answer.error is not None:
                self._excused(answer.error, f"offset_at of log {log}")
            else:
                PositionsAreFound.require(watched, f"a place in log {log}, which was never created")
                assert watched is not None
                self._check_found(watched, place, answer.result(), known, start_seen)

        return self._call(f"offset_at of log {log}", lambda: self.engine.offset_at(log, place), finish)

    def _check_found(self, log: LogModel, place: Place, found: Found, known: int, start_seen: int) -> None:
        loose = self._loose(log)
        for fact in log.facts_between(known, self.model.last_ordinal):
            if fact.end < 0:
                continue
            starts: Iterable[int] = (fact.start,)
            if loose:
                # Where retention has moved the start meanwhile is not known: any batch may be the first now.
                lowest = max(fact.start, start_seen)
                starts = [lowest, *(b.next for b in log.batches if lowest < b.next <= fact.end)]
                if place is Edge.START:
                    starts = [found.offset] if lowest <= found.offset <= fact.end else []
            if any(PositionsAreFound.check(log, place, found, fact, start) for start in starts):
                self.shown(log.id, fact.ordinal, f"{place} of log {log.id}")
                return
        PositionsAreFound.broken(f"{place} of log {log.id} is not {found}; facts {log.facts[-3:]}, known #{known}")

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """Load a scope, and compare."""
        known = self.known
        self.note("load %s", scope)

        def finish(answer: Answer[StateSnapshot]) -> None:
            if answer.error is not None:
                self._excused(answer.error, f"load of {scope}")
                return
            given = dict(answer.result().entries)
            for ordinal, entries in self.model.scopes_between(scope, known, self.model.last_ordinal):
                if entries == given:
                    self.shown(None, ordinal, f"load of {scope}")
                    return
            StateEqualsReplay.broken(f"scope {scope} is {given}, must be {self.model.scopes.get(scope, {})}")

        return self._call(f"load of {scope}", lambda: self.engine.load(scope), finish)

    def lease(self, role: str, ttl_ms: int, *, renew: bool) -> Answer[Lease | None]:
        """Take or prolong a role."""
        now = self.clock.now_ms()
        held = self.leases.get(role)
        renewed = held if renew else None
        self.note("lease %s for %s ms, renewing %s", role, ttl_ms, renewed)
        entry: list[SentLease] = []
        expected_epoch: int | None
        if renewed is not None:
            expected_epoch = renewed.epoch
        elif held is not None and held.expires_ms > now:
            expected_epoch = None
        else:
            expected_epoch = self.model.epochs.get(role, 0) + 1

        def start() -> Answer[Lease | None]:
            answer: Answer[Lease | None] = self.engine.lease(role, ttl_ms, renewed)
            if answer.error is None and renewed is None and expected_epoch is not None:
                entry.append(SentLease(self._ordinal(), role, expected_epoch))
                self.model.take_lease(role, expected_epoch, entry[0].ordinal)
                self.entries.append((entry[0], Committed()))
            if answer.error is None and expected_epoch is not None:
                self.leases[role] = Lease(role, expected_epoch, now + ttl_ms)
            return answer

        def finish(answer: Answer[Lease | None]) -> None:
            if answer.error is not None:
                self._excused(answer.error, f"lease of {role}")
                return
            lease = answer.result()
            given = None if lease is None else lease.epoch
            StateEqualsReplay.require(
                given == expected_epoch, f"lease of {role} has epoch {given}, must have {expected_epoch}"
            )
            if entry:
                self.acknowledged(entry[0], FLUSH_RANKS[self.settings.flush])

        return self._call(f"lease of {role}", start, finish)

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Let the engine do what is due."""
        self.note("maintain")

        def finish(answer: Answer[MaintainReport]) -> None:
            if answer.error is not None:
                self._excused(answer.error, "maintain")

        return self._call("maintain", lambda: self.engine.maintain(budget), finish)

    def watch(self) -> Watcher:
        """A new watch."""
        watcher = Watcher(self)
        self.watchers.append(watcher)
        return watcher

    def _ordinal(self) -> int:
        self.next_ordinal += 1
        return self.next_ordinal - 1

    def sent(self, **parts: Any) -> SentCommit:
        """A Commit with the next ordinal."""
        return SentCommit(self._ordinal(), **parts)

    def change(self, *changes: LogChange) -> SentCommit:
        """A Commit of log changes."""
        return self.sent(changes=changes)

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

    # The end of a process, and what comes after

    def close(self) -> None:
        """Stop in order, and start again."""
        self.note("close")
        self.closing = True
        answer = self._call("close", self.engine.close, lambda answer: answer.result() if not self.failed else None)
        self.wait(answer)
        self.drain()
        self.restart(ProcessKilled)

    def restart(self, cause: type[Interrupted]) -> None:
        """The process ends here; recover, and compare."""
        power = False
        recovered = False
        while not recovered:
            power = power or cause is PowerLoss
            self.note("power loss" if cause is PowerLoss else "process ends")
            self.disk = self.disk.crash(self.rng) if cause is PowerLoss else self.disk.restart(self.rng)
            self.clock.advance(self.rng.choice((0, 1, 1000)))
            left = self.runtime.merges_waiting if cause is ProcessKilled and self.rng.random() < 0.5 else []
            try:
                self._open()
                self.runtime.outlive(left)
                self._compare(power=power)
                recovered = True
            except Interrupted as interrupted:
                cause = type(interrupted)
        self.stop_if_broken()

    def _open(self) -> None:
        self.incarnation += 1
        self.outstanding.clear()
        self.watchers.clear()
        self.leases.clear()
        self.failed = self.closing = self.full = False
        disk = self.disk
        disk.heal()
        merge = self._run_merge
        if self.recovery_interrupts > 0:
            self.recovery_interrupts -= 1
            self.interrupt(self.rng.randint(1, 60))
        self.runtime = SimulatedRuntime(self.rng, self.clock, None if merge is None else lambda job: merge(disk, job))
        self.engine = self._recovered_engine(disk, self.runtime)
        incarnation = self.incarnation

        def fail(error: BaseException) -> None:
            if incarnation == self.incarnation:
                self.failed = True
                self.note("engine failed: %s", error)
                self.try_check(lambda: self._excused(EngineFailed(str(error)), "the engine"))

        self.engine.on_failure(fail)

    def _recovered_engine(self, disk: SimulatedDisk, runtime: SimulatedRuntime) -> Any:
        try:
            return self._open_engine(disk=disk, runtime=runtime, settings=self.settings)
        except Exception as error:
            raise Violation(AlwaysRecovers, f"the engine does not open: {error!r}") from error

    def interrupt(self, operations: int, cause: type[Interrupted] | None = None) -> None:
        """Let the process end within so many disk operations."""
        self.disk.interruption = cause or self.rng.choice((PowerLoss, ProcessKilled))
        self.disk.interrupt_at = self.disk.operations + operations

    def probe(self, *, power: bool) -> None:
        """What would be found if the process ended here? Looked at on a copy of the disk, while this one goes on."""
        disk = self.disk.survivor(self.rng) if power else self.disk.copy()
        disk.heal()
        self.note("probe of a power loss" if power else "probe of a killed process")
        start_seen = dict(self.start_seen)
        runtime = SimulatedRuntime(self.rng, SimulatedClock(self.clock.now_ms()), lambda job: b"")
        self._find_prefix(self._recovered_engine(disk, runtime), runtime, power=power)
        self.start_seen = start_seen

    def _compare(self, *, power: bool) -> None:
        """Go on from what was found."""
        found, reached, observation = self._find_prefix(self.engine, self.runtime, power=power)
        self.note("recovered: %s of %s Commits", reached, len(self.entries))
        self.recoveries += 1
        self.model = found
        self.baseline = found.copy()
        self.entries = []
        self.known = found.last_ordinal
        # What recovery found is shown from now on: it must have made it durable itself.
        recovered = Requirement(found.last_ordinal, NoAnswerShowsUndurableState, "it was there after a recovery")
        self.survives_kill = self.survives_power = recovered
        for log, start in observation.starts.items():
            self.try_check(lambda log=log, start=start: self._see_start(found.logs[log], start))  # type: ignore[misc]

    def _find_prefix(self, engine: Any, runtime: SimulatedRuntime, *, power: bool) -> tuple[Model, int, Observation]:
        """The prefix of the sequenced Commits that an engine holds, which must contain all that had to survive."""
        if power and self.settings.flush != "sync":
            self.start_seen.clear()  # retention commits by the node's policy, and may be forgotten as anything else
        created = [c.log for entry, _ in self.entries if isinstance(entry, SentCommit) for c in entry.changes]
        logs = sorted({*self.baseline.logs, *self.baseline.deleted, *created})
        seen = observe(engine, runtime, logs, self.scopes)
        check = RecoveryCheck(self.baseline, self.entries, seen, self.scopes, self.roles, self._may_begin)
        found, reached = check.find(self.survives_power if power else self.survives_kill)
        return found, reached, seen

    def _may_begin(self, log: LogModel, start: int) -> bool:
        """Whether a recovered log may have this start."""
        if not self._loose(log):
            return start == log.start
        seen = self.start_seen.get(log.id, 0)
        highest = RetentionTakesOnlyWhatIsDue.start_max(log, self.clock.now_ms(), pressed=self.pressed)
        return max(log.start, seen) <= start <= max(highest, seen)

    def verify_all(self) -> None:
        """Read every log from start to end, and every scope."""
        for scope in self.scopes:
            self.load(scope)
        self.drain()
        for log in list(self.model.logs.values()):
            self.verify_log(log)

    def verify_log(self, log: LogModel) -> None:
        """All of a log, in reads of random size."""
        answers: list[Answer[ReadResult]] = []
        offset = max(log.start, self.start_seen.get(log.id, 0))
        first_offset = offset
        left: dict[int, object] = {}
        while not self.failed:
            answer = self.read(log.id, offset, self.rng.choice((1, 3000, 100_000)), self.rng.choice(tuple(ReadHint)))
            self.wait(answer)
            if isinstance(answer.error, OffsetOutOfRange) and self._loose(log):
                offset = first_offset = max(offset, answer.error.start)
                continue
            if answer.error is not None:
                break
            answers.append(answer)
            result = answer.result()
            if log.compacted:
                for buffer in result.batches:
                    left.update((record.offset, record) for record in _records(buffer))
            if result.next_offset >= result.end:
                if log.compacted:
                    fact = log.facts[-1]
                    CompactionKeepsTheLast.check_whole(log, left, fact, max(first_offset, result.start))
                break
            offset = result.next_offset


def _records(buffer: Any) -> Iterable[Any]:
    view = memoryview(buffer)
    for position, size in batches_in(view):
        yield from decode_records(view[position : position + size])
