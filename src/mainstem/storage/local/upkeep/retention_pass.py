"""Retention of all logs, a few at a time, and forgetting producers that have been silent for long."""

from __future__ import annotations

from mainstem.storage.contract import Commit, LogChange, LogConfig, MaintainReport, TrimLog
from mainstem.storage.local.limits import UpkeepLimits
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.retention import releases, retained_start
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, in_parts, turn
from mainstem.storage.sequencer.log_state import LogState
from mainstem.storage.sequencer.sequencer import Sequencer


class Trims:
    """Moves the starts of logs."""

    def __init__(self, sequencer: Sequencer, per_commit: int) -> None:
        self._sequencer = sequencer
        self._per_commit = per_commit

    def commit(self, changes: list[LogChange], report: MaintainReport) -> Steps[None]:
        """Move starts, each in a commit of its own: one log that went meanwhile must not keep the others."""
        for part in in_parts(changes, self._per_commit):
            yield self._sequencer.commit([Commit(changes=[change]) for change in part])
            report.trimmed_logs += len(part)


class RetentionPass:
    """One look at every log for which something may be due."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        sequencer: Sequencer,
        files: FileSet,
        trims: Trims,
        producer_expiry_ms: int,
        limits: UpkeepLimits,
    ) -> None:
        self._runtime = runtime
        self._ledger = sequencer.ledger
        self._files = files
        self._trims = trims
        self._producer_expiry_ms = producer_expiry_ms
        self._logs_per_turn = limits.retained_logs_per_turn

    def run(self, report: MaintainReport) -> Steps[None]:
        """Trim what has expired or is too much, and forget silent producers."""
        ledger, now_ms = self._ledger, self._runtime.now_ms()
        for part in in_parts(list(ledger.visible.values()), self._logs_per_turn):
            changes: list[LogChange] = []
            for state in part:
                if state.producers:
                    report.expired_producers += _expire(state, now_ms - self._producer_expiry_ms)
                if state.start < state.stable and _may_be_due(state.config, state, now_ms, full=ledger.full):
                    start = self._retained(state, now_ms)
                    if start > state.start:
                        changes.append(TrimLog(state.log, start))
            if changes:
                yield from self._trims.commit(changes, report)
            else:
                yield turn(self._runtime)

    def _retained(self, state: LogState, now_ms: int) -> int:
        config, visible_start = state.config, state.visible_start
        first = next(self._files.stretches(state, visible_start), None)
        # How much is left of a stretch that begins below the start is unknown: it counts as nothing, so that not too much goes.
        partial = first.size if first is not None and first.first < visible_start else 0
        start = retained_start(
            config,
            start=state.start,
            floor=state.floor,
            end=state.stable,
            total_bytes=state.bytes - partial,
            stretches=(
                (s.next, 0 if s.first < visible_start else s.size, s.time)
                for s in self._files.stretches(state, visible_start)
            ),
            now_ms=now_ms,
            full=self._ledger.full,
        )
        if config.retention_ms is not None:
            # Nothing expires before the oldest stretch that stays: no need to look sooner.
            oldest = next(self._files.stretches(state, start), None)
            state.expiry_ms = 0 if oldest is None else oldest.time + config.retention_ms
        return start


def _may_be_due(config: LogConfig, state: LogState, now_ms: int, *, full: bool) -> bool:
    """Whether the log's stretches are worth a look."""
    if state.floor > state.start and releases(config, full=full):
        return True
    if not config.delete:
        return False
    too_large = config.retention_bytes is not None and state.bytes > config.retention_bytes
    return too_large or (config.retention_ms is not None and now_ms >= state.expiry_ms)


def _expire(state: LogState, before_ms: int) -> int:
    assert state.producers is not None
    silent = [p for p, known in state.producers.items() if known.last_ms < before_ms and p not in (state.open or ())]
    for producer in silent:
        del state.producers[producer]
    return len(silent)
