"""Acquisitions against a model: whatever queries, time, commands and restarts do, each record is with one of them."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.broker.acquisitions import Acquire, Condition, Reading, Ruled, Source
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.errors import AcquisitionReleased, UnknownAcquisition
from mainstem.broker.queues import Message
from mainstem.broker.staging.stages import SinkKey
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.staging import QUERY, Task, values_in
from tests.unit.broker.holding import produce, queue, topic

LEASE_MS = 60_000
REST_MS = 5_000
DELIVERIES_MAX = 5
PATIENCE_S = 60
Place = tuple[int, int]
"""Log and offset."""


class Clock(LoopClock):
    ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.ms


class Held:
    """An acquisition, in the model."""

    def __init__(self, places: list[Place], due_ms: int) -> None:
        self.places = places
        self.due_ms = due_ms
        self.condition = Condition.LEASED
        self.said: dict[Place, str] = {}


class AcquisitionMachine(RuleBasedStateMachine):
    """The model: who has each record, how often it was given out, and until when it rests."""

    kind = "queue"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.free: set[Place] = set()
        self.deliveries: dict[Place, int] = {}
        self.resting: dict[Place, int] = {}
        self.settled: set[Place] = set()
        self.taken: dict[Place, Message] = {}
        self.vague: set[Place] = set()
        """A consumer had these when the broker ended: how often they were given out is not known for sure."""
        self.held: dict[str, Held] = {}
        self.released: set[str] = set()
        self.gone: set[str] = set()
        self.is_restarted = False
        self.batch = 0
        self.output: list[bytes] = []
        self.do(self.open())

    def do(self, work):
        return self.loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    async def open(self) -> None:
        self.runtime = local_runtime(self.loop)
        self.engine = MemoryEngine(self.runtime)
        self.clock = Clock()
        self.broker = await Broker.open(self.engine, self.clock)
        await topic(self.broker, "out")
        if self.kind == "queue":
            self.logs = (await queue(self.broker, "s", priority_max=1)).logs
            self.source, self.topics = Source("s", DEFAULT_NAMESPACE), ()
        else:
            self.logs = tuple(await topic(self.broker, "t", 2))
            self.source, self.topics = Source("s"), ("t",)
        self.ends = dict.fromkeys(self.logs, 0)

    def teardown(self) -> None:
        self.runtime.close()
        self.loop.close()

    @initialize(count=st.integers(1, 6))
    def begin(self, count: int) -> None:
        self.publish(count, 0)

    # What happens

    @rule(count=st.integers(1, 4), lane=st.integers(0, 1))
    def publish(self, count: int, lane: int) -> None:
        log = self.logs[lane]
        values = [b"v"] * count
        if self.kind == "queue":

            async def send() -> None:
                of = await queue(self.broker, "s", priority_max=1)
                for value in values:
                    self.broker.queues.outbox.put([of], b"\0", value, priority=lane)
                await self.broker.queues.outbox.wait_durable()

            self.do(send())
        else:
            self.do(produce(self.broker, log, *values))
        self.free |= {(log, offset) for offset in range(self.ends[log], self.ends[log] + count)}
        self.ends[log] += count

    @rule(records=st.integers(1, 5))
    def acquire(self, records: int) -> None:
        wish = Acquire(self.source, records, LEASE_MS, self.topics, starting="earliest")
        one = self.do(self.broker.acquisitions.acquire(wish))
        places = [] if one is None else [(log, o) for log, s in one.held() for o in range(s.first, s.last + 1)]
        assert set(places) <= self.free
        assert len(places) == min(records, len(self.free))
        if one is None:
            return
        for log, stretch in one.held():
            for offset in range(stretch.first, stretch.last + 1):
                self.count(log, offset, stretch.deliveries)
        self.free -= set(places)
        self.held[one.id] = Held(places, self.clock.ms + LEASE_MS)

    def count(self, log: int, offset: int, told: int) -> None:
        """A queue that was killed calls redelivered what may have been given out: never too few, now and then one too many."""
        expected = self.deliveries.get((log, offset), 0) + 1
        if (log, offset) in self.vague:
            assert told > 1
            self.vague.discard((log, offset))
        else:
            may_be_more = self.kind == "queue" and self.is_restarted and expected == 1
            assert told in ((expected, expected + 1) if may_be_more else (expected,))
        self.deliveries[log, offset] = told

    @precondition(lambda self: self.kind == "queue")
    @rule()
    def take_one(self) -> None:
        """A consumer of the queue, who competes."""
        message = self.do(self.take_of_queue())
        assert (message is None) == (not self.free)
        if message is not None:
            place = message.lane.log, message.offset
            self.free.remove(place)
            self.count(*place, message.deliveries + 1)
            self.taken[place] = message

    async def take_of_queue(self) -> Message | None:
        return await take(await queue(self.broker, "s", priority_max=1))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.taken)))
        self.broker.queues.settling.requeue([self.taken.pop(place)], failed=False)
        self.free.add(place)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.taken)))
        self.broker.queues.settling.settle([self.taken.pop(place)])
        self.do(self.broker.queues.outbox.wait_durable())
        self.settled.add(place)

    def some(self, data: st.DataObject, *conditions: Condition) -> str:
        """By number: names are drawn at random, and would make another history of every replay."""
        names = [name for name, held in self.held.items() if held.condition in conditions]
        return names[data.draw(st.integers(0, len(names) - 1))]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        name = self.some(data, *Condition)
        for _ in range(2):
            found = self.do(self.broker.acquisitions.pin(name))
            assert found.records == len(self.held[name].places)
        if self.held[name].condition is Condition.LEASED:
            self.held[name].condition = Condition.PINNED

    @precondition(lambda self: any(h.condition is Condition.PINNED for h in self.held.values()))
    @rule(data=st.data(), who=st.sampled_from(("a", "b")))
    def rule_on(self, data: st.DataObject, who: str) -> None:
        name = self.some(data, Condition.PINNED)
        others = {place for place, verdict in self.held[name].said.items() if not verdict.startswith(who)}
        left = [place for place in self.held[name].places if place not in others]
        chosen = data.draw(st.lists(st.sampled_from(left), unique=True, max_size=3)) if left else []
        verdicts = {place: data.draw(st.sampled_from(("retry", "rest", "reject"))) for place in chosen}
        self.do(self.broker.acquisitions.rule(name, who, [ruled(place, v) for place, v in verdicts.items()]))
        kept = {place: verdict for place, verdict in self.held[name].said.items() if place in others}
        self.held[name].said = kept | {place: f"{who}{verdict}" for place, verdict in verdicts.items()}

    @precondition(lambda self: any(h.condition is Condition.PINNED for h in self.held.values()))
    @rule(data=st.data(), with_output=st.booleans())
    def settle(self, data: st.DataObject, with_output: bool) -> None:
        name = self.some(data, Condition.PINNED)
        if with_output:
            self.do(self.settle_with_output(name))
        else:
            self.do(self.broker.acquisitions.settle(name))
        self.do(self.broker.acquisitions.settle(name))
        held = self.held[name]
        held.condition = Condition.SETTLED
        for place in held.places:
            self.rule_in_model(place, held.said.get(place, "-")[1:])

    async def settle_with_output(self, name: str) -> None:
        self.batch += 1
        await self.broker.acquisitions.read(name, Reading(QUERY, self.batch))
        task = Task(self.broker, self.batch)
        value = b"%d" % self.batch
        await task.write("out", 0, value)
        for again in range(2):
            outcome = await self.broker.stages.publish(
                SinkKey(QUERY, ""),
                self.batch,
                {task.key: task.position} if not again else {},
                lasting=True,
                verdicts={},
            )
            assert outcome.is_repeated == bool(again)
        # verdicts that came with the commit take the place of those before: none were given, so all that was said stands
        self.output.append(value)

    def rule_in_model(self, place: Place, verdict: str) -> None:
        is_spent = self.kind == "topic" and self.deliveries[place] >= DELIVERIES_MAX
        if verdict in ("", "reject") or is_spent:
            self.settled.add(place)
        elif verdict == "rest":
            self.resting[place] = self.clock.ms + REST_MS
        else:
            self.free.add(place)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = self.some(data, *Condition)
        self.do(self.broker.acquisitions.release(name))
        held = self.held[name]
        if held.condition is Condition.SETTLED:
            return
        del self.held[name]
        self.released.add(name)
        for place in held.places:
            self.rule_in_model(place, "return")

    @precondition(lambda self: any(h.condition is not Condition.LEASED for h in self.held.values()))
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """The next acquisition comes after this one, and finds nothing that is not free already."""
        name = self.some(data, Condition.PINNED, Condition.SETTLED)
        held = self.held.pop(name)
        nothing = dict.fromkeys(self.logs, 0)
        wish = Acquire(self.source, 1, LEASE_MS, self.topics, name, nothing, "earliest")
        for _ in range(2):
            assert self.do(self.broker.acquisitions.acquire(wish)) is None
        if held.condition is Condition.PINNED:
            for place in held.places:
                self.rule_in_model(place, held.said.get(place, "-")[1:])
        self.gone.add(name)

    @rule(ms=st.sampled_from((1, REST_MS, LEASE_MS)))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms
        self.do(self.broker.acquisitions.expire())
        for name, held in list(self.held.items()):
            if held.condition is Condition.LEASED and held.due_ms <= self.clock.ms:
                del self.held[name]
                self.gone.add(name)
                for place in held.places:
                    self.rule_in_model(place, "return")
        for place, due_ms in list(self.resting.items()):
            if due_ms <= self.clock.ms:
                del self.resting[place]
                self.free.add(place)
        if self.kind == "queue":
            self.do(self.wake())

    async def wake(self) -> None:
        """Rests of a queue end by its own timers, which are a millisecond late."""
        of = await queue(self.broker, "s", priority_max=1)
        of.wake()
        for _ in range(400):
            self.broker.queues.timers._ring()
            if not any(due <= self.clock.ms for lane in of.lanes for due in lane.cursor.rests.values()):
                return
            of.refill()
            await asyncio.sleep(0)

    @rule()
    def restart(self) -> None:
        if self.kind == "queue":
            self.do(self.broker.queues.outbox.wait_durable())
        self.broker = self.do(Broker.open(self.engine, self.clock))
        self.is_restarted = True
        self.free |= set(self.taken)
        self.vague |= set(self.taken)
        self.taken = {}

    # What holds always

    @invariant()
    def conditions_are_those_of_the_model(self) -> None:
        shown = {one.id: one.condition for one in self.broker.acquisitions.all()}
        expected = {name: held.condition for name, held in self.held.items()}
        assert shown == expected | dict.fromkeys(self.released, Condition.RELEASED)

    @invariant()
    def what_is_gone_is_gone(self) -> None:
        for name in self.gone:
            try:
                self.do(self.broker.acquisitions.pin(name))
                raise AssertionError("pinned")
            except UnknownAcquisition:
                pass
        for name in self.released:
            try:
                self.do(self.broker.acquisitions.settle(name))
                raise AssertionError("settled")
            except AcquisitionReleased:
                pass

    @invariant()
    def records_are_settled_as_the_model_says(self) -> None:
        assert {place for log in self.logs for place in self.done(log)} == self.settled
        assert self.do(values_in(self.broker, "out")) == self.output

    def done(self, log: int) -> set[Place]:
        if self.kind == "queue":
            of = self.do(queue(self.broker, "s", priority_max=1))
            of.open()
            cursor = next(lane.cursor for lane in of.lanes if lane.log == log)
        else:
            cursors = self.broker.share_groups.subscriptions.cursors("s")
            if log not in cursors:
                return set()
            cursor = cursors[log]
        return {(log, offset) for offset in range(self.ends[log]) if cursor.is_settled(offset)}


def ruled(place: Place, verdict: str) -> Ruled:
    delay_ms = REST_MS if verdict == "rest" else 0
    return Ruled(place[0], [place[1]], "reject" if verdict == "reject" else "retry", delay_ms)


class TopicMachine(AcquisitionMachine):
    kind = "topic"


TestQueues = AcquisitionMachine.TestCase
TestQueues.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)
TestTopics = TopicMachine.TestCase
TestTopics.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)
