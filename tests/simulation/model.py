"""What must be: logs, state and producers as plain dictionaries, moved by one function.

Written from the contract alone, without a line of the engine, so that both can only agree by being right. Every Commit
has an ordinal, given when it is called; everything that a Commit made remembers it, so that an answer can be traced to
the Commits it shows.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from mainstem.model.errors import (
    BatchTooLarge,
    CommitTooLarge,
    DuplicateSequence,
    FencedError,
    InvalidBatch,
    KeyRequired,
    LogExists,
    MainstemError,
    OutOfOrderSequence,
    PeerError,
    StaleEpoch,
    UnknownLog,
)
from mainstem.storage.contract import (
    Append,
    Commit,
    Committed,
    ConfigureLog,
    CreateLog,
    DeleteLog,
    Fence,
    LogChange,
    LogConfig,
    MoveFloor,
    Mutation,
    Refer,
    TrimLog,
)

SEQUENCES = 1 << 31
PRODUCER_BATCHES_KNOWN = 5
_PLACE = struct.Struct(">qii")


class SentRecord(NamedTuple):
    """One record as it was produced."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class SentBatch(NamedTuple):
    """A batch, and what its sender knows about it."""

    log: int
    data: bytes
    records: tuple[SentRecord, ...]
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    marker: bool | None = None
    """Whether it commits or aborts a transaction; None for a batch of data."""
    flaw: type[MainstemError] | None = None
    """The refusal that the batch by itself deserves."""
    first_sequence_zero: bool = False


class SentCommit(NamedTuple):
    """A Commit before it is handed to the engine."""

    ordinal: int
    appends: tuple[SentBatch, ...] = ()
    refers: tuple[Refer, ...] = ()
    state: tuple[Mutation, ...] = ()
    fences: tuple[Fence, ...] = ()
    changes: tuple[LogChange, ...] = ()

    def commit(self) -> Commit:
        """For the engine, which may write into the buffers: each its own, or all parts of one that was received."""
        appends = [Append(b.log, bytearray(b.data), b.first_sequence_zero) for b in self.appends]
        if self.ordinal % 3 == 0:
            received = memoryview(bytearray(b"".join(b.data for b in self.appends)))
            ends = list(accumulate((len(b.data) for b in self.appends), initial=0))
            views = [received[start:end] for start, end in pairwise(ends)]
            appends = [Append(b.log, view, b.first_sequence_zero) for b, view in zip(self.appends, views, strict=True)]
        return Commit(
            appends=appends,
            refers=self.refers,
            state=self.state,
            fences=self.fences,
            changes=self.changes,
        )

    @property
    def logs(self) -> set[int]:
        """Every log that it names."""
        return {item.log for part in (self.appends, self.refers, self.changes) for item in part}

    def __str__(self) -> str:
        parts = [
            f"append {len(b.records)} to {b.log}" + (f" ({b.flaw.__name__})" if b.flaw else "") for b in self.appends
        ]
        parts += [f"refer {refer.append} from {refer.log}" for refer in self.refers]
        parts += [f"{type(change).__name__} {change.log}" for change in self.changes]
        if self.state:
            parts.append(f"{len(self.state)} mutations")
        if self.fences:
            parts.append(f"{len(self.fences)} fences")
        return f"#{self.ordinal} [{', '.join(parts)}]"


class SentLease(NamedTuple):
    """A role that was taken: a Commit of the engine's own."""

    ordinal: int
    role: str
    epoch: int

    def __str__(self) -> str:
        return f"#{self.ordinal} [lease {self.role} epoch {self.epoch}]"


class Refused(NamedTuple):
    """A Commit that must not happen, with every reason that may be given."""

    reasons: tuple[type[MainstemError], ...]


class StoredBatch(NamedTuple):
    """A batch as it must be read."""

    base: int
    next: int
    data: bytes
    records: tuple[SentRecord, ...]
    control: bool
    ordinal: int
    producer: int
    transactional: bool


class LogFact(NamedTuple):
    """The ends of a log after a Commit. A log that does not exist has end -1."""

    ordinal: int
    start: int
    end: int
    stable: int


