"""A subscription that is pulled from: records are leased in stretches, each settled by itself.

    FREE --lease--> LEASED --accept--------------------------------> SETTLED
      ^               |  |---reject, or returned too often--> SPENT ----^
      '---release, deadline, owner gone                       (buried: with its dead letter, in one commit)

    offsets:  settled ... | below `fresh`: settled, leased, spent or returned | from `fresh` on: never leased, perhaps settled

Over the `Cursor` that every subscription has. Pure: time is passed in. After a crash leases are gone: what was leased is
free, what was settled stays so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.coordination.errors import NotLeased
from mainstem.coordination.offset_pages import PagedOffsets
from mainstem.coordination.subscriptions.cursor import NEVER, Counts, Cursor
from mainstem.coordination.subscriptions.entries import decode_floor, decode_floor_key, decode_page_key

__all__ = [
    "Counts",
    "LeaseLimits",
    "LeaseVerdict",
    "Leased",
    "LeasedCursor",
    "RecordLease",
    "Ruling",
    "Spent",
    "replay_cursors",
]


class LeaseVerdict(enum.Enum):
    """What becomes of a leased record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


class Spent(enum.Enum):
    """Why a record is not given out again."""

    REJECTED = "rejected"
    EXHAUSTED = "delivered too often"


class LeaseLimits(NamedTuple):
    """What a subscription allows."""

    lease_ms: int = 30_000
    deliveries_max: int = 5
    leases_max: int = 2_000


class RecordLease(NamedTuple):
    """Somebody works on a record."""

    owner: str
    deadline_ms: int


class Leased(NamedTuple):
    """A stretch that was leased, and the how-manieth delivery of each of its records this is."""

    first: int
    last: int
    deliveries: int


class Ruling(NamedTuple):
    """A verdict on a stretch, both ends included."""

    first: int
    last: int
    verdict: LeaseVerdict


