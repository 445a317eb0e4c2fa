"""Which batches of which producers a log holds: what makes a repeated batch harmless.

For each producer the epoch, the last sequence and the last five batches are kept. Sequences count records from 0
to 2^31 - 1 and then from 0 again. An entry can be computed piecewise: what a stretch of the log says about a producer, joined to
what the stretch before said (`join`), is what both say. That lets a merge write the entries of the files that it reads
without knowing the older ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from mainstem.model.errors import DuplicateSequence, OutOfOrderSequence, StaleEpoch
from mainstem.storage.sequencer.engine_scopes import encode_number

if TYPE_CHECKING:
    from mainstem.storage.sequencer.log_state import LogState

RECENT_BATCHES_MAX = 5
SEQUENCE_MASK = 0x7FFF_FFFF
NOT_STORED = -1
_HALF = 1 << 30


class Producer(msgspec.Struct, array_like=True):
    """What one log knows about one producer."""

    epoch: int
    last_sequence: int = -1
    recent: list[tuple[int, int, int]] = []
    """(first sequence, last sequence, base offset), oldest first."""
    last_ms: int = 0
    """When it wrote last, by the broker's clock: a silent producer is forgotten."""

    def check(self, epoch: int, sequence: int, count: int) -> int:
        """The base offset of an equal batch stored before, or NOT_STORED when this is the next one; raises otherwise."""
        if epoch != self.epoch:
            if epoch < self.epoch:
                raise StaleEpoch(f"epoch {epoch} is older than {self.epoch}")
            if sequence != 0:
                raise OutOfOrderSequence(f"a new epoch begins with sequence 0, not {sequence}")
            return NOT_STORED
        if sequence == (self.last_sequence + 1) & SEQUENCE_MASK:
            return NOT_STORED
        last = (sequence + count - 1) & SEQUENCE_MASK
        for first_stored, last_stored, base in self.recent:
            if first_stored == sequence and last_stored == last:
                return base
        if self.last_sequence >= 0 and (self.last_sequence - last) & SEQUENCE_MASK < _HALF:
            raise DuplicateSequence(f"sequences {sequence} to {last} were stored before {self.last_sequence}")
        raise OutOfOrderSequence(f"expected sequence {(self.last_sequence + 1) & SEQUENCE_MASK}, got {sequence}")

    def check_marker(self, epoch: int) -> None:
        """A transaction may only be ended in the current epoch or a newer one."""
        if epoch < self.epoch:
            raise StaleEpoch(f"epoch {epoch} is older than {self.epoch}")

    def replay(self, epoch: int, sequence: int, count: int, base: int, now_ms: int) -> None:
        """Take a stored batch in."""
        self._enter(epoch, now_ms)
        self.last_sequence = last = (sequence + count - 1) & SEQUENCE_MASK
        recent = self.recent
        recent.append((sequence, last, base))
        if len(recent) > RECENT_BATCHES_MAX:
            del recent[0]

    def replay_marker(self, epoch: int, now_ms: int) -> None:
        """Take the end of a transaction in: a newer epoch closes the older one."""
        self._enter(epoch, now_ms)

    def _enter(self, epoch: int, now_ms: int) -> None:
        self.last_ms = max(self.last_ms, now_ms)
        if epoch > self.epoch:
            self.epoch = epoch
            self.last_sequence = -1
            self.recent = []

    def join(self, newer: Producer) -> Producer:
        """What this stretch and a newer one say together."""
        last_ms = max(self.last_ms, newer.last_ms)
        if newer.epoch != self.epoch:
            return Producer(newer.epoch, newer.last_sequence, list(newer.recent), last_ms)
        recent = [*self.recent, *newer.recent][-RECENT_BATCHES_MAX:]
        last_sequence = newer.last_sequence if newer.recent else self.last_sequence
        return Producer(self.epoch, last_sequence, recent, last_ms)

    def copy(self) -> Producer:
        """An independent copy, to try a commit on."""
        return Producer(self.epoch, self.last_sequence, list(self.recent), self.last_ms)


class ActiveProducer(msgspec.Struct, array_like=True, frozen=True):
    """What others are told about a producer that a log knows."""

    epoch: int
    last_sequence: int
    """-1: nothing in this epoch yet."""
    last_ms: int
    """When it wrote last, by the broker's clock."""
    open_from: int
    """Where its open transaction begins; -1 without one."""


ProducerTable: TypeAlias = dict[int, Producer]
"""The producers of one log, by producer id."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Producer)
_active_decoder = msgspec.msgpack.Decoder(ActiveProducer)


def encode_producer(producer: Producer) -> bytes:
    """As stored in a state run."""
    return _encoder.encode(producer)


def decode_producer(data: bytes) -> Producer:
    """From a state run."""
    return _decoder.decode(data)


def active_producers(state: LogState) -> dict[bytes, bytes]:
    """The producers of a log as entries of a scope."""
    opened = state.open or {}
    return {
        encode_number(number): _encoder.encode(
            ActiveProducer(known.epoch, known.last_sequence, known.last_ms, opened.get(number, -1))
        )
        for number, known in (state.producers or {}).items()
    }


def decode_active_producer(data: bytes) -> ActiveProducer:
    """From the scope of a log's producers."""
    return _active_decoder.decode(data)
