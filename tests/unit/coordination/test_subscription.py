"""The subscription core against a model that writes everything down."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.coordination.errors import NotLeased
from mainstem.coordination.offset_pages import PAGE_OFFSETS, PagedOffsets
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.leased_cursor import (
    LeasedCursor,
    LeaseVerdict,
    Ruling,
    replay_cursors,
)
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy
from mainstem.storage.contract import Mutation

RETRY_MS = 70
POLICY = DeliveryPolicy(
    lease_ms=100, deliveries_max=4, failures_max=2, leases_max=12, retry=RetryPolicy(delay_ms=RETRY_MS)
)
LIMITS = DeliveryPolicy(lease_ms=100, deliveries_max=3, leases_max=12)
LOG, NAME = 7, "s"
SPAN = 24
"""Offsets in play: on both sides of a page's end."""


OFFSETS = st.integers(0, SPAN)


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


class Model:
    """Where one offset is: free, held, at rest or settled, and how often it was tried."""

    def __init__(self) -> None:
        self.settled = False
        self.held: tuple[str, int] | None = None
        self.acquired = False
        self.due_ms: int | None = None
        self.deliveries = self.failures = 0

    @property
    def is_free(self) -> bool:
        return not self.settled and self.held is None and not self.acquired and self.due_ms is None

    def give_back(self, now_ms: int, failed: bool, delay_ms: int) -> None:
        self.held = None
        self.deliveries += 1
        self.failures += failed
        if self.deliveries >= POLICY.deliveries_max or self.failures > POLICY.failures_max:
            self.settle()
        elif delay_ms or failed:
            self.due_ms = now_ms + (delay_ms or RETRY_MS)

    def settle(self) -> None:
        self.settled, self.held, self.acquired, self.due_ms = True, None, False, None


