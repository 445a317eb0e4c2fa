"""Calls that change something, each compared with the model."""

from __future__ import annotations

from mainstem.model.errors import EngineClosed, EngineFailed, Overloaded, StorageFull, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Budget, CommitResult, Committed, Lease, MaintainReport, TrimLog
from tests.simulation.invariants import (
    EveryCallIsAnswered,
    FullDisksHeal,
    IdempotenceSurvives,
    OffsetsDenseAndNeverReused,
    RefusalsChangeNothing,
    StateEqualsReplay,
)
from tests.simulation.model import Refused, SentCommit, SentLease, replay
from tests.simulation.world_core import FLUSH_RANKS, WorldCore


class Writes(WorldCore):
    """Commits, trims, leases, upkeep."""

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
            FullDisksHeal.require(
                space_needed or self._is_exhausted, f"{sent} needs no space and was refused: {result!r}"
            )
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

    @property
    def _is_exhausted(self) -> bool:
        """Whether others have taken the reserve, so that even what needs little space may find none."""
        disk = self.disk
        return disk.capacity - disk.used < max(self.settings.disk_reserve_bytes, 2 * self.settings.wal_file_bytes)

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
