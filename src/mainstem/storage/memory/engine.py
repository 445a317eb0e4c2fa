"""The contract kept in memory: the same rules of committing, with nothing to wait for but the next turn."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter

from mainstem.model.errors import EngineClosed, OffsetOutOfRange, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    Buffer,
    Commit,
    Edge,
    Found,
    KeyAfter,
    MaintainReport,
    Place,
    ReadHint,
    ReadResult,
    TimeAfter,
    TrimLog,
)
from mainstem.storage.record_search import find_key, find_newest, find_time
from mainstem.storage.retention import retained_start
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.ledger_engine import LedgerEngine
from mainstem.storage.sequencer.log_state import FLUSH_SYNC, LogState
from mainstem.wire.record_batch import decode_keys, decode_records, place_batch, read_header, rewrite_batch

PRODUCER_EXPIRY_MS = 86_400_000


class MemoryLog:
    """The batches of one log, in order."""

    __slots__ = ("bases", "batches", "times")

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.batches: list[Buffer] = []
        self.times: list[int] = []

    def nexts(self) -> Iterator[int]:
        """Offset after each batch."""
        for batch in self.batches:
            yield read_header(batch).next_offset


class MemoryEngine(LedgerEngine):
    """An engine whose disk is the next turn of the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        commit_bytes_max: int = 32 << 20,
        group_bytes_max: int = 4 << 20,
        pending_bytes_max: int = 256 << 20,
    ) -> None:
        ledger = Ledger(
            default_rank=FLUSH_SYNC, commit_bytes_max=commit_bytes_max, copy_bytes_max=1 << 62, now_ms=runtime.now_ms
        )
        super().__init__(runtime, ledger, group_bytes_max=group_bytes_max, pending_bytes_max=pending_bytes_max)
        self._stored: dict[int, MemoryLog] = {}

    def _submit(self, group: CommitGroup) -> None:
        self._runtime.call_soon(lambda: self._durable(group))

    def _show_batches(self, group: CommitGroup) -> None:
        shown = [
            (base, time, size, count, state, buffer) for base, time, size, count, _, _, state, buffer in group.entries
        ]
        for _, base, time, _, _, size, count, _, state, place in group.refs:
            copy = bytearray(group.entries[place][7])
            place_batch(copy, 0, base, 0)
            shown.append((base, time, size, count, state, copy))
        if group.refs:
            shown.sort(key=itemgetter(0))
        for entry in shown:
            self._store(*entry)

    def _store(self, base: int, time: int, size: int, count: int, state: LogState, buffer: Buffer) -> None:
        log = state.log
        state.end = base + count
        state.bytes += size
        if log not in self._ledger.visible:
            return
        stored = self._stored.setdefault(log, MemoryLog())
        stored.bases.append(base)
        stored.batches.append(buffer)
        stored.times.append(time)
        if state.watchers is not None:
            self._note(state)

    def _forget_log(self, state: LogState) -> None:
        super()._forget_log(state)
        self._stored.pop(state.log, None)

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        """Batches from memory; there is nothing to wait for."""
        state = self._ledger.visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        start, end = state.visible_start, state.end
        if not start <= offset <= end:
            return Answer.failed(OffsetOutOfRange(offset, start, end))
        taken: list[Buffer] = []
        next_offset = offset
        stored = self._stored.get(log)
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
        state = self._ledger.visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        edge = self._edge(state, place)
        if edge is not None:
            return edge
        stored = self._stored.get(log) or MemoryLog()
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
        if self._closing:
            return Answer.failed(EngineClosed("the engine is closed"))
        now = self._runtime.now_ms()
        for state in list(self._ledger.visible.values()):
            if self._retain(state, now):
                report.trimmed_logs += 1
            if state.config.compact and self._compact(state, now):
                report.compacted_logs += 1
            report.expired_producers += self._expire(state, now)
        answer: Answer[MaintainReport] = Answer()
        self._answer_when_durable(answer, report)
        return answer

    def _retain(self, state: LogState, now_ms: int) -> bool:
        stored = self._stored.get(state.log)
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
        stored = self._stored.get(state.log)
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
        self._begin_closing()
        answer: Answer[None] = Answer()
        self._answer_when_durable(answer, None)
        return answer
