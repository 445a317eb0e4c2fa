"""A subscription that is pulled from in stretches: records stay in their batches, each is leased and settled by itself.

    offsets:  settled ... | below `fresh`: settled, held, spent, at rest or returned | from `fresh` on: never given out

Over the `SubscribedLog` that every subscription has. It adds which offsets are free, lowest first. Pure: time is passed in.
After a crash leases are gone: what was leased is free, what was settled stays so.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.coordination.dead_letters.deaths import attempt_at
from mainstem.coordination.errors import NotLeased
from mainstem.coordination.offset_pages import PagedOffsets
from mainstem.coordination.subscriptions import entries as stored_form
from mainstem.coordination.subscriptions.cursor import NEVER, Counts
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.subscribed_log import Spent, SubscribedLog

__all__ = ["Counts", "Lease", "LeaseVerdict", "Leased", "LeasedCursor", "Ruling", "replay_cursors"]


class LeaseVerdict(enum.Enum):
    """What becomes of a leased record."""

    ACCEPT = "accept"
    RELEASE = "release"
    """Given back; it did not fail."""
    RETRY = "retry"
    """It failed: given back, to be given out again after the ruling's time or the policy's."""
    REJECT = "reject"
    RENEW = "renew"


class Lease:
    """Somebody works on records: one object for each time that some are leased."""

    __slots__ = ("owner",)

    def __init__(self, owner: str) -> None:
        self.owner = owner


class Leased(NamedTuple):
    """A stretch that was leased, and the number of this delivery of its records."""

    first: int
    last: int
    deliveries: int


class Ruling(NamedTuple):
    """A verdict on a stretch, both ends included."""

    first: int
    last: int
    verdict: LeaseVerdict
    time_ms: int | None = None
    """RENEW: for how long; None: as the policy says. RETRY: after which time; None: as the policy says."""
    error: str = ""


class LeasedCursor(SubscribedLog):
    """A subscription's place in one log, with who works on what."""

    __slots__ = ("_fresh", "_returned")

    def __init__(self, log: int, floor: int) -> None:
        super().__init__(log, floor)
        self._fresh = floor
        self._returned = PagedOffsets()
        """Below `_fresh`, and free."""

    # Giving out

    def first_free(self, offset: int = 0) -> int:
        """The lowest offset at or above this one that may be leased, if the log has it."""
        if self._returned.pages:
            returned = self._returned.first_present(offset)
            if returned is not None:
                return returned
        return self._first_fresh(max(offset, self._fresh))

    def _first_fresh(self, offset: int) -> int:
        """The lowest offset from here on that is neither settled nor at rest."""
        offset = self.first_open(offset)
        if self.rests:
            while offset in self.resting:
                offset = self.first_open(self.resting.first_absent(offset))
        return offset

    def lease(
        self,
        owner: str,
        first: int,
        last: int,
        room: int,
        policy: DeliveryPolicy,
        now_ms: int,
        lease_ms: int | None = None,
    ) -> list[Leased]:
        """Lease what is free in a stretch, as far as there is room. What was tried too often is spent instead."""
        given = self._take_free(first, last, min(room, policy.room(len(self.held))), policy)
        if given:
            lease, time_ms = Lease(owner), policy.lease_ms if lease_ms is None else lease_ms
            deadline_ms = None if time_ms is None else now_ms + time_ms
            for begin, end, _ in given:
                self.give(begin, end, lease, deadline_ms)
        return given

    def hold(self, first: int, last: int, room: int, policy: DeliveryPolicy) -> list[Leased]:
        """Give out what is free in a stretch, as far as there is room, to somebody who keeps account of it himself."""
        given = self._take_free(first, last, room, policy)
        for begin, end, _ in given:
            self.acquire(begin, end)
        return given

    def _take_free(self, first: int, last: int, room: int, policy: DeliveryPolicy) -> list[Leased]:
        given: list[Leased] = []
        offset = self.first_free(first)
        while offset <= last and room > 0:
            begin = end = offset
            counts = self.counts.get(offset) if self.counts else None
            if counts is None and offset >= self._fresh:
                end = self._unbroken(offset, min(last, offset + room - 1))
            self._take(begin, end)
            deliveries = 1 if counts is None else counts.deliveries + 1
            if policy.deliveries_max is not None and deliveries > policy.deliveries_max:
                self.spend(offset, Spent("delivery_limit"))
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
            self.acquire(first, last)

    def free(self, first: int, last: int) -> None:
        """What `hold` gave out may be given out again."""
        first = max(first, self.floor)
        if first <= last:
            self.unacquire(first, last)
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
        resting = self.resting.first_present(first) if self.rests else None
        if resting is not None and resting <= last:
            last = resting - 1
        tried = min((offset for offset in self.counts if first < offset <= last), default=None)
        return last if tried is None else tried - 1

    def _take(self, first: int, last: int) -> None:
        """This stretch is not free any more: one returned offset, or some of what was never leased."""
        if first < self._fresh:
            self._returned.discard(first, last)
            return
        # What is passed over stays free.
        passed = self._first_fresh(self._fresh)
        while passed < first:
            self._returned.add(passed, passed)
            passed = self._first_fresh(passed + 1)
        self._fresh = last + 1

    # Taking back

    def rule(self, owner: str, rulings: Sequence[Ruling], policy: DeliveryPolicy, now_ms: int) -> None:
        """All these verdicts, or none. Raises NotLeased. What is below the floor is settled whatever is said of it."""
        above = -1
        floor, held = self.floor, self.held
        for ruling in rulings:
            first, last = ruling.first, ruling.last
            if first <= above:
                raise NotLeased(f"offset {first} of log {self.log} is ruled on twice")
            above = last
            # A stretch has one lease or a few: what is asked for each offset runs in C.
            for lease in set(map(held.get, range(max(first, floor), last + 1))):
                if lease is None or lease.owner != owner:
                    raise NotLeased(f"offsets {first} to {last} of log {self.log}")
        for ruling in rulings:
            ruled = range(max(ruling.first, floor), ruling.last + 1)
            if ruling.verdict is LeaseVerdict.ACCEPT:
                for offset in ruled:
                    del held[offset]
                self.forget_leases(ruled)
                self.settle(ruled)
                if self.attempts:
                    self.forget_attempts(ruled)
                continue
            for offset in ruled:
                self._rule(offset, ruling, policy, now_ms)

    def _rule(self, offset: int, ruling: Ruling, policy: DeliveryPolicy, now_ms: int) -> None:
        if ruling.verdict is LeaseVerdict.RENEW:
            time_ms = policy.lease_ms if ruling.time_ms is None else ruling.time_ms
            if time_ms is not None:
                self.expect(offset, self.held[offset], now_ms + time_ms)
        elif ruling.verdict is LeaseVerdict.REJECT:
            self.let_go(offset)
            deliveries, failures = self.counts.get(offset, NEVER)
            self.count(offset, Counts(deliveries + 1, failures))
            self.spend(offset, Spent("rejected", ruling.error))
        else:
            failed = ruling.verdict is LeaseVerdict.RETRY
            self._return(offset, policy, now_ms, failed=failed, delay_ms=ruling.time_ms or 0, error=ruling.error)

    def drop_owner(self, owner: str, policy: DeliveryPolicy, now_ms: int) -> bool:
        """The owner is gone: free what it had. Answers whether it had anything."""
        held = [offset for offset, lease in self.held.items() if lease.owner == owner]
        for offset in held:
            self._return(offset, policy, now_ms, failed=True)
        return bool(held)

    def free_late(self, policy: DeliveryPolicy, now_ms: int) -> bool:
        """Free what was leased, or has rested, for long enough. Answers whether anything was."""
        due = self.pass_time(now_ms)
        for offset, _ in due.late:
            self._return(offset, policy, now_ms, failed=True)
        return bool(due.late or due.rested)

    def end_rest(self, offset: int) -> bool:
        """It may be given out; answers whether it was at rest."""
        if not super().end_rest(offset):
            return False
        if offset < self._fresh and offset not in self.acquired:
            self._returned.add(offset, offset)
        return True

    def free_resting(self, offset: int) -> None:
        """What `hold` gave out is put to rest: given out again when that ends, or now if it has ended."""
        self.unacquire(offset, offset)
        if offset not in self.rests and offset >= self.floor:
            self._returned.add(offset, offset)

    def rest_free(self, offset: int, due_ms: int) -> bool:
        """Put a record to rest that nobody has; answers whether it was free."""
        if self.is_settled(offset) or offset in self.held or offset in self.acquired or offset in self.spent:
            return False
        self._returned.discard(offset, offset)
        self.rest(offset, due_ms)
        return True

    def seek(self, offset: int) -> None:
        """Begin anew there: holders lose what they work on, except what `hold` gave out."""
        for held in list(self.held):
            self.let_go(held)
        self.spent, self._burying = {}, set()
        super().seek(offset)
        self._returned, self._fresh = PagedOffsets(), offset
        acquired = self.acquired.first_present(offset)
        while acquired is not None:
            end = self.acquired.first_absent(acquired)
            self._take(acquired, end - 1)
            acquired = self.acquired.first_present(end)

    def raise_floor(self, floor: int) -> None:
        """What is below is settled, or gone from the log. Lower than the present one: nothing happens."""
        if floor <= self.floor:
            return
        for below in [offset for offset in self.held if offset < floor]:
            self.let_go(below)
        for below in [offset for offset in self.rests if offset < floor]:
            self.end_rest(below)
        self.forget_attempts([offset for offset in self.attempts if offset < floor])
        for below in self.acquired.below(floor):
            self.unacquire(below, below)
        self.spent = {offset: why for offset, why in self.spent.items() if offset >= floor}
        self._burying = {offset for offset in self._burying if offset >= floor}
        self._returned.drop_below(floor)
        self._fresh = max(self._fresh, floor)
        super().raise_floor(floor)

    def _return(
        self, offset: int, policy: DeliveryPolicy, now_ms: int, *, failed: bool, delay_ms: int = 0, error: str = ""
    ) -> None:
        attempt = attempt_at(now_ms, error) if failed and error else None
        wait_ms = self.give_back(
            offset, policy, now_ms, random.random, failed=failed, delay_ms=delay_ms, attempt=attempt
        )
        if wait_ms is None:
            self.spend(offset, Spent("delivery_limit", error))
        elif not wait_ms:
            self._returned.add(offset, offset)

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
        log = stored_form.decode_floor_key(key)
        if log is not None:
            cursors[log] = LeasedCursor.restored(log, stored_form.decode_floor(value))
    for key, value in stored:
        if (place := stored_form.decode_page_key(key)) is not None and place[0] in cursors:
            cursors[place[0]].replay_page(place[1], value)
    for key, value in stored:
        if (place := stored_form.decode_rest_key(key)) is not None and place[0] in cursors:
            cursors[place[0]].replay_rest(place[1], stored_form.decode_due(value))
        elif (place := stored_form.decode_tried_key(key)) is not None and place[0] in cursors:
            cursors[place[0]].replay_attempts(place[1], stored_form.decode_attempts(value))
    return cursors
