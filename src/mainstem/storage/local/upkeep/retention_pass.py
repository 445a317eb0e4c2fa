"""Retention of all logs, a few at a time, and forgetting producers that have been silent for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.storage.contract import Commit, LogChange, LogConfig, MaintainReport, TrimLog
from mainstem.storage.retention import releases, retained_start
from mainstem.storage.runtime.steps import Steps, in_parts, turn
from mainstem.storage.sequencer.log_state import LogState

if TYPE_CHECKING:
    from mainstem.storage.local.engine import LocalEngine

LOGS_PER_TURN = 20
TRIMS_PER_COMMIT = 20
"""Each trimmed log is measured anew when the commit is shown: few at a time, so that the loop is not held."""


def trim_logs(engine: LocalEngine, changes: list[LogChange], report: MaintainReport) -> Steps[None]:
    """Move starts, each in a commit of its own: one log that went meanwhile must not keep the others."""
    for part in in_parts(changes, TRIMS_PER_COMMIT):
        yield engine.commit([Commit(changes=[change]) for change in part])
        report.trimmed_logs += len(part)


def retain(engine: LocalEngine, report: MaintainReport) -> Steps[None]:
    """Look at every log for which something may be due."""
    now_ms = engine.runtime.now_ms()
    for part in in_parts(list(engine.ledger.visible.values()), LOGS_PER_TURN):
        changes: list[LogChange] = []
        for state in part:
            if state.producers:
                report.expired_producers += _expire(state, now_ms - engine.settings.producer_expiry_ms)
            if state.start < state.stable and _may_be_due(state.config, state, now_ms, full=engine.ledger.full):
                start = _retained(engine, state, now_ms)
                if start > state.start:
                    changes.append(TrimLog(state.log, start))
        if changes:
            yield from trim_logs(engine, changes, report)
        else:
            yield turn(engine.runtime)


def _may_be_due(config: LogConfig, state: LogState, now_ms: int, *, full: bool) -> bool:
    """Whether the log's stretches are worth a look."""
    if state.floor > state.start and releases(config, full=full):
        return True
    if not config.delete:
        return False
    too_large = config.retention_bytes is not None and state.bytes > config.retention_bytes
    return too_large or (config.retention_ms is not None and now_ms >= state.expiry_ms)


def _retained(engine: LocalEngine, state: LogState, now_ms: int) -> int:
    config, visible_start = state.config, state.visible_start
    first = next(engine.files.stretches(state, visible_start), None)
    # Of a stretch that begins below the start nobody knows how much is left: it counts as nothing, so that never too much goes.
    partial = first.size if first is not None and first.first < visible_start else 0
    start = retained_start(
        config,
        start=state.start,
        floor=state.floor,
        end=state.stable,
        total_bytes=state.bytes - partial,
        stretches=(
            (s.next, 0 if s.first < visible_start else s.size, s.time)
            for s in engine.files.stretches(state, visible_start)
        ),
        now_ms=now_ms,
        full=engine.ledger.full,
    )
    if config.retention_ms is not None:
        # Nothing expires before the oldest stretch that stays: no need to look sooner.
        oldest = next(engine.files.stretches(state, start), None)
        state.expiry_ms = 0 if oldest is None else oldest.time + config.retention_ms
    return start


def _expire(state: LogState, before_ms: int) -> int:
    assert state.producers is not None
    silent = [p for p, known in state.producers.items() if known.last_ms < before_ms and p not in (state.open or ())]
    for producer in silent:
        del state.producers[producer]
    return len(silent)
