"""What must hold in every history, each rule as a class of its own, so that a failing seed names what it broke."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from mainstem.model.errors import MainstemError
from mainstem.storage.contract import (
    CommitResult,
    Committed,
    Edge,
    Found,
    KeyAfter,
    LogConfig,
    LogEnd,
    Place,
    ReadResult,
    TimeAfter,
)
from mainstem.wire.record_batch import batches_in, check_stored_batch, decode_records, read_header
from tests.simulation.model import LogFact, LogModel, Model, Refused, SentCommit, SentRecord, StoredBatch


class Violation(Exception):
    """A rule was broken."""

    def __init__(self, invariant: type[Invariant], text: str) -> None:
        super().__init__(f"{invariant.__name__}: {text}")
        self.invariant = invariant
        self.text = text


class Invariant:
    """A rule. Its methods raise Violation."""

    @classmethod
    def broken(cls, text: str) -> NoReturn:
        """Say so."""
        raise Violation(cls, text)

    @classmethod
    def require(cls, holds: object, text: str) -> None:
        """Unless it holds, say so."""
        if not holds:
            raise Violation(cls, text)


class NothingAcknowledgedLost(Invariant):
    """Whatever was answered under `sync` is there after a power loss; under any policy, after a killed process."""


class NoAnswerShowsUndurableState(Invariant):
    """Nothing that was read, found, loaded or watched under `sync` may be missing after a crash."""


class AlwaysRecovers(Invariant):
    """After any crash the engine opens again; only an error of the disk itself may prevent it."""


class EveryCallIsAnswered(Invariant):
    """No call waits for ever, and none fails for a reason that its history does not contain."""


class GroupsAtomic(Invariant):
    """A Commit's batches, references, mutations and changes appear all or none."""


class StateEqualsReplay(Invariant):
    """What is found after recovery equals the replay of a prefix of the sequenced Commits."""


class OffsetsDenseAndNeverReused(Invariant):
    """Offsets follow on each other without gaps, and an offset that was answered never means another record."""

    @classmethod
    def check_bases(cls, sent: SentCommit, expected: Committed, result: Committed) -> None:
        """The answer to a Commit that had to succeed."""
        if list(result.bases) != list(expected.bases):
            cls.broken(f"{sent} got offsets {list(result.bases)}, must get {list(expected.bases)}")


class IdempotenceSurvives(Invariant):
    """A batch with a producer id is stored once, also across restarts; gaps and old epochs are refused."""

    @classmethod
    def check_repeated(cls, sent: SentCommit, expected: Committed, result: Committed) -> None:
        """Which appends were known."""
        if list(result.repeated) != list(expected.repeated):
            cls.broken(f"{sent} repeated {list(result.repeated)}, must repeat {list(expected.repeated)}")


class RefusalsChangeNothing(Invariant):
    """Bad input is refused for its reason, in its own place; a good Commit beside it is not."""

    @classmethod
    def check(cls, sent: SentCommit, expected: Committed | Refused, result: CommitResult) -> None:
        """One result of a list."""
        if isinstance(expected, Refused):
            if not isinstance(result, expected.reasons):
                names = " or ".join(reason.__name__ for reason in expected.reasons)
                cls.broken(f"{sent} must be refused with {names}, but got {result!r}")
        elif isinstance(result, MainstemError):
            cls.broken(f"{sent} must succeed, but was refused: {result!r}")


class BytesVerbatim(Invariant):
    """A stored batch equals the sent one, but for base offset and leader epoch."""

    @classmethod
    def check(cls, log: LogModel, data: memoryview) -> StoredBatch:
        """One batch of a log that is not compacted."""
        base = read_header(data).base_offset
        stored = log.batch_at(base)
        if stored is None:
            cls.broken(f"log {log.id} gives a batch at {base}, where none begins")
        if data != stored.data:
            cls.broken(f"log {log.id} gives another batch at {base} than the one sent with #{stored.ordinal}")
        return stored


