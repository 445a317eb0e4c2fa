"""The open and the aborted transactions of one log: what decides how far a careful reader may read."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter

from mainstem.storage.contract import Aborted

_last = attrgetter("last")


class Transactions:
    """Open transactions by producer, and aborted ranges in order of their markers."""

    __slots__ = ("aborted", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """Producer id -> offset of its first record in the transaction."""
        self.aborted: list[Aborted] = []

    def begin(self, producer: int, first: int) -> None:
        """The producer's first transactional batch; further ones change nothing."""
        self.open.setdefault(producer, first)

    def end(self, producer: int, marker: int, *, commit: bool) -> Aborted | None:
        """The producer's marker; answers the range that is not to be delivered, if any."""
        first = self.open.pop(producer, None)
        if commit or first is None:
            return None
        aborted = Aborted(producer, first, marker)
        insort(self.aborted, aborted, key=_last)
        return aborted

    def stable(self, end: int) -> int:
        """The last stable offset of a log that ends at `end`."""
        return min(self.open.values()) if self.open else end

    def aborted_between(self, first: int, end: int) -> list[Aborted]:
        """Aborted ranges that touch [first, end)."""
        return [a for a in self.aborted[bisect_left(self.aborted, first, key=_last) :] if a.first < end]

    def forget_below(self, start: int) -> list[Aborted]:
        """Drop ranges that end below the start of the log; answers them."""
        count = bisect_left(self.aborted, start, key=_last)
        gone = self.aborted[:count]
        del self.aborted[:count]
        return gone
