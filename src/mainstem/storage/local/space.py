"""Room on the disk: what happens above the high mark, and above the hard one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mainstem.storage.contract import LogChange, MaintainReport, TrimLog
from mainstem.storage.disk import DiskUsage
from mainstem.storage.local.retention_pass import trim_logs
from mainstem.storage.log_state import LogState
from mainstem.storage.steps import Steps, in_read_lane

if TYPE_CHECKING:
    from mainstem.storage.local.engine import LocalEngine

log_output = logging.getLogger("mainstem.storage")


class Space:
    """Watches the fullest of the engine's file systems."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self.usage: DiskUsage = engine.disk.usage(engine.directories.root)

    def check(self, report: MaintainReport) -> Steps[None]:
        """Refuse or take appends again, and make room where it is short."""
        engine = self._engine
        used = self._weigh((yield in_read_lane(engine.runtime, self._usages)))
        if engine.ledger.full:
            engine.writer.shed_spare()
        else:
            engine.writer.prepare_spares()
        if engine.ledger.full or used >= engine.settings.disk_high_mark:
            yield from self._shed_oldest(report)

    def look(self) -> None:
        """The writer has begun another file: who writes fast fills a disk between two checks, or while a merge is under way."""
        self._weigh(self._usages())

    def _usages(self) -> list[DiskUsage]:
        return [self._engine.disk.usage(path) for path in self._engine.directories.all()]

    def _weigh(self, usages: list[DiskUsage]) -> float:
        """Decide whether appends are refused; answers the share in use."""
        engine, settings = self._engine, self._engine.settings
        fullest = min(usages, key=lambda usage: usage.free / max(1, usage.total))
        self.usage = fullest
        used = 1 - fullest.free / max(1, fullest.total)
        free = min(usage.free for usage in usages)
        # What is under way can no longer be refused: it must find room, in this file, in spare ones or in new ones.
        room = free + engine.writer.spares * settings.wal_file_bytes
        is_tight = room < engine.pending_bytes + 2 * settings.wal_file_bytes
        full = used >= settings.disk_hard_mark or free < settings.disk_reserve_bytes or is_tight
        if full != engine.ledger.full:
            log_output.warning(
                "appends are %s: %.1f %% of the disk is in use", "refused" if full else "taken", used * 100
            )
        engine.ledger.full = full
        return used

    def _shed_oldest(self, report: MaintainReport) -> Steps[None]:
        """Trim what the oldest run holds, as far as logs have a retention that would take it some day."""
        ledger = self._engine.ledger
        for run in sorted(self._engine.files.runs.values(), key=lambda run: max(run.index.times, default=0)):
            changes: list[LogChange] = []
            for log, next_offset in zip(run.index.logs, run.index.nexts, strict=True):
                state = ledger.visible.get(log)
                if state is None or not _may_go_early(state):
                    continue
                limit = min(state.stable, state.floor) if state.config.acknowledged == "hold" else state.stable
                if min(next_offset, limit) > state.start:
                    changes.append(TrimLog(log, min(next_offset, limit)))
            if changes:
                log_output.warning("disk use is above the high mark: old data of %d logs goes early", len(changes))
                yield from trim_logs(self._engine, changes, report)
                return


def _may_go_early(state: LogState) -> bool:
    config = state.config
    return config.delete and (config.retention_ms is not None or config.retention_bytes is not None)
