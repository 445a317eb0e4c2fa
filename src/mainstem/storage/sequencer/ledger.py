"""The rules of committing: what is admitted, in which order, with which offsets. No I/O, no waiting.

A Commit is first checked whole and then applied whole, so that a refusal changes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from mainstem.model.errors import (
    PLACES_MAX,
    BatchTooLarge,
    CommitTooLarge,
    CorruptBatch,
    FencedError,
    InvalidBatch,
    KeyRequired,
    LogExists,
    MainstemError,
    OutOfOrderSequence,
    PeerError,
    StorageFull,
    UnknownLog,
)
from mainstem.model.identity import LOG_ID_MAX
from mainstem.storage.contract import (
    STATE_SCOPE_RESERVED,
    Append,
    Buffer,
    Commit,
    CommitResult,
    Committed,
    ConfigureLog,
    CreateLog,
    DeleteLog,
    Fence,
    LogChange,
    LogConfig,
    MoveFloor,
    Mutation,
    TrimLog,
)
from mainstem.storage.retention import retention_class
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.deleted_logs import DeletedLogs
from mainstem.storage.sequencer.entries import FLAG_CONTROL, FLAG_PRODUCER, FLAG_TRANSACTIONAL
from mainstem.storage.sequencer.log_state import LogState
from mainstem.storage.sequencer.log_table import LogTable
from mainstem.storage.sequencer.producers import NOT_STORED, Producer
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import (
    CRC_FROM,
    HEADER,
    MARKER_BYTES,
    decode_marker,
    keys_in,
    open_batch,
)

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import crc32c_at, has_crc32c, i32_at, i64_at, put_i64, put_u32, u32_at

    # C of ledger.pxd
    ask_for_logs: Any = None
    learn_fields = ask_for_logs
    ASKED_LOGS_MAX = 0

BATCH_HEADER_BYTES = HEADER.size
REFERENCE_BYTES = 64
"""What a reference, or the head of a batch, counts for besides the bytes of batches."""
_CHECKED_FROM = CRC_FROM
ROOM_UNLIMITED = 1 << 62
GROUP_BYTES_MIN = 1024
"""What a commit may take beside what it carries: frames, and the rest of a sector."""
DELETIONS = (DeleteLog, TrimLog, MoveFloor)
"""Changes after which there is less to keep."""
_unpack_header = HEADER.unpack_from
_place = struct.Struct(">qii").pack_into
_ATTRIBUTE_TRANSACTIONAL, _ATTRIBUTE_CONTROL, _COMPRESSION_MASK, _COMPRESSION_MAX = 0x10, 0x20, 0x07, 4
_UNUSUAL_MASK = _ATTRIBUTE_TRANSACTIONAL | _ATTRIBUTE_CONTROL | 0x04
"""Attributes that need a closer look: transactional, control, and compression from zstd upwards."""

Admitted = tuple[LogState, Buffer, int, int, int, int, int, int, int, int, int]
"""state, buffer, size, count, crc, flags, time, producer, epoch, sequence, base if stored before."""


class Ledger:
    """All logs and all state, sequenced and visible."""

    def __init__(
        self, *, default_rank: int, commit_bytes_max: int, copy_bytes_max: int, now_ms: Callable[[], int]
    ) -> None:
        self.logs = LogTable()
        """Sequenced: what the next Commit sees."""
        self.visible: dict[int, LogState] = {}
        """Durable: what readers see."""
        self.scopes: dict[str, dict[bytes, bytes]] = {}
        self.deleted = DeletedLogs()
        self.starts: dict[int, int] = {}
        """Visible starts other than 0."""
        self.classes: dict[int, int] = {}
        """Retention classes other than 0."""
        self.key_indexed: set[int] = set()
        self.full = False
        """Whether appends are refused for want of space."""
        self.state_room = self.deletion_room = ROOM_UNLIMITED
        """Bytes that state, and deletions, may still take while that is so."""
        self.default_rank = default_rank
        self._commit_bytes_max = commit_bytes_max
        self._copy_bytes_max = min(copy_bytes_max, commit_bytes_max)
        self._now_ms = now_ms
        self.on_deleted: Callable[[LogState], None] = lambda state: None
        self.on_trimmed: Callable[[LogState], None] = lambda state: None

    def sequence_until_full(
        self, commits: Sequence[Commit], first: int, group: CommitGroup, bytes_max: int, results: list[CommitResult]
    ) -> int:
        """Admit Commits into a group, or refuse them, until it has its size; answers the index of the one after them."""
        index = first
        count = len(commits)
        while index < count:
            if cython.compiled and (index - first) % ASKED_LOGS_MAX == 0 and count - index > 1:
                ask_for_logs(self.logs.slots, self.logs.shift, commits, index)
            try:
                results.append(self.sequence(commits[index], group))
            except MainstemError as refusal:
                results.append(refusal)
            index += 1
            if group.bytes >= bytes_max:
                break
        return index

    def sequence(self, commit: Commit, group: CommitGroup) -> Committed:
        """Admit a Commit into a group, or raise and change nothing."""
        append = one_append(commit)
        if append is None:
            return self._sequence_whole(commit, group)
        state = self.logs.find(log_of(append))
        if state is None:
            raise UnknownLog(f"log {append.log}")
        if self.full:
            raise StorageFull("the disk is full")
        batch = batch_of(append)
        size = len(batch)
        if BATCH_HEADER_BYTES <= size <= state.plain_bytes_max:
            base = _append_plain(state, batch, size, group)
            if base >= 0:
                return Committed((base,))
        if size > self._commit_bytes_max:
            raise CommitTooLarge(f"{size} bytes in one commit; at most {self._commit_bytes_max}")
        admitted = self._admit(state, append, None)
        if admitted[10] != NOT_STORED:
            return Committed((admitted[10],), (0,))
        return Committed((self._append(admitted, group),))

    def _sequence_whole(self, commit: Commit, group: CommitGroup) -> Committed:
        if commit.fences:
            self._check_fences(commit.fences)
        size = self._check_size(commit)
        created = self._check_changes(commit.changes)
        if self.full:
            self._check_room(commit, size, creates=bool(created))
        self._check_state(commit.state)
        admitted = self._admit_all(commit.appends, created)
        self._check_refers(commit, created)

        for state in created.values():
            self._create(state, group)
        bases: list[int] = []
        repeated: list[int] = []
        places: list[int] = []
        for index, entry in enumerate(admitted):
            if entry[10] != NOT_STORED:
                repeated.append(index)
                bases.append(entry[10])
                places.append(-1)
            else:
                bases.append(self._append(entry, group))
                places.append(len(group.entries) - 1)
        for refer in commit.refers:
            place = places[refer.append]
            bases.append(-1 if place < 0 else self._refer(self.logs[refer.log], place, group))
        for change in commit.changes:
            self._change(change, group)
        for mutation in commit.state:
            self.mutate(mutation.scope, mutation.key, mutation.value, group)
        if commit.state or commit.changes:
            group.rank = max(group.rank, self.default_rank)
        return Committed(bases, repeated)

    # Checks: raise, change nothing.

    def _check_fences(self, fences: Iterable[Fence]) -> None:
        epochs = self.scopes.get(scopes.LEASES, {})
        for fence in fences:
            value = epochs.get(fence.role.encode())
            current = 0 if value is None else scopes.decode_number(value)
            if fence.epoch != current:
                raise FencedError(fence.role, fence.epoch, current)

    def _check_size(self, commit: Commit) -> int:
        size = sum(len(append.batch) for append in commit.appends)
        size += sum(len(m.scope) + len(m.key) + len(m.value or b"") + 16 for m in commit.state)
        size += REFERENCE_BYTES * (len(commit.changes) + len(commit.refers) + len(commit.appends))
        if size > self._commit_bytes_max:
            raise CommitTooLarge(f"{size} bytes in one commit; at most {self._commit_bytes_max}")
        return size

    def _check_room(self, commit: Commit, size: int, *, creates: bool) -> None:
        """A full disk takes state as long as there is room for it, and deletions for a while longer."""
        if commit.appends or commit.refers or creates:
            raise StorageFull("the disk is full")
        size += GROUP_BYTES_MIN
        deletes = any(isinstance(change, DELETIONS) for change in commit.changes)
        if size > (self.deletion_room if deletes else self.state_room):
            raise StorageFull("the disk is full, and so is the room for state; deletions and reads go on")
        self.state_room -= size
        self.deletion_room -= size

    def _check_state(self, state: Sequence[Mutation]) -> None:
        for mutation in state:
            if mutation.scope.startswith(STATE_SCOPE_RESERVED):
                raise PeerError(f"scope {mutation.scope!r} is the engine's own")

    def _check_changes(self, changes: Sequence[LogChange]) -> dict[int, LogState]:
        created: dict[int, LogState] = {}
        deleted: set[int] = set()
        for change in changes:
            log = change.log
            if isinstance(change, CreateLog):
                if not 0 <= log <= LOG_ID_MAX:
                    raise PeerError(f"log id {log} is out of range")
                if log in self.logs or log in created or log in self.deleted or log in deleted:
                    raise LogExists(f"log {log}")
                _check_config(change.config)
                created[log] = LogState(log, change.config, self.default_rank, self._copy_bytes_max)
                continue
            if (log not in self.logs and log not in created) or log in deleted:
                raise UnknownLog(f"log {log}")
            if isinstance(change, ConfigureLog):
                _check_config(change.config)
            elif isinstance(change, DeleteLog):
                deleted.add(log)
        return created

    def _check_refers(self, commit: Commit, created: dict[int, LogState]) -> None:
        for refer in commit.refers:
            if refer.log not in self.logs and refer.log not in created:
                raise UnknownLog(f"log {refer.log}")
            if not 0 <= refer.append < len(commit.appends):
                raise PeerError(f"the commit has no append {refer.append}")

    def _admit_all(self, appends: Sequence[Append], created: dict[int, LogState]) -> list[Admitted]:
        admitted: list[Admitted] = []
        tried: dict[tuple[int, int], Producer] | None = {} if len(appends) > 1 else None
        nexts: dict[int, int] = {}
        for append in appends:
            state = self.logs.get(append.log) or created.get(append.log)
            if state is None:
                raise UnknownLog(f"log {append.log}")
            entry = self._admit(state, append, tried)
            admitted.append(entry)
            if tried is None or entry[10] != NOT_STORED:
                continue
            _, _, _, count, _, flags, _, producer, epoch, sequence, _ = entry
            base = nexts.get(append.log, state.next)
            nexts[append.log] = base + count
            if producer >= 0:
                # Later batches of this Commit are judged as if this one were stored.
                known = tried.get((append.log, producer))
                if known is None:
                    stored = None if state.producers is None else state.producers.get(producer)
                    known = tried[append.log, producer] = stored.copy() if stored else Producer(epoch)
                if flags & FLAG_CONTROL:
                    known.replay_marker(epoch, 0)
                else:
                    known.replay(epoch, sequence, count, base, 0)
        return admitted

    def _admit(self, state: LogState, append: Append, tried: dict[tuple[int, int], Producer] | None) -> Admitted:
        batch = append.batch
        size = len(batch)
        if size > state.batch_bytes_max:
            raise BatchTooLarge(f"{size} bytes; log {state.log} takes {state.batch_bytes_max}")
        if size < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"{size} bytes are no batch")
        (_, length, _, magic, crc, attributes, delta, _, time, producer, epoch, sequence, count) = _unpack_header(batch)
        if magic != 2 or length != size - 12 or count <= 0 or delta != count - 1:
            raise InvalidBatch(f"magic {magic}, length {length} of {size}, {count} records, last delta {delta}")
        if size <= self._copy_bytes_max or not isinstance(batch, memoryview) or batch.readonly:
            batch = bytearray(batch)
        if crc32c(memoryview(batch)[CRC_FROM:]) != crc:
            raise CorruptBatch("batch checksum does not match")
        if (attributes & _COMPRESSION_MASK) > _COMPRESSION_MAX:
            raise InvalidBatch(f"unknown compression {attributes & _COMPRESSION_MASK}")
        flags = 0
        stored = NOT_STORED
        if attributes & _ATTRIBUTE_CONTROL:
            flags = FLAG_CONTROL
            decode_marker(batch)
        elif state.config.compact and not append.is_keyed:
            _check_keys(batch)
        if attributes & _ATTRIBUTE_TRANSACTIONAL:
            flags |= FLAG_TRANSACTIONAL
        if producer >= 0:
            flags |= FLAG_PRODUCER
            stored = self._check_producer(state, append, tried, flags, producer, epoch, sequence, count)
        elif flags:
            raise InvalidBatch("a transactional batch needs a producer id")
        return state, batch, size, count, crc, flags, time, producer, epoch, sequence, stored

    def _check_producer(
        self,
        state: LogState,
        append: Append,
        tried: dict[tuple[int, int], Producer] | None,
        flags: int,
        producer: int,
        epoch: int,
        sequence: int,
        count: int,
    ) -> int:
        known = tried.get((state.log, producer)) if tried else None
        if known is None and state.producers is not None:
            known = state.producers.get(producer)
        if flags & FLAG_CONTROL:
            if known is not None:
                known.check_marker(epoch)
            return NOT_STORED
        if sequence < 0 or epoch < 0:
            raise InvalidBatch(f"producer {producer} with epoch {epoch} and sequence {sequence}")
        if known is None:
            if append.first_sequence_zero and sequence:
                raise OutOfOrderSequence(f"a new producer begins with sequence 0, not {sequence}")
            return NOT_STORED
        return known.check(epoch, sequence, count)

    # Effects: nothing is refused from here on.

    def _append(self, admitted: Admitted, group: CommitGroup) -> int:
        state, buffer, size, count, crc, flags, time, producer, epoch, sequence, _ = admitted
        base = state.next
        state.next = base + count
        if time < 0:
            time = self._now_ms()  # a batch without a time is as old as its arrival, so that retention reaches it
        _place(buffer, 0, base, size - 12, 0)  # writable: see _admit
        if flags:
            self._follow_producer(state, buffer, base, count, flags, producer, epoch, sequence, group)
        group.entries.append((base, time, size, count, crc, flags, state, buffer))
        group.bytes += size
        if state.rank > group.rank:
            group.rank = state.rank
        return base

    def _follow_producer(
        self,
        state: LogState,
        buffer: Buffer,
        base: int,
        count: int,
        flags: int,
        producer: int,
        epoch: int,
        sequence: int,
        group: CommitGroup,
    ) -> None:
        if state.producers is None:
            state.producers = {}
        known = state.producers.get(producer)
        if known is None:
            known = state.producers[producer] = Producer(epoch)
        if flags & FLAG_CONTROL:
            known.replay_marker(epoch, self._now_ms())
            self._end_transaction(state, producer, base, decode_marker(buffer), group)
            return
        known.replay(epoch, sequence, count, base, self._now_ms())
        if flags & FLAG_TRANSACTIONAL and (state.open is None or producer not in state.open):
            if state.open is None:
                state.open = {}
            state.open[producer] = base
            self.mutate(scopes.TRANSACTIONS, scopes.pair_key(state.log, producer), scopes.encode_number(base), group)
            group.effects.append(lambda: state.visible_transactions().begin(producer, base))

    def _end_transaction(self, state: LogState, producer: int, marker: int, commit: bool, group: CommitGroup) -> None:
        first = None if state.open is None else state.open.pop(producer, None)
        if first is None:
            return
        if not state.open:
            state.open = None
        self.mutate(scopes.TRANSACTIONS, scopes.pair_key(state.log, producer), None, group)
        if not commit:
            value = scopes.encode_pair(producer, first)
            self.mutate(scopes.ABORTED, scopes.pair_key(state.log, marker), value, group)
        group.effects.append(lambda: _end_visible(state, producer, marker, commit))

    def _refer(self, state: LogState, place: int, group: CommitGroup) -> int:
        source_base, time, size, count, crc, _, source, _ = group.entries[place]
        base = state.next
        state.next = base + count
        group.refs.append((state.log, base, time, source.log, source_base, size, count, crc, state, place))
        group.bytes += REFERENCE_BYTES
        group.rank = max(group.rank, state.rank)
        return base

    def _create(self, state: LogState, group: CommitGroup) -> None:
        log = state.log
        self.logs.add(state)
        group.rank = max(group.rank, state.rank)
        self.classify(state)
        self._store(state, group)

        def show() -> None:
            self.visible[log] = state

        group.effects.append(show)

    def _change(self, change: LogChange, group: CommitGroup) -> None:
        if isinstance(change, CreateLog):
            return
        state = self.logs[change.log]
        group.rank = max(group.rank, state.rank)
        if isinstance(change, DeleteLog):
            self._delete(state, group)
        elif isinstance(change, ConfigureLog):
            state.configure(change.config, self.default_rank, self._copy_bytes_max)
            group.rank = max(group.rank, state.rank)
            self.classify(state)
            self._store(state, group)
        elif isinstance(change, MoveFloor):
            floor = min(change.offset, state.next)
            if floor > state.floor:
                state.floor = floor
                self._store(state, group)
        else:
            self._trim(state, change, group)

    def _delete(self, state: LogState, group: CommitGroup) -> None:
        log = state.log
        self.logs.remove(log)
        self.mutate(scopes.DELETED, *self.deleted.add(log), group)
        self.classes.pop(log, None)
        self.key_indexed.discard(log)
        self.mutate(scopes.LOGS, scopes.log_key(log), None, group)
        for producer in state.open or ():
            self.mutate(scopes.TRANSACTIONS, scopes.pair_key(log, producer), None, group)
        for aborted in state.transactions.aborted if state.transactions else ():
            self.mutate(scopes.ABORTED, scopes.pair_key(log, aborted.last), None, group)

        def hide() -> None:
            self.visible.pop(log, None)
            self.starts.pop(log, None)
            self.on_deleted(state)

        group.effects.append(hide)

    def _trim(self, state: LogState, change: TrimLog, group: CommitGroup) -> None:
        start = min(change.before, state.next)
        if start <= state.start:
            return
        state.start = start
        self._store(state, group)
        transactions = state.transactions
        for aborted in transactions.forget_below(state.visible_start) if transactions else ():
            self.mutate(scopes.ABORTED, scopes.pair_key(state.log, aborted.last), None, group)

        def show() -> None:
            state.visible_start = self.starts[state.log] = start
            self.on_trimmed(state)

        group.effects.append(show)

    def _store(self, state: LogState, group: CommitGroup) -> None:
        self.mutate(scopes.LOGS, scopes.log_key(state.log), scopes.encode_log_entry(state.entry), group)

    def classify(self, state: LogState) -> None:
        """Note what the merge must know of a log, where it is not the usual."""
        log = state.log
        if number := retention_class(state.config):
            self.classes[log] = number
        else:
            self.classes.pop(log, None)
        if state.config.key_index:
            self.key_indexed.add(log)
        else:
            self.key_indexed.discard(log)

    def mutate(self, scope: str, key: bytes, value: bytes | None, group: CommitGroup) -> None:
        """Apply one mutation and write it with the group."""
        group.state.append((scope, key, value))
        group.bytes += len(scope) + len(key) + (0 if value is None else len(value))
        self.replay_mutation(scope, key, value)

    def replay_mutation(self, scope: str, key: bytes, value: bytes | None) -> None:
        """Apply one mutation: live, and at recovery."""
        entries = self.scopes.get(scope)
        if value is not None:
            if entries is None:
                entries = self.scopes[scope] = {}
            entries[key] = value
        elif entries is not None:
            entries.pop(key, None)
            if not entries:
                del self.scopes[scope]


def _one_append(commit: Commit) -> Append | None:
    """The batch of a Commit that has one and nothing else."""
    appends = commit.appends
    if len(appends) != 1 or commit.state or commit.changes or commit.refers or commit.fences:
        return None
    return appends[0]


if cython.compiled:
    learn_fields(Commit, Append)  # type: ignore[possibly-undefined]
else:
    one_append = _one_append

    def log_of(append: Append) -> int:
        """Its log."""
        return append.log

    def batch_of(append: Append) -> Buffer:
        """Its batch."""
        return append.batch


def _append_plain(state: LogState, batch: Buffer, size: int, group: CommitGroup) -> int:
    """The commonest case in one piece: a small batch without a producer id. Answers its base offset.

    -1, and nothing has changed, when it is not that or not in order: then it needs a closer look.
    """
    if cython.compiled:
        buffer = bytearray(batch)
        data = buffer
        length = i32_at(data, 8)
        crc = u32_at(data, 17)
        delta = i32_at(data, 23)
        time = i64_at(data, 35)
        count = i32_at(data, 57)
        if (
            i64_at(data, 43) >= 0
            or data[16] != 2
            or length != size - 12
            or delta != count - 1
            or delta < 0
            or data[22] & _UNUSUAL_MASK
            or time < 0
        ):
            return -1
        if not has_crc32c():
            if crc32c(buffer[CRC_FROM:]) != crc:
                return -1
        elif crc32c_at(data, _CHECKED_FROM, size - _CHECKED_FROM) != crc:
            return -1
        base = state.next
        put_i64(data, 0, base)
        put_u32(data, 12, 0)
    else:
        (_, length, _, magic, crc, attributes, delta, _, time, producer, _, _, count) = _unpack_header(batch)
        if (
            producer >= 0
            or magic != 2
            or length != size - 12
            or delta != count - 1
            or delta < 0
            or attributes & _UNUSUAL_MASK
            or time < 0
        ):
            return -1
        buffer = bytearray(batch)
        if crc32c(buffer[CRC_FROM:]) != crc:
            return -1
        base = state.next
        _place(buffer, 0, base, length, 0)
    state.next = base + count
    group.entries.append((base, time, size, count, crc, 0, state, buffer))
    group.bytes += size
    if state.rank > group.rank:
        group.rank = state.rank
    return base


def _end_visible(state: LogState, producer: int, marker: int, commit: bool) -> None:
    state.visible_transactions().end(producer, marker, commit=commit)


def _check_keys(batch: Buffer) -> None:
    keys = enumerate(keys_in(*open_batch(batch)))
    keyless = list(islice((place for place, (_, _, key, _) in keys if key is None), PLACES_MAX))
    if keyless:
        raise KeyRequired("a log compacted by key takes no record without one", keyless)


def _check_config(config: LogConfig) -> None:
    if config.batch_bytes_max < MARKER_BYTES:  # else a transaction could be opened and never ended
        raise PeerError(f"batch_bytes_max {config.batch_bytes_max} holds no batch")
    for name in ("flush_interval_ms", "flush_interval_bytes", "retention_ms", "retention_bytes"):
        value = getattr(config, name)
        if value is not None and value < 0:
            raise PeerError(f"{name} {value} is negative")
