"""One simulated node: an engine on a disk that forgets, and a model beside it that says what must be.

Every call goes to the engine first and then, unless refused at once, to the model; every answer is compared with what the
model says at that moment. An answer may show anything between the Commits that were acknowledged when it was asked for and
those sequenced when it came, and the newest Commit that it shows must survive every later crash.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from mainstem.model.errors import EngineFailed, OffsetOutOfRange
from mainstem.storage.answer import Answer
from mainstem.storage.contract import ReadHint, ReadResult
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.disk import Interrupted, PowerLoss, ProcessKilled, SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime
from mainstem.wire.record_batch import batches_in, decode_records
from tests.simulation.invariants import (
    AlwaysRecovers,
    CompactionKeepsTheLast,
    EarlyDeletionTakesWholeBatches,
    NoAnswerShowsUndurableState,
    RetentionTakesOnlyWhatIsDue,
    StartNeedsNoSpace,
    Violation,
)
from tests.simulation.model import LogModel, Model, SentCommit
from tests.simulation.recovery_check import Observation, RecoveryCheck, Requirement, observe
from tests.simulation.world_core import OpenEngine
from tests.simulation.world_reads import Reads
from tests.simulation.world_writes import Writes

__all__ = ["OpenEngine", "World"]


class World(Writes, Reads):
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
        super().__init__(rng, settings, open_engine, run_merge=run_merge, scopes=scopes, roles=roles)
        self._open()

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
        self.failed = self.closing = False
        disk = self.disk
        disk.disarm()
        self.full = disk.is_limited
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
            is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            invariant = StartNeedsNoSpace if is_full else AlwaysRecovers
            raise Violation(invariant, f"the engine does not open: {error!r}") from error

    def interrupt(self, operations: int, cause: type[Interrupted] | None = None) -> None:
        """Let the process end within a number of disk operations."""
        self.disk.interruption = cause or self.rng.choice((PowerLoss, ProcessKilled))
        self.disk.interrupt_at = self.disk.operations + operations

    def probe(self, *, power: bool) -> None:
        """What would be found if the process ended here? Looked at on a copy of the disk, while this one goes on."""
        disk = self.disk.survivor(self.rng) if power else self.disk.copy()
        disk.disarm()
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
        highest = RetentionTakesOnlyWhatIsDue.start_max(log, self.clock.now_ms(), was_full=self.was_full)
        if self.pressed:
            highest = EarlyDeletionTakesWholeBatches.start_max(log, highest)
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
