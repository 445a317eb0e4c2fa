"""One log of a subscription: the core under queues, share groups and acquisitions.

    FREE --give--> HELD --settle-----------------------------> SETTLED
      ^             | |---reject, or given back too often---> SPENT --' (with its dead letter, in one commit)
      |             '----give back---> FREE, or RESTING
      '---its time has come--- RESTING

    cursor      what is settled, and how often the rest was tried (`Cursor`)
    held        who works on what: a token for each offset, its holder's alone
    agenda      when leases and rests end
    rests       until when a record is not given out; readers of the log see it at once
    attempts    when a record failed, and why
    spent       given up, and its dead letter is not written yet
    acquired    held by somebody who stores that himself, known by its offset alone

Settled offsets, counts, rests and attempts are stored; after a crash nothing is held. Pure: time is passed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mainstem.coordination.dead_letters.deaths import ATTEMPTS_MAX, Attempt, Reason
from mainstem.coordination.offset_pages import PagedOffsets
from mainstem.coordination.subscriptions.cursor import NEVER, Counts, Cursor
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.entries import put_attempts, put_rest
from mainstem.storage.contract import Mutation

AGENDA_SPARE = 1_024
"""Entries of the agenda that may be void, besides as many as there are offsets held and at rest."""


class Spent(NamedTuple):
    """Why a record is not given out again."""

    reason: Reason
    error: str = ""


class Due(NamedTuple):
    """What time has brought."""

    late: list[tuple[int, Any]]
    """Held for too long: offset and token. They are held still."""
    rested: list[int]
    """May be given out again."""


class SubscribedLog(Cursor):
    """The place of a subscription in one log, with who works on what."""

    __slots__ = (
        "_agenda",
        "_attempts_changed",
        "_attempts_stored",
        "_burying",
        "_entries",
        "_renewed",
        "_rests_changed",
        "_rests_stored",
        "acquired",
        "acquired_count",
        "attempts",
        "held",
        "resting",
        "rests",
        "spent",
    )

    def __init__(self, log: int, floor: int) -> None:
        super().__init__(log, floor)
        self.held: dict[int, Any] = {}
        """The token of who works on it, by offset. Always the same dict: hot paths keep it."""
        self._agenda: list[tuple[int, int, int, int, Any]] = []
        """When something ends: time, number of the entry, first and last offset, token; None for a rest. Some are void."""
        self._entries = 0
        self._renewed: dict[int, int] = {}
        """When the lease ends of what was renewed, or is given out under the same token again: earlier entries are void."""
        self.rests: dict[int, int] = {}
        self.resting = PagedOffsets()
        """The offsets of `rests`."""
        self._rests_changed: set[int] = set()
        self._rests_stored: set[int] = set()
        self.attempts: dict[int, list[Attempt]] = {}
        self._attempts_changed: set[int] = set()
        self._attempts_stored: set[int] = set()
        self.spent: dict[int, Spent] = {}
        self._burying: set[int] = set()
        self.acquired = PagedOffsets()
        self.acquired_count = 0

    # Giving out

    def give(self, first: int, last: int, token: Any, deadline_ms: int | None) -> None:
        """A stretch that was free is held from now on: until a time, or as long as its holder stays."""
        self.held.update(dict.fromkeys(range(first, last + 1), token))
        if deadline_ms is not None:
            self._note(deadline_ms, first, last, token)

    def expect(self, offset: int, token: Any, deadline_ms: int) -> None:
        """What is held is held until this time, whatever was said before."""
        self._renewed[offset] = deadline_ms
        self._note(deadline_ms, offset, offset, token)

    def acquire(self, first: int, last: int) -> None:
        """Somebody who keeps account of it himself has a stretch of which nobody has any."""
        self.acquired_count += last - first + 1 - self.acquired.count(first, last + 1)
        self.acquired.add(first, last)

    def unacquire(self, first: int, last: int) -> None:
        """He has it no more."""
        self.acquired_count -= self.acquired.count(first, last + 1)
        self.acquired.discard(first, last)

    # Coming back

    def let_go(self, offset: int) -> None:
        """Nobody holds it any more."""
        del self.held[offset]
        if self._renewed:
            self._renewed.pop(offset, None)

    @property
    def has_leases(self) -> bool:
        """Whether something is held until a time that was set after it was given out."""
        return bool(self._renewed)

    def forget_leases(self, offsets: Iterable[int]) -> None:
        """They are not held any more."""
        if self._renewed:
            for offset in offsets:
                self._renewed.pop(offset, None)

    def give_back(
        self,
        offset: int,
        policy: DeliveryPolicy,
        now_ms: int,
        random: Callable[[], float],
        *,
        failed: bool,
        delay_ms: int = 0,
        attempt: Attempt | None = None,
        before: Counts | None = None,
    ) -> int | None:
        """The holder is done with it, and it is not settled: count, judge, and put it to rest where that is the judgement.

        Answers how long it rests; None: it must be given up. `before` are its counts without this delivery, where the caller
        knows better.
        """
        self.let_go(offset)
        deliveries, failures = self.counts.get(offset, NEVER) if before is None else before
        counts = Counts(deliveries + 1, failures + failed)
        self.count(offset, counts)
        if attempt is not None:
            self.note_attempt(offset, attempt)
        wait_ms = policy.delay_ms(counts, failed=failed, delay_ms=delay_ms, random=random)
        if wait_ms:
            self.rest(offset, now_ms + wait_ms)
        return wait_ms

    def note_attempt(self, offset: int, attempt: Attempt) -> None:
        """It failed."""
        self.attempts[offset] = [*self.attempts.get(offset, ()), attempt][-ATTEMPTS_MAX:]
        self._attempts_changed.add(offset)

    def forget_attempts(self, offsets: Iterable[int]) -> None:
        """They are done with."""
        for offset in offsets:
            if self.attempts.pop(offset, None) is not None:
                self._attempts_changed.add(offset)

    # Resting

    def rest(self, offset: int, due_ms: int) -> None:
        """Nobody is given it before a time."""
        self.rests[offset] = due_ms
        self.resting.add(offset, offset)
        self._rests_changed.add(offset)
        self._note(due_ms, offset, offset, None)

    def end_rest(self, offset: int) -> bool:
        """It may be given out; answers whether it was at rest."""
        if self.rests.pop(offset, None) is None:
            return False
        self.resting.discard(offset, offset)
        self._rests_changed.add(offset)
        return True

    # Giving up

    def spend(self, offset: int, why: Spent) -> None:
        """It is given up; its dead letter is still to be written."""
        self.spent[offset] = why

    def take_spent(self) -> dict[int, Spent]:
        """What is to be buried; each is answered once."""
        spent = {offset: why for offset, why in self.spent.items() if offset not in self._burying}
        self._burying |= spent.keys()
        return spent

    def put_off(self, offsets: Iterable[int]) -> None:
        """They could not be buried: to be answered again."""
        self._burying.difference_update(offsets)

    def bury(self, offsets: Iterable[int]) -> None:
        """Settle what is spent."""
        for offset in sorted(offsets):
            self._burying.discard(offset)
            if self.spent.pop(offset, None) is not None:
                self.settle_stretch(offset, offset)
                self.forget_attempts((offset,))

    # Time

    def _note(self, due_ms: int, first: int, last: int, token: Any) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (due_ms, self._entries, first, last, token))
        if len(self._agenda) > AGENDA_SPARE + 2 * (len(self.held) + len(self.rests)):
            self._agenda = [entry for entry in self._agenda if self._first_valid(entry) is not None]
            heapq.heapify(self._agenda)

    def _is_valid(self, entry: tuple[int, int, int, int, Any], offset: int) -> bool:
        due_ms, _, _, _, token = entry
        if token is None:
            return self.rests.get(offset) == due_ms
        return self.held.get(offset) is token and self._renewed.get(offset, due_ms) == due_ms

    def next_due_ms(self) -> int | None:
        """When `pass_time` has something to do; None: never, as it looks now."""
        agenda = self._agenda
        while agenda:
            due_ms, number, first, last, token = agenda[0]
            valid = self._first_valid(agenda[0])
            if valid is not None:
                if valid > first:  # Void offsets stay void: the next question need not look at them again.
                    agenda[0] = (due_ms, number, valid, last, token)
                return due_ms
            heapq.heappop(agenda)
        return None

    def _first_valid(self, entry: tuple[int, int, int, int, Any]) -> int | None:
        """The first offset for which the entry still counts."""
        _, _, first, last, token = entry
        if token is None or self._renewed:
            return next((offset for offset in _offsets(entry) if self._is_valid(entry, offset)), None)
        if self.held.get(first) is token:
            return first
        # The usual end of a lease: a client has settled all of a long stretch. This loop runs in C.
        holders = list(map(self.held.get, range(first, last + 1)))
        return first + holders.index(token) if token in holders else None

    def pass_time(self, now_ms: int) -> Due:
        """End the rests that are over, and tell which leases are."""
        due = Due([], [])
        while self._agenda and self._agenda[0][0] <= now_ms:
            entry = heapq.heappop(self._agenda)
            for offset in _offsets(entry):
                if not self._is_valid(entry, offset):
                    continue
                if entry[4] is None:
                    self.end_rest(offset)
                    due.rested.append(offset)
                else:
                    due.late.append((offset, entry[4]))
        return due

    # Moving

    def seek(self, offset: int) -> None:
        """Everything below is done, but for what is held; everything from there on is not, and rests no more."""
        for resting in list(self.rests):
            self.end_rest(resting)
        super().seek(offset)
        self.forget_attempts([tried for tried in self.attempts if tried < offset and tried not in self.held])
        self.unsettle(self.held_below(offset))

    def held_below(self, offset: int) -> list[int]:
        """What is held or acquired below an offset, in no order."""
        return [*(held for held in self.held if held < offset), *self.acquired.below(offset)]

    def settle_free(self, end: int) -> Sequence[int]:
        """Settle all below an offset that nobody holds, at rest or not; answers what is held."""
        kept = sorted(self.held_below(end))
        first = self.floor
        for offset in [*kept, end]:
            self.settle_stretch(first, offset - 1)
            first = offset + 1
        self.forget_attempts([offset for offset in self.attempts if offset not in self.held])
        for offset in list(self.rests):
            self.end_rest(offset)
        return kept

    # Storage

    @property
    def is_changed(self) -> bool:
        """Whether there is something to store."""
        return bool(self.done or self._is_moved or self._changed_pages or self._rests_changed or self._attempts_changed)

    def replay_rest(self, offset: int, due_ms: int) -> None:
        """Take a stored rest back."""
        self._rests_stored.add(offset)
        if self.is_settled(offset):
            self._rests_changed.add(offset)
        else:
            self.rest(offset, due_ms)
            self._rests_changed.discard(offset)

    def replay_attempts(self, offset: int, attempts: list[Attempt]) -> None:
        """Take stored attempts back."""
        self._attempts_stored.add(offset)
        self.attempts[offset] = attempts

    def change_all(self) -> None:
        """What was taken to be stored was not: all of it is to be stored again."""
        super().change_all()
        self._rests_changed |= self._rests_stored | self.rests.keys()
        self._attempts_changed |= self._attempts_stored | self.attempts.keys()

    def take_changes(self, scope: str) -> list[Mutation]:
        """What has changed since the last call, to be stored."""
        changes = super().take_changes(scope)
        if self._rests_changed:
            changed = _worth_storing(self._rests_changed, self.rests, self._rests_stored)
            changes += [put_rest(scope, self.log, offset, self.rests.get(offset)) for offset in changed]
            self._rests_changed.clear()
        if self._attempts_changed:
            changed = _worth_storing(self._attempts_changed, self.attempts, self._attempts_stored)
            changes += [put_attempts(scope, self.log, offset, self.attempts.get(offset)) for offset in changed]
            self._attempts_changed.clear()
        return changes

    def decide_forget(self, scope: str) -> list[Mutation]:
        """Nothing is to be left of this log."""
        rests = [put_rest(scope, self.log, offset, None) for offset in sorted(self._rests_stored)]
        attempts = [put_attempts(scope, self.log, offset, None) for offset in sorted(self._attempts_stored)]
        return [*super().decide_forget(scope), *rests, *attempts]


def _offsets(entry: tuple[int, int, int, int, Any]) -> range:
    return range(entry[2], entry[3] + 1)


def _worth_storing(changed: set[int], present: dict[int, Any], stored: set[int]) -> list[int]:
    """What is there, or was stored when it was; from now on known as it is."""
    wanted = sorted(offset for offset in changed if offset in present or offset in stored)
    for offset in wanted:
        if offset in present:
            stored.add(offset)
        else:
            stored.discard(offset)
    return wanted
