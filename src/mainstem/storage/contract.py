"""The storage contract: nine methods and one question that local disk and object storage both keep.

Guarantees, for every engine
----------------------------
*Atomic.* A `Commit` happens whole or not at all: its batches, references, mutations, log changes and floors. A list of
Commits is only a convenience: each succeeds or fails alone, in order, with one answer for all.

*Ordered.* Commits take effect in the order of the calls. `commit` decides at once, on *sequenced* state, what the
outcome is; the answer comes when that is *durable* by the flush policy of the logs it touched. Nobody above the engine
may use an offset, or show state, before the answer: an object-storage engine learns offsets late.

*Durable.* An answer under policy `sync` survives kill -9, an operating-system crash and power loss; a shared store survives the
machine too, and its engine answers under no lesser policy. No answer, read-only ones included, shows what could still be lost
under the policy of that log.

*Dense.* Offsets of a log are assigned without gaps and never used twice, not after trimming, not after a crash. Key
compaction removes records and keeps the offsets of the others.

*Verbatim.* A stored batch is the producer's batch: only base offset and leader epoch, outside its checksum, are written.
Key compaction is the one exception.

*Once.* A batch with a producer id is stored once: repeated, it answers its first offset and is not written again (the
rest of its Commit goes ahead); a gap, or an older epoch, is refused. The last five batches per producer and log are known,
across restarts, until the producer has been silent for `producer_expiry_ms`.

*Transactional.* The first transactional batch of a producer opens a transaction on that log, the control batch of that
producer ends it. `read` answers the last stable offset and the aborted ranges with the batches.

*Typed refusals.* Bad input is answered by a member of `model.errors` in its own place; nothing else in the list or in the same
group suffers.

An engine is used from one thread (the event loop's) and never blocks it. How it is opened is its own business; `close` takes no
more commits, finishes those under way, and answers when nothing touches the store any more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from mainstem.model.errors import MainstemError
    from mainstem.storage.answer import Answer

Buffer: TypeAlias = bytes | bytearray | memoryview

STATE_SCOPE_RESERVED = "engine/"
"""Scopes with this prefix are the engine's own: readable with `load`, refused in a Commit (see `engine_scopes`)."""


class Append(msgspec.Struct, frozen=True, gc=False):
    """One v2 record batch for one log. The engine owns the buffer from the call on, and may write into it."""

    log: int
    batch: Buffer
    first_sequence_zero: bool = False
    """A producer unknown to the log must begin at sequence 0 (Kafka's rule for transactions version 2)."""
    is_keyed: bool = False
    """The caller has seen that every record has a key: a log compacted by key need not open the batch."""


class Refer(msgspec.Struct, frozen=True, gc=False):
    """Put a batch of the same Commit into another log too, without writing its bytes again.

    `append` is the index of that batch among the Commit's appends. The reader sees an ordinary batch with offsets of `log`;
    producer id, epoch and sequence are the original's and are not checked again. Either log may be trimmed or deleted without
    harm to the other. A reference to a repeated append is not made again: its base is -1.
    """

    log: int
    append: int


class Mutation(msgspec.Struct, frozen=True, gc=False):
    """A change of state: the last one per scope and key wins. None deletes the key."""

    scope: str
    key: bytes
    value: bytes | None


class Fence(msgspec.Struct, frozen=True, gc=False):
    """A role and the epoch in which the caller believes to hold it; refused when no longer current (0: never taken)."""

    role: str
    epoch: int


Flush: TypeAlias = Literal["sync", "interval", "os"]
"""When a commit is answered: after a sync, or after the write with a sync in intervals, or with none at all."""

Acknowledged: TypeAlias = Literal["ignore", "hold", "release"]
"""What the acknowledgement floor means to retention.

ignore: nothing, age and size alone decide (a stream). hold: what is above the floor never goes; below it, age and size
decide (a queue that can be rewound). release: what is below the floor goes at once (delete on acknowledgement).
"""


class LogConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a log promises. None means: the engine's setting, or no limit."""

    flush: Flush | None = None
    flush_interval_ms: int | None = None
    flush_interval_bytes: int | None = None
    batch_bytes_max: int = 1_048_588
    retention_ms: int | None = None
    retention_bytes: int | None = None
    acknowledged: Acknowledged = "ignore"
    delete: bool = True
    """Whether retention by age and size applies at all (`cleanup.policy` contains delete)."""
    compact: bool = False
    """Keep the last record per key; records without a key are refused."""
    tombstone_retention_ms: int = 86_400_000
    compaction_lag_ms_min: int = 0
    compaction_lag_ms_max: int = 2**63 - 1
    """With `compact`: a record of this age is compacted, whatever the ratio is."""
    dirty_ratio_min: float = 0.5
    segment_ms: int = 604_800_000
    """With `compact`: records of this age, or from this number of bytes on, can be compacted; younger ones may have to wait."""
    segment_bytes: int = 1 << 30
    key_index: bool = False
    """Make `offset_at(log, KeyAfter(...))` an index look-up instead of a scan."""


class CreateLog(msgspec.Struct, frozen=True, tag=True):
    """A new, empty log. Its id must never have been used before."""

    log: int
    config: LogConfig = LogConfig()


class ConfigureLog(msgspec.Struct, frozen=True, tag=True):
    """Replace the configuration of a log."""

    log: int
    config: LogConfig


class DeleteLog(msgspec.Struct, frozen=True, tag=True):
    """Remove a log with all that is in it."""

    log: int


class MoveFloor(msgspec.Struct, frozen=True, tag=True):
    """Everything below `offset` is acknowledged by the log's subscription. May only grow."""

    log: int
    offset: int


class TrimLog(msgspec.Struct, frozen=True, tag=True):
    """Move the start of the log to `before`, at most to its end; what is below is gone."""

    log: int
    before: int


LogChange: TypeAlias = CreateLog | ConfigureLog | DeleteLog | MoveFloor | TrimLog


class Commit(msgspec.Struct, frozen=True, gc=False):
    """What happens together or not at all."""

    appends: Sequence[Append] = ()
    refers: Sequence[Refer] = ()
    state: Sequence[Mutation] = ()
    fences: Sequence[Fence] = ()
    changes: Sequence[LogChange] = ()


class Committed(msgspec.Struct, frozen=True, gc=False):
    """A Commit that happened: the first offset of each append, then of each reference."""

    bases: Sequence[int] = ()
    repeated: Sequence[int] = ()
    """Which of the appends (by index) were stored before; their base is the first one's."""


CommitResult: TypeAlias = "Committed | MainstemError"


class ReadHint(enum.Enum):
    """What the reader is about to do."""

    TAIL = "tail"
    """Follows the end of the log: served from the cache when it can be."""
    CATCH_UP = "catch-up"
    """Reads history: what follows is read ahead."""


class Aborted(msgspec.Struct, frozen=True, gc=False):
    """Records of `producer` from `first` to `last` (the marker's offset) are not to be delivered."""

    producer: int
    first: int
    last: int


class ReadResult(msgspec.Struct, frozen=True, gc=False):
    """Whole batches, and what was durable of the log when they were read.

    The first batch may begin below the offset asked for (it contains it), and is given even when larger than `max_bytes`.
    """

    batches: Sequence[Buffer]
    """Each buffer holds one or more whole batches, one after the other."""
    start: int
    end: int
    stable: int
    """The last stable offset: below it no transaction is open. Never below the start."""
    next_offset: int
    """Where to go on: above the last batch given, also where compaction left a gap."""
    aborted: Sequence[Aborted] = ()
    stored_bytes: int = 0
    """Size of the whole log; a read with `max_bytes` 0 is a question for these facts."""


class Edge(enum.Enum):
    """The ends of a log, and its newest record."""

    START = "start"
    END = "end"
    STABLE = "stable"
    NEWEST = "newest"
    """The record with the highest timestamp."""


class TimeAfter(msgspec.Struct, frozen=True, gc=False):
    """The first record, by offset, whose timestamp is at or after this one."""

    timestamp_ms: int