class LeasedCursor(Cursor):
    """A subscription's place in one log, with who works on what."""

    __slots__ = ("_burying", "_fresh", "_returned", "leases", "spent")

    def __init__(self, log: int, floor: int) -> None:
        super().__init__(log, floor)
        self.leases: dict[int, RecordLease] = {}
        self.spent: dict[int, Spent] = {}
        self._burying: set[int] = set()
        self._fresh = floor
        self._returned = PagedOffsets()
        """Below `_fresh`, and free."""

    @property
    def settled_count(self) -> int:
        """How many are settled above the floor."""
        return sum(map(len, self.settled.pages.values()))

    # Giving out

    def first_free(self, offset: int = 0) -> int:
        """The lowest offset at or above this one that may be leased, if the log has it."""
        if self._returned.pages:
            returned = self._returned.first_present(offset)
            if returned is not None:
                return returned
        return self.first_open(max(offset, self._fresh))

    def lease(self, owner: str, first: int, last: int, room: int, limits: LeaseLimits, now_ms: int) -> list[Leased]:
        """Lease what is free in a stretch, as far as there is room. What was tried too often is spent instead."""
        given = self.hold(first, last, min(room, limits.leases_max - len(self.leases)), limits.deliveries_max)
        lease = RecordLease(owner, now_ms + limits.lease_ms)
        for begin, end, _ in given:
            self.leases.update(dict.fromkeys(range(begin, end + 1), lease))
        return given

    def hold(self, first: int, last: int, room: int, deliveries_max: int) -> list[Leased]:
        """Give out what is free in a stretch, as far as there is room, to somebody who keeps account of it himself."""
        given: list[Leased] = []
        offset = self.first_free(first)
        while offset <= last and room > 0:
            begin = end = offset
            counts = self.counts.get(offset) if self.counts else None
            if counts is None and offset >= self._fresh:
                end = self._unbroken(offset, min(last, offset + room - 1))
            self._take(begin, end)
            deliveries = 1 if counts is None else counts.deliveries + 1
            if deliveries > deliveries_max:
                self._spend(offset, Spent.EXHAUSTED)
            else:
                room -= end - begin + 1
                if given and given[-1].last == begin - 1 and given[-1].deliveries == deliveries:
                    given[-1] = given[-1]._replace(last=end)
                else:
                    given.append(Leased(begin, end, deliveries))
            offset = self.first_free(end + 1)
        return given

    def hold_again(self, first: int, last: int) -> None:
        """What was given out by `hold` before a restart still is; stretches come in the order of their offsets."""
        first = max(first, self.floor)
        if first <= last:
            self._take(first, last)

    def free(self, first: int, last: int) -> None:
        """What `hold` gave out may be given out again."""
        first = max(first, self.floor)
        if first <= last:
            self._returned.add(first, last)

    def skip(self, first: int, last: int) -> None:
        """There is nothing to give out in this stretch. Stored with the next change: it can be found out again."""
        offset = self.first_free(first)
        while offset <= last:
            end = self._unbroken(offset, last) if offset >= self._fresh else offset
            self._take(offset, end)
            self.settle_stretch(offset, end)
            offset = self.first_free(end + 1)

    def _unbroken(self, first: int, last: int) -> int:
        """The end of the free stretch that begins here, in what was never leased."""
        settled = self.settled.first_present(first) if self.settled.pages else None
        if settled is not None and settled <= last:
            last = settled - 1
        tried = min((offset for offset in self.counts if first < offset <= last), default=None)
        return last if tried is None else tried - 1

    def _take(self, first: int, last: int) -> None:
        """This stretch is not free any more: one returned offset, or some of what was never leased."""
        if first < self._fresh:
            self._returned.discard(first, last)
            return
        # What is passed over stays free.
        passed = self.first_open(self._fresh)
        while passed < first:
            self._returned.add(passed, passed)
            passed = self.first_open(passed + 1)
        self._fresh = last + 1

    # Taking back

    def rule(self, owner: str, rulings: Sequence[Ruling], limits: LeaseLimits, now_ms: int) -> None:
        """All these verdicts, or none. Raises NotLeased. What is below the floor is settled whatever is said of it."""
        above = -1
        floor = self.floor
        leases = self.leases
        for first, last, _ in rulings:
            if first <= above:
                raise NotLeased(f"offset {first} of log {self.log} is ruled on twice")
            above = last
            for offset in range(max(first, floor), last + 1):
                lease = leases.get(offset)
                if lease is None or lease.owner != owner:
                    raise NotLeased(f"offset {offset} of log {self.log}")
        renewed = RecordLease(owner, now_ms + limits.lease_ms)
        for first, last, verdict in rulings:
            ruled = range(max(first, floor), last + 1)
            if verdict is LeaseVerdict.ACCEPT:
                for offset in ruled:
                    del leases[offset]
                self.settle(ruled)
                continue
            for offset in ruled:
                if verdict is LeaseVerdict.RENEW:
                    leases[offset] = renewed
                elif verdict is LeaseVerdict.RELEASE:
                    self._give_back(offset, limits, failed=False)
                else:
                    del leases[offset]
                    self._count_delivery(offset, failed=False)
                    self._spend(offset, Spent.REJECTED)

    def give_back(self, owner: str, limits: LeaseLimits) -> bool:
        """The owner is gone: free what it had. Answers whether it had anything."""
        held = [offset for offset, lease in self.leases.items() if lease.owner == owner]
        for offset in held:
            self._give_back(offset, limits, failed=True)
        return bool(held)

    def pass_time(self, limits: LeaseLimits, now_ms: int) -> bool:
        """Free what was leased for too long. Answers whether anything was."""
        late = [offset for offset, lease in self.leases.items() if lease.deadline_ms <= now_ms]
        for offset in late:
            self._give_back(offset, limits, failed=True)
        return bool(late)

    def next_deadline_ms(self) -> int | None:
        """When `pass_time` has something to do."""
        return min((lease.deadline_ms for lease in set(self.leases.values())), default=None)

    def take_spent(self) -> dict[int, Spent]:
        """What is to be buried, each told once."""
        spent = {offset: why for offset, why in self.spent.items() if offset not in self._burying}
        self._burying |= spent.keys()
        return spent

    def put_off(self, offsets: Iterable[int]) -> None:
        """They could not be buried: to be told again."""
        self._burying.difference_update(offsets)

    def bury(self, offsets: Iterable[int]) -> None:
        """Settle what is spent."""
        for offset in sorted(offsets):
            self._burying.discard(offset)
            if self.spent.pop(offset, None) is not None:
                self.settle_stretch(offset, offset)

    def raise_floor(self, floor: int) -> None:
        """What is below is settled, or gone from the log. Lower than the present one: nothing happens."""
        if floor <= self.floor:
            return
        for below in [offset for offset in self.leases if offset < floor]:
            del self.leases[below]
        self.spent = {offset: why for offset, why in self.spent.items() if offset >= floor}
        self._burying = {offset for offset in self._burying if offset >= floor}
        self._returned.drop_below(floor)
        self._fresh = max(self._fresh, floor)
        super().raise_floor(floor)

    def _give_back(self, offset: int, limits: LeaseLimits, *, failed: bool) -> None:
        del self.leases[offset]
        if self._count_delivery(offset, failed=failed) >= limits.deliveries_max:
            self._spend(offset, Spent.EXHAUSTED)
        else:
            self._returned.add(offset, offset)

    def _count_delivery(self, offset: int, *, failed: bool) -> int:
        """A delivery has ended otherwise than well; answers how many there were by now."""
        deliveries, failures = self.counts.get(offset, NEVER)
        self.count(offset, Counts(deliveries + 1, failures + failed))
        return deliveries + 1

    def _spend(self, offset: int, why: Spent) -> None:
        self.spent[offset] = why

    # Storage

    @classmethod
    def restored(cls, log: int, floor: int) -> LeasedCursor:
        """From storage; its pages follow."""
        cursor = cls(log, floor)
        cursor.restore_floor(floor)
        return cursor


def replay_cursors(entries: Iterable[tuple[bytes, bytes]]) -> dict[int, LeasedCursor]:
    """The cursors of a subscription, by log, from what is stored of it."""
    stored = list(entries)
    cursors: dict[int, LeasedCursor] = {}
    for key, value in stored:
        log = decode_floor_key(key)
        if log is not None:
            cursors[log] = LeasedCursor.restored(log, decode_floor(value))
    for key, value in stored:
        place = decode_page_key(key)
        if place is not None and place[0] in cursors:
            cursors[place[0]].replay_page(place[1], value)
    return cursors
