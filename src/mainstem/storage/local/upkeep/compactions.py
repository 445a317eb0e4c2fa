"""Compaction by key: which log is due, and how far it is compacted."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.storage.contract import LogConfig, MaintainReport
from mainstem.storage.local.merge.job import CompactionRule
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.read.tail import place_of
from mainstem.storage.local.upkeep.merges import FileChanges, Merges
from mainstem.storage.local.upkeep.tiers import Tiers
from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.log_state import LogState

SEAL_MS = 15_000
"""How often a file is sealed before it is full, at most: as often as Kafka's cleaner looks."""


class CompactionProgress(NamedTuple):
    """How far a log is compacted, and when once more is due (0: not before something is written)."""

    cleaned_to: int
    settle_ms: int


class Compactions:
    """Compactions of one engine."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        ledger: Ledger,
        files: FileSet,
        writer: WalWriter,
        merges: Merges,
        tiers: Tiers,
        check_ms: int,
    ) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._files = files
        self._writer = writer
        self._merges = merges
        self._tiers = tiers
        self._check_ms = check_ms
        self._seen = -1
        """Version of the files at which nothing was due."""
        self._settle_ms = 0
        """When to look again though no run has changed: lags and tombstones may have ended."""
        self._sealed_ms = 0
        """When a file was last sealed before it was full."""

    def due(self) -> tuple[LogState, CompactionProgress] | None:
        """A log that is due, and how far its compaction would reach."""
        now_ms = self._runtime.now_ms()
        if self._files.version == self._seen and now_ms < self._settle_ms:
            return None
        self._settle_ms = now_ms + self._check_ms
        for log in self._ledger.classes:
            state = self._ledger.visible.get(log)
            if state is not None and state.config.compact:
                progress = self._progress(state, now_ms)
                if progress is not None:
                    return state, progress
        self._seen = self._files.version
        return None

    def seal_due(self) -> bool:
        """Whether the active file holds what was to be compacted by now: only what is merged can be."""
        now_ms = self._runtime.now_ms()
        if now_ms - self._sealed_ms < SEAL_MS or self._ledger.full or self._writer.rolls_next:
            return False
        active = place_of(self._writer.active.generation, 0)
        for log in self._ledger.classes:
            state = self._ledger.visible.get(log)
            if state is None or not state.config.compact or state.tail is None or not len(state.tail):
                continue
            _, place, _, time_ms = state.tail.row(0)
            old = time_ms <= now_ms - min(state.config.segment_ms, _overdue_ms(state.config))
            if place >= active and (old or state.tail.bytes_from(0) >= state.config.segment_bytes):
                self._sealed_ms = now_ms
                return True
        return False

    def _progress(self, state: LogState, now_ms: int) -> CompactionProgress | None:
        """What a compaction of the log would reach, if one is due.

        It is due when enough was written since the last one, or some of that is old enough, and once more when the
        tombstones of the last one have been kept for long enough.
        """
        value = self._ledger.scopes.get(scopes.FILES, {}).get(compacted_key(state.log))
        cleaned_to, settle_ms = (0, 0) if value is None else scopes.decode_pair(value)
        config = state.config
        youngest_ms = now_ms - config.compaction_lag_ms_min
        overdue_ms = now_ms - _overdue_ms(config)
        is_overdue = False
        clean = dirty = 0
        reach = cleaned_to
        for stretch in self._files.stretches(state, state.visible_start):
            if stretch.blocks is None or stretch.next > state.stable or stretch.time > youngest_ms:
                break  # not in a run yet, or not to be touched yet
            if stretch.next <= cleaned_to:
                clean += stretch.size
            else:
                dirty += stretch.size
                is_overdue |= stretch.time <= overdue_ms
            reach = max(reach, stretch.next)
        if dirty and (is_overdue or dirty >= config.dirty_ratio_min * (clean + dirty)):
            return CompactionProgress(reach, now_ms + config.tombstone_retention_ms)
        if settle_ms and settle_ms < now_ms and clean:
            return CompactionProgress(reach, 0)
        return None

    def compact(self, state: LogState, progress: CompactionProgress, report: MaintainReport) -> Steps[bool]:
        """Compact a log: all runs that hold it are rewritten."""
        inputs = yield from self._tiers.convex([part.run for part in self._files.view(state.log)])
        transactions = state.transactions
        rule = CompactionRule(
            tombstone_retention_ms=state.config.tombstone_retention_ms,
            before_ms=self._runtime.now_ms() - state.config.compaction_lag_ms_min,
            stable=state.stable,
            aborted=[(a.producer, a.first, a.last) for a in transactions.aborted] if transactions else [],
        )
        tier = max(run.index.tier for run in inputs)
        notes: FileChanges = [(compacted_key(state.log), scopes.encode_pair(*progress))]
        done = yield from self._merges.merge_runs(inputs, tier, {state.log: rule}, notes, report)
        if done:
            self._files.measure(state)
            report.compacted_logs += 1
        return done


def _overdue_ms(config: LogConfig) -> int:
    """Half of the longest lag.

    A block is dated by its youngest record. Half the lag is left for its oldest, which waits in the active file at first.
    """
    return config.compaction_lag_ms_max // 2


def compacted_key(log: int) -> bytes:
    """Where the compaction of a log stands."""
    return scopes.COMPACTED_PREFIX + scopes.log_key(log)
