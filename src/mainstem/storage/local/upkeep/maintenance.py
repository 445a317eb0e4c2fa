"""Keeping house, in steps that never hold the loop for long: space, then retention, and beside it merging and compaction."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mainstem.model.errors import MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Budget, MaintainReport
from mainstem.storage.local.proofs import Proofs
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.upkeep.backlog import Backlog
from mainstem.storage.local.upkeep.compactions import Compactions
from mainstem.storage.local.upkeep.merges import Merges
from mainstem.storage.local.upkeep.retention_pass import RetentionPass
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.local.upkeep.tiers import Tiers
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, run_steps
from mainstem.storage.sequencer.sequencer import Sequencer

log_output = logging.getLogger("mainstem.storage")

RECLAIM_SECONDS = 0.1
"""From the death of something to the look at it on a full disk: one look serves many deaths."""


class Maintenance:
    """What an engine does besides answering."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        settings: EngineSettings,
        sequencer: Sequencer,
        space: Space,
        retention: RetentionPass,
        backlog: Backlog,
        merges: Merges,
        tiers: Tiers,
        compactions: Compactions,
        proofs: Proofs,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._sequencer = sequencer
        self._ledger = sequencer.ledger
        self._space = space
        self._retention = retention
        self._backlog = backlog
        self._merges = merges
        self._tiers = tiers
        self._compactions = compactions
        self._proofs = proofs
        self._reclaim_due = False
        self._running: Answer[MaintainReport] | None = None
        self._retention_due = 0.0

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Do what is due; a call while one is under way gets the same answer."""
        if self._running is None:
            answer = run_steps(self._steps(budget))
            if answer.done:
                return answer
            self._running = answer
            answer.on_done(self._finished)
            return answer
        return self._running

    def begin_unasked(self) -> None:
        """Do what is due, though nobody has asked for it."""
        self._reclaim_due = False
        if self._sequencer.end is None:
            self.maintain(Budget())

    def reclaim_soon(self) -> None:
        """Something died: if the disk is full, see soon what can be removed."""
        if self._ledger.full and not self._reclaim_due:
            self._reclaim_due = True
            self._runtime.call_later(RECLAIM_SECONDS, self.begin_unasked)

    def when_idle(self, action: Callable[[], None]) -> None:
        """Call, now or later, when nothing is under way."""
        if self._running is None:
            action()
        else:
            self._running.on_done(lambda _: action())

    def _finished(self, answer: Answer[MaintainReport]) -> None:
        self._running = None
        if answer.error is None:
            report = answer.result()
            if report.removed_files or report.merged_files or report.trimmed_logs:
                self.reclaim_soon()  # on a full disk, what was done makes room for more of it
        elif not isinstance(answer.error, MainstemError):
            log_output.error("maintenance failed: %s", answer.error)

    def _steps(self, budget: Budget) -> Steps[MaintainReport]:
        report = MaintainReport()
        yield from self._space.check(report)
        # Before any merge, because it needs no room and gives some.
        yield from self._merges.remove_dead(report)
        now = self._runtime.monotonic()
        retention: Answer[None] | None = None
        if now >= self._retention_due or self._ledger.full:
            self._retention_due = now + self._settings.retention_check_ms / 1000
            # Beside what follows: very many logs take seconds, in which files would wait to be merged.
            retention = run_steps(self._retain(report))
        failure: Exception | None = None
        try:
            for _ in range(budget.jobs_max):
                if not (yield from self._next_job(report)):
                    break
        except Exception as error:  # noqa: BLE001 - told below
            failure = error
        if retention is not None:
            # Whatever became of the jobs: two of these at a time would trim twice.
            yield retention
        if failure is not None:
            raise failure
        report.full = self._ledger.full
        return report

    def _retain(self, report: MaintainReport) -> Steps[None]:
        yield from self._retention.run(report)
        if self._compactions.seal_due():
            self._proofs.seal_active()

    def _next_job(self, report: MaintainReport) -> Steps[bool]:
        """Do the most urgent job; False when none is due."""
        merges = self._merges
        if merges.resting:
            return False
        files_min = 1 if self._ledger.full else self._settings.merge_files_min
        if len(self._backlog.files) >= files_min and not merges.is_short("wal"):
            return (yield from merges.merge_wal(report))
        dead = yield from merges.most_dead_run()
        if dead is not None:
            return (yield from merges.rewrite(dead, report))
        crowded = yield from self._tiers.crowded()
        if crowded is not None and merges.fits(crowded.runs, frees=False):
            return (yield from merges.merge_runs(crowded.runs, crowded.tier + 1, {}, [], report))
        compaction = self._compactions.due()
        if compaction is not None and not merges.is_short("runs"):
            return (yield from self._compactions.compact(*compaction, report))
        if merges.state_runs_due and not merges.is_short("state"):
            return (yield from merges.join_state())
        return False
