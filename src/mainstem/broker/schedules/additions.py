"""Records on their way into buckets: collected, then part of somebody's commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mainstem.coordination.commit_addition import SealedAddition
from mainstem.coordination.schedules.schedule import Bucket
from mainstem.coordination.schedules.scheduled_record import due_of, stored_record
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Append, Mutation
from mainstem.wire.record_batch import encode_batch


class Added(NamedTuple):
    """A record that is in a bucket now."""

    bucket: Bucket
    offset: int
    due_ms: int
    letter: bytes


class Additions:
    """An Extra: records for buckets, and records of buckets that are gone by the same commit."""

    def __init__(self, on_added: Callable[[list[Added]], None], on_sealed: Callable[[], None] = lambda: None) -> None:
        self._on_added = on_added
        self._on_sealed = on_sealed
        self._by_bucket: dict[Bucket, list[tuple[bytes, bytes]]] = {}
        self._left: dict[Bucket, list[int]] = {}
        self._order: list[Bucket] = []
        self.outcome: MainstemError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return not self._by_bucket and not self._left

    def add(self, bucket: Bucket, record_id: bytes, letter: bytes) -> None:
        """A record for a bucket."""
        bucket.under_way += 1
        self._by_bucket.setdefault(bucket, []).append((record_id, letter))

    def leave(self, bucket: Bucket, offsets: Iterable[int]) -> None:
        """Records of a bucket, marked gone already, that are gone when this is committed."""
        self._left.setdefault(bucket, []).extend(offsets)

    def seal(self) -> SealedAddition:
        """What is to be committed."""
        self._on_sealed()
        self._order = list(self._by_bucket)
        appends = [Append(bucket.log, _encode(self._by_bucket[bucket])) for bucket in self._order]
        state: list[Mutation] = []
        for bucket in self._left:
            state += bucket.take_changes()
        return SealedAddition(appends, state)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """It happened, or not."""
        for bucket, records in self._by_bucket.items():
            bucket.under_way -= len(records)
        if isinstance(outcome, MainstemError):
            self.outcome = outcome
            for bucket, offsets in self._left.items():
                bucket.mark_back(offsets)
            return
        added: list[Added] = []
        for bucket, base in zip(self._order, outcome, strict=True):
            records = self._by_bucket[bucket]
            bucket.end = max(bucket.end, base + len(records))
            added += [
                Added(bucket, offset, due_of(record_id), letter)
                for offset, (record_id, letter) in enumerate(records, base)
            ]
        self._on_added(added)


def _encode(records: list[tuple[bytes, bytes]]) -> bytearray:
    return encode_batch(stored_record(record_id, letter, n) for n, (record_id, letter) in enumerate(records))
