"""Compaction by key, as Kafka's `cleanup.policy=compact` does it.

The *cleanable* range of a log ends before the first batch that reaches the last stable offset or is younger than the minimum lag.
In it the last record per key stays, with its offset; older ones go. What also goes:

- records of aborted transactions;
- tombstones (null values) whose batch has passed its delete horizon. The first cleaning that meets a batch with tombstones sets
  the horizon: attribute bit 6, and the time in place of the base timestamp;
- markers of transactions of which no batch is left, by a horizon of their own;
- records without a key, which a compacted log does not accept.

Producers need no empty batch to be remembered, unlike in Kafka: their sequences are state. The end of the log is in the index of
the run. A batch that cannot be decoded stays as it is.

Memory is bounded by `MergeLimits.compacted_keys_max`. A log with more keys is surveyed in several passes, each over a share of
the keys: half the keys are put off whenever the limit is reached. So every log is compacted to its end, however many keys it has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import blake2b

from pyroaring import BitMap64

from mainstem.model.errors import InvalidBatch
from mainstem.storage.contract import Buffer
from mainstem.storage.local.merge.job import CompactionRule
from mainstem.storage.local.merge.run_source import Piece
from mainstem.wire.record_batch import BatchHeader, KeyFact, batches_in, decode_keys, read_header, rewrite_batch

DIGEST_BYTES = 16
"""Keys are compared by digest: a collision would lose a record, and 128 bits make it impossible in practice."""

Pieces = Callable[[], Iterator[Piece]]
_NOWHERE = 1 << 63


class LogCompaction:
    """One compaction of one log, read through `pieces` as often as needed."""

    def __init__(self, rule: CompactionRule, now_ms: int, pieces: Pieces, keys_max: int) -> None:
        self.removed = 0
        """Records gone so far."""
        self._rule = rule
        self._now_ms = now_ms
        self._source = pieces
        self._keys_max = keys_max
        self._aborted = _AbortedRanges(rule.aborted)
        self._superseded = BitMap64()
        self._special = BitMap64()
        """Base offsets of batches with tombstones, or with records without a key."""
        self._end = _NOWHERE
        """First offset that stays as it is."""

    def pieces(self) -> Iterator[Piece]:
        """What remains of the log. To be iterated once."""
        self._survey()
        superseded = iter(self._superseded)
        upcoming = next(superseded, _NOWHERE)
        observed: set[int] = set()
        for piece in self._source():
            if piece.first >= self._end:
                yield piece
                continue
            changed = False
            results: list[Piece] = []
            for header, batch in _batches(piece.data):
                dead: set[int] = set()
                while upcoming < header.next_offset:
                    dead.add(upcoming)
                    upcoming = next(superseded, _NOWHERE)
                result = self._clean(header, batch, dead, observed)
                changed = changed or result is not batch
                if result is not None:
                    results.append(_piece(header if result is batch else read_header(result), result))
            if changed:
                yield from results
            else:
                yield piece

    def _cleanable(self) -> Iterator[tuple[BatchHeader, Buffer]]:
        """All batches of the cleanable range; sets where it ends."""
        rule = self._rule
        for piece in self._source():
            for header, batch in _batches(piece.data):
                if header.next_offset > rule.stable or header.max_timestamp > rule.before_ms:
                    self._end = header.base_offset
                    return
                yield header, batch

    def _survey(self) -> None:
        """Find which records are superseded by a later one with the same key."""
        shares = [(0, 0)]
        while shares:
            mask, share = shares.pop()
            latest: dict[bytes, int] = {}
            for header, batch in self._cleanable():
                if header.is_control or self._aborted.contain(header):
                    continue
                for offset, _, key, is_null in _decode(batch) or ():
                    if key is None or is_null:
                        self._special.add(header.base_offset)
                        if key is None:
                            continue
                    digest = blake2b(key, digest_size=DIGEST_BYTES).digest()
                    if mask and _share(digest, mask) != share:
                        continue
                    older = latest.get(digest)
                    if older is not None:
                        self._superseded.add(older)
                    latest[digest] = offset
                if len(latest) > self._keys_max and mask < _MASK_MAX:
                    shares.append((mask * 2 + 1, share + mask + 1))
                    mask = mask * 2 + 1
                    latest = {digest: offset for digest, offset in latest.items() if _share(digest, mask) == share}

    def _clean(self, header: BatchHeader, batch: Buffer, dead: set[int], observed: set[int]) -> Buffer | None:
        """The batch itself, a shorter one, or None."""
        if header.base_offset >= self._end:
            return batch
        if header.is_control:
            return self._clean_marker(header, batch, observed)
        if header.is_transactional:
            observed.add(header.producer_id)
            if self._aborted.contain(header):
                self.removed += header.record_count
                return None
        if not dead and header.base_offset not in self._special:
            return batch
        facts = _decode(batch)
        if facts is None:
            return batch
        horizon = header.delete_horizon_ms
        tombstones_go = horizon is not None and horizon <= self._now_ms
        kept = [
            fact for fact in facts if fact[2] is not None and fact[0] not in dead and not (fact[3] and tombstones_go)
        ]
        self.removed += len(facts) - len(kept)
        if not kept:
            return None
        new_horizon = None
        if horizon is None and any(is_null for _, _, _, is_null in kept):
            new_horizon = self._now_ms + self._rule.tombstone_retention_ms
        if len(kept) == len(facts) and new_horizon is None:
            return batch
        return rewrite_batch(batch, {fact[0] for fact in kept}, new_horizon)

    def _clean_marker(self, header: BatchHeader, batch: Buffer, observed: set[int]) -> Buffer | None:
        # A marker outlives every batch of its transaction: readers that met one of them must meet the marker too.
        if header.producer_id in observed:
            observed.discard(header.producer_id)
            return batch
        horizon = header.delete_horizon_ms
        if horizon is None:
            try:
                return rewrite_batch(batch, _Everything(), self._now_ms + self._rule.tombstone_retention_ms)
            except InvalidBatch:
                return batch
        if horizon > self._now_ms:
            return batch
        self.removed += header.record_count
        return None


class _Everything:
    def __contains__(self, item: object) -> bool:
        return True


class _AbortedRanges:
    """The aborted transactions of a log, by producer."""

    def __init__(self, aborted: list[tuple[int, int, int]]) -> None:
        self._firsts: defaultdict[int, list[int]] = defaultdict(list)
        self._lasts: defaultdict[int, list[int]] = defaultdict(list)
        for producer, first, last in sorted(aborted):
            self._firsts[producer].append(first)
            self._lasts[producer].append(last)

    def contain(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        firsts = self._firsts.get(header.producer_id)
        if firsts is None or not header.is_transactional:
            return False
        at = bisect_right(firsts, header.base_offset) - 1
        return at >= 0 and header.base_offset <= self._lasts[header.producer_id][at]


_MASK_BYTES = 4
_MASK_MAX = (1 << 8 * _MASK_BYTES) - 1


def _share(digest: bytes, mask: int) -> int:
    return int.from_bytes(digest[:_MASK_BYTES], "little") & mask


def _decode(batch: Buffer) -> list[KeyFact] | None:
    try:
        return decode_keys(batch)
    except InvalidBatch:
        return None


def _batches(data: Buffer) -> Iterator[tuple[BatchHeader, Buffer]]:
    view = memoryview(data)
    for position, size in batches_in(view):
        yield read_header(view, position), view[position : position + size]


def _piece(header: BatchHeader, batch: Buffer) -> Piece:
    return Piece(header.base_offset, header.next_offset, header.max_timestamp, batch, None, 1)
