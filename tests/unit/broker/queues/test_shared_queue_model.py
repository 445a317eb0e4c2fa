"""Queues of every kind under all that users do to them at once, against a model of where each message may be.

`test_queue_model` looks at one consumer closely. Here are several, with priorities, leases, limits, rests, pauses and commands;
what is asked is less exact, and must hold throughout: nothing that was confirmed is lost, nobody has what another has, what was
acknowledged does not come back, each question is answered, and each consumer with room is served.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.queues import DeadLetterTarget, Message, Queue, QueueProperties, encode_headers
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy
from mainstem.model.errors import StorageFull
from mainstem.storage.contract import TrimLog
from tests.support.worlds.queue_world import SMALL_LIMITS, Holder, World

Possible = set[tuple[bool, int]]
"""Whether it is in the queue, and how many dead letters there are of it."""

TTL_MS, LEASE_MS, REST_MS, LENGTH_MAX = 50, 40, 20, 8
HOLDERS_MAX = LANES_MAX = 3
DEAD = DeadLetterTarget("", "dead")
KINDS: dict[str, dict[str, Any]] = {
    "classic": {},
    "levels": {"priority_max": 2},
    "quorum": {"kind": "quorum"},
    "by key": {"ordering": "key"},
    "one at a time": {"single_active": True},
    "on a topic": {},
}
TIMES: dict[str, dict[str, Any]] = {
    "": {},
    "leases": {"lease_ms": LEASE_MS},
    "retries": {"retry": RetryPolicy(delay_ms=REST_MS, retries_max=2)},
    "few tries": {"delivery_limit": 2},
}
LIMITS: dict[str, dict[str, Any]] = {
    "": {},
    "drop-head": {"length_max": LENGTH_MAX},
    "reject-publish": {"length_max": LENGTH_MAX, "overflow": "reject-publish"},
}


class Watched(Holder):
    """A consumer whose deliveries are told to the model."""

    def __init__(self, machine: SharedQueueMachine, room: int, priority: int) -> None:
        super().__init__(room, priority)
        self.machine = machine

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """What is wrong is noted: an exception would be taken for the adapter's, and end with a log line."""
        super().deliver(queue, messages)
        self.machine.given(self, messages)


