"""A share group's subscription against a model, on a log that is trimmed, compacted, and written by transactions.

Whatever members, time and crashes do: nobody has what another has, what was settled does not come back, everything else is
given out, and when all is settled the place is at the end and nobody is kept busy with nothing.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.subscriptions.subscriptions import LeasedCursor, LeaseVerdict, ReadRequest, Ruling, Subscriptions
from mainstem.storage.contract import Append, Budget, Commit, Edge, TrimLog
from mainstem.wire.record_batch import Record, encode_batch, encode_marker
from tests.support.worlds.queue_world import World

GROUP, MEMBERS = "g", ("a", "b")
LEASE_MS = 30_000
DELIVERIES_MAX = 5


class SubscriptionMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 16), is_compacted=st.booleans())
    def begin(self, seed: int, is_compacted: bool) -> None:
        self.world = World(seed)
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"} if is_compacted else {}
        (topic,) = self.world.do(self.world.broker.topics.create([NewTopic("t", 1, configs)]))
        assert not isinstance(topic, Exception)
        self.is_compacted = is_compacted
        self.log = topic.logs[0]
        self.end = self.start = 0
        self.keys: dict[int, bytes] = {}
        """Of the records that count, or will."""
        self.open: dict[int, list[int]] = {}
        """What transactions have written that have not ended, by producer."""
        self.epochs: dict[int, int] = {}
        self.leases: dict[int, tuple[str, int]] = {}
        self.deliveries: dict[int, int] = {}
        self.done: set[int] = set()
        self.unsure: set[int] = set()
        """Given out too often: done with, or about to be."""
        groups = self.world.broker.share_groups
        self.world.do(groups.configs.configure(GROUP, lambda _: {"share.isolation.level": "read_committed"}))
        self.world.do(groups.ensure(GROUP))
        self.world.do(groups.open(GROUP, self.log, Edge.START))

    def teardown(self) -> None:
        """Whatever happened: what is left is given out."""
        if hasattr(self, "world"):
            for producer in list(self.open):
                self.end_one(producer, commit=True)
            self.finish()
            self.world.close()

    @property
    def subscriptions(self) -> Subscriptions:
        return self.world.broker.share_groups.subscriptions

    @property
    def cursor(self) -> LeasedCursor:
        return self.subscriptions.cursors(GROUP)[self.log]

    @property
    def now_ms(self) -> int:
        return self.world.runtime.now_ms()

    # What is written

    def append(self, batch: bytes | bytearray) -> None:
        (result,) = self.world.wait(self.world.engine.commit([Commit([Append(self.log, batch)])]))
        assert not isinstance(result, Exception), result

    def records(self, keys: list[bytes]) -> list[Record]:
        return [Record(number, 1, key, b"v") for number, key in enumerate(keys)]

    @rule(keys=st.lists(st.sampled_from([b"x", b"y"]), min_size=1, max_size=2))
    def produce(self, keys: list[bytes]) -> None:
        self.append(encode_batch(self.records(keys)))
        self.keys |= {self.end + number: key for number, key in enumerate(keys)}
        self.end += len(keys)

    @rule(producer=st.integers(1, 2), keys=st.lists(st.sampled_from([b"x", b"w"]), min_size=1, max_size=2))
    def write_in_transaction(self, producer: int, keys: list[bytes]) -> None:
        if producer not in self.open:
            self.epochs[producer] = self.epochs.get(producer, -1) + 1
        written = self.open.setdefault(producer, [])
        batch = encode_batch(
            self.records(keys),
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            base_sequence=len(written),
            transactional=True,
        )
        self.append(batch)
        written += range(self.end, self.end + len(keys))
        self.keys |= {self.end + number: key for number, key in enumerate(keys)}
        self.end += len(keys)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commit=st.booleans())
    def end_transaction(self, data: st.DataObject, commit: bool) -> None:
        self.end_one(data.draw(st.sampled_from(sorted(self.open))), commit=commit)

    def end_one(self, producer: int, *, commit: bool) -> None:
        epoch = self.epochs[producer]
        self.append(encode_marker(producer_id=producer, producer_epoch=epoch, commit=commit, timestamp_ms=1))
        written = self.open.pop(producer)
        if not commit:
            for offset in written:
                del self.keys[offset]
        self.end += 1

    @precondition(lambda self: self.is_compacted)
    @rule()
    def compact(self) -> None:
        self.crash(False)
        for _ in range(2):
            self.world.wait(self.world.engine.maintain(Budget()))
            self.world.quiet()

    @rule(by=st.integers(0, 4))
    def trim(self, by: int) -> None:
        stable = min([offset for written in self.open.values() for offset in written], default=self.end)
        before = min(self.start + by, stable)
        self.world.wait(self.world.engine.alter([TrimLog(self.log, before)], []))
        self.start = max(self.start, before)

    # What members do

    @rule(owner=st.sampled_from(MEMBERS), records=st.integers(1, 6), is_strict=st.booleans())
    def take(self, owner: str, records: int, is_strict: bool) -> None:
        self.given(owner, records, is_strict)

    def given(self, owner: str, records: int, is_strict: bool) -> list[int]:
        taken = self.world.do(self.subscriptions.take(GROUP, self.log, ReadRequest(owner, records, 1 << 20, is_strict)))
        given = [offset for first, last, _ in taken.leased for offset in range(first, last + 1)]
        stable = min([offset for written in self.open.values() for offset in written], default=self.end)
        for offset in given:
            assert offset < stable, "not committed"
            assert offset in self.keys, "no record, or an aborted one"
            assert offset not in self.done, "done with"
            assert offset not in self.leases or self.leases[offset][1] <= self.now_ms, "another has it"
            self.leases[offset] = (owner, self.now_ms + LEASE_MS)
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
        return given

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), verdict=st.sampled_from(LeaseVerdict))
    def say(self, data: st.DataObject, verdict: LeaseVerdict) -> None:
        offset = data.draw(st.sampled_from(sorted(self.leases)))
        owner, until_ms = self.leases[offset]
        ruling = {self.log: [Ruling(offset, offset, verdict)]}
        refused = self.world.do(self.subscriptions.rule(GROUP, owner, ruling))
        if refused:
            assert until_ms <= self.now_ms
            return
        if verdict is LeaseVerdict.RENEW:
            self.leases[offset] = (owner, self.now_ms + LEASE_MS)
            return
        del self.leases[offset]
        if verdict not in (LeaseVerdict.RELEASE, LeaseVerdict.RETRY):
            self.done.add(offset)
        elif self.deliveries[offset] >= DELIVERIES_MAX:
            self.unsure.add(offset)

    @rule(owner=st.sampled_from(MEMBERS))
    def go(self, owner: str) -> None:
        self.give_back(owner)
        for offset in [offset for offset, lease in self.leases.items() if lease[0] == owner]:
            self._ended(offset)

    def give_back(self, owner: str) -> None:
        self.world.in_loop(lambda: self.subscriptions.give_back(GROUP, owner))
        self.world.quiet()

    def _ended(self, offset: int) -> None:
        del self.leases[offset]
        if self.deliveries[offset] >= DELIVERIES_MAX:
            self.unsure.add(offset)

    @rule(ms=st.sampled_from([1, LEASE_MS // 2, LEASE_MS + 100]))
    def time_passes(self, ms: int) -> None:
        self.world.pass_time(ms)
        for offset in [offset for offset, (_, until_ms) in self.leases.items() if until_ms <= self.now_ms]:
            self._ended(offset)

    @rule(power_loss=st.booleans())
    def crash(self, power_loss: bool) -> None:
        self.world.crash(power_loss=power_loss)
        self.leases.clear()

    @precondition(lambda self: not self.open)
    @rule()
    def finish(self) -> None:
        """Somebody takes all there is."""
        for owner in MEMBERS:
            self.go(owner)
        last = max([*self.keys, -1])
        latest = {key: offset for offset, key in self.keys.items()}
        expected = {
            offset
            for offset, key in self.keys.items()
            if offset >= self.start
            and offset not in self.done | self.unsure
            and (not self.is_compacted or latest[key] == offset)
        }
        found: set[int] = set()
        while given := self.given("a", 100, False):
            found |= set(given)
            assert not self.world.do(
                self.subscriptions.rule(
                    GROUP, "a", {self.log: [Ruling(offset, offset, LeaseVerdict.ACCEPT) for offset in given]}
                )
            )
            self.done |= set(given)
            self.leases.clear()
        assert expected <= found, f"{expected - found} of {last} were not given out"
        assert self.cursor.floor == self.end, "all is settled"
        assert not self.is_busy(), "there is nothing to wait for"

    def is_busy(self) -> bool:
        """Whether a waiting caller is told at once that there is more."""

        async def look() -> bool:
            wait = self.subscriptions.wait(GROUP, {self.log: None}, 1.0)
            is_over = wait._answer.done
            wait.finish()
            return is_over

        return self.world.do(look())

    @invariant()
    def counts_are_sane(self) -> None:
        if hasattr(self, "world"):
            assert self.cursor.floor <= self.end
            assert self.cursor.settled_count >= 0
            assert all(offset >= self.cursor.floor for offset in self.cursor.held)


TestSubscriptions = SubscriptionMachine.TestCase
TestSubscriptions.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