class KeyAfter(msgspec.Struct, frozen=True, gc=False):
    """The first record at or after `offset` with this key and a timestamp within the range, both ends included."""

    key: bytes
    offset: int = 0
    since_ms: int | None = None
    until_ms: int | None = None


Place: TypeAlias = Edge | TimeAfter | KeyAfter


class Found(msgspec.Struct, frozen=True, gc=False):
    """A position in a log and, where a record is meant, its timestamp. Offset -1: there is none."""

    offset: int
    timestamp_ms: int = -1


class LogEnd(msgspec.Struct, frozen=True, gc=False):
    """How far a log can be read, durably: for read_uncommitted readers, and for all others."""

    end: int
    stable: int


class Watch(Protocol):
    """A lasting interest in the ends of logs.

    The callback given to `watch` is called once per durable group with the logs of this handle that moved, never from within
    a call of the handle's owner.
    """

    def add(self, log: int) -> LogEnd | None:
        """Take a log in; answers where it ends now, or None: then the callback is called with it, later.

        To add a log again asks again. Raises UnknownLog, or tells the end -1 later.
        """

    def remove(self, log: int) -> None:
        """Let a log go; unknown ones are ignored."""

    def close(self) -> None:
        """Let all go; the callback is not called again."""


WatchCallback: TypeAlias = Callable[[Mapping[int, LogEnd]], None]
"""A log that was deleted is reported with end -1."""


class StateSnapshot(msgspec.Struct, frozen=True):
    """All keys of one scope, durable when answered."""

    entries: Mapping[bytes, bytes]


class Lease(msgspec.Struct, frozen=True):
    """A role held until `expires_ms`. The epoch, not the clock, is what fences."""

    role: str
    epoch: int
    expires_ms: int


class Budget(msgspec.Struct, frozen=True):
    """How much maintenance may do in one call."""

    bytes_max: int = 1 << 30
    jobs_max: int = 4


class MaintainReport(msgspec.Struct):
    """What maintenance did in one call."""

    merged_files: int = 0
    written_runs: int = 0
    removed_files: int = 0
    compacted_logs: int = 0
    trimmed_logs: int = 0
    expired_producers: int = 0
    full: bool = False
    """Whether appends are refused at present."""


class Engine(Protocol):
    """Where the log is. See the module's text for what every method promises."""

    @property
    def term(self) -> int:
        """How often the store has changed hands when the engine was opened: the leader epoch of its logs. 0 on one node."""

    @property
    def is_full(self) -> bool:
        """Whether appends are refused at present, because the disk is full."""

    def is_above(self, pending_bytes: int) -> bool:
        """Whether more than these bytes wait to be durable, or merging is too far behind: callers stop reading from clients."""

    def when_below(self, pending_bytes: int, callback: Callable[[], None]) -> None:
        """Call back once, when `is_above` is no longer true; at the earliest after what is running now."""

    def commit(self, commits: Sequence[Commit], patient: bool = False) -> Answer[list[CommitResult]]:
        """Do each Commit or refuse it. One answer, when all that happened is durable.

        A patient caller may wait for a moment, so that one sync does for it and for a sender that was just answered.
        """

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        """Batches from `offset` on. Fails with UnknownLog, OffsetOutOfRange, CorruptData."""

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find a position by edge, time or key, among what is durable; open and aborted transactions included."""

    def watch(self, callback: WatchCallback) -> Watch:
        """Be told when logs grow."""

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """The sequenced state of a scope, answered when it is durable."""

    def lease(self, role: str, ttl_ms: int, renew: Lease | None = None) -> Answer[Lease | None]:
        """Take or prolong a role; None when somebody else holds it. Taking it raises its epoch, durably."""

    def alter(
        self,
        changes: Sequence[LogChange],
        state: Sequence[Mutation] = (),
        fences: Sequence[Fence] = (),
    ) -> Answer[None]:
        """Create, configure, delete logs, with the state that names them, in one Commit; raises its refusal."""

    def trim(self, log: int, before: int) -> Answer[int]:
        """Delete what is below `before` (at most the end); answers the new start."""

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Merge, expire, compact, reclaim: what is due, within the budget."""
