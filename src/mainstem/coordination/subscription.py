"""A subscription: reading a log as a queue, each record settled by itself.

    floor           everything below is settled
    settled pages   what is settled above the floor
    leases          what somebody works on now, until a deadline; in memory only
    counters        deliveries and failures of what is not settled, kept only where they are above 0

    FREE --lease--> LEASED --accept--------------------------------> SETTLED
      ^               |  |---reject, or returned too often--> SPENT ----^
      '---release, deadline, owner gone                       (buried: with its dead letter, in one commit)

Pure: time is passed in. What a call changes is noted, and `take_changes` hands it out to be stored, before the answer;
`replay` takes stored state back. After a crash leases are gone: what was leased is free, what was settled stays so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.coordination.errors import NotLeased
from mainstem.coordination.subscription_entries import (
    decode_floor,
    decode_floor_key,
    decode_page,
    decode_page_key,
    put_floor,
    put_page,
)
from mainstem.coordination.subscription_pages import PAGE_BITS, PAGE_OFFSETS, PagedOffsets, pages_of
from mainstem.storage.contract import Mutation


class Verdict(enum.Enum):
    """What becomes of a leased record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


class Spent(enum.Enum):
    """Why a record is not given out again."""

    REJECTED = "rejected"
    EXHAUSTED = "delivered too often"


class Limits(NamedTuple):
    """What a subscription allows."""

    lease_ms: int = 30_000
    deliveries_max: int = 5
    leases_max: int = 2_000


class Lease(NamedTuple):
    """Somebody works on a record."""

    owner: str
    deadline_ms: int


class Counts(NamedTuple):
    """How often a record was tried: given out, and given out in vain."""

    deliveries: int = 0
    failures: int = 0


class Leased(NamedTuple):
    """A stretch that was leased, and the how-manieth delivery of each of its records this is."""

    first: int
    last: int
    deliveries: int


class Ruling(NamedTuple):
    """A verdict on a stretch, both ends included."""

    first: int
    last: int
    verdict: Verdict


