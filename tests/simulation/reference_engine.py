"""The simplest engine that keeps the contract: the model itself, and a journal of Commits that is synced one by one.

It shows that the checker has no complaint about a right engine, and, broken on purpose, that it has one about a wrong
engine, both without a line of the real one.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

from crc32c import crc32c

from mainstem.model.errors import (
    CorruptBatch,
    EngineClosed,
    EngineFailed,
    FencedError,
    InvalidBatch,
    MainstemError,
    OffsetOutOfRange,
    UnknownLog,
)
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Aborted,
    Append,
    Budget,
    Commit,
    CommitResult,
    Committed,
    Edge,
    Fence,
    Found,
    Lease,
    LogChange,
    LogEnd,
    MaintainReport,
    Mutation,
    Place,
    ReadHint,
    ReadResult,
    StateSnapshot,
    TrimLog,
    WatchCallback,
)
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.sequencer.engine_scopes import LogEntry, encode_log_entry, encode_number, log_key
from mainstem.testing.disk import SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime
from mainstem.wire.record_batch import NO_PRODUCER, check_batch, decode_marker, decode_records
from tests.simulation.invariants import matches_place
from tests.simulation.model import LogModel, Model, Refused, SentBatch, SentCommit, SentLease, SentRecord, replay

JOURNAL = "data/journal"
ENTRY = struct.Struct("<II")

JournalEntry = tuple["SentCommit | SentLease", Committed]


class ReferenceWatch:
    """Tells what moved, one turn after it did."""

    def __init__(self, engine: ReferenceEngine, callback: WatchCallback) -> None:
        self._engine = engine
        self._callback: WatchCallback | None = callback
        self._ends: dict[int, LogEnd] = {}

    def add(self, log: int) -> LogEnd:
        self._ends[log] = ends = self._engine.ends(log)
        return ends

    def remove(self, log: int) -> None:
        self._ends.pop(log, None)

    def close(self) -> None:
        self._callback = None

    def tell(self) -> None:
        moved: dict[int, LogEnd] = {}
        for log, before in list(self._ends.items()):
            known = self._engine.visible.logs.get(log)
            ends = LogEnd(-1, -1) if known is None else LogEnd(known.end, known.stable)
            if ends != before:
                self._ends[log] = moved[log] = ends
                if known is None:
                    del self._ends[log]
        if moved and self._callback is not None:
            self._callback(moved)


class ReferenceEngine:
    """One file, one Commit at a time."""

    def __init__(self, *, disk: SimulatedDisk, runtime: SimulatedRuntime, settings: EngineSettings) -> None:
        self.sequenced = Model(settings.commit_bytes_max)
        self.visible = Model(settings.commit_bytes_max)
        self._runtime = runtime
        self._next_ordinal = 0
        self._pending = 0
        self._waiting: list[tuple[int, Answer[Any], object]] = []
        self._watches: list[ReferenceWatch] = []
        self._leases: dict[str, Lease] = {}
        self._failure: EngineFailed | None = None
        self._closed = False
        self._on_failure: list[Callable[[BaseException], None]] = []
        if not disk.exists(JOURNAL):
            disk.open(JOURNAL, create=True).close()
            disk.sync_directory("data")
        self._file = disk.open(JOURNAL)
        self._end = 0
        self._recover()

    def _recover(self) -> None:
        content = self._file.read(self._file.size(), 0)
        while self._end + ENTRY.size <= len(content):
            size, crc = ENTRY.unpack_from(content, self._end)
            body = content[self._end + ENTRY.size : self._end + ENTRY.size + size]
            if not size or crc32c(body) != crc:
                break
            entry, outcome = pickle.loads(body)
            replay(self.sequenced, entry, outcome)
            self._next_ordinal = entry.ordinal + 1
            self._end += ENTRY.size + size
        # What was torn off must not come back behind the next entry; and what a failed sync left in memory alone would
        # not be written by the next one either.
        self._file.truncate(self._end)
        self._file.write([content[: self._end]], 0)
        self._file.sync()
        self.visible = self.sequenced.copy()

    # Writing

    def _append(self, entries: list[JournalEntry], answer: Answer[Any], value: object) -> None:
        """Journal what was sequenced; answer when that, and all before it, is durable."""
        parts = []
        for entry in entries:
            body = pickle.dumps(entry)
            parts.append(ENTRY.pack(len(body), crc32c(body)) + body)
        data = b"".join(parts)
        position = self._end
        self._end += len(data)
        self._pending += 1

        def job() -> None:
            if data:
                self._file.write([data], position)
                self._file.sync()

        def done(_: None, error: BaseException | None) -> None:
            self._pending -= 1
            if error is not None:
                self._fail(error)
            if self._failure is not None:
                answer.fail(self._failure)
                return
            for entry, outcome in entries:
                replay(self.visible, entry, outcome)
            for watch in self._watches:
                watch.tell()
            answer.resolve(value)

        self._runtime.write(job, done)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = EngineFailed(str(error))
            for callback in self._on_failure:
                callback(error)

    def _refuse(self) -> Answer[Any] | None:
        if self._failure is not None or self._closed:
            return Answer.failed(self._failure or EngineClosed("closed"))
        return None

    def commit(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        if (refused := self._refuse()) is not None:
            return refused
        results: list[CommitResult] = []
        entries: list[JournalEntry] = []
        for commit in commits:
            sent = receive(commit, self._next_ordinal)
            self._next_ordinal += 1
            outcome = self.sequenced.judge(sent)
            if isinstance(outcome, Refused):
                results.append(refusal(outcome.reasons[0]))
                continue
            results.append(outcome)
            if self.sequenced.apply(sent, outcome):
                entries.append((sent, outcome))
        answer: Answer[list[CommitResult]] = Answer()
        self._append(entries, answer, results)
        return answer

    def alter(
        self, changes: Sequence[LogChange], state: Sequence[Mutation] = (), fences: Sequence[Fence] = ()
    ) -> Answer[None]:
        answer: Answer[None] = Answer()

        def finish(done: Answer[list[CommitResult]]) -> None:
            error = done.error or done.result()[0]
            answer.fail(error) if isinstance(error, BaseException) else answer.resolve(None)

        self.commit([Commit(changes=changes, state=state, fences=fences)]).on_done(finish)
        return answer

    def trim(self, log: int, before: int) -> Answer[int]:
        answer: Answer[int] = Answer()

        def finish(done: Answer[None]) -> None:
            known = self.visible.logs.get(log)
            if done.error is not None or known is None:
                answer.fail(done.error or UnknownLog(f"log {log}"))
            else:
                answer.resolve(known.start)

        self.alter([TrimLog(log, before)]).on_done(finish)
        return answer

    def lease(self, role: str, ttl_ms: int, renew: Lease | None = None) -> Answer[Lease | None]:
        if (refused := self._refuse()) is not None:
            return refused
        now = self._runtime.now_ms()
        held = self._leases.get(role)
        if renew is not None:
            if held is None or held.epoch != renew.epoch:
                return Answer.of(None)
            self._leases[role] = renewed = Lease(role, held.epoch, now + ttl_ms)
            return Answer.of(renewed)
        if held is not None and held.expires_ms > now:
            return Answer.of(None)
        taken = SentLease(self._next_ordinal, role, self.sequenced.epochs.get(role, 0) + 1)
        self._next_ordinal += 1
        replay(self.sequenced, taken, Committed())
        self._leases[role] = lease = Lease(role, taken.epoch, now + ttl_ms)
        answer: Answer[Lease | None] = Answer()
        self._append([(taken, Committed())], answer, lease)
        return answer

    # Reading

    def ends(self, log: int) -> LogEnd:
        known = self.visible.logs.get(log)
        if known is None:
            raise UnknownLog(f"log {log}")
        return LogEnd(known.end, known.stable)

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        known = self.visible.logs.get(log)
        if known is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        if not known.start <= offset <= known.end:
            return Answer.failed(OffsetOutOfRange(offset, known.start, known.end))
        batches: list[bytes] = []
        next_offset = offset
        for batch in known.batches_from(offset, known.end) if max_bytes > 0 else ():
            if batches and sum(map(len, batches)) + len(batch.data) > max_bytes:
                break
            batches.append(batch.data)
            next_offset = batch.next
        aborted = [
            Aborted(a.producer, a.first, a.last) for a in known.aborted if a.last >= offset and a.first < next_offset
        ]
        stored_bytes = sum(len(batch.data) for batch in known.batches)
        return Answer.of(ReadResult(batches, known.start, known.end, known.stable, next_offset, aborted, stored_bytes))

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        known = self.visible.logs.get(log)
        if known is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        edges = {Edge.START: known.start, Edge.END: known.end, Edge.STABLE: known.stable}
        if isinstance(place, Edge) and place in edges:
            return Answer.of(Found(edges[place]))
        return Answer.of(find(known, place))

    def load(self, scope: str) -> Answer[StateSnapshot]:
        if self._failure is not None:
            return Answer.failed(self._failure)
        model = self.sequenced
        entries = dict(model.scopes.get(scope, {}))
        if scope == "engine/logs":
            for log in model.logs.values():
                entries[log_key(log.id)] = encode_log_entry(LogEntry(log.config, log.start, log.floor))
        elif scope == "engine/leases":
            entries = {role.encode(): encode_number(epoch) for role, epoch in model.epochs.items()}
        answer: Answer[StateSnapshot] = Answer()
        self._append([], answer, StateSnapshot(entries))
        return answer

    def watch(self, callback: WatchCallback) -> ReferenceWatch:
        watch = ReferenceWatch(self, callback)
        self._watches.append(watch)
        return watch

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        return Answer.of(MaintainReport())

    def on_failure(self, callback: Callable[[BaseException], None]) -> None:
        self._on_failure.append(callback)

    def close(self) -> Answer[None]:
        self._closed = True
        answer: Answer[None] = Answer()
        self._append([], answer, None)
        return answer


def find(log: LogModel, place: Place) -> Found:
    records = [(o, r) for o, r, batch in log.records_between(log.start, log.end) if not batch.control]
    if place is Edge.NEWEST:
        offset, record = max(records, key=lambda item: (item[1].timestamp_ms, -item[0]), default=(-1, None))
        return Found(offset, record.timestamp_ms if record else -1)
    for offset, record in records:
        if matches_place(place, offset, record):
            return Found(offset, record.timestamp_ms)
    return Found(-1)


def refusal(reason: type[MainstemError]) -> MainstemError:
    if reason is FencedError:
        return FencedError("", 0, 0)
    return reason("refused")


def receive(commit: Commit, ordinal: int) -> SentCommit:
    """A Commit as the model knows it, from what arrived."""
    return SentCommit(
        ordinal,
        tuple(receive_batch(append) for append in commit.appends),
        tuple(commit.refers),
        tuple(commit.state),
        tuple(commit.fences),
        tuple(commit.changes),
    )


def receive_batch(append: Append) -> SentBatch:
    data = bytes(append.batch)
    try:
        header = check_batch(data)
    except InvalidBatch as error:
        flaw = CorruptBatch if isinstance(error, CorruptBatch) else InvalidBatch
        return SentBatch(append.log, data, (SentRecord(0, b"", b""),), flaw=flaw)
    records = tuple(SentRecord(r.timestamp_ms, r.key, r.value) for r in decode_records(data))
    if header.producer_id == NO_PRODUCER:
        return SentBatch(append.log, data, records)
    return SentBatch(
        append.log,
        data,
        records,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        decode_marker(data) if header.is_control else None,
        first_sequence_zero=append.first_sequence_zero,
    )
