"""Queues against a model that knows, of every message, where it may be: in the queue, and how often among the dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mainstem.broker.queues import DeadLetterTarget, Message, Queue, QueueProperties, encode_headers
from mainstem.broker.queues.lanes import OpenLanes
from mainstem.broker.queues.publishing import outbox as outboxes
from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.subscriptions.cursor import Cursor
from tests.support.worlds.queue_world import SMALL_LIMITS, Holder, World

Possible = set[tuple[bool, int]]
"""Whether it is in the queue, and how many dead letters there are of it."""

PROPERTIES = QueueProperties(dead_letter=DeadLetterTarget("", "dead"))
TTL_MS = 50


class QueueMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 16))
    def begin(self, seed: int) -> None:
        self.world = World(seed, SMALL_LIMITS)
        self.holder: Holder | None = None
        self.possible: dict[bytes, Possible] = {}
        self.expires: dict[bytes, int] = {}
        self.given: dict[bytes, int] = {}
        """How often each was given out in this life of the broker; what was given out in an earlier one is unknown."""
        self.unsure: set[bytes] = set()
        self.count = 0
        self.is_rewound = False
        self.world.do(self.world.queues.declare("default", "dead", QueueProperties()))
        self.world.do(self.world.queues.declare("default", "main", PROPERTIES))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()

    # What happens

    @rule(count=st.integers(1, 12), expiring=st.booleans(), size=st.sampled_from([0, 60]))
    def publish(self, count: int, expiring: bool, size: int) -> None:
        new = []
        for _ in range(count):
            self.count += 1
            value = b"%d" % self.count + b"." * size
            new.append(value)
            self.possible[value] = {(False, 0), (True, 0)}
            ttl_ms = TTL_MS if expiring else -1
            headers = encode_headers([("mainstem-ttl", b"%d" % TTL_MS)] if expiring else [])
            if expiring:
                self.expires[value] = self.world.runtime.now_ms() + TTL_MS
            assert self.world.queues.outbox.put([self.main], headers, value, ttl_ms=ttl_ms) == 0
        self._when_durable(new, lambda possible: {(main, dead) for main, dead in possible if main or dead})

    @precondition(lambda self: self.holder is None)
    @rule(room=st.integers(1, 20))
    def attach(self, room: int) -> None:
        self.holder = Holder(room)
        self.main.attach(self.holder)

    @precondition(lambda self: self.holder is not None)
    @rule()
    def detach(self) -> None:
        assert self.holder is not None
        self.main.detach(self.holder)
        self._note_given()
        self.world.queues.settling.requeue(self.holder.let_go(), failed=True)
        self.holder = None

    @precondition(lambda self: self.holder is not None)
    @rule(room=st.integers(0, 20))
    def make_room(self, room: int) -> None:
        assert self.holder is not None
        self.holder.room = max(self.holder.room, room)
        self.main.wake()

    @precondition(lambda self: self.holder is not None and self.holder.held)
    @rule(data=st.data(), verdict=st.sampled_from(["accept", "accept", "requeue", "reject"]))
    def settle(self, data: st.DataObject, verdict: str) -> None:
        holder = self.holder
        assert holder is not None
        self._note_given()
        chosen: list[Message] = data.draw(st.lists(st.sampled_from(holder.held), unique_by=id, min_size=1))
        holder.held = [message for message in holder.held if message not in chosen]
        values = [bytes(message.value) for message in chosen]
        if verdict == "requeue":
            self.world.queues.settling.requeue(chosen, failed=True)
            return
        for value in values:
            dead = verdict == "reject"
            self.possible[value] |= {(False, count + dead) for main, count in self.possible[value] if main}
        if verdict == "accept":
            self.world.queues.settling.settle(chosen)
        else:
            self.world.queues.settling.reject(chosen)
        self._when_durable(values, lambda possible: {(main, dead) for main, dead in possible if not main})

    @rule(milliseconds=st.sampled_from([1, 30, 60]))
    def time_passes(self, milliseconds: int) -> None:
        self.world.end_turn()  # no turn of the event loop takes that long
        self.world.runtime.pass_time(milliseconds)
        self.world.end_turn()  # what a timer began is not a turn that the next rule goes on with
        self._expire()

    @rule(steps=st.integers(1, 30))
    def something_happens(self, steps: int) -> None:
        self.world.runtime.run(steps)
        self._expire()

    @rule(share=st.floats(0, 1))
    def rewind(self, share: float) -> None:
        self._rest()
        self.main.open()
        place = int(self.main.lanes[0].end * share)
        self._note_given()
        held = set(self.holder.values()) if self.holder is not None else set()
        before = self.world.records(self.main.lanes[0].log)
        self._expire()
        self.world.do(self.world.queues.seek(self.main, offset=place))
        for offset, value in before:
            waits = offset >= place or value in held
            self.possible[value] = {(waits, dead) for _, dead in self.possible[value]}
            if waits:
                self.unsure.add(value)
        self._expire()
        self._rest()

    @rule(power_loss=st.booleans())
    def crash(self, power_loss: bool) -> None:
        self._expire()
        self.world.crash(power_loss=power_loss)
        self.holder = None
        self.unsure |= set(self.possible)  # after a crash, what was reserved counts as given out
        self._resolve()

    @rule()
    def rest(self) -> None:
        self._rest()
        self._resolve()
        self._check_alive()

    # What must be so

    @property
    def main(self) -> Queue:
        queue = self.world.queues.find("default", "main")
        assert queue is not None
        return queue

    def _when_durable(self, values: list[bytes], shrink: object) -> None:
        world = self.world

        def told(_: object, error: BaseException | None) -> None:
            assert error is None, error
            if self.world is world and queues_then is world.queues:
                for value in values:
                    self.possible[value] = shrink(self.possible[value])  # type: ignore[operator]

        queues_then = world.queues
        world.queues.outbox.when_durable(told, None)

    def _expire(self) -> None:
        """Whatever is old enough, and not in somebody's hands, may have gone."""
        now_ms = self.world.runtime.now_ms()
        for value, due_ms in self.expires.items():
            if due_ms <= now_ms:
                self.possible[value] |= {(False, dead + 1) for main, dead in self.possible[value] if main}

    def _note_given(self) -> None:
        """The first delivery of a message is not a redelivery; every other one is."""
        if self.holder is None:
            return
        for value, deliveries in self.holder.told:
            before = self.given.get(value, 0)
            if before:
                assert deliveries > 0, "given out before, and nobody is told"
            elif value not in self.unsure:
                assert deliveries == 0, "never given out, and called a redelivery"
            self.given[value] = before + 1
        self.holder.told = []

    def _rest(self) -> None:
        self.world.quiet()
        self._expire()
        self._note_given()

    def _resolve(self) -> None:
        """Look at the disk: everything is where it may be."""
        self.world.quiet()
        self._expire()
        self._note_given()
        main = self.world.values(self.main)
        assert len(set(main)) == len(main), "something is there twice"
        dead_queue = self.world.queues.find("default", "dead")
        assert dead_queue is not None
        dead = self.world.values(dead_queue)
        for value, possible in self.possible.items():
            seen = (value in main, dead.count(value))
            assert seen in possible, f"{value!r} is {seen}, and may be {possible}"
            self.possible[value] = {seen}
        self._expire()

    def _check_alive(self) -> None:
        queue = self.main
        main = self.world.values(queue)
        assert queue.ready_count + queue.unsettled_count == len(main)
        order = [int(value.split(b".")[0]) for value in main]
        assert order == sorted(order), "the order of publishing is lost"
        if self.holder is not None:
            held = set(self.holder.values())
            assert held <= set(main)
            if self.holder.room > 0:
                assert held == set(main), "there is room, and something is not given out"

    @invariant()
    def counts_add_up(self) -> None:
        if hasattr(self, "world"):
            for lane in self.main.lanes:
                offsets = [message.offset for message in lane.ready]
                assert offsets == sorted(set(offsets)), "the window is in order"
                assert not set(offsets) & set(lane.unsettled)
                assert lane.count >= len(lane.unsettled)


TestQueues = QueueMachine.TestCase
TestQueues.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def forget_changes(_cursor: object, _scope: str) -> list[object]:
    return []


def put_at_the_end(lane: Lane[Any], messages: Iterable[Message]) -> None:
    for message in messages:
        lane.ready_bytes += len(message.value)
        lane.ready.append(message)


def settle_alone(box: outboxes.Outbox, _puts: object, laid_off: Message, _addition: object = None) -> None:
    """Without its dead letter."""
    box.dirty(laid_off.lane)


def reserve_without_storing(_lanes: OpenLanes, lane: Lane[Any]) -> None:
    lane.reserved = lane.reserve_at = 1 << 62
    lane.queue.wake()


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Cursor, "take_changes", forget_changes),
        (Lane, "take_back", put_at_the_end),
        (outboxes.Outbox, "together", settle_alone),
        (OpenLanes, "reserve", reserve_without_storing),
    ],
)
def test_the_model_notices(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, broken: object) -> None:
    monkeypatch.setattr(owner, name, broken)
    only = settings(
        max_examples=10_000,  # ends with the first that notices, a few hundred mostly
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(QueueMachine, settings=only)
