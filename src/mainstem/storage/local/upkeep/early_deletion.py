"""Deleting what its own retention would still keep, for room: only where the operator has set `disk_high_mark`."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mainstem.model.errors import MainstemError
from mainstem.storage.contract import LogChange, MaintainReport, ReadHint, TrimLog
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.read.reader import Reader
from mainstem.storage.local.runs.stored_file import RunFile
from mainstem.storage.local.upkeep.retention_pass import Trims
from mainstem.storage.runtime.steps import Steps
from mainstem.storage.sequencer.log_state import LogState
from mainstem.wire.record_batch import batches_in, read_header

log_output = logging.getLogger("mainstem.storage")

SCAN_BYTES = 1 << 20
"""Read at a time, to find batches and transactions in what is about to go."""


class EarlyDeletion:
    """Takes the oldest run's records, whole batches at a time, and nothing that was written in a transaction."""

    def __init__(self, visible: Mapping[int, LogState], files: FileSet, reader: Reader, trims: Trims) -> None:
        self._visible = visible
        self._files = files
        self._reader = reader
        self._trims = trims
        self.records = 0
        """How many have gone early since the start."""

    def take_oldest(self, report: MaintainReport) -> Steps[None]:
        """Trim what the oldest run holds that may go, of logs that have a retention by age or size."""
        runs = sorted(self._files.runs.values(), key=lambda run: max(run.index.times, default=0))
        for run in runs:
            changes = yield from self._trims_of(run)
            if changes:
                log_output.warning("disk use is above the high mark: old data of %d logs goes early", len(changes))
                yield from self._trims.commit(changes, report)
                return

    def _trims_of(self, run: RunFile) -> Steps[list[LogChange]]:
        changes: list[LogChange] = []
        for log, next_offset in zip(run.index.logs, run.index.nexts, strict=True):
            state = self._visible.get(log)
            if state is None or not _may_go_early(state):
                continue
            limit = min(next_offset, state.stable)
            if state.config.acknowledged == "hold":
                limit = min(limit, state.floor)
            start = state.visible_start
            if limit > start:
                end = yield from self._whole_batches(log, start, limit)
                if end > start:
                    self.records += end - start
                    changes.append(TrimLog(log, end))
        return changes

    def _whole_batches(self, log: int, start: int, limit: int) -> Steps[int]:
        """How far batches end before the limit without one of a transaction among them."""
        end = offset = start
        while offset < limit:
            try:
                result = yield self._reader.read(log, offset, SCAN_BYTES, ReadHint.CATCH_UP)
            except MainstemError:
                return end  # deleted meanwhile, or damaged: what is known to be whole may go
            for buffer in result.batches:
                for position, _ in batches_in(buffer):
                    header = read_header(buffer, position)
                    if header.is_transactional or header.is_control or header.next_offset > limit:
                        return end
                    end = header.next_offset
            if result.next_offset <= offset:
                return end
            offset = result.next_offset
        return end


def _may_go_early(state: LogState) -> bool:
    config = state.config
    return config.delete and (config.retention_ms is not None or config.retention_bytes is not None)
