"""The contract kept in memory: the same rules of committing, with nothing to wait for but the next turn."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from mainstem.model.errors import OffsetOutOfRange, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    Buffer,
    Commit,
    Edge,
    Fence,
    Found,
    KeyAfter,
    Lease,
    LogChange,
    MaintainReport,
    Mutation,
    Place,
    ReadHint,
    ReadResult,
    StateSnapshot,
    TimeAfter,
    TrimLog,
    Watch,
    WatchCallback,
)
from mainstem.storage.memory.store import MemoryLog, MemoryStore
from mainstem.storage.record_search import find_edge, find_key, find_newest, find_time
from mainstem.storage.retention import retained_start
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.log_state import FLUSH_SYNC, LogState
from mainstem.storage.sequencer.sequencer import Sequencer
from mainstem.wire.record_batch import decode_keys, decode_records, read_header, rewrite_batch

PRODUCER_EXPIRY_MS = 86_400_000


class MemoryEngine:
    """An engine whose disk is the next turn of the event loop."""

    term = 0

    def __init__(
        self,
        runtime: Runtime,
        *,
        commit_bytes_max: int = 32 << 20,
        group_bytes_max: int = 4 << 20,
        pending_bytes_max: int = 256 << 20,
    ) -> None:
        self._runtime = runtime
        self.ledger = Ledger(
            default_rank=FLUSH_SYNC, commit_bytes_max=commit_bytes_max, copy_bytes_max=1 << 62, now_ms=runtime.now_ms
        )
        self.sequencer = Sequencer(
            runtime, self.ledger, group_bytes_max=group_bytes_max, pending_bytes_max=pending_bytes_max
        )
        self._store = MemoryStore(runtime, self.sequencer)
        self.sequencer.attach(self._store)
        # These two are called for every request: without a call in between.
        self.commit = self.sequencer.commit
        self.is_above = self.sequencer.is_above

    @property
    def is_full(self) -> bool:
        """Whether appends are refused at present."""
        return self.ledger.full

    def when_below(self, pending_bytes: int, callback: Callable[[], None]) -> None:
        """Call back once, when few enough bytes wait."""
        self.sequencer.when_below(pending_bytes, callback)

    def watch(self, callback: WatchCallback) -> Watch:
        """Be told when logs grow."""
        return self.sequencer.watch(callback)

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """The state of a scope."""
        return self.sequencer.load(scope)

    def lease(self, role: str, ttl_ms: int, renew: Lease | None = None) -> Answer[Lease | None]:
        """Take or prolong a role."""
        return self.sequencer.lease(role, ttl_ms, renew)

    def alter(
        self, changes: Sequence[LogChange], state: Sequence[Mutation] = (), fences: Sequence[Fence] = ()
    ) -> Answer[None]:
        """Create, configure, delete logs."""
        return self.sequencer.alter(changes, state, fences)

    def trim(self, log: int, before: int) -> Answer[int]:
        """Move the start of a log."""
        return self.sequencer.trim(log, before)

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        """Batches from memory; there is nothing to wait for."""
        state = self.ledger.visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        start, end = state.visible_start, state.end
        if not start <= offset <= end:
            return Answer.failed(OffsetOutOfRange(offset, start, end))
        taken: list[Buffer] = []
        next_offset = offset
        stored = self._store.logs.get(log)
        if max_bytes > 0 and stored is not None and stored.bases:
            size = 0
            for index in range(max(0, bisect_right(stored.bases, offset) - 1), len(stored.bases)):
                batch = stored.batches[index]
                after = read_header(batch).next_offset
                if after <= offset:
                    continue
                size += len(batch)
                if taken and size > max_bytes:
                    break
                taken.append(bytes(batch))
                next_offset = after
        if max_bytes > 0 and not taken:
            next_offset = end
        transactions = state.transactions
        aborted = transactions.aborted_between(offset, next_offset) if transactions and taken else ()
        return Answer.of(ReadResult(taken, start, end, state.stable, next_offset, aborted, state.bytes))

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find a position."""
        state = self.ledger.visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        if (edge := find_edge(state, place)) is not None:
            return Answer.of(edge)
        stored = self._store.logs.get(log) or MemoryLog()
        start = state.visible_start
        if isinstance(place, TimeAfter):
            batches = (b for b, time in zip(stored.batches, stored.times, strict=True) if time >= place.timestamp_ms)
            return Answer.of(find_time(batches, place.timestamp_ms, start))
        if isinstance(place, KeyAfter):
            return Answer.of(find_key(stored.batches, place, start))
        assert place is Edge.NEWEST
        return Answer.of(find_newest(stored.batches, start))

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Retention, compaction and expiry, all at once."""
        report = MaintainReport()
        if (end := self.sequencer.end) is not None:
            return Answer.failed(end)
        now = self._runtime.now_ms()
        for state in list(self.ledger.visible.values()):
            if self._retain(state, now):
                report.trimmed_logs += 1
            if state.config.compact and self._compact(state, now):
                report.compacted_logs += 1
            report.expired_producers += self._expire(state, now)
        answer: Answer[MaintainReport] = Answer()
        self.sequencer.answer_when_durable(answer, report)
        return answer

    def _retain(self, state: LogState, now_ms: int) -> bool:
        stored = self._store.logs.get(state.log)
        if stored is None:
            return False
        start = retained_start(
            state.config,
            start=state.start,
            floor=state.floor,
            end=state.stable,
            total_bytes=state.bytes,
            stretches=zip(stored.nexts(), map(len, stored.batches), stored.times, strict=True),
            now_ms=now_ms,
        )
        moved = start > state.start
        if moved:
            self.commit([Commit(changes=[TrimLog(state.log, start)])])
        count = bisect_left(list(stored.nexts()), state.visible_start + 1)
        state.bytes -= sum(map(len, stored.batches[:count]))
        del stored.bases[:count], stored.batches[:count], stored.times[:count]
        return moved

    def _compact(self, state: LogState, now_ms: int) -> bool:
        stored = self._store.logs.get(state.log)
        if stored is None:
            return False
        config = state.config
        cleanable = 0
        for batch, time in zip(stored.batches, stored.times, strict=True):
            if read_header(batch).next_offset > state.stable or time > now_ms - config.compaction_lag_ms_min:
                break
            cleanable += 1
        aborted = state.transactions.aborted if state.transactions else ()
        last: dict[bytes, int] = {}
        for batch in stored.batches[:cleanable]:
            header = read_header(batch)
            mine = [a for a in aborted if a.producer == header.producer_id and a.first <= header.base_offset <= a.last]
            if not header.is_control and not (header.is_transactional and mine):
                last.update({key: offset for offset, _, key, _ in decode_keys(batch) if key is not None})
        changed = False
        for index in range(cleanable):
            batch = stored.batches[index]
            header = read_header(batch)
            if header.is_control:
                continue
            gone = {
                r.offset
                for r in decode_records(batch)
                if last.get(r.key or b"") != r.offset
                or (r.value is None and header.delete_horizon_ms is not None and header.delete_horizon_ms < now_ms)
            }
            tombstones = any(r.value is None for r in decode_records(batch) if r.offset not in gone)
            if not gone and (not tombstones or header.delete_horizon_ms is not None):
                continue
            horizon = header.delete_horizon_ms
            if tombstones and horizon is None:
                horizon = now_ms + config.tombstone_retention_ms
            rewritten = rewrite_batch(batch, lambda offset, gone=gone: offset not in gone, horizon)  # type: ignore[misc]
            state.bytes -= len(batch)
            stored.batches[index] = rewritten if rewritten is not None else b""
            state.bytes += len(stored.batches[index])
            changed = True
        kept = [i for i, batch in enumerate(stored.batches) if batch]
        stored.bases = [stored.bases[i] for i in kept]
        stored.times = [stored.times[i] for i in kept]
        stored.batches = [stored.batches[i] for i in kept]
        return changed

    def _expire(self, state: LogState, now_ms: int) -> int:
        if not state.producers:
            return 0
        silent = [
            producer
            for producer, known in state.producers.items()
            if known.last_ms + PRODUCER_EXPIRY_MS < now_ms and producer not in (state.open or ())
        ]
        for producer in silent:
            del state.producers[producer]
        return len(silent)

    def close(self) -> Answer[None]:
        """Take no more commits; answer when the last one was answered."""
        self.sequencer.begin_closing()
        answer: Answer[None] = Answer()
        self.sequencer.answer_when_durable(answer, None)
        return answer