class CompactionKeepsTheLast(Invariant):
    """Compaction removes only records that a later one with the same key replaces, aborted ones and old tombstones."""

    @classmethod
    def check_batch(cls, log: LogModel, data: memoryview) -> dict[int, object]:
        """Every record left is a record sent, at its own offset."""
        header = check_stored_batch(data)
        left: dict[int, object] = {}
        if header.is_control:
            return left
        for record in decode_records(data):
            expected = next(log.records_between(record.offset, record.offset + 1), None)
            given = (record.timestamp_ms, record.key, record.value)
            if expected is None or tuple(expected[1]) != given:
                cls.broken(f"log {log.id} gives another record at {record.offset} than was sent")
            left[record.offset] = record
        return left

    @classmethod
    def check_whole(cls, log: LogModel, left: Mapping[int, object], fact: LogFact, start: int) -> None:
        """What may be missing of [start, end)."""
        last: dict[bytes | None, int] = {}
        aborted = [(a.producer, a.first, a.last) for a in log.aborted]
        undelivered: set[int] = set()
        for offset, record, batch in log.records_between(0, fact.end):
            if batch.control:
                continue
            if any(
                p == batch.producer and first <= offset < until for p, first, until in aborted if batch.transactional
            ):
                undelivered.add(offset)
            elif offset < fact.stable:
                last[record.key] = offset
        for offset, record, batch in log.records_between(start, fact.end):
            if offset in left or batch.control or offset in undelivered:
                continue
            if offset >= fact.stable:
                cls.broken(f"log {log.id} lost record {offset} above its stable offset {fact.stable}")
            if last.get(record.key, offset) > offset:
                continue
            if record.value is not None or min(c.tombstone_retention_ms for c in log.configs) > 0:
                cls.broken(f"log {log.id} lost record {offset}, the last with key {record.key!r}")


class RetentionTakesOnlyWhatIsDue(Invariant):
    """The start of a log moves by trimming, acknowledgement, age and size, never further than they allow."""

    @classmethod
    def start_max(cls, log: LogModel, now_ms: int, *, was_full: bool) -> int:
        """The highest start that the engine may have moved to by itself."""
        return max(cls._start_max(log, config, now_ms, was_full=was_full) for config in log.configs)

    @classmethod
    def _start_max(cls, log: LogModel, config: LogConfig, now_ms: int, *, was_full: bool) -> int:
        start = log.start
        ends = config.delete and (config.retention_ms is not None or config.retention_bytes is not None)
        if config.acknowledged == "release" or (was_full and ends and config.acknowledged == "hold"):
            start = max(start, log.floor)
        if not config.delete:
            return start
        limit = log.floor if config.acknowledged == "hold" else log.end
        alive = [batch for batch in log.batches if batch.next > start]
        total = sum(len(batch.data) for batch in alive)
        for batch in alive:
            total -= len(batch.data)
            newest = max(record.timestamp_ms for record in batch.records)
            too_old = config.retention_ms is not None and newest < now_ms - config.retention_ms
            too_many = config.retention_bytes is not None and total >= config.retention_bytes
            if not (too_old or too_many) or batch.next > limit:
                break
            start = max(start, batch.next)
        return start


class EarlyDeletionTakesWholeBatches(Invariant):
    """What goes early for want of space goes batch by batch, and nothing that was written in a transaction does."""

    @classmethod
    def check(cls, log: LogModel, start: int, due: int) -> None:
        """The start of a log lies beyond what is due."""
        limit = cls.start_max(log, due)
        cls.require(start <= limit, f"log {log.id} begins at {start}; {due} was due, and early it may begin at {limit}")
        is_end = any(batch.next == start for batch in log.batches)
        cls.require(is_end, f"log {log.id} begins at {start}, within a batch")

    @classmethod
    def start_max(cls, log: LogModel, due: int) -> int:
        """The highest start of a log of which all before `due` may be gone."""
        return max((cls._start_max(log, config, due) for config in log.configs if config.delete), default=due)

    @classmethod
    def _start_max(cls, log: LogModel, config: LogConfig, due: int) -> int:
        if config.retention_ms is None and config.retention_bytes is None:
            return due
        limit = log.floor if config.acknowledged == "hold" else log.end
        start = due
        for batch in log.batches:
            if batch.next <= start:
                continue
            if batch.transactional or batch.control or batch.next > limit:
                break
            start = batch.next
        return start


class StableOffsetAndAborted(Invariant):
    """The last stable offset stands below every open transaction, and aborted ranges are told with what they touch."""

    @classmethod
    def check_aborted(cls, log: LogModel, result: ReadResult, first: int, fact: LogFact) -> None:
        """All that touch what was read, and none that is not true."""
        told = {(a.producer, a.first, a.last) for a in result.aborted}
        true = {(a.producer, a.first, a.last): a for a in log.aborted}
        for entry in told:
            if entry not in true:
                cls.broken(f"log {log.id} tells of {entry}, which was not aborted")
        for entry, aborted in true.items():
            touches = aborted.first < result.next_offset and aborted.last >= first
            if touches and aborted.ordinal <= fact.ordinal and entry not in told:
                cls.broken(f"log {log.id} read from {first} to {result.next_offset} does not tell of {entry}")


