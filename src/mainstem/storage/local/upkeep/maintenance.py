"""Keeping house, in steps that never hold the loop for long: space, then retention, and beside it merging and compaction."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.model.errors import MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Budget, MaintainReport
from mainstem.storage.local.upkeep.compactions import Compactions
from mainstem.storage.local.upkeep.merges import Merges
from mainstem.storage.local.upkeep.retention_pass import retain
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.runtime.steps import Steps, run_steps

if TYPE_CHECKING:
    from mainstem.storage.local.engine import LocalEngine

log_output = logging.getLogger("mainstem.storage")


class Maintenance:
    """What an engine does besides answering."""

    def __init__(self, engine: LocalEngine, merges: Merges) -> None:
        self._engine = engine
        self._merges = merges
        self._compactions = Compactions(engine, merges)
        self.space = Space(engine)
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
                self._engine.reclaim_soon()  # on a full disk, what was done makes room for more of it
        elif not isinstance(answer.error, MainstemError):
            log_output.error("maintenance failed: %s", answer.error)

    def _steps(self, budget: Budget) -> Steps[MaintainReport]:
        report = MaintainReport()
        yield from self.space.check(report)
        # Before any merge, because it needs no room and gives some.
        yield from self._merges.remove_dead(report)
        now = self._engine.runtime.monotonic()
        retention: Answer[None] | None = None
        if now >= self._retention_due or self._engine.ledger.full:
            self._retention_due = now + self._engine.settings.retention_check_ms / 1000
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
        report.full = self._engine.ledger.full
        return report

    def _retain(self, report: MaintainReport) -> Steps[None]:
        yield from retain(self._engine, report)
        if self._compactions.seal_due():
            self._engine.seal_active()

    def _next_job(self, report: MaintainReport) -> Steps[bool]:
        """Do the most urgent job; False when none is due."""
        merges = self._merges
        if merges.resting:
            return False
        files_min = 1 if self._engine.ledger.full else self._engine.settings.merge_files_min
        if len(self._engine.sealed) >= files_min and not merges.is_short("wal"):
            return (yield from merges.merge_wal(report))
        dead = yield from merges.most_dead_run()
        if dead is not None:
            return (yield from merges.rewrite(dead, report))
        crowded = yield from merges.crowded_tier()
        if crowded is not None and merges.fits(crowded.runs, frees=False):
            return (yield from merges.merge_runs(crowded.runs, crowded.tier + 1, {}, [], report))
        compaction = self._compactions.due()
        if compaction is not None and not merges.is_short("runs"):
            return (yield from self._compactions.compact(*compaction, report))
        if merges.state_runs_due and not merges.is_short("state"):
            return (yield from merges.join_state())
        return False
