"""How far the reading of a log as a queue has come: the core of every subscription, of share groups as of queues.

    floor           everything below is settled
    settled pages   what is settled above the floor
    counters        deliveries and failures of what is not settled, kept only where they are above 0

Settling notes offsets and no more; they are worked into the pages in bulk, when somebody wants to know or store. What a call
changes is noted too, and `take_changes` hands it out to be stored; `replay_page` takes stored state back. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.coordination.offset_pages import PAGE_BITS, PAGE_OFFSETS, PagedOffsets, pages_of
from mainstem.coordination.subscriptions.entries import decode_page as _decode_page
from mainstem.coordination.subscriptions.entries import put_floor, put_page
from mainstem.storage.contract import Mutation

_LOW = PAGE_OFFSETS - 1


class Counts(NamedTuple):
    """How often a record was given out, and how often that failed."""

    deliveries: int = 0
    failures: int = 0


NEVER = Counts()


class Cursor:
    """The place in one log."""

    __slots__ = ("_changed_pages", "_floor", "_is_moved", "_stored_pages", "counts", "done", "log", "settled")

    def __init__(self, log: int, floor: int) -> None:
        self.log = log
        self._floor = floor
        self.settled = PagedOffsets()
        """Of what was worked in; ask `is_settled` or call `work_in` first."""
        self.counts: dict[int, Counts] = {}
        """Of deliveries that have ended."""
        self.done: list[int] = []
        """Settled since the last `work_in`, in any order, none twice. Always the same list: hot paths append to it."""
        self._changed_pages: set[int] = set()
        self._stored_pages: set[int] = set()
        self._is_moved = True

    @property
    def floor(self) -> int:
        """Everything below is settled."""
        if self.done:
            self.work_in()
        return self._floor

    @property
    def settled_count(self) -> int:
        """How many are settled above the floor."""
        if self.done:
            self.work_in()
        return sum(map(len, self.settled.pages.values()))

    def is_settled(self, offset: int) -> bool:
        """Whether it is."""
        if self.done:
            self.work_in()
        return offset < self._floor or offset in self.settled

    def first_open(self, offset: int = 0) -> int:
        """The lowest offset at or above this one that is not settled."""
        if self.done:
            self.work_in()
        return self.settled.first_absent(max(offset, self._floor))

    # Settling

    def settle(self, offsets: Sequence[int]) -> None:
        """These are done; none of them was before."""
        self.done += offsets

    def settle_stretch(self, first: int, last: int) -> None:
        """All of this is done, whatever was before."""
        if self.done:
            self.work_in()
        first = max(first, self._floor)
        if first > last:
            return
        self.settled.add(first, last)
        self._changed_pages.update(pages_of(first, last))
        if self.counts:
            for offset in [offset for offset in self.counts if first <= offset <= last]:
                del self.counts[offset]
        if first == self._floor:
            self._advance()

    def work_in(self) -> None:
        """Make pages of what was noted."""
        if not self.done:
            return
        done = sorted(self.done)
        self.done.clear()
        if self.counts:
            for offset in done:
                self.counts.pop(offset, None)
        if done[0] < self._floor:  # They were gone from the log before they were done with.
            here = bisect_left(done, self._floor)
            self._changed_pages.update({offset >> PAGE_BITS for offset in done[:here]})
            done = done[here:]
            if not done:
                return
        first, last = done[0], done[-1]
        settled = self.settled
        if first == self._floor and last - first + 1 == len(done) and not settled.pages:
            # The usual case: in order, nothing settled above.
            self._floor, self._is_moved = last + 1, True
            self._changed_pages.update(pages_of(first, last + 1))
            return
        settled.add_all(done)
        self._changed_pages.update(
            pages_of(first, last) if last - first < PAGE_OFFSETS else {o >> PAGE_BITS for o in done}
        )
        if first == self._floor:
            self._advance()

    def unsettle(self, offsets: Iterable[int]) -> None:
        """These are not done, after all. The floor goes down to the lowest of them."""
        if self.done:
            self.work_in()
        wanted = sorted(offsets)
        if not wanted:
            return
        if wanted[0] < self._floor:
            self.settled.add(wanted[0], self._floor - 1)
            self._changed_pages.update(pages_of(wanted[0], self._floor))
            self._floor, self._is_moved = wanted[0], True
        for offset in wanted:
            self.settled.discard(offset, offset)
            self._changed_pages.add(offset >> PAGE_BITS)

    def seek(self, offset: int) -> None:
        """Everything below is done, everything from there on is not. How often that was tried is still known."""
        self.done.clear()
        self._changed_pages.update(self.settled.pages)
        self._changed_pages.update(offset >> PAGE_BITS for offset in self.counts)
        self.settled = PagedOffsets()
        self.counts = {tried: counts for tried, counts in self.counts.items() if tried >= offset}
        self._floor, self._is_moved = offset, True

    def raise_floor(self, floor: int) -> None:
        """What is below is settled, or gone from the log. Lower than the present one: nothing happens."""
        if self.done:
            self.work_in()
        if floor <= self._floor:
            return
        self._changed_pages.update(self.settled.pages)
        for below in [offset for offset in self.counts if offset < floor]:
            self._changed_pages.add(below >> PAGE_BITS)
            del self.counts[below]
        self._floor, self._is_moved = floor, True
        self.settled.drop_below(floor)
        self._advance()

    def count(self, offset: int, counts: Counts) -> None:
        """So often it was tried by now."""
        self.counts[offset] = counts
        self._changed_pages.add(offset >> PAGE_BITS)

    def _advance(self) -> None:
        floor = self.settled.first_absent(self._floor)
        if floor > self._floor:
            self._floor, self._is_moved = floor, True
            self._changed_pages.add(floor >> PAGE_BITS)
            self._changed_pages.update(self.settled.drop_below(floor))

    # Storage

    @property
    def is_changed(self) -> bool:
        """Whether there is something to store."""
        return bool(self.done or self._is_moved or self._changed_pages)

    def restore_floor(self, floor: int) -> None:
        """Take a stored floor back; pages follow."""
        self._floor, self._is_moved = floor, False

    def replay_page(self, page: int, value: bytes) -> None:
        """Take a stored page back."""
        settled, counts = _decode_page(value)
        base = page << PAGE_BITS
        if settled:
            self.settled.pages[page] = settled
        self.counts |= {base + low: Counts(*count) for low, count in counts.items()}
        self._stored_pages.add(page)

    def change_all(self) -> None:
        """What was taken to be stored was not: all of it is to be stored again."""
        if self.done:
            self.work_in()
        self._is_moved = True
        self._changed_pages |= self._stored_pages | set(self.settled.pages)
        self._changed_pages.update(offset >> PAGE_BITS for offset in self.counts)

    def take_changes(self, scope: str) -> list[Mutation]:
        """What has changed since the last call, to be stored."""
        if self.done:
            self.work_in()
        changes = [put_floor(scope, self.log, self._floor)] if self._is_moved else []
        self._is_moved = False
        changed = self._changed_pages
        if not changed:
            return changes
        self._changed_pages = set()
        counts: dict[int, dict[int, tuple[int, int]]] = {page: {} for page in changed}
        for offset, count in self.counts.items():
            if offset >> PAGE_BITS in counts:
                counts[offset >> PAGE_BITS][offset & _LOW] = count
        for page in sorted(changed):
            settled = self.settled.pages.get(page)
            if settled or counts[page]:
                self._stored_pages.add(page)
            elif page in self._stored_pages:
                self._stored_pages.discard(page)
            else:
                continue
            changes.append(put_page(scope, self.log, page, settled, counts[page]))
        return changes

    def decide_forget(self, scope: str) -> list[Mutation]:
        """Nothing is to be left of this log."""
        gone = [put_page(scope, self.log, page, None, {}) for page in sorted(self._stored_pages)]
        return [put_floor(scope, self.log, None), *gone]
