"""One acquisition: what it holds, where it is on its way, and what becomes of its records. See `acquisitions` for its life."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from mainstem.coordination.errors import InvalidVerdict


class Condition(enum.IntEnum):
    """Where an acquisition is on its way; see the module's picture."""

    LEASED = 0
    PINNED = 1
    SETTLED = 2
    RELEASED = 3
    RESTING = 4


HOLDING = frozenset({Condition.LEASED, Condition.PINNED, Condition.RESTING})
"""In these its records are nobody else's."""


class Source(NamedTuple):
    """What records were taken from: a queue, or topics under a subscription, which has no namespace."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"subscription {self.name}" if self.namespace is None else f"queue {self.name} of {self.namespace}"


class Stretch(NamedTuple):
    """Offsets that are held, both ends included, and their delivery number."""

    first: int
    last: int
    deliveries: int


Stretches: TypeAlias = Mapping[int, Sequence[Stretch]]
"""By log, in the order of their offsets."""
VerdictName: TypeAlias = Literal["retry", "reject"]


class Reading(NamedTuple):
    """A batch of a query, in which an acquisition is read."""

    query: str
    batch: int


class Ruled(msgspec.Struct, frozen=True, array_like=True):
    """What is to become of some records of one log, other than to be accepted."""

    log: int
    offsets: list[int]
    verdict: VerdictName
    delay_ms: int = 0
    reason: str = ""


class Acquisition:
    """One of them."""

    __slots__ = ("condition", "due_ms", "id", "opened_ms", "readings", "said", "source", "stretches")

    def __init__(self, name: str, source: Source, stretches: Stretches, opened_ms: int) -> None:
        self.id = name
        self.source = source
        self.stretches = stretches
        self.opened_ms = opened_ms
        self.condition = Condition.LEASED
        self.due_ms = 0
        """Leased and resting: when its records are free. Ended: when it ended. Pinned: no meaning."""
        self.readings: tuple[Reading, ...] = ()
        self.said: dict[str, list[Ruled]] = {}
        """What is to become of single records, by who has said it: the same, said again, takes the place of what it was."""

    @property
    def is_holding(self) -> bool:
        """Whether its records are nobody else's."""
        return self.condition in HOLDING

    @property
    def verdicts(self) -> list[Ruled]:
        """All of what was said."""
        return [ruled for verdicts in self.said.values() for ruled in verdicts]

    @property
    def records(self) -> int:
        """Offsets that it holds, or has held."""
        return sum(last - first + 1 for stretches in self.stretches.values() for first, last, _ in stretches)

    def held(self) -> Iterator[tuple[int, Stretch]]:
        """All stretches, each with its log."""
        for log, stretches in self.stretches.items():
            for stretch in stretches:
                yield log, stretch

    def check(self, verdicts: Iterable[Ruled]) -> None:
        """Whether these are about records of this acquisition, each once. Raises InvalidVerdict."""
        seen: set[tuple[int, int]] = set()
        for ruled in verdicts:
            for offset in ruled.offsets:
                if (ruled.log, offset) in seen:
                    raise InvalidVerdict(f"offset {offset} of log {ruled.log} is ruled on twice")
                seen.add((ruled.log, offset))
        for log in {log for log, _ in seen}:
            held = self.stretches.get(log, ())
            offsets = sorted(offset for number, offset in seen if number == log)
            for stretch, offset in _beside(held, offsets):
                if stretch is None:
                    raise InvalidVerdict(f"offset {offset} of log {log} is not in acquisition {self.id}")


def _beside(held: Sequence[Stretch], offsets: Iterable[int]) -> Iterator[tuple[Stretch | None, int]]:
    """Offsets, which rise, each with the stretch that it is in."""
    at = 0
    for offset in offsets:
        while at < len(held) and held[at].last < offset:
            at += 1
        inside = at < len(held) and held[at].first <= offset
        yield (held[at] if inside else None), offset


class RecordVerdict(NamedTuple):
    """What is to become of a record."""

    kind: Literal["accept", "retry", "reject", "return"]
    """`return` is what happens to records of an acquisition that ends without having been settled."""
    delay_ms: int = 0
    reason: str = ""
    failed: bool = True
    """Whether it counts as a failure."""


ACCEPT = RecordVerdict("accept", failed=False)
EXPIRE = RecordVerdict("return")
RELEASE = RecordVerdict("return", failed=False)


def judge(
    one: Acquisition, verdicts: Iterable[Ruled], otherwise: RecordVerdict
) -> Iterator[tuple[int, Stretch, RecordVerdict]]:
    """Every record of an acquisition once, with its verdict: those that were ruled on one by one, others by the stretch."""
    ruled: dict[int, dict[int, RecordVerdict]] = {}
    for said in verdicts:
        verdict = RecordVerdict(said.verdict, said.delay_ms, said.reason)
        ruled.setdefault(said.log, {}).update(dict.fromkeys(said.offsets, verdict))
    for log, held in one.stretches.items():
        single = ruled.get(log, {})
        inside: dict[Stretch, list[int]] = {}
        for stretch, offset in _beside(held, sorted(single)):
            if stretch is not None:
                inside.setdefault(stretch, []).append(offset)
        for stretch in held:
            first = stretch.first
            for offset in inside.get(stretch, ()):
                if first < offset:
                    yield log, Stretch(first, offset - 1, stretch.deliveries), otherwise
                yield log, Stretch(offset, offset, stretch.deliveries), single[offset]
                first = offset + 1
            if first <= stretch.last:
                yield log, Stretch(first, stretch.last, stretch.deliveries), otherwise
