"""The subscription core against a model that writes everything down."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.coordination.errors import NotLeased
from mainstem.coordination.offset_pages import PAGE_OFFSETS, PagedOffsets
from mainstem.coordination.subscriptions.leased_cursor import (
    LeasedCursor,
    LeaseLimits,
    LeaseVerdict,
    Ruling,
    replay_cursors,
)
from mainstem.storage.contract import Mutation

LIMITS = LeaseLimits(lease_ms=100, deliveries_max=3, leases_max=12)
LOG, NAME = 7, "s"
SPAN = 24
"""Offsets in play: on both sides of a page's end."""


class Store:
    """What is durable."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def apply(self, mutations: list[Mutation]) -> None:
        for mutation in mutations:
            if mutation.value is None:
                del self.entries[mutation.key]
            else:
                self.entries[mutation.key] = mutation.value


class SubscriptionMachine(RuleBasedStateMachine):
    """Every offset of the model is free, leased (by whom, until when) or settled."""

    @initialize(start=st.sampled_from([0, PAGE_OFFSETS - SPAN // 2, 3 * PAGE_OFFSETS - 1]))
    def begin(self, start: int) -> None:
        self.start, self.now_ms = start, 0
        self.cursor = LeasedCursor(LOG, start)
        self.store = Store()
        self.settled: set[int] = set()
        self.leases: dict[int, tuple[str, int]] = {}
        self.deliveries: dict[int, int] = {}
        self._save()

    def _save(self) -> None:
        self.cursor.bury(self.cursor.take_spent())
        self.store.apply(self.cursor.take_changes(NAME))

    def _give_back(self, offset: int) -> None:
        del self.leases[offset]
        if self.deliveries[offset] >= LIMITS.deliveries_max:
            self.settled.add(offset)

    @rule(owner=st.sampled_from("ab"), first=st.integers(0, SPAN), size=st.integers(1, SPAN), room=st.integers(1, SPAN))
    def lease(self, owner: str, first: int, size: int, room: int) -> None:
        first += self.start
        given = self.cursor.lease(owner, first, first + size - 1, room, LIMITS, self.now_ms)
        free = [o for o in range(first, first + size) if o not in self.settled and o not in self.leases]
        expected = free[: min(room, LIMITS.leases_max - len(self.leases))]
        assert [o for leased in given for o in range(leased.first, leased.last + 1)] == expected
        for offset in expected:
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
            self.leases[offset] = (owner, self.now_ms + LIMITS.lease_ms)
        for leased in given:
            assert {self.deliveries[o] for o in range(leased.first, leased.last + 1)} == {leased.deliveries}
        self._save()

    @rule(
        owner=st.sampled_from("ab"),
        first=st.integers(0, SPAN),
        size=st.integers(1, 5),
        verdict=st.sampled_from(LeaseVerdict),
    )
    def settle(self, owner: str, first: int, size: int, verdict: LeaseVerdict) -> None:
        first += self.start
        floor = self.cursor.floor
        meant = range(max(first, floor), max(first + size, floor))
        ruling = [Ruling(first, first + size - 1, verdict)]
        if any(self.leases.get(offset, ("", 0))[0] != owner for offset in meant):
            with pytest.raises(NotLeased):
                self.cursor.rule(owner, ruling, LIMITS, self.now_ms)
            return
        self.cursor.rule(owner, ruling, LIMITS, self.now_ms)
        for offset in meant:
            if verdict is LeaseVerdict.RENEW:
                self.leases[offset] = (owner, self.now_ms + LIMITS.lease_ms)
            elif verdict is LeaseVerdict.RELEASE:
                self._give_back(offset)
            else:
                del self.leases[offset]
                self.settled.add(offset)
        self._save()

    @rule(owner=st.sampled_from("ab"))
    def owner_goes(self, owner: str) -> None:
        self.cursor.give_back(owner, LIMITS)
        for offset in [o for o, (holder, _) in self.leases.items() if holder == owner]:
            self._give_back(offset)
        self._save()

    @rule(passed_ms=st.sampled_from([1, 50, 100]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.cursor.pass_time(LIMITS, self.now_ms)
        for offset in [o for o, (_, deadline) in self.leases.items() if deadline <= self.now_ms]:
            self._give_back(offset)
        assert self.cursor.next_deadline_ms() == min((d for _, d in self.leases.values()), default=None)
        self._save()

    @rule(first=st.integers(0, SPAN), size=st.integers(1, 5))
    def skip(self, first: int, size: int) -> None:
        stretch = range(self.start + first, self.start + first + size)
        self.cursor.skip(stretch.start, stretch.stop - 1)
        self.settled |= {offset for offset in stretch if offset not in self.leases}
        self._save()

    @rule(by=st.integers(0, 6))
    def log_is_trimmed(self, by: int) -> None:
        floor = self.cursor.floor + by
        self.cursor.raise_floor(floor)
        self.settled |= set(range(self.start, floor))
        self.leases = {offset: lease for offset, lease in self.leases.items() if offset >= floor}
        self._save()

    @precondition(lambda self: bool(self.store.entries))
    @rule()
    def crash(self) -> None:
        self.cursor = replay_cursors(self.store.entries.items())[LOG]
        for offset in self.leases:
            self.deliveries[offset] -= 1  # cut short: not counted
        self.leases.clear()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "cursor"):
            return
        cursor = self.cursor
        floor = next(o for o in range(self.start, self.start + 4 * SPAN + 999) if o not in self.settled)
        assert cursor.floor == floor
        for offset in range(floor, floor + SPAN):
            assert (offset in cursor.settled) == (offset in self.settled)
            assert (offset in cursor.leases) == (offset in self.leases)
        taken = self.settled | set(self.leases)
        assert cursor.first_free() == next(o for o in range(floor, floor + 999) if o not in taken)
        kept = {offset: counts.deliveries for offset, counts in cursor.counts.items()}
        ended = {o: n - (o in self.leases) for o, n in self.deliveries.items() if o not in self.settled}
        assert kept == {o: n for o, n in ended.items() if n}, "only deliveries that have ended are counted"
        stored = replay_cursors(self.store.entries.items())[LOG]
        assert (stored.floor, stored.settled.pages) == (cursor.floor, cursor.settled.pages)
        told = set(stored.settled.pages) | {offset // PAGE_OFFSETS for offset in stored.counts}
        assert len(self.store.entries) == 1 + len(told), "a page that has nothing to say is not stored"


TestSubscription = SubscriptionMachine.TestCase
TestSubscription.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_is_stored_does_not_grow_with_the_backlog() -> None:
    cursor = LeasedCursor(LOG, 0)
    wide = LeaseLimits(leases_max=1 << 20)
    stored: dict[bytes, Any] = {}
    cursor.lease("a", 0, 0, 1, wide, 0)
    for first in range(1, 200_000, 50_000):
        last = first + 49_999
        cursor.lease("b", first, last, 1 << 20, wide, 0)
        cursor.rule("b", [Ruling(first, last, LeaseVerdict.ACCEPT)], wide, 0)
        stored |= {mutation.key: mutation.value for mutation in cursor.take_changes(NAME)}
    assert cursor.floor == 0
    assert sum(len(value) for value in stored.values()) < 400
    cursor.rule("a", [Ruling(0, 0, LeaseVerdict.ACCEPT)], wide, 0)
    assert cursor.floor == 200_001
    left = {mutation.key: mutation.value for mutation in cursor.take_changes(NAME)}
    assert {key for key, value in (stored | left).items() if value is not None} == {b"log/" + LOG.to_bytes(8, "big")}


def test_first_absent_crosses_pages() -> None:
    offsets = PagedOffsets()
    offsets.add(10, 3 * PAGE_OFFSETS + 4)
    assert offsets.first_absent(0) == 0
    assert offsets.first_absent(10) == 3 * PAGE_OFFSETS + 5
    offsets.discard(PAGE_OFFSETS, PAGE_OFFSETS)
    assert offsets.first_absent(11) == PAGE_OFFSETS
    assert offsets.drop_below(2 * PAGE_OFFSETS + 3) == [0, 1]
    assert 2 * PAGE_OFFSETS + 2 not in offsets
    assert 2 * PAGE_OFFSETS + 3 in offsets


def test_failures_are_counted_apart() -> None:
    cursor = LeasedCursor(LOG, 0)
    for _ in range(2):
        cursor.lease("a", 0, 1, 2, LIMITS, 0)
        cursor.rule("a", [Ruling(0, 0, LeaseVerdict.RELEASE)], LIMITS, 0)
        cursor.pass_time(LIMITS, LIMITS.lease_ms)
    assert (cursor.counts[0], cursor.counts[1]) == ((2, 0), (2, 2))


EDGE = st.integers(PAGE_OFFSETS - 20, PAGE_OFFSETS + 20)


@given(st.sets(EDGE), EDGE, st.integers(0, 30))
def test_a_stretch_has_any_of_a_set_or_none(members: set[int], first: int, size: int) -> None:
    offsets = PagedOffsets()
    for member in members:
        offsets.add(member, member)
    assert offsets.has_any(first, first + size) == any(first <= member < first + size for member in members)