class SharedQueueMachine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 1 << 16),
        kind=st.sampled_from(sorted(KINDS)),
        times=st.sampled_from(sorted(TIMES)),
        limit=st.sampled_from(sorted(LIMITS)),
    )
    def begin(self, seed: int, kind: str, times: str, limit: str) -> None:
        self.world = World(seed, SMALL_LIMITS)
        self.kind, self.limit, self.has_leases = kind, limit, times == "leases"
        self.tries_max = {"few tries": 2, "retries": 3}.get(times)
        self.holders: list[Watched] = []
        self.getter = Watched(self, 1_000, 0)
        self.hands: dict[bytes, tuple[Watched, Message, int]] = {}
        """Who has what, and until when nobody else may."""
        self.possible: dict[bytes, Possible] = {}
        self.keys: dict[bytes, bytes | None] = {}
        self.expires: dict[bytes, int] = {}
        self.resting: dict[bytes, int] = {}
        self.asked = self.answered = self.count = 0
        self.wrong: list[str] = []
        self.trimmed: set[bytes] = set()
        """Gone from the topic; what is in memory of them is given out all the same."""
        if kind == "on a topic":
            self.world.do(self.world.broker.topics.create([NewTopic("main", 2)]))
        properties = QueueProperties(dead_letter=DEAD, **KINDS[kind], **TIMES[times], **LIMITS[limit])
        self.world.do(self.world.queues.declare("default", "dead", QueueProperties()))
        self.world.do(self.world.queues.declare("default", "main", properties))

    def teardown(self) -> None:
        """Whatever happened: everything is where it may be."""
        if hasattr(self, "world"):
            try:
                self.rest()
            finally:
                self.world.close()

    @property
    def main(self) -> Queue:
        queue = self.world.queues.find("default", "main")
        assert queue is not None
        return queue

    @property
    def now_ms(self) -> int:
        return self.world.runtime.now_ms()

    # What happens

    @rule(
        count=st.integers(1, 8),
        expiring=st.booleans(),
        size=st.sampled_from([0, 60]),
        priority=st.sampled_from([0, 1, 2, 7]),
        key=st.sampled_from([None, b"a", b"b"]),
    )
    def publish(self, count: int, expiring: bool, size: int, priority: int, key: bytes | None) -> None:
        new = []
        self._let_time_do()
        for _ in range(count):
            self.count += 1
            value = b"%d" % self.count + b"." * size
            ttl_ms = TTL_MS if expiring else -1
            headers = encode_headers([("mainstem-ttl", b"%d" % TTL_MS)] if expiring else [])
            self.keys[value] = key
            self.possible[value] = {(False, 0)}
            if not self.world.queues.outbox.put([self.main], headers, value, key, ttl_ms, priority):
                self.possible[value].add((True, 0))
                new.append(value)
                if expiring:
                    self.expires[value] = self.now_ms + TTL_MS
        self._let_time_do()
        self._when_durable(new, lambda main, dead: main or dead > 0)

    @precondition(lambda self: len(self.holders) < HOLDERS_MAX)
    @rule(room=st.integers(1, 20), priority=st.integers(0, 1))
    def attach(self, room: int, priority: int) -> None:
        self.holders.append(Watched(self, room, priority))
        self.main.attach(self.holders[-1])

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        holder = self.holders.pop(data.draw(st.integers(0, len(self.holders) - 1)))
        self.main.detach(holder)
        self._give_back(holder.let_go(), failed=True, delay_ms=0)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), room=st.integers(0, 20))
    def make_room(self, data: st.DataObject, room: int) -> None:
        holder = data.draw(st.sampled_from(self.holders))
        holder.room = max(holder.room, room)
        self.main.wake()

    @rule()
    def get(self) -> None:
        self.asked += 1
        self.main.get_one(self._got)

    def _got(self, message: Message | None) -> None:
        self.answered += 1
        if message is not None:
            self.getter.deliver(self.main, [message])

    @precondition(lambda self: self.getter.held or any(holder.held for holder in self.holders))
    @rule(data=st.data(), verdict=st.sampled_from(["accept", "accept", "requeue", "rest", "fail", "reject", "renew"]))
    def settle(self, data: st.DataObject, verdict: str) -> None:
        holder = data.draw(st.sampled_from([one for one in (self.getter, *self.holders) if one.held]))
        chosen: list[Message] = data.draw(st.lists(st.sampled_from(holder.held), unique_by=id, min_size=1))
        if verdict == "renew":
            self.main.renew(chosen)
            for message in chosen:
                if self._has(message):
                    value = bytes(message.value)
                    self.hands[value] = (holder, message, self.now_ms + LEASE_MS)
            return
        holder.held = [message for message in holder.held if message not in chosen]
        holder.room += len(chosen)
        self.main.wake()  # as a consumer says that has room again, whatever became of the messages
        if verdict in ("accept", "reject"):
            self._finish(chosen, is_dead=verdict == "reject")
        else:
            self._give_back(chosen, failed=verdict == "fail", delay_ms=REST_MS if verdict == "rest" else 0)

    def _finish(self, chosen: list[Message], *, is_dead: bool) -> None:
        sure = []
        for message in chosen:
            value = bytes(message.value)
            if self._has(message):
                sure.append(value)
                del self.hands[value]
            self.possible[value] |= {(False, dead + is_dead) for main, dead in self.possible[value] if main}
        self._let_time_do()
        if is_dead:
            self.world.queues.settling.reject(chosen)
        else:
            self.world.queues.settling.settle(chosen)
        self._when_durable(sure, lambda main, dead: not main)

    def _give_back(self, chosen: list[Message], *, failed: bool, delay_ms: int) -> None:
        for message in chosen:
            value = bytes(message.value)
            if self._has(message):
                del self.hands[value]
                if delay_ms:
                    self.resting[value] = self.now_ms + delay_ms
            if self.tries_max is not None:
                self.possible[value] |= {(False, dead + 1) for main, dead in self.possible[value] if main}
        self.world.queues.settling.requeue(chosen, failed=failed, delay_ms=delay_ms)

    @rule(milliseconds=st.sampled_from([1, 30, 60]))
    def time_passes(self, milliseconds: int) -> None:
        self.world.end_turn()
        self._let_time_do(milliseconds)
        self.world.in_loop(lambda: self.world.runtime.pass_time(milliseconds))
        self.world.end_turn()
        self._let_time_do()

    @rule(steps=st.integers(1, 30))
    def something_happens(self, steps: int) -> None:
        self._let_time_do(100)
        self.world.in_loop(lambda: self.world.runtime.run(steps))
        self._let_time_do()

    @rule(is_paused=st.booleans())
    def pause(self, is_paused: bool) -> None:
        self._let_time_do(1_000)
        self.world.do(self.world.queues.pause(self.main, is_paused=is_paused))

    @precondition(lambda self: self.kind == "on a topic")
    @rule(lane=st.integers(0, 1), share=st.floats(0, 1))
    def trim(self, lane: int, share: float) -> None:
        self.main.open()
        log, before = self.main.lanes[lane].log, int(self.main.lanes[lane].end * share)
        self.trimmed |= {value for offset, value in self.world.records(log) if offset < before}
        self.world.wait(self.world.engine.alter([TrimLog(log, before)], []))

    @precondition(lambda self: self.kind == "on a topic")
    @rule()
    def grow(self) -> None:
        if len(self.main.logs) < LANES_MAX:
            self._rest()
            self.world.do(self.world.broker.topics.expand("main", len(self.main.logs) + 1))

    @rule()
    def disk_is_full(self) -> None:
        self.world.engine.ledger.full = True

    @rule()
    def purge(self) -> None:
        self._rest()
        self._resolve()
        self.world.do(self.world.queues.purge(self.main))
        kept = {value for value, (_, message, _) in self.hands.items() if self._is_out(message)}
        for value, possible in self.possible.items():
            if value not in kept:
                self.possible[value] = {(False, dead) for _, dead in possible}
        self.resting.clear()
        self._rest()

    @rule()
    def rewind(self) -> None:
        """To the beginning."""
        self._rest()
        self._resolve()
        there = {value for lane in self.main.lanes for _, value in self.world.records(lane.log)}
        self.resting.clear()
        self._wait_again(there)
        self.world.do(self.world.queues.seek(self.main, offset=0))
        self._rest()
        self._are_there(there)

    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        self._rest()
        self._resolve()
        settled = [
            (lane.number, offset, value)
            for lane in self.main.lanes
            for offset, value in self.world.records(lane.log)
            if lane.cursor.is_settled(offset)
        ]
        chosen = data.draw(st.lists(st.sampled_from(settled), unique=True)) if settled else []
        selection: dict[int, list[int]] = {}
        for number, offset, _ in chosen:
            selection.setdefault(number, []).append(offset)
        values = {value for _, _, value in chosen}
        self._wait_again(values)
        assert self.world.do(self.world.queues.redeliver(self.main, selection)) == len(chosen)
        self._rest()
        self._are_there(values)

    def _wait_again(self, values: set[bytes]) -> None:
        for value in values:
            self.possible[value] |= {(True, dead) for _, dead in self.possible[value]}

    def _are_there(self, values: set[bytes]) -> None:
        """They wait again, unless something made them go since."""
        for value in values:
            may_go = self.tries_max is not None or value in self.expires or self.limit == "drop-head"
            self.possible[value] = {(main, dead) for main, dead in self.possible[value] if main or may_go}

    @rule(power_loss=st.booleans())
    def crash(self, power_loss: bool) -> None:
        self._let_time_do()
        self.world.crash(power_loss=power_loss)
        self.holders, self.hands = [], {}
        self.getter = Watched(self, 1_000, 0)
        self.resting.clear()
        self.asked = self.answered = 0
        self._rest()
        self._resolve()

    @rule()
    def rest(self) -> None:
        self.main.open()
        self.main.wake()  # a limit is kept from the first use on
        self._rest()
        self._resolve()
        self._check_alive()

    # What must be so

    def given(self, holder: Watched, messages: list[Message]) -> None:
        now_ms = self.now_ms
        for message in messages:
            value = bytes(message.value)
            if value in self.hands and self.hands[value][2] > now_ms:
                self.wrong.append(f"{value!r} is given out, and another has it")
            if not any(main for main, _ in self.possible[value]) and value not in self.trimmed:
                self.wrong.append(f"{value!r} is given out, and was done with")
            if self.resting.get(value, 0) > now_ms:
                self.wrong.append(f"{value!r} is given out, and was to rest")
            if self.expires.get(value, now_ms + 1) <= now_ms:
                self.wrong.append(f"{value!r} is given out, and has expired")
            if self.tries_max is not None and message.failures > self.tries_max:
                self.wrong.append(f"{value!r} is given out too often")
            key = self.keys[value]
            if self.kind == "by key" and key is not None and holder is not self.getter:
                for other, (has, _, until_ms) in self.hands.items():
                    if self.keys[other] == key and has not in (holder, self.getter) and until_ms > now_ms:
                        self.wrong.append(f"{value!r} is given out, and another works on its key")
            self.resting.pop(value, None)
            self.hands[value] = (holder, message, now_ms + LEASE_MS if self.has_leases else 1 << 62)

    def _has(self, message: Message) -> bool:
        """Whether the holder of this is sure to have it still."""
        _, known, until_ms = self.hands.get(bytes(message.value), (None, None, 0))
        return known is message and until_ms > self.now_ms

    def _is_out(self, message: Message) -> bool:
        return message.lane.unsettled.get(message.offset) is message

    def _when_durable(self, values: list[bytes], is_left: Any) -> None:
        then = self.world.queues

        def told(_: object, error: BaseException | None) -> None:
            assert error is None or isinstance(error, StorageFull), error
            if error is None and then is self.world.queues:
                for value in values:
                    self.possible[value] = {(main, dead) for main, dead in self.possible[value] if is_left(main, dead)}

        then.outbox.when_durable(told, None)

    def _let_time_do(self, more_ms: int = 0) -> None:
        """Whatever is old enough, too much, or given back too often by a lease that ends may have gone by then."""
        due_ms = self.now_ms + more_ms
        for value, possible in self.possible.items():
            may_go = self.limit == "drop-head" or self.expires.get(value, due_ms + 1) <= due_ms
            if may_go and self.hands.get(value, (None, None, 0))[2] <= due_ms:
                possible |= {(False, dead + 1) for main, dead in possible if main}

    def _rest(self) -> None:
        """The disk has room, and nothing is under way."""
        self._let_time_do(10_000)
        self.world.engine.ledger.full = False
        self.world.quiet_whatever_fails()
        self.world.pass_time(6_000)  # what could not be given up for want of room rests that long
        self.world.quiet()

    def _resolve(self) -> None:
        """Look at the disk: everything is where it may be."""
        main = self.world.values(self.main)
        assert len(set(main)) == len(main), "something is there twice"
        dead_queue = self.world.queues.find("default", "dead")
        assert dead_queue is not None
        dead = self.world.values(dead_queue)
        for value, possible in self.possible.items():
            if value in self.trimmed:
                continue
            seen = (value in main, dead.count(value))
            assert seen in possible, f"{value!r} is {seen}, and may be {possible}"
            self.possible[value] = {seen}

    def _check_alive(self) -> None:
        queue = self.main
        main = self.world.values(queue)
        if not self.trimmed:
            assert queue.ready_count + queue.unsettled_count == len(main)
        assert self.asked == self.answered, "somebody asked, and was not answered"
        assert queue.incoming == 0
        out = {value for value, (_, message, _) in self.hands.items() if self._is_out(message)}
        assert queue.unsettled_count == len(out)
        able = [one for one in self.holders if one.room > 0 and (self.kind != "one at a time" or one.is_active)]
        waiting = [value for value in main if value not in out]
        if self.limit == "drop-head":
            assert len(waiting) <= LENGTH_MAX
        if able and not queue.is_paused:
            locked = {self.keys[value] for value in out} if self.kind == "by key" else set()
            left = [value for value in waiting if self.keys[value] is None or self.keys[value] not in locked]
            assert not left, "there is room, and something is not given out"
            assert self.kind == "by key" or queue.ready_count == 0

    @invariant()
    def nothing_is_wrong(self) -> None:
        if not hasattr(self, "world"):
            return
        assert not self.wrong, self.wrong
        for lane in self.main.lanes:
            offsets = [message.offset for message in lane.ready]
            assert offsets == sorted(set(offsets)), "the window is in order"
            assert not set(offsets) & set(lane.unsettled)
            assert lane.count >= len(lane.unsettled)
            assert lane.ready_bytes == sum(len(message.value) for message in lane.ready)


TestSharedQueues = SharedQueueMachine.TestCase
TestSharedQueues.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
