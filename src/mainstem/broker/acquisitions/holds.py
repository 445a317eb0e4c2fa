"""What an acquisition needs of where its records are: a queue, or topics read under a subscription."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mainstem.broker.queues import Put
from mainstem.coordination.acquisitions.acquisition import Acquisition, RecordVerdict, Source, Stretch, Stretches
from mainstem.coordination.subscriptions.cursor import NEVER, Counts, Cursor
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog
from mainstem.storage.contract import Append, Mutation


class AcquisitionRequest(NamedTuple):
    """How much is wanted."""

    records_max: int
    until: Mapping[int, int] | None = None
    """Below which offset, by log; None: whatever is there."""
    topics: Sequence[str] = ()
    starting: str | None = None
    """Where a topic is begun that the subscription has not read yet: earliest, latest; None: as its setting says."""


class Part(Protocol):
    """What becomes of the records of one acquisition: decided, and to be done with one commit."""

    def letters(self) -> Sequence[Put]:
        """To be published to queues."""

    def apply(self) -> None:
        """Do it, in memory: the commit that stores it follows at once."""

    def appends(self) -> Sequence[Append]:
        """To be in the commit."""

    def state(self) -> Sequence[Mutation]:
        """To be in the commit."""

    def revert(self) -> None:
        """The commit was refused: all is as it was."""

    def done(self) -> None:
        """The commit is durable: what was given back may be given out again."""


class Holds(Protocol):
    """Where records are held."""

    async def take(self, source: Source, wish: AcquisitionRequest) -> Stretches:
        """Give out what is free. Raises kinds of MainstemError."""

    async def ends(self, source: Source, topics: Sequence[str]) -> Mapping[int, int]:
        """Where each log ends now. Raises kinds of MainstemError."""

    def free(self, source: Source, stretches: Stretches) -> None:
        """What was taken was not wanted, after all; it does not count as a delivery."""

    def hold_again(self, one: Acquisition) -> None:
        """It holds this still, after a restart."""

    async def judge(self, one: Acquisition, judged: Iterable[tuple[int, Stretch, RecordVerdict]], now_ms: int) -> Part:
        """What becomes of each record. Raises kinds of MainstemError."""


class Tried(NamedTuple):
    """Records that came back unsettled, and are given out again."""

    stretch: Stretch
    failed: bool

    def note(self, cursor: Cursor) -> None:
        """It counts."""
        self._count(cursor, 0)

    def revert(self, cursor: Cursor) -> None:
        """It did not happen."""
        self._count(cursor, -1)

    def _count(self, cursor: Cursor, more: int) -> None:
        first, last, deliveries = self.stretch
        for offset in range(max(first, cursor.floor), last + 1):
            failures = cursor.counts.get(offset, NEVER).failures + self.failed * (1 + 2 * more)
            cursor.count(offset, Counts(deliveries + more, failures))


class SettledStretches:
    """Stretches of one cursor that are settled, and can be unsettled as long as that is not durable."""

    __slots__ = ("_before", "cursor", "stretches")

    def __init__(self, cursor: SubscribedLog, stretches: Sequence[Stretch]) -> None:
        self.cursor = cursor
        self.stretches = stretches
        self._before: dict[int, Counts] = {}

    def apply(self) -> None:
        """Settle them."""
        counts = self.cursor.counts
        self._before = {
            offset: counts[offset]
            for first, last, deliveries in self.stretches
            if deliveries > 1
            for offset in range(first, last + 1)
            if offset in counts
        }
        for first, last, _ in self.stretches:
            self.cursor.settle_stretch(first, last)

    def revert(self) -> None:
        """They are not settled."""
        self.cursor.unsettle(offset for first, last, _ in self.stretches for offset in range(first, last + 1))
        for offset, counts in self._before.items():
            self.cursor.count(offset, counts)


def add(stretches: dict[int, list[Stretch]], log: int, stretch: Stretch) -> None:
    """One stretch more of a log; what continues the last one is joined to it."""
    held = stretches.setdefault(log, [])
    if held and (held[-1].last + 1, held[-1].deliveries) == (stretch.first, stretch.deliveries):
        held[-1] = held[-1]._replace(last=stretch.last)
    else:
        held.append(stretch)
