"""Acquisitions: records that a query of Spark has taken, until it says what became of them.

    acquire --> LEASED --pin--> PINNED --settle--> SETTLED --.
                  |                |---release---> RELEASED --+--> forgotten when the query has gone on, or after long
                  '---its time is over: gone, its records are free
    retry after a delay --> RESTING --its time is over: gone, its records are free

A leased acquisition is a promise for a moment. A pinned one stands in the log of the query, which will run the batch again
whatever happens; so it lasts, over restarts of both, until it is settled or somebody releases it. What is settled is
remembered a little longer: the query may run the batch once more, and is to see the same rows.

`decide_*` answers what is to be committed and changes nothing, `replay` applies one mutation, live and at a start.

    h | id     -> HoldingEntry: what is held, never changed
    s | id     -> StatusEntry
    v | id     -> what is to become of single records, if they are not accepted; by who has said it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mainstem.coordination.acquisitions.acquisition import (
    Acquisition,
    Condition,
    Reading,
    Ruled,
    Source,
    Stretch,
    Stretches,
)
from mainstem.coordination.errors import (
    AcquisitionReleased,
    InvalidVerdict,
    TooManyAcquisitions,
    UnknownAcquisition,
)
from mainstem.storage.contract import Mutation

SCOPE = "acquisitions"
ACQUISITIONS_MAX = 10_000
STRETCHES_MAX = 20_000
"""Of one acquisition: in a log that was worked on here and there, it ends sooner."""
RECORDS_MAX = 1_000_000
READINGS_MAX = 16
"""Batches that one acquisition is read in: one, unless somebody has copied a checkpoint."""
ENDED_MS = 7 * 86_400_000
"""How long it is remembered what became of an acquisition whose query does not go on."""

_HOLDING, _STATUS, _VERDICTS = b"h", b"s", b"v"


class HoldingEntry(msgspec.Struct, frozen=True, array_like=True):
    """What is held, as it is stored."""

    name: str
    namespace: str | None
    opened_ms: int
    stretches: dict[int, list[tuple[int, int, int]]]


class StatusEntry(msgspec.Struct, frozen=True, array_like=True):
    """Where it is on its way, as it is stored."""

    condition: int
    due_ms: int
    readings: list[tuple[str, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode_holding = msgspec.msgpack.Decoder(HoldingEntry).decode
_decode_status = msgspec.msgpack.Decoder(StatusEntry).decode
_decode_verdicts = msgspec.msgpack.Decoder(dict[str, list[Ruled]]).decode


class AcquisitionTable:
    """All acquisitions."""

    def __init__(self) -> None:
        self.all: dict[str, Acquisition] = {}
        self._read_in: dict[Reading, set[str]] = {}

    # Questions

    def get(self, name: str) -> Acquisition:
        """One that is not gone. Raises UnknownAcquisition."""
        found = self.all.get(name)
        if found is None or found.condition is Condition.RESTING:
            raise UnknownAcquisition(f"there is no acquisition {name}: it was never logged and has expired")
        return found

    def not_released(self, name: str) -> Acquisition:
        """One that is held or was settled. Raises UnknownAcquisition, AcquisitionReleased."""
        found = self.get(name)
        if found.condition is Condition.RELEASED:
            raise AcquisitionReleased(
                f"acquisition {name} of {found.source} was released by command, and its records are free for others"
            )
        return found

    def read_in(self, reading: Reading) -> list[Acquisition]:
        """What a batch of a query reads."""
        return [self.all[name] for name in sorted(self._read_in.get(reading, ()))]

    def of_source(self, source: Source) -> list[Acquisition]:
        """What is held of a queue or subscription."""
        return [one for one in self.all.values() if one.source == source and one.is_holding]

    def due(self, now_ms: int) -> list[Acquisition]:
        """Those whose time is over."""
        return [
            one
            for one in self.all.values()
            if one.condition is not Condition.PINNED and one.due_ms + (0 if one.is_holding else ENDED_MS) <= now_ms
        ]

    def next_due_ms(self) -> int | None:
        """When `due` has something to name."""
        times = [
            one.due_ms + (0 if one.is_holding else ENDED_MS)
            for one in self.all.values()
            if one.condition is not Condition.PINNED
        ]
        return min(times, default=None)

    # Decisions

    def check_room(self) -> None:
        """Whether there may be one more. Raises TooManyAcquisitions."""
        if len(self.all) >= ACQUISITIONS_MAX:
            raise TooManyAcquisitions(f"{ACQUISITIONS_MAX} acquisitions are open; release those that nobody needs")

    def decide_open(
        self,
        name: str,
        source: Source,
        stretches: Stretches,
        now_ms: int,
        due_ms: int,
        condition: Condition = Condition.LEASED,
    ) -> list[Mutation]:
        """A new one."""
        entry = HoldingEntry(
            source.name, source.namespace, now_ms, {log: [(*one,) for one in held] for log, held in stretches.items()}
        )
        return [_put(_HOLDING, name, entry), _put(_STATUS, name, StatusEntry(condition, due_ms, []))]

    def decide_pin(self, one: Acquisition) -> list[Mutation]:
        """It stands in the log of its query; nothing to do if that is known."""
        return [] if one.condition is not Condition.LEASED else [self._status(one, condition=Condition.PINNED)]

    def decide_read(self, one: Acquisition, reading: Reading) -> list[Mutation]:
        """It is read in this batch, and pinned by that; nothing to do if that is known. Raises InvalidVerdict."""
        if reading in one.readings:
            return []
        if len(one.readings) >= READINGS_MAX:
            raise InvalidVerdict(f"acquisition {one.id} is read by {READINGS_MAX} batches already")
        condition = Condition.PINNED if one.condition is Condition.LEASED else one.condition
        return [self._status(one, condition=condition, readings=(*one.readings, reading))]

    def decide_rule(self, one: Acquisition, who: str, verdicts: Sequence[Ruled]) -> list[Mutation]:
        """What is to become of these when it is settled, in place of what the same one said before. Raises InvalidVerdict."""
        said = {name: list(before) for name, before in one.said.items() if name != who}
        if verdicts:
            said[who] = list(verdicts)
        one.check(ruled for of_one in said.values() for ruled in of_one)
        return [_put(_VERDICTS, one.id, said or None)]

    def decide_end(self, one: Acquisition, condition: Condition, now_ms: int) -> list[Mutation]:
        """It is settled or released; what was said of single records has happened."""
        return [self._status(one, condition=condition, due_ms=now_ms), _put(_VERDICTS, one.id, None)]

    def decide_forget(self, one: Acquisition) -> list[Mutation]:
        """Nothing is to be left of it."""
        return [_put(kind, one.id, None) for kind in (_STATUS, _VERDICTS, _HOLDING)]

    def _status(
        self,
        one: Acquisition,
        *,
        condition: Condition,
        due_ms: int | None = None,
        readings: Sequence[Reading] | None = None,
    ) -> Mutation:
        kept = one.readings if readings is None else readings
        entry = StatusEntry(condition, one.due_ms if due_ms is None else due_ms, [(*reading,) for reading in kept])
        return _put(_STATUS, one.id, entry)

    # Effects

    def load(self, entries: Mapping[bytes, bytes]) -> None:
        """Take back what is stored: what is held comes first."""
        for key in sorted(entries):
            self.replay(key, entries[key])

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one mutation of the scope."""
        kind, name = key[:1], key[1:].decode()
        if kind == _HOLDING:
            self._replay_holding(name, value)
        elif name in self.all:
            if kind == _VERDICTS:
                self.all[name].said = {} if value is None else _decode_verdicts(value)
            elif value is not None:
                self._replay_status(self.all[name], _decode_status(value))

    def _replay_holding(self, name: str, value: bytes | None) -> None:
        if value is None:
            gone = self.all.pop(name, None)
            for reading in () if gone is None else gone.readings:
                self._read_in[reading].discard(name)
                if not self._read_in[reading]:
                    del self._read_in[reading]
        else:
            entry = _decode_holding(value)
            stretches = {log: [Stretch(*one) for one in held] for log, held in entry.stretches.items()}
            self.all[name] = Acquisition(name, Source(entry.name, entry.namespace), stretches, entry.opened_ms)

    def _replay_status(self, one: Acquisition, entry: StatusEntry) -> None:
        one.condition, one.due_ms = Condition(entry.condition), entry.due_ms
        one.readings = tuple(Reading(*reading) for reading in entry.readings)
        for reading in one.readings:
            self._read_in.setdefault(reading, set()).add(one.id)


def _put(kind: bytes, name: str, entry: object) -> Mutation:
    return Mutation(SCOPE, kind + name.encode(), None if entry is None else _encode(entry))
