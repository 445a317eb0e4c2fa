"""Stages against a model: whatever tasks, commits, restarts and expiry do, each batch is published once and whole."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import IncompleteStage, StaleBatch, UnknownStage
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.staging import Task, publish, staged_batch, values_in

SINKS = ("", "other")
EXPIRY_MS = 3_600_000
PARTITIONS = 2


class Clock(LoopClock):
    ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.ms


class StageMachine(RuleBasedStateMachine):
    """The model: what each open stage holds, the last batch of each sink, and what readers must see, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.staged: dict[Task, list[tuple[int, bytes]]] = {}
        self.last: dict[str, int] = {}
        self.seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.number = 0
        self.do(self.open())

    def do(self, work):
        return self.loop.run_until_complete(work)

    async def open(self) -> None:
        self.runtime = local_runtime(self.loop)
        self.engine = MemoryEngine(self.runtime)
        self.clock = Clock()
        self.broker = await Broker.open(self.engine, self.clock)
        await self.broker.topics.ensure(NewTopic("t", PARTITIONS))

    def teardown(self) -> None:
        self.runtime.close()
        self.loop.close()

    def value(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    @rule(sink=st.sampled_from(SINKS), batch=st.integers(0, 3), task=st.integers(0, 2), count=st.integers(1, 3))
    def begin(self, sink: str, batch: int, task: int, count: int) -> None:
        attempt = Task(self.broker, batch, task, f"attempt-{self.number}", sink)
        self.staged[attempt] = []
        self.write(attempt, 0, count)

    @precondition(lambda self: self.staged)
    @rule(data=st.data(), partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3), again=st.booleans())
    def write_more(self, data: st.DataObject, partition: int, count: int, again: bool) -> None:
        self.write(data.draw(st.sampled_from(list(self.staged))), partition, count, again)

    def write(self, task: Task, partition: int, count: int, again: bool = False) -> None:
        values = [self.value() for _ in range(count)]
        for _ in range(1 + again):
            self.do(task.send("t", partition, staged_batch(task.position, values)))
        task.position += 1 + count
        self.staged[task] += [(partition, value) for value in values]

    @rule(sink=st.sampled_from(SINKS), batch=st.integers(0, 3), data=st.data())
    def commit(self, sink: str, batch: int, data: st.DataObject) -> None:
        of_batch = [task for task in self.staged if (task.key.sink, task.key.batch) == (sink, batch)]
        chosen = {task.key.task: task for task in data.draw(st.permutations(of_batch))}.values()
        last = self.last.get(sink, -1)
        try:
            outcome = self.do(publish(self.broker, batch, *chosen, sink=sink))
        except StaleBatch:
            assert batch < last
            return
        assert batch >= last
        assert outcome.is_repeated == (batch == last)
        if not outcome.is_repeated:
            for task in chosen:
                for partition, value in self.staged[task]:
                    self.seen[partition].append(value)
        self.last[sink] = batch
        self.forget(lambda task: task.key.sink == sink and task.key.batch <= batch)

    @precondition(lambda self: self.staged)
    @rule(data=st.data())
    def commit_what_is_not_whole(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(list(self.staged)))
        if task.key.batch <= self.last.get(task.key.sink, -1):
            return
        task.position += 1
        try:
            self.do(publish(self.broker, task.key.batch, task, sink=task.key.sink))
            raise AssertionError("published")
        except (IncompleteStage, UnknownStage):
            task.position -= 1

    @precondition(lambda self: self.staged)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(list(self.staged)))
        assert self.do(self.broker.stages.abort([task.key])) == 1
        del self.staged[task]

    @rule(ms=st.integers(1, EXPIRY_MS))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms
        self.do(self.broker.stages.expire())
        kept = {stage.key for stage in self.broker.stages.open()}
        for stage in self.broker.stages.open():
            assert self.clock.ms - stage.touched_ms < EXPIRY_MS
        self.forget(lambda task: task.key not in kept)

    @rule()
    def restart(self) -> None:
        self.broker = self.do(Broker.open(self.engine, self.clock))
        for task in self.staged:
            task.broker = self.broker

    def forget(self, is_gone) -> None:
        for task in [task for task in self.staged if is_gone(task)]:
            del self.staged[task]

    @invariant()
    def readers_see_what_was_published(self) -> None:
        for partition, values in enumerate(self.seen):
            assert self.do(values_in(self.broker, "t", partition)) == values

    @invariant()
    def what_is_open_is_what_was_staged(self) -> None:
        assert {stage.key: stage.next for stage in self.broker.stages.open()} == {
            task.key: task.position for task in self.staged
        }


TestStages = StageMachine.TestCase
TestStages.settings = settings(deadline=None, max_examples=40, stateful_step_count=30)