class SubscriptionMachine(RuleBasedStateMachine):
    """Each record is given to one at a time, settled once, and none is forgotten: in every order of what may happen."""

    @initialize(start=st.sampled_from([0, PAGE_OFFSETS - SPAN // 2, 3 * PAGE_OFFSETS - 1]))
    def begin(self, start: int) -> None:
        self.start, self.now_ms = start, 0
        self.cursor = LeasedCursor(LOG, start)
        self.store = Store()
        self.model: dict[int, Model] = {}
        self._save()

    def _save(self) -> None:
        self.cursor.bury(self.cursor.take_spent())
        self.store.apply(self.cursor.take_changes(NAME))

    def at(self, offset: int) -> Model:
        return self.model.setdefault(offset, Model())

    def _free(self, first: int, size: int) -> list[int]:
        return [o for o in range(first, first + size) if self.at(o).is_free]

    @rule(
        owner=st.sampled_from("ab"),
        first=OFFSETS,
        size=st.integers(1, SPAN),
        room=st.integers(1, SPAN),
        lease_ms=st.sampled_from([None, 20, 300]),
    )
    def lease(self, owner: str, first: int, size: int, room: int, lease_ms: int | None) -> None:
        first += self.start
        given = self.cursor.lease(owner, first, first + size - 1, room, POLICY, self.now_ms, lease_ms)
        held = sum(one.held is not None for one in self.model.values())
        expected = self._free(first, size)[: min(room, POLICY.leases_max - held)]
        assert [o for leased in given for o in range(leased.first, leased.last + 1)] == expected
        for offset in expected:
            self.at(offset).held = (owner, self.now_ms + (POLICY.lease_ms if lease_ms is None else lease_ms))
        for leased in given:
            assert {self.at(o).deliveries + 1 for o in range(leased.first, leased.last + 1)} == {leased.deliveries}
        self._save()

    @rule(
        owner=st.sampled_from("ab"),
        first=OFFSETS,
        size=st.integers(1, 5),
        verdict=st.sampled_from(LeaseVerdict),
        time_ms=st.sampled_from([None, 30, 150]),
    )
    def settle(self, owner: str, first: int, size: int, verdict: LeaseVerdict, time_ms: int | None) -> None:
        first += self.start
        floor = self.cursor.floor
        meant = range(max(first, floor), max(first + size, floor))
        ruling = [Ruling(first, first + size - 1, verdict, time_ms)]
        if any((self.at(offset).held or ("", 0))[0] != owner for offset in meant):
            with pytest.raises(NotLeased):
                self.cursor.rule(owner, ruling, POLICY, self.now_ms)
            return
        self.cursor.rule(owner, ruling, POLICY, self.now_ms)
        for offset in meant:
            one = self.at(offset)
            if verdict is LeaseVerdict.RENEW:
                one.held = (owner, self.now_ms + (POLICY.lease_ms if time_ms is None else time_ms))
            elif verdict in (LeaseVerdict.RELEASE, LeaseVerdict.RETRY):
                one.give_back(self.now_ms, verdict is LeaseVerdict.RETRY, time_ms or 0)
            else:
                one.settle()
        self._save()

    @rule(owner=st.sampled_from("ab"))
    def owner_goes(self, owner: str) -> None:
        self.cursor.drop_owner(owner, POLICY, self.now_ms)
        for one in self.model.values():
            if one.held is not None and one.held[0] == owner:
                one.give_back(self.now_ms, failed=True, delay_ms=0)
        self._save()

    @rule(passed_ms=st.sampled_from([1, 50, 100]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.cursor.free_late(POLICY, self.now_ms)
        for one in self.model.values():
            if one.due_ms is not None and one.due_ms <= self.now_ms:
                one.due_ms = None
        for one in self.model.values():
            if one.held is not None and one.held[1] <= self.now_ms:
                one.give_back(self.now_ms, failed=True, delay_ms=0)
        self._save()

    @rule(first=OFFSETS, delay_ms=st.sampled_from([40, 400]))
    def record_rests(self, first: int, delay_ms: int) -> None:
        """As a producer wants it: nobody has been given it."""
        one = self.at(self.start + first)
        assert self.cursor.rest_free(self.start + first, self.now_ms + delay_ms) == (
            one.is_free or one.due_ms is not None
        )
        if one.is_free or one.due_ms is not None:
            one.due_ms = self.now_ms + delay_ms
        self._save()

    @rule(first=OFFSETS, size=st.integers(1, 5), room=st.integers(1, 5))
    def acquire(self, first: int, size: int, room: int) -> None:
        first += self.start
        given = self.cursor.hold(first, first + size - 1, room, POLICY)
        expected = self._free(first, size)[:room]
        assert [o for held in given for o in range(held.first, held.last + 1)] == expected
        for offset in expected:
            self.at(offset).acquired = True
        self._save()

    @rule(first=OFFSETS, is_settled=st.booleans())
    def acquisition_ends(self, first: int, is_settled: bool) -> None:
        offset = self.start + first
        one = self.at(offset)
        if not one.acquired:
            return
        if is_settled:
            self.cursor.unacquire(offset, offset)
            self.cursor.settle_stretch(offset, offset)
            one.settle()
        else:
            self.cursor.free(offset, offset)
            one.acquired = False
        self._save()

    @rule(first=OFFSETS, size=st.integers(1, 5))
    def skip(self, first: int, size: int) -> None:
        first += self.start
        self.cursor.skip(first, first + size - 1)
        for offset in self._free(first, size):
            self.at(offset).settle()
        self._save()

    @rule(by=st.integers(0, 6))
    def log_is_trimmed(self, by: int) -> None:
        floor = self.cursor.floor + by
        self.cursor.raise_floor(floor)
        for offset in range(self.start, floor):
            self.at(offset).settle()
        self._save()

    @rule(to=OFFSETS)
    def seek(self, to: int) -> None:
        to += self.start
        self.cursor.seek(to)
        for offset in range(self.start, self.start + 9 * SPAN):
            one = self.at(offset)
            one.settled, one.held, one.due_ms = offset < to and not one.acquired, None, None
            if offset < to:
                one.deliveries = one.failures = 0
        for offset in range(self.start, self.start + 9 * SPAN):  # of what was settled nothing is known any more
            if offset not in self.cursor.counts:
                self.at(offset).deliveries = self.at(offset).failures = 0
        self._save()

    @rule()
    def commit_is_refused(self) -> None:
        before = dict(self.store.entries)
        self.cursor.change_all()
        self.cursor.take_changes(NAME)
        self.cursor.change_all()
        self._save()
        assert self.store.entries == before

    @precondition(lambda self: bool(self.store.entries))
    @rule()
    def crash(self) -> None:
        self.cursor = replay_cursors(self.store.entries.items())[LOG]
        for one in self.model.values():
            one.held = None
        for offset in sorted(self.model):
            if self.model[offset].acquired:
                self.cursor.hold_again(offset, offset)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "cursor"):
            return
        cursor = self.cursor
        floor = next(o for o in range(self.start, self.start + 9 * SPAN) if not self.at(o).settled)
        assert cursor.floor == floor
        for offset in range(floor, floor + SPAN):
            one = self.at(offset)
            assert (offset in cursor.settled) == one.settled
            assert (offset in cursor.held) == (one.held is not None)
            assert (offset in cursor.acquired) == one.acquired
            assert cursor.rests.get(offset) == one.due_ms
        assert cursor.first_free() == next(o for o in range(floor, floor + 9 * SPAN) if self.at(o).is_free)
        tried = {o: (m.deliveries, m.failures) for o, m in self.model.items() if m.deliveries and not m.settled}
        assert cursor.counts == tried, "only deliveries that have ended are counted"
        times = [m.held[1] for m in self.model.values() if m.held] + [m.due_ms for m in self.model.values() if m.due_ms]
        assert cursor.next_due_ms() == min(times, default=None)
        stored = replay_cursors(self.store.entries.items())[LOG]
        assert (stored.floor, stored.settled.pages) == (cursor.floor, cursor.settled.pages)
        assert stored.rests == cursor.rests
        told = set(stored.settled.pages) | {offset // PAGE_OFFSETS for offset in stored.counts}
        assert len(self.store.entries) == 1 + len(told) + len(cursor.rests), "what has nothing to say is not stored"


TestSubscription = SubscriptionMachine.TestCase
TestSubscription.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_is_stored_does_not_grow_with_the_backlog() -> None:
    cursor = LeasedCursor(LOG, 0)
    wide = DeliveryPolicy(leases_max=1 << 20)
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
        cursor.free_late(LIMITS, LIMITS.lease_ms)
    assert (cursor.counts[0], cursor.counts[1]) == ((2, 0), (2, 2))


EDGE = st.integers(PAGE_OFFSETS - 20, PAGE_OFFSETS + 20)


@given(st.sets(EDGE), EDGE, st.integers(0, 30))
def test_a_stretch_has_any_of_a_set_or_none(members: set[int], first: int, size: int) -> None:
    offsets = PagedOffsets()
    for member in members:
        offsets.add(member, member)
    assert offsets.has_any(first, first + size) == any(first <= member < first + size for member in members)