class AbortedRange(NamedTuple):
    """Records of a producer that are not to be delivered, since the Commit with this ordinal."""

    ordinal: int
    producer: int
    first: int
    last: int


class ProducerModel:
    """What must be known of one producer on one log."""

    __slots__ = ("epoch", "last", "recent")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last = -1
        self.recent: list[tuple[int, int, int]] = []
        """First and last sequence, base offset."""

    def copy(self) -> ProducerModel:
        """To try a Commit on."""
        other = ProducerModel(self.epoch)
        other.last = self.last
        other.recent = list(self.recent)
        return other

    def judge(self, epoch: int, sequence: int, count: int) -> int | list[type[MainstemError]] | None:
        """None: store it. A number: stored before, at this base. Types: refuse it."""
        if epoch < self.epoch:
            return [StaleEpoch]
        if epoch > self.epoch:
            return [OutOfOrderSequence] if sequence else None
        if sequence == (self.last + 1) % SEQUENCES:
            return None
        last = (sequence + count - 1) % SEQUENCES
        for first_known, last_known, base in self.recent:
            if (first_known, last_known) == (sequence, last):
                return base
        behind = self.last >= 0 and (self.last - last) % SEQUENCES < SEQUENCES // 2
        return [DuplicateSequence] if behind else [OutOfOrderSequence]

    def take(self, epoch: int, sequence: int, count: int, base: int) -> None:
        """A batch of data was stored."""
        self.enter(epoch)
        self.last = (sequence + count - 1) % SEQUENCES
        self.recent = [*self.recent, (sequence, self.last, base)][-PRODUCER_BATCHES_KNOWN:]

    def enter(self, epoch: int) -> None:
        """A newer epoch begins anew."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.last = -1
            self.recent = []


class LogModel:
    """What one log must hold."""

    __slots__ = (
        "aborted",
        "bases",
        "batches",
        "config",
        "configs",
        "end",
        "facts",
        "floor",
        "floors",
        "id",
        "open",
        "producers",
        "start",
        "start_seen",
    )

    def __init__(self, log: int, config: LogConfig) -> None:
        self.id = log
        self.config = config
        self.configs = [config]
        """All it ever had: retention may have acted under any of them."""
        self.start = 0
        """By trimming alone."""
        self.start_seen = 0
        """The highest that was shown; retention moves it by itself."""
        self.floor = 0
        self.floors: list[int] = []
        """All it ever had: what is released goes up to the floor, in the middle of a batch too."""
        self.end = 0
        self.batches: list[StoredBatch] = []
        self.bases: list[int] = []
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedRange] = []
        self.producers: dict[int, ProducerModel] = {}
        self.facts: list[LogFact] = []

    def copy(self) -> LogModel:
        """Independent of this one."""
        other = LogModel(self.id, self.config)
        other.configs = list(self.configs)
        other.floors = list(self.floors)
        other.start, other.start_seen, other.floor, other.end = self.start, self.start_seen, self.floor, self.end
        other.batches = list(self.batches)
        other.bases = list(self.bases)
        other.open = dict(self.open)
        other.aborted = list(self.aborted)
        other.producers = {key: producer.copy() for key, producer in self.producers.items()}
        other.facts = list(self.facts)
        return other

    @property
    def retained(self) -> bool:
        """Whether the engine may move its start by itself."""
        return any(
            config.acknowledged == "release"
            or (config.delete and (config.retention_ms is not None or config.retention_bytes is not None))
            for config in self.configs
        )

    @property
    def compacted(self) -> bool:
        """Whether the engine may remove records from its middle."""
        return any(config.compact for config in self.configs)

    @property
    def stable(self) -> int:
        """The last stable offset; never below the start."""
        return max(self.start, min(self.open.values(), default=self.end))

    def note(self, ordinal: int) -> None:
        """Remember the ends after a Commit."""
        self.facts.append(LogFact(ordinal, self.start, self.end, self.stable))

    def facts_between(self, known: int, sequenced: int) -> list[LogFact]:
        """What may be shown of it when Commits up to `known` must be visible, and up to `sequenced` may be."""
        facts = self.facts
        first = 0
        for place, fact in enumerate(facts):
            if fact.ordinal > sequenced:
                return facts[first:place]
            if fact.ordinal <= known:
                first = place
        return facts[first:]

    def batch_at(self, base: int) -> StoredBatch | None:
        """The batch that begins at this offset."""
        place = bisect_right(self.bases, base) - 1
        return self.batches[place] if place >= 0 and self.bases[place] == base else None

    def batches_from(self, offset: int, end: int) -> Iterator[StoredBatch]:
        """The batch that contains the offset, and those after it, below `end`."""
        for place in range(max(0, bisect_right(self.bases, offset) - 1), len(self.batches)):
            batch = self.batches[place]
            if batch.base >= end:
                return
            if batch.next > offset:
                yield batch

    def records_between(self, first: int, end: int) -> Iterator[tuple[int, SentRecord, StoredBatch]]:
        """Offset and record of everything in a range, control records included."""
        for batch in self.batches_from(first, end):
            for offset, record in enumerate(batch.records, batch.base):
                if first <= offset < end:
                    yield offset, record, batch


class Model:
    """Everything that was sequenced, in order."""

    def __init__(self, commit_bytes_max: int) -> None:
        self.commit_bytes_max = commit_bytes_max
        self.logs: dict[int, LogModel] = {}
        self.deleted: dict[int, LogModel] = {}
        self.scopes: dict[str, dict[bytes, bytes]] = {}
        self.mutations: dict[str, list[tuple[int, bytes, bytes | None]]] = {}
        """By scope: ordinal, key and value, in order."""
        self.epochs: dict[str, int] = {}
        self.last_ordinal = -1
        """Of the last Commit with an effect."""

    def copy(self) -> Model:
        """Independent of this one."""
        other = Model(self.commit_bytes_max)
        other.logs = {key: log.copy() for key, log in self.logs.items()}
        other.deleted = dict(self.deleted)
        other.scopes = {scope: dict(entries) for scope, entries in self.scopes.items()}
        other.mutations = {scope: list(items) for scope, items in self.mutations.items()}
        other.epochs = dict(self.epochs)
        other.last_ordinal = self.last_ordinal
        return other

    def find(self, log: int) -> LogModel | None:
        """A log, even a deleted one."""
        return self.logs.get(log) or self.deleted.get(log)

    # Judging

    def judge(self, sent: SentCommit) -> Committed | Refused:
        """What the outcome must be; changes nothing."""
        reasons: list[type[MainstemError]] = []
        for fence in sent.fences:
            if fence.epoch != self.epochs.get(fence.role, 0):
                reasons.append(FencedError)
        created = {change.log: change.config for change in sent.changes if isinstance(change, CreateLog)}
        reasons += self._judge_changes(sent.changes)
        if any(mutation.scope.startswith("engine/") for mutation in sent.state):
            reasons.append(PeerError)
        if _size(sent) > self.commit_bytes_max:
            reasons.append(CommitTooLarge)
        bases, repeated = self._judge_appends(sent, created, reasons)
        ends = dict[int, int]()
        for place, batch in enumerate(sent.appends):
            if place not in repeated:
                ends[batch.log] = ends.get(batch.log, self._end(batch.log)) + len(batch.records)
        for refer in sent.refers:
            if refer.log not in self.logs and refer.log not in created:
                reasons.append(UnknownLog)
            elif not 0 <= refer.append < len(sent.appends):
                reasons.append(PeerError)
            elif refer.append in repeated:
                bases.append(-1)
            else:
                end = ends.get(refer.log, self._end(refer.log))
                bases.append(end)
                ends[refer.log] = end + len(sent.appends[refer.append].records)
        return Refused(tuple(reasons)) if reasons else Committed(bases, repeated)

    def _end(self, log: int) -> int:
        known = self.logs.get(log)
        return known.end if known else 0

    def _judge_changes(self, changes: Iterable[LogChange]) -> list[type[MainstemError]]:
        reasons: list[type[MainstemError]] = []
        present = set(self.logs)
        used = present | set(self.deleted)
        for change in changes:
            if isinstance(change, CreateLog):
                if change.log in used:
                    reasons.append(LogExists)
                present.add(change.log)
                used.add(change.log)
            elif change.log not in present:
                reasons.append(UnknownLog)
            elif isinstance(change, DeleteLog):
                present.discard(change.log)
        return reasons

    def _judge_appends(
        self, sent: SentCommit, created: dict[int, LogConfig], reasons: list[type[MainstemError]]
    ) -> tuple[list[int], list[int]]:
        bases: list[int] = []
        repeated: list[int] = []
        ends: dict[int, int] = {}
        tried: dict[tuple[int, int], ProducerModel | None] = {}
        for place, batch in enumerate(sent.appends):
            log = self.logs.get(batch.log)
            if log is None and batch.log not in created:
                reasons.append(UnknownLog)
                continue
            config = log.config if log else created[batch.log]
            if len(batch.data) > config.batch_bytes_max:
                reasons.append(BatchTooLarge)
            if batch.flaw is not None:
                reasons.append(batch.flaw)
            if config.compact and batch.marker is None and any(record.key is None for record in batch.records):
                reasons.append(KeyRequired)
            key = batch.log, batch.producer
            if batch.producer >= 0 and key not in tried:
                known = log.producers.get(batch.producer) if log else None
                tried[key] = known.copy() if known else None
            base = ends.get(batch.log, log.end if log else 0)
            verdict = self._judge_producer(batch, tried, base)
            if isinstance(verdict, list):
                reasons += verdict
            elif verdict is not None:
                repeated.append(place)
                bases.append(verdict)
                continue
            bases.append(base)
            ends[batch.log] = base + len(batch.records)
        return bases, repeated

    def _judge_producer(
        self, batch: SentBatch, tried: dict[tuple[int, int], ProducerModel | None], base: int
    ) -> list[type[MainstemError]] | int | None:
        if batch.producer < 0:
            return [InvalidBatch] if batch.transactional else None
        key = batch.log, batch.producer
        known = tried[key]
        if batch.marker is not None:
            if known is not None and batch.epoch < known.epoch:
                return [StaleEpoch]
            if known is None:
                known = tried[key] = ProducerModel(batch.epoch)
            known.enter(batch.epoch)
            return None
        if known is None:
            if batch.first_sequence_zero and batch.sequence:
                return [OutOfOrderSequence]
            known = tried[key] = ProducerModel(batch.epoch)
        else:
            verdict = known.judge(batch.epoch, batch.sequence, len(batch.records))
            if verdict is not None:
                return verdict
        known.take(batch.epoch, batch.sequence, len(batch.records), base)
        return None

    # Applying

    def apply(self, sent: SentCommit, outcome: Committed) -> bool:
        """Make it so; answers whether anything was changed."""
        touched: dict[int, LogModel] = {}
        for change in sent.changes:
            if isinstance(change, CreateLog):
                touched[change.log] = self.logs[change.log] = LogModel(change.log, change.config)
        for place, batch in enumerate(sent.appends):
            if place not in outcome.repeated:
                log = touched[batch.log] = self.logs[batch.log]
                self._append(log, batch, sent.ordinal)
        for refer, base in zip(sent.refers, outcome.bases[len(sent.appends) :], strict=True):
            if base >= 0:
                log = touched[refer.log] = self.logs[refer.log]
                store(log, sent.appends[refer.append], sent.ordinal)
        changed = self._change(sent, touched)
        for mutation in sent.state:
            self.mutate(mutation, sent.ordinal)
        for log in touched.values():
            log.note(sent.ordinal)
        if touched or changed or sent.state:
            self.last_ordinal = sent.ordinal
            return True
        return False

    def _append(self, log: LogModel, batch: SentBatch, ordinal: int) -> None:
        base = log.end
        store(log, batch, ordinal)
        if batch.producer < 0:
            return
        producer = log.producers.get(batch.producer)
        if producer is None:
            producer = log.producers[batch.producer] = ProducerModel(batch.epoch)
        if batch.marker is None:
            producer.take(batch.epoch, batch.sequence, len(batch.records), base)
            if batch.transactional:
                log.open.setdefault(batch.producer, base)
            return
        producer.enter(batch.epoch)
        first = log.open.pop(batch.producer, None)
        if first is not None and not batch.marker:
            log.aborted.append(AbortedRange(ordinal, batch.producer, first, base))

    def _change(self, sent: SentCommit, touched: dict[int, LogModel]) -> bool:
        changed = False
        for change in sent.changes:
            log = self.logs.get(change.log)
            assert log is not None
            if isinstance(change, DeleteLog):
                log.facts.append(LogFact(sent.ordinal, -1, -1, -1))
                self.deleted[change.log] = self.logs.pop(change.log)
                touched.pop(change.log, None)
                changed = True
            elif isinstance(change, ConfigureLog):
                log.config = change.config
                log.configs.append(change.config)
                changed = True
            elif isinstance(change, MoveFloor):
                floor = min(change.offset, log.end)
                if floor > log.floor:
                    log.floor = floor
                    log.floors.append(floor)
                    changed = True
            elif isinstance(change, TrimLog):
                start = min(change.before, log.end)
                if start > log.start:
                    log.start = start
                    touched[change.log] = log
        return changed

    def mutate(self, mutation: Mutation, ordinal: int) -> None:
        """The last one per key wins."""
        entries = self.scopes.setdefault(mutation.scope, {})
        if mutation.value is None:
            entries.pop(mutation.key, None)
        else:
            entries[mutation.key] = mutation.value
        self.mutations.setdefault(mutation.scope, []).append((ordinal, mutation.key, mutation.value))

    def take_lease(self, role: str, epoch: int, ordinal: int) -> None:
        """A role was taken: a Commit of the engine's own."""
        self.epochs[role] = epoch
        self.last_ordinal = max(self.last_ordinal, ordinal)

    def scopes_between(self, scope: str, known: int, sequenced: int) -> Iterator[tuple[int, dict[bytes, bytes]]]:
        """What may be shown of a scope, with the ordinal that made it so."""
        entries: dict[bytes, bytes] = {}
        last = -1
        shown = False
        for ordinal, key, value in self.mutations.get(scope, ()):
            if ordinal > sequenced:
                break
            if ordinal > known and ordinal != last:
                shown = True
                yield last, dict(entries)
            last = ordinal
            if value is None:
                entries.pop(key, None)
            else:
                entries[key] = value
            shown = False
        if not shown:
            yield last, entries