class ReadsAreWhole(Invariant):
    """A read gives whole batches from the offset on, without a gap, as many as were asked for, and says where to go on."""

    @classmethod
    def check(cls, log: LogModel, offset: int, max_bytes: int, result: ReadResult) -> Iterator[memoryview]:
        """The batches of a read, each checked to follow on the one before."""
        total = sum(len(buffer) for buffer in result.batches)
        expected = offset
        count = 0
        for buffer in result.batches:
            view = memoryview(buffer)
            for position, size in batches_in(view):
                batch = view[position : position + size]
                header = read_header(batch)
                if count == 0:
                    early = header.next_offset <= offset
                    late = header.base_offset > offset and not log.compacted
                    cls.require(
                        not early and not late, f"log {log.id} read at {offset} begins with {header.base_offset}"
                    )
                elif log.compacted:
                    cls.require(header.base_offset >= expected, f"log {log.id} goes back to {header.base_offset}")
                else:
                    follows = header.base_offset == expected
                    cls.require(follows, f"log {log.id} goes on with {header.base_offset} after {expected}")
                expected = header.next_offset
                count += 1
                yield batch
        cls.require(count <= 1 or total <= max_bytes, f"{total} bytes given where {max_bytes} were asked for")
        cls.require(expected <= result.end, f"log {log.id} read up to {expected}, beyond its end {result.end}")
        if log.compacted:
            cls.require(expected <= result.next_offset <= result.end, f"goes on at {result.next_offset}")
            progress = result.next_offset > offset or offset >= result.end or not max_bytes
        else:
            cls.require(result.next_offset == expected, f"goes on at {result.next_offset}, not at {expected}")
            progress = count > 0 or offset >= result.end or not max_bytes
        cls.require(progress, f"log {log.id} gives nothing at {offset} although it ends at {result.end}")

    @classmethod
    def check_size(cls, log: LogModel, result: ReadResult) -> None:
        """The size of a log of which nothing was ever removed."""
        size = sum(len(batch.data) for batch in log.batches if batch.next <= result.end)
        right = size == result.stored_bytes or log.compacted
        cls.require(right, f"log {log.id} is said to have {result.stored_bytes} bytes, and has {size}")


class PositionsAreFound(Invariant):
    """`offset_at` finds the edge, the time or the key that is there, and nothing that is not."""

    @classmethod
    def check(cls, log: LogModel, place: Place, found: Found, fact: LogFact, start: int) -> bool:
        """Whether the answer is true of the log as the fact has it."""
        if place is Edge.START:
            return found.offset == start
        if place is Edge.END:
            return found.offset == fact.end
        if place is Edge.STABLE:
            return found.offset == fact.stable
        records = [(o, r) for o, r, batch in log.records_between(start, fact.end) if not batch.control]
        if log.compacted:
            return cls._check_compacted(place, found, records)
        if place is Edge.NEWEST:
            newest = max((r.timestamp_ms for _, r in records), default=None)
            if newest is None or newest < 0:
                return found.offset == -1 or newest is not None
            return found.timestamp_ms == newest and any(
                o == found.offset for o, r in records if r.timestamp_ms == newest
            )
        expected = next(((o, r.timestamp_ms) for o, r in records if matches_place(place, o, r)), (-1, -1))
        return (found.offset, found.timestamp_ms) == expected

    @classmethod
    def _check_compacted(cls, place: Place, found: Found, records: Sequence[tuple[int, SentRecord]]) -> bool:
        if found.offset == -1:
            return True  # what matched may have been removed
        record = dict(records).get(found.offset)
        return record is not None and matches_place(place, found.offset, record)


def matches_place(place: Place, offset: int, record: SentRecord) -> bool:
    """Whether a record is one that is looked for."""
    if isinstance(place, TimeAfter):
        return record.timestamp_ms >= place.timestamp_ms
    if isinstance(place, KeyAfter):
        return (
            record.key == place.key
            and offset >= place.offset
            and (place.since_ms is None or record.timestamp_ms >= place.since_ms)
            and (place.until_ms is None or record.timestamp_ms <= place.until_ms)
        )
    return True


class WatchesTellTheTruth(Invariant):
    """A watch reports ends that are durable, in order, never from within a call, and misses none that lasts."""

    @classmethod
    def check(cls, model: Model, log: int, told: LogEnd, known: int, sequenced: int) -> LogFact:
        """The fact that a report shows."""
        watched = model.find(log)
        if watched is None:
            cls.broken(f"a watch reports log {log}, which was never created")
        for fact in watched.facts_between(known, sequenced):
            if (fact.end, fact.stable) == (told.end, told.stable):
                return fact
        return cls.broken(f"a watch reports {told} for log {log}; true since its last report: {watched.facts[-3:]}")


class FullDisksHeal(Invariant):
    """A full disk ends nothing. When space returns, appends are accepted again; deletions were all the time."""


class DeadSpaceComesBack(Invariant):
    """Once everything on a full disk is deleted, appends are accepted again, without any room from elsewhere."""


class StartNeedsNoSpace(Invariant):
    """On a disk without a free byte the engine opens, and can be read from and deleted from."""
