"""One transactional id: who may write in its name, what takes part in its transaction, and how that ends.

    state      goes on to
    EMPTY      OPEN, EMPTY (another incarnation)
    OPEN       COMMITTED, ABORTED, EMPTY (another incarnation: what was open is aborted)
    COMMITTED  OPEN, ABORTED (nothing was open: only the epoch moves), EMPTY
    ABORTED    OPEN, ABORTED (as above), EMPTY

`decide_*` answers what is to be committed together and changes nothing; `replay` applies one mutation, live and at a start.
The rules are Kafka's, of both versions of its protocol: in the first, a producer keeps its epoch over transactions; in
the second (KIP-890), each end raises it, so that nothing late can slip into the next transaction.

Batches are written without waiting for those before them. So a log that takes part by being written to (`decide_write`) is
remembered at once in `tried`, and each write to it brings the mutation again until one of them is known to be durable: then
no batch can be in a log of which the transaction does not know, and none is refused for the failure of another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainstem.coordination.errors import (
    FencedProducer,
    InvalidTransactionState,
    StaleProducerEpoch,
    TransactionUnderWay,
    UnknownProducer,
)
from mainstem.coordination.groups.group_offsets import CommittedOffset
from mainstem.coordination.transactions.entries import (
    NO_EPOCH,
    NO_PRODUCER,
    EntryKey,
    GroupKey,
    GroupPlace,
    Identity,
    LogKey,
    TransactionEntry,
    TransactionState,
    decode_entry,
    decode_key,
    decode_offset,
    put_entry,
    put_group,
    put_log,
    put_offset,
)
from mainstem.storage.contract import Append, Mutation
from mainstem.wire.record_batch import encode_marker

EPOCH_LAST = 2**15 - 2
"""The last epoch in which a producer writes; one more is left for the marker that fences it."""


class Transition(NamedTuple):
    """What a decision comes to: to be committed together, with the offsets of groups if it commits."""

    entry: TransactionEntry
    appends: list[Append]
    state: list[Mutation]


class Transaction:
    """A transactional id and its transaction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entry: TransactionEntry | None = None
        """None for a name that is not known."""
        self.logs: set[int] = set()
        self.tried: set[int] = set()
        """Logs that were written to, before it is known whether that is durable."""
        self.groups: set[str] = set()
        self.offsets: dict[GroupPlace, CommittedOffset] = {}
        self.is_ending = False
        """Whether its end is on its way to the log: nothing may come behind it."""
        self._tried_ms = -1

    # Questions

    @property
    def is_open(self) -> bool:
        """Whether there is something to be ended."""
        return self.entry is not None and (self.entry.state is TransactionState.OPEN or bool(self.tried))

    @property
    def due_ms(self) -> int | None:
        """When the open transaction has lasted too long."""
        if self.entry is None or not self.is_open:
            return None
        return self._started_ms(self._tried_ms) + self.entry.timeout_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether that time has come."""
        due_ms = self.due_ms
        return due_ms is not None and due_ms <= now_ms

    def is_silent(self, since_ms: int) -> bool:
        """Whether nothing is open, and nothing has happened since."""
        return self.entry is not None and not self.is_open and self.entry.changed_ms <= since_ms

    def check(self, identity: Identity) -> TransactionEntry:
        """Whether this producer may act in this name. Raises UnknownProducer, FencedProducer."""
        entry = self.entry
        if entry is None or entry.producer != identity.producer:
            raise UnknownProducer(f"{self.name} is not of producer {identity.producer}")
        if entry.epoch != identity.epoch:
            raise FencedProducer(f"{self.name} is in epoch {entry.epoch}, not {identity.epoch}")
        return entry

    def is_repeated(self, identity: Identity, *, commit: bool, raises_epoch: bool) -> bool:
        """Whether the end that this producer asks for has happened. Raises kinds of TransactionError if it cannot happen."""
        entry = self.entry
        is_repeated = False
        if raises_epoch and entry is not None and not self.is_open and entry.state is not TransactionState.EMPTY:
            # After each end another epoch is current: who asks in the one before has missed the answer.
            is_repeated = identity == entry.last_identity
        if not is_repeated:
            entry = self.check(identity)
        assert entry is not None
        if self.is_open:
            return False
        if is_repeated or (not raises_epoch and entry.state is not TransactionState.EMPTY):
            if commit == (entry.state is TransactionState.COMMITTED):
                return True
            raise InvalidTransactionState(f"the last transaction of {self.name} has ended in the other way")
        if commit or not raises_epoch:
            raise InvalidTransactionState(f"{self.name} has no open transaction")
        return False  # nothing to abort, but an epoch to leave

    def needs_producer(self, expected: Identity | None = None) -> bool:
        """Whether the next incarnation is a producer of its own: there is none yet, or its epochs are used up."""
        entry = self.entry
        if entry is None:
            return True
        return entry.epoch >= EPOCH_LAST and expected in (None, entry.identity)

    # Decisions

    def decide_begin(
        self, timeout_ms: int, expected: Identity | None, new_producer: int, now_ms: int, gone: Collection[int] = ()
    ) -> Transition:
        """Another incarnation of the producer: fences those before it, and aborts what they left open.

        A producer that goes on after an error says which one it believes to be (KIP-360). Raises FencedProducer.
        """
        last = self.entry
        if last is None:
            identity, left = Identity(new_producer, 0), Identity(NO_PRODUCER, NO_EPOCH)
        else:
            identity, left = self._next_incarnation(last, expected, new_producer)
        entry = TransactionEntry(*identity, *left, timeout_ms, TransactionState.EMPTY, -1, now_ms)
        if last is not None and self.is_open:
            return self._end(entry, Identity(last.producer, last.epoch + 1), gone, now_ms, commit=False)
        return Transition(entry, [], [put_entry(self.name, entry)])

    def _next_incarnation(
        self, last: TransactionEntry, expected: Identity | None, new_producer: int
    ) -> tuple[Identity, Identity]:
        """Who comes now, and who is remembered as the one before."""
        if expected is None or expected == last.identity:
            following = Identity(new_producer, 0) if self.needs_producer() else Identity(last.producer, last.epoch + 1)
            return following, Identity(last.producer, NO_EPOCH if expected is None else last.epoch)
        if expected == last.last_identity and not self.is_open:
            # Asked again, because the answer was lost: nobody has come since, or the one before would be unknown.
            return last.identity, expected
        raise FencedProducer(f"{self.name} is of producer {last.producer} in epoch {last.epoch}")

    def decide_write(self, identity: Identity, log: int, now_ms: int, *, implicitly: bool) -> Sequence[Mutation]:
        """What is to be committed with a batch: nothing, for a log that takes part already.

        A log may take part by being written to, if that is wanted; it is noted at once, see above. Raises UnknownProducer,
        StaleProducerEpoch, TransactionUnderWay, InvalidTransactionState.
        """
        entry = self.entry
        if entry is None or entry.producer != identity.producer:
            raise UnknownProducer(f"{self.name} is not of producer {identity.producer}")
        if entry.epoch != identity.epoch:
            raise StaleProducerEpoch(f"{self.name} is in epoch {entry.epoch}, not {identity.epoch}")
        if self.is_ending:
            raise TransactionUnderWay(f"the transaction of {self.name} is being ended")
        if log in self.logs:
            return ()
        if not implicitly:
            raise InvalidTransactionState(f"the partition was not added to the transaction of {self.name}")
        if not self.is_open:
            self._tried_ms = now_ms
        self.tried.add(log)
        return [*self._opened(now_ms), put_log(self.name, log)]

    def decide_add(self, logs: Iterable[int], now_ms: int) -> list[Mutation]:
        """Logs take part. The producer was checked before."""
        added = [put_log(self.name, log) for log in logs if log not in self.logs]
        return [*self._opened(now_ms), *added] if added else []

    def decide_add_group(self, group: str, now_ms: int) -> list[Mutation]:
        """Offsets of the group may take part. The producer was checked before."""
        return [] if group in self.groups else [*self._opened(now_ms), put_group(self.name, group)]

    def decide_offsets(self, offsets: Mapping[GroupPlace, CommittedOffset], now_ms: int) -> list[Mutation]:
        """Offsets that count once the transaction commits. The producer was checked before."""
        return [*self._opened(now_ms), *(put_offset(self.name, place, offset) for place, offset in offsets.items())]

    def decide_end(
        self, *, commit: bool, raises_epoch: bool, new_producer: int, now_ms: int, gone: Collection[int] = ()
    ) -> Transition:
        """Markers for all logs but those that are gone, and the end of the transaction. It was checked before."""
        last = self.entry
        assert last is not None
        identity = marked = last.identity
        left = Identity(last.producer, NO_EPOCH)
        if raises_epoch:
            marked = Identity(last.producer, last.epoch + 1)
            identity, left = (Identity(new_producer, 0) if self.needs_producer() else marked), last.identity
        state = TransactionState.COMMITTED if commit else TransactionState.ABORTED
        entry = TransactionEntry(*identity, *left, last.timeout_ms, state, -1, now_ms)
        return self._end(entry, marked, gone, now_ms, commit=commit)

    def decide_forget(self) -> list[Mutation]:
        """The transactional id goes. Nothing is open."""
        return [put_entry(self.name, None)]

    def _opened(self, now_ms: int) -> list[Mutation]:
        entry = self.entry
        assert entry is not None
        if entry.state is TransactionState.OPEN:
            return []
        started_ms = self._started_ms(now_ms)
        opened = msgspec.structs.replace(entry, state=TransactionState.OPEN, started_ms=started_ms, changed_ms=now_ms)
        return [put_entry(self.name, opened)]

    def _started_ms(self, otherwise_ms: int) -> int:
        assert self.entry is not None
        if self.entry.state is TransactionState.OPEN:
            return self.entry.started_ms
        return self._tried_ms if self.tried else otherwise_ms

    def _end(
        self, entry: TransactionEntry, marked: Identity, gone: Collection[int], now_ms: int, *, commit: bool
    ) -> Transition:
        logs = sorted(self.logs | self.tried)
        appends = [
            Append(log, encode_marker(marked.producer, marked.epoch, commit=commit, timestamp_ms=now_ms))
            for log in logs
            if log not in gone
        ]
        state = [
            put_entry(self.name, entry),
            *(put_log(self.name, log, gone=True) for log in logs),
            *(put_group(self.name, group, gone=True) for group in self.groups),
            *(put_offset(self.name, place, None) for place in self.offsets),
        ]
        return Transition(entry, appends, state)

    # Effects

    def replay(self, mutation: Mutation) -> None:
        """Apply one mutation of this name."""
        key, value = decode_key(mutation.key), mutation.value
        if isinstance(key, EntryKey):
            self.entry = None if value is None else decode_entry(value)
        elif isinstance(key, LogKey):
            self.tried.discard(key.log)
            (self.logs.discard if value is None else self.logs.add)(key.log)
        elif isinstance(key, GroupKey):
            (self.groups.discard if value is None else self.groups.add)(key.group)
        elif value is None:
            self.offsets.pop(key.place, None)
        else:
            self.offsets[key.place] = decode_offset(value)
