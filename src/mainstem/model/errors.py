"""What can go wrong, named by the fact and grouped by who erred.

    MainstemError
    |-- PeerError            the caller asked for what cannot be: answer it, go on
    |   |-- UnknownLog, LogExists, OffsetOutOfRange
    |   |-- InvalidBatch -> CorruptBatch, BatchTooLarge, InvalidRecords -> KeyRequired, MisdatedBatch, UnregisteredSchema
    |   |-- CommitTooLarge
    |   `-- SequenceError -> OutOfOrderSequence, DuplicateSequence, StaleEpoch
    |-- FencedError          the caller has lost its role: it must stop acting in it
    |-- UnavailableError     nothing is wrong with the request; the same may succeed later
    |   `-- StorageFull, Overloaded, EngineClosed, StoreUnreachable
    `-- DiskError            the disk, or what is on it, is not as it must be
        `-- CorruptData, UnsupportedFormat, DirectoryLocked, EngineFailed -> OwnershipLost

Bugs of our own are assertions, not members of this tree: they need the opposite reaction.
"""

from collections.abc import Sequence


class MainstemError(Exception):
    """Base of every error that is an answer."""


class PeerError(MainstemError):
    """The caller asked for something that cannot be done; nothing was changed."""


class UnknownLog(PeerError):
    """No such log, or it was deleted."""


class LogExists(PeerError):
    """The log id is in use, or was used before."""


class OffsetOutOfRange(PeerError):
    """The offset is below the start of the log or above its end."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside [{start}, {end}]")
        self.offset = offset
        self.start = start
        self.end = end


class InvalidBatch(PeerError):
    """The bytes are not one well-formed v2 record batch."""


class CorruptBatch(InvalidBatch):
    """The batch's checksum does not match its content."""


class BatchTooLarge(InvalidBatch):
    """The batch is larger than its log accepts."""


PLACES_MAX = 1_000
"""How many records of one batch an error names."""


class InvalidRecords(InvalidBatch):
    """Some records of a batch cannot be taken, and therefore none is."""

    def __init__(self, message: str, places: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.places = places[:PLACES_MAX]
        """Which ones, counted from the first of the batch; not all of very many, and none where nobody has looked."""


class MisdatedBatch(InvalidRecords):
    """The time of a record is further from ours than its topic allows."""


class KeyRequired(InvalidRecords):
    """A record without a key was sent to a log that is compacted by key."""


class UnregisteredSchema(InvalidRecords):
    """A record names no schema that is registered for its topic, which takes no others."""


class CommitTooLarge(PeerError):
    """One commit carries more than `commit_bytes_max`."""


class SequenceError(PeerError):
    """The producer's epoch or sequence does not follow on what is stored."""


class OutOfOrderSequence(SequenceError):
    """A gap: batches before this one are missing."""


class DuplicateSequence(SequenceError):
    """Already stored, but too long ago to tell at which offset."""


class StaleEpoch(SequenceError):
    """A newer incarnation of the producer has written already."""


class FencedError(MainstemError):
    """The epoch of a role is no longer the current one."""

    def __init__(self, role: str, epoch: int, current: int) -> None:
        super().__init__(f"role {role!r}: epoch {epoch} is not current ({current})")
        self.role = role
        self.epoch = epoch
        self.current = current


class UnavailableError(MainstemError):
    """Nothing was done; the same request may succeed later."""


class StorageFull(UnavailableError):
    """Disk use is above the hard mark: no appends until space returns."""


class Overloaded(UnavailableError):
    """More bytes wait to be written than `pending_bytes_max` allows."""


class EngineClosed(UnavailableError):
    """The engine is closing or closed."""


class StoreUnreachable(UnavailableError):
    """The shared store did not answer, or not in time: whether it did what was asked is unknown."""


class DiskError(MainstemError):
    """The disk, or what is on it, is not as it must be."""


class CorruptData(DiskError):
    """Stored bytes fail their check: never served, never skipped silently."""

    def __init__(self, file: str, position: int, what: str, logs: tuple[int, ...] = ()) -> None:
        hit = f"; logs {', '.join(map(str, logs))}" if logs else ""
        super().__init__(f"corrupt data in {file} at {position}: {what}{hit}")
        self.file = file
        self.position = position
        self.what = what
        self.logs = logs


class UnsupportedFormat(DiskError):
    """A file of another kind, or of a version newer than this program knows."""


class DirectoryLocked(DiskError):
    """Another broker uses the data directory."""


class EngineFailed(DiskError):
    """A write or sync failed. What it covered is not acknowledged; the broker must stop."""


class OwnershipLost(EngineFailed):
    """Another broker owns the shard now, or may own it. What is pending is never answered: its outcome is unknown."""