def _size(sent: SentCommit) -> int:
    """What a Commit counts for: all that it brings, unless that is one batch and nothing else, which counts for itself."""
    size = sum(len(batch.data) for batch in sent.appends)
    if len(sent.appends) == 1 and not (sent.refers or sent.state or sent.changes or sent.fences):
        return size
    size += sum(len(m.scope) + len(m.key) + len(m.value or b"") + 16 for m in sent.state)
    return size + 64 * (len(sent.appends) + len(sent.refers) + len(sent.changes))


def store(log: LogModel, batch: SentBatch, ordinal: int) -> None:
    """Put a batch at the end of a log, as it must be read from there."""
    base = log.end
    data = bytearray(batch.data)
    _PLACE.pack_into(data, 0, base, len(data) - 12, 0)
    log.end = base + len(batch.records)
    stored = StoredBatch(
        base,
        log.end,
        bytes(data),
        batch.records,
        batch.marker is not None,
        ordinal,
        batch.producer,
        batch.transactional,
    )
    log.batches.append(stored)
    log.bases.append(base)


def replay(model: Model, entry: SentCommit | SentLease, outcome: Committed) -> None:
    """Apply one Commit that was sequenced."""
    if isinstance(entry, SentLease):
        model.take_lease(entry.role, entry.epoch, entry.ordinal)
    else:
        model.apply(entry, outcome)