class Cursor:
    """A subscription's place in one log."""

    def __init__(self, log: int, floor: int) -> None:
        self.log = log
        self.floor = floor
        self.settled = PagedOffsets()
        self.leases: dict[int, Lease] = {}
        self.counts: dict[int, Counts] = {}
        self.spent: dict[int, Spent] = {}
        self._burying: set[int] = set()
        self._taken = PagedOffsets()
        """Settled or leased."""
        self._changed_pages: set[int] = set()
        self._stored_pages: set[int] = set()
        self._is_moved = True

    @property
    def settled_count(self) -> int:
        """How many are settled above the floor."""
        return sum(map(len, self.settled.pages.values()))

    # Giving out

    def first_free(self, offset: int = 0) -> int:
        """The lowest offset at or above this one that may be leased, if the log has it."""
        return self._taken.first_absent(max(offset, self.floor))

    def lease(self, owner: str, first: int, last: int, room: int, limits: Limits, now_ms: int) -> list[Leased]:
        """Lease what is free in a stretch, as far as there is room. What was tried too often is spent instead."""
        given: list[Leased] = []
        lease = Lease(owner, now_ms + limits.lease_ms)
        room = min(room, limits.leases_max - len(self.leases))
        offset = self.first_free(first)
        while offset <= last and room > 0:
            before = self.counts.get(offset, Counts())
            if before.deliveries >= limits.deliveries_max:
                self._spend(offset, Spent.EXHAUSTED)
            else:
                room -= 1
                count = before.deliveries + 1
                self.counts[offset] = before._replace(deliveries=count)
                self.leases[offset] = lease
                if given and given[-1].last == offset - 1 and given[-1].deliveries == count:
                    given[-1] = given[-1]._replace(last=offset)
                else:
                    given.append(Leased(offset, offset, count))
            self._taken.add(offset, offset)
            offset = self._taken.first_absent(offset + 1)
        return given

    def skip(self, first: int, last: int) -> None:
        """There is nothing to give out in this stretch. Stored with the next change: it can be found out again."""
        offset = self.first_free(first)
        while offset <= last:
            # Up to the next taken offset in one step: stretches of markers are short, aborted ones may be long.
            after = offset + 1
            while after <= last and after not in self._taken:
                after += 1
            self._settle(offset, after - 1)
            offset = self.first_free(after)

    # Taking back

    def rule(self, owner: str, rulings: Sequence[Ruling], limits: Limits, now_ms: int) -> None:
        """All these verdicts, or none. Raises NotLeased. What is below the floor is settled whatever is said of it."""
        above = -1
        for first, last, _ in rulings:
            if first <= above:
                raise NotLeased(f"offset {first} of log {self.log} is ruled on twice")
            above = last
            for offset in range(max(first, self.floor), last + 1):
                lease = self.leases.get(offset)
                if lease is None or lease.owner != owner:
                    raise NotLeased(f"offset {offset} of log {self.log}")
        renewed = Lease(owner, now_ms + limits.lease_ms)
        for first, last, verdict in rulings:
            first = max(first, self.floor)
            for offset in range(first, last + 1):
                if verdict is Verdict.RENEW:
                    self.leases[offset] = renewed
                elif verdict is Verdict.RELEASE:
                    self._give_back(offset, limits, failed=False)
                else:
                    del self.leases[offset]
                    if verdict is Verdict.REJECT:
                        self._spend(offset, Spent.REJECTED)
            if verdict is Verdict.ACCEPT and first <= last:
                self._settle(first, last)

    def give_back(self, owner: str, limits: Limits) -> bool:
        """The owner is gone: free what it had. Answers whether it had anything."""
        held = [offset for offset, lease in self.leases.items() if lease.owner == owner]
        for offset in held:
            self._give_back(offset, limits, failed=True)
        return bool(held)

    def pass_time(self, limits: Limits, now_ms: int) -> bool:
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

    def bury(self, offsets: Iterable[int]) -> None:
        """Settle what is spent."""
        for offset in sorted(offsets):
            self._burying.discard(offset)
            if self.spent.pop(offset, None) is not None:
                self._settle(offset, offset)

    def raise_floor(self, floor: int) -> None:
        """What is below is settled, or gone from the log. Lower than the present one: nothing happens."""
        if floor <= self.floor:
            return
        self._changed_pages |= {offset >> PAGE_BITS for offset in self.counts if offset < floor}
        self._changed_pages |= set(self.settled.pages)
        for below in [offset for offset in self.counts if offset < floor]:
            del self.counts[below]
        for below in [offset for offset in self.leases if offset < floor]:
            del self.leases[below]
        self.spent = {offset: why for offset, why in self.spent.items() if offset >= floor}
        self.floor, self._is_moved = floor, True
        self._taken.drop_below(floor)
        self.settled.drop_below(floor)
        self._advance()

    def _give_back(self, offset: int, limits: Limits, *, failed: bool) -> None:
        del self.leases[offset]
        counts = self.counts[offset]
        if failed:
            counts = self.counts[offset] = counts._replace(failures=counts.failures + 1)
        if counts.deliveries >= limits.deliveries_max:
            self._spend(offset, Spent.EXHAUSTED)
        else:
            self._taken.discard(offset, offset)
            self._changed_pages.add(offset >> PAGE_BITS)

    def _spend(self, offset: int, why: Spent) -> None:
        self.spent[offset] = why
        self._changed_pages.add(offset >> PAGE_BITS)

    def _settle(self, first: int, last: int) -> None:
        self.settled.add(first, last)
        self._taken.add(first, last)
        for offset in range(first, last + 1):
            self.counts.pop(offset, None)
        self._changed_pages.update(pages_of(first, last))
        if first == self.floor:
            self._advance()

    def _advance(self) -> None:
        floor = self.settled.first_absent(self.floor)
        if floor > self.floor:
            self.floor, self._is_moved = floor, True
            self._taken.drop_below(floor)
            self._changed_pages.add(floor >> PAGE_BITS)
            self._changed_pages.update(self.settled.drop_below(floor))

    # Storage

    @classmethod
    def restored(cls, log: int, floor: int) -> Cursor:
        """From storage; its pages follow."""
        cursor = cls(log, floor)
        cursor._is_moved = False
        return cursor

    def replay_page(self, page: int, value: bytes) -> None:
        """Take a stored page back."""
        settled, counts = decode_page(value)
        base = page << PAGE_BITS
        if settled:
            self.settled.pages[page] = settled
            self._taken.pages[page] = settled.copy()
        self.counts |= {base + low: Counts(*count) for low, count in counts.items()}
        self._stored_pages.add(page)

    def take_changes(self, name: str) -> list[Mutation]:
        """What has changed since the last call, to be stored."""
        changes = [put_floor(name, self.log, self.floor)] if self._is_moved else []
        counts: dict[int, dict[int, tuple[int, int]]] = {page: {} for page in self._changed_pages}
        for offset, (deliveries, failures) in self.counts.items():
            if offset >> PAGE_BITS in counts:
                # A delivery that is under way leaves no trace: a crash would cut it short, and it may be the last one allowed.
                ended = deliveries - (offset in self.leases)
                if ended or failures:
                    counts[offset >> PAGE_BITS][offset % PAGE_OFFSETS] = (ended, failures)
        for page in sorted(counts):
            settled = self.settled.pages.get(page)
            if settled or counts[page]:
                self._stored_pages.add(page)
            elif page in self._stored_pages:
                self._stored_pages.discard(page)
            else:
                continue
            changes.append(put_page(name, self.log, page, settled, counts[page]))
        self._is_moved = False
        self._changed_pages.clear()
        return changes

    def decide_forget(self, name: str) -> list[Mutation]:
        """Nothing is to be left of this log."""
        gone = [put_page(name, self.log, page, None, {}) for page in sorted(self._stored_pages)]
        return [put_floor(name, self.log, None), *gone]


def replay_cursors(entries: Iterable[tuple[bytes, bytes]]) -> dict[int, Cursor]:
    """The cursors of a subscription, by log, from what is stored of it."""
    stored = list(entries)
    cursors: dict[int, Cursor] = {}
    for key, value in stored:
        log = decode_floor_key(key)
        if log is not None:
            cursors[log] = Cursor.restored(log, decode_floor(value))
    for key, value in stored:
        place = decode_page_key(key)
        if place is not None and place[0] in cursors:
            cursors[place[0]].replay_page(place[1], value)
    return cursors
