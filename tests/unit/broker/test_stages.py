"""Stages as the broker keeps them: hidden, published once, gone afterwards; over restarts, and when something is refused."""

import asyncio

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import (
    IncompleteStage,
    InvalidStagedBatch,
    StageError,
    StagePositionMissed,
    StaleBatch,
    UnknownStage,
    UnknownTopic,
)
from mainstem.broker.schedules import Letter, Search, Target
from mainstem.broker.staging.limits import StageLimits
from mainstem.broker.staging.publication import transaction_name
from mainstem.broker.staging.stages import SinkKey, StageKey, StageRules
from mainstem.model.errors import BatchTooLarge, CommitTooLarge, CorruptBatch, KeyRequired, Overloaded, StorageFull
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Commit
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record, decode_records, encode_batch
from tests.support.worlds.brokers import with_broker, with_engine
from tests.support.worlds.staging import QUERY, Task, publish, staged_batch, values_in


@with_broker
async def test_what_is_staged_is_seen_when_it_is_published_and_not_before(broker: Broker) -> None:
    topic = await broker.topics.ensure(NewTopic("t", 2))
    await broker.topics.ensure(NewTopic("u", 1))
    first, second = Task(broker, 0), Task(broker, 0, task=1)
    await first.write("t", 0, b"a", b"b")
    await second.write("t", 1, b"c")
    await first.write("u", 0, b"d")
    await first.write("t", 0, b"e")
    assert [await values_in(broker, *place) for place in (("t", 0), ("t", 1), ("u", 0))] == [[], [], []]
    assert set(broker.topics.named()) == {"t", "u"}
    published = await publish(broker, 0, first, second)
    assert (published.is_repeated, published.records) == (False, 5)
    assert await values_in(broker, "t", 0) == [b"a", b"b", b"e"]
    assert await values_in(broker, "t", 1) == [b"c"]
    assert await values_in(broker, "u", 0) == [b"d"]
    assert not broker.stages.open()
    facts = await broker.read(topic.logs[0], 0, 0)
    assert facts.end == 3, "stored as it was staged, without markers"


@with_broker
async def test_stages_and_schedules_are_not_in_each_others_way(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    now_ms = broker.clock.now_ms()
    for hours in (1, 30, 1_000):
        letter = Letter(Target("default", topic="t"), now_ms, b"\0", b"later")
        await broker.schedules.schedule_now(letter, now_ms + hours * 3_600_000)
    tasks = [Task(broker, 0, task=number) for number in range(5)]
    for task in tasks:
        await task.write("t", 0, b"a")
    await publish(broker, 0, *tasks)
    assert await values_in(broker, "t") == [b"a"] * 5
    assert len((await broker.schedules.pending(Search(), None, 10)).found) == 3


@with_broker
async def test_the_same_number_is_published_once_and_a_lower_one_is_refused(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    for attempt in ("0", "1"):
        task = Task(broker, 7, attempt=attempt)
        await task.write("t", 0, b"a")
        published = await publish(broker, 7, task)
        assert published.is_repeated == (attempt == "1")
        assert not broker.stages.open()
    assert await values_in(broker, "t") == [b"a"]
    rewound = Task(broker, 6)
    await rewound.write("t", 0, b"old")
    with pytest.raises(StaleBatch, match=f"batch 6 is older than batch 7, the last that query {QUERY}"):
        await publish(broker, 6, rewound)
    assert await values_in(broker, "t") == [b"a"]
    other = Task(broker, 0, sink="other")
    await other.write("t", 0, b"b")
    assert not (await publish(broker, 0, other, sink="other")).is_repeated, "a sink of its own has a fence of its own"
    assert await values_in(broker, "t") == [b"a", b"b"]


@with_broker
async def test_a_batch_without_rows_counts_too(broker: Broker) -> None:
    assert not (await publish(broker, 0)).is_repeated
    assert (await publish(broker, 0)).is_repeated
    assert broker.stages.sinks()[SinkKey(QUERY, "")].batch == 0


@with_broker
async def test_only_the_listed_attempt_counts(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    attempts = [Task(broker, 0, attempt=str(number)) for number in range(3)]
    for number, task in enumerate(attempts):
        await task.write("t", 0, b"%d" % number)
    with pytest.raises(UnknownStage, match="two attempts of one task"):
        await publish(broker, 0, *attempts[:2])
    await publish(broker, 0, attempts[1])
    assert await values_in(broker, "t") == [b"1"]
    assert not broker.stages.open(), "failed and speculative attempts leave nothing"


@with_broker
async def test_a_batch_sent_again_is_stored_once_and_a_gap_is_refused(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    for _ in range(2):
        await task.send("t", 0, staged_batch(0, [b"a", b"b"]))
    with pytest.raises(StagePositionMissed):
        await task.send("t", 0, staged_batch(4, [b"d"]))
    await task.send("t", 0, staged_batch(3, [b"c"]))
    task.position = 5
    await publish(broker, 0, task)
    assert await values_in(broker, "t") == [b"a", b"b", b"c"]
    late = Task(broker, 0)
    with pytest.raises(UnknownStage):
        await late.send("t", 0, staged_batch(3, [b"c"]))


@with_broker
async def test_a_stage_that_is_not_whole_is_not_published(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    await task.write("t", 0, b"a")
    broken = staged_batch(task.position, [b"b"])
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        await task.send("t", 0, broken)
    with pytest.raises(IncompleteStage):
        await task.write("t", 0, b"c")
    with pytest.raises(IncompleteStage):
        await publish(broker, 0, task)
    again = Task(broker, 0, attempt="1")
    await again.write("t", 0, b"a")
    again.position += 1
    with pytest.raises(IncompleteStage):
        await publish(broker, 0, again)
    with pytest.raises(UnknownStage):
        await publish(broker, 0, Task(broker, 0, attempt="2"))
    assert await values_in(broker, "t") == []


@with_broker
async def test_a_first_batch_that_is_refused_opens_nothing(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    broken = staged_batch(0, [b"b"])
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        await task.send("t", 0, broken)
    assert not broker.stages.open()
    await task.write("t", 0, b"a")
    await publish(broker, 0, task)
    assert await values_in(broker, "t") == [b"a"]


@with_engine
async def test_a_broker_with_too_much_to_do_can_be_asked_again(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    for value in (b"a", b"b"):
        engine.sequencer.refusal = Overloaded("for a while")
        with pytest.raises(Overloaded):
            await task.write("t", 0, value)
        engine.sequencer.refusal = None
        await task.write("t", 0, value)
    await publish(broker, 0, task)
    assert await values_in(broker, "t") == [b"a", b"b"]


@with_broker
async def test_what_the_topic_would_refuse_is_refused_at_once(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("small", 1, {"max.message.bytes": "100"}))
    await broker.topics.ensure(NewTopic("compacted", 1, {"cleanup.policy": "compact"}))
    task = Task(broker, 0)
    with pytest.raises(BatchTooLarge, match="topic small takes 100"):
        await task.write("small", 0, b"x" * 100)
    with pytest.raises(KeyRequired, match="topic compacted"):
        await task.write("compacted", 0, b"x")
    with pytest.raises(UnknownTopic):
        await task.write("nobody", 0, b"x")
    with pytest.raises(InvalidStagedBatch):
        await task.send(
            "small", 0, encode_batch([Record(0, 1, None, b"")], producer_id=1, producer_epoch=0, base_sequence=0)
        )
    await task.write("compacted", 0, b"v", key=b"k")
    await publish(broker, 0, task)
    assert await values_in(broker, "compacted") == [b"v"]


@pytest.mark.parametrize(
    "name", ["stage:/q", "stage:/q/s/x/0/a/t", "stage://s/0/0/a/t", "stage:/q/s/-1/0/a/t", "stage:/q/s/0/0/a/t/x"]
)
def test_a_name_that_is_no_stage_is_refused(name: str) -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        await broker.topics.ensure(NewTopic("t", 1))
        with pytest.raises(StageError):
            broker.stages.destination(name)

    run()


def test_any_text_can_be_a_sink() -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        topic = await broker.topics.ensure(NewTopic("t", 1))
        key = StageKey("q/ü", "a/b%2F c", 1, 2, "0-1")
        assert broker.stages.destination(key.topic_name("t")) == (key, topic, False)
        assert broker.stages.destination(key.topic_name("t", is_later=True)) == (key, topic, True)

    run()


@with_broker
async def test_the_time_of_arrival_is_that_of_publication(broker: Broker) -> None:
    (log,) = (await broker.topics.ensure(NewTopic("t", 1, {"message.timestamp.type": "LogAppendTime"}))).logs
    task = Task(broker, 0)
    await task.write("t", 0, b"a")
    before_ms = broker.clock.now_ms()
    await publish(broker, 0, task)
    (record,) = decode_records(bytes((await broker.read(log, 0, 1_000)).batches[0]))
    assert record.timestamp_ms >= before_ms


@with_broker
async def test_a_topic_that_went_meanwhile_is_named(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("kept", 1))
    gone = await broker.topics.ensure(NewTopic("gone", 1))
    task = Task(broker, 0)
    await task.write("kept", 0, b"a")
    await task.write("gone", 0, b"b")
    await broker.topics.delete(gone)
    await broker.topics.ensure(NewTopic("gone", 1))
    with pytest.raises(UnknownTopic, match="topic gone was deleted after rows for it were staged"):
        await publish(broker, 0, task)
    assert await values_in(broker, "kept") == []
    assert await values_in(broker, "gone") == [], "another topic of the same name is not meant"


# Large batches


SMALL = StageLimits(publish_bytes_max=500, copy_bytes_max=300, read_bytes=250)
"""A few dozen records are a large batch."""


async def fill(task: Task, count: int, topics: tuple[str, ...] = ("t", "u")) -> list[bytes]:
    values = [b"%03d" % number for number in range(count)]
    for number, value in enumerate(values):
        await task.write(topics[number % len(topics)], 0, value, value)
    return values


def test_a_large_batch_is_published_in_parts_and_seen_as_one() -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock(), stage_limits=SMALL)
        logs = [(await broker.topics.ensure(NewTopic(name, 1))).logs[0] for name in ("t", "u")]
        tasks = [Task(broker, number // 2, task=number % 2) for number in range(4)]
        for task in tasks:
            await fill(task, 20)
        seen: list[tuple[int, ...]] = []
        stable = dict.fromkeys(logs, 0)

        def note(ends: dict[int, object]) -> None:
            stable.update({log: end.stable for log, end in ends.items()})  # type: ignore[attr-defined]
            if tuple(stable.values()) not in seen:
                seen.append(tuple(stable.values()))

        watch = broker.watch(note)
        for log in logs:
            watch.add(log)
        for batch in (0, 1):
            published = await publish(broker, batch, *tasks[batch * 2 : batch * 2 + 2])
            assert published.records == 80
            assert (await publish(broker, batch)).is_repeated
        assert len(await values_in(broker, "t")) == len(await values_in(broker, "u")) == 80
        assert sorted(await values_in(broker, "t")) == sorted(v for n in range(0, 20, 2) for v in [b"%03d" % n] * 8)
        assert not broker.stages.open()
        await asyncio.sleep(0)
        assert [ends for ends in seen if ends != (0, 0)] == [(41, 41), (82, 82)], "both topics move at once"

    run()


def test_a_large_batch_that_is_refused_half_way_is_seen_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock(), stage_limits=SMALL)
        for name in ("t", "u"):
            await broker.topics.ensure(NewTopic(name, 1))
        task = Task(broker, 0)
        await fill(task, 20)
        commit, seen = engine.commit, 0

        def fail_once(commits: list[Commit], patient: bool = False) -> object:
            nonlocal seen
            seen += bool(commits[0].appends)
            if seen == 5:
                monkeypatch.setattr(engine, "commit", commit)
                raise StorageFull("for a while")
            return commit(commits, patient)

        monkeypatch.setattr(engine, "commit", fail_once)
        with pytest.raises(StorageFull):
            await publish(broker, 0, task)
        assert await values_in(broker, "t") == []
        assert len(broker.stages.open()) == 1
        await publish(broker, 0, task)
        assert len(await values_in(broker, "t")) == 20

    run()


def test_what_is_under_way_when_a_part_is_refused_is_undone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        limits = msgspec.structs.replace(SMALL, copy_bytes_max=1)
        broker = await Broker.open(engine, LoopClock(), stage_limits=limits)
        logs = {name: (await broker.topics.ensure(NewTopic(name, 1))).logs[0] for name in ("t", "u")}
        task = Task(broker, 0)
        await fill(task, 20)
        commit, parts = engine.commit, 0

        def refuse_first(commits: list[Commit]) -> object:
            nonlocal parts
            parts += 1
            if parts == 1:
                return Answer.of([StorageFull("for a while")])
            return commit(commits)

        begin = broker.transactions.begin

        async def begun(*given: object) -> object:
            identity = await begin(*given)  # type: ignore[arg-type]
            monkeypatch.setattr(engine, "commit", refuse_first)
            return identity

        monkeypatch.setattr(broker.transactions, "begin", begun)
        with pytest.raises(StorageFull):
            await publish(broker, 0, task)
        assert parts > 1, "the next one was on its way"
        facts = await broker.read(logs["u"], 0, 0)
        assert facts.end > 0
        assert facts.stable == facts.end, "no transaction stays open"
        monkeypatch.setattr(engine, "commit", commit)
        await publish(broker, 0, task)
        assert len(await values_in(broker, "t")) == len(await values_in(broker, "u")) == 20

    run()


def test_a_publication_that_a_crash_cut_short_is_undone_at_the_start() -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock(), stage_limits=SMALL)
        (log,) = (await broker.topics.ensure(NewTopic("t", 1))).logs
        task = Task(broker, 0)
        await fill(task, 20, ("t",))
        publishing = asyncio.ensure_future(publish(broker, 0, task))
        while (await broker.read(log, 0, 0)).end == 0:  # noqa: ASYNC110
            await asyncio.sleep(0)
        publishing.cancel()
        facts = await broker.read(log, 0, 0)
        assert (facts.stable, facts.end > 0) == (0, True)
        second = await Broker.open(engine, LoopClock(), stage_limits=SMALL)
        facts = await second.read(log, 0, 0)
        assert facts.stable == facts.end
        assert await values_in(second, "t") == []
        await publish(second, 0, task)
        assert len(await values_in(second, "t")) == 40

    run()


def test_what_is_too_large_for_one_commit_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock())
        await broker.topics.ensure(NewTopic("t", 1))
        task = Task(broker, 0)
        await fill(task, 4, ("t",))
        commit = engine.commit

        def small(commits: list[Commit], patient: bool = False) -> object:
            if len(commits[0].appends) == 4 and len(commits[0].changes) == 1:
                raise CommitTooLarge("too large")
            return commit(commits, patient)

        monkeypatch.setattr(engine, "commit", small)
        assert (await publish(broker, 0, task)).records == 8
        assert len(await values_in(broker, "t")) == 8

    run()


# Ends


@with_engine
async def test_all_of_it_survives_a_restart(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    await first.topics.ensure(NewTopic("t", 1))
    done, task = Task(first, 0), Task(first, 1)
    await done.write("t", 0, b"a")
    await publish(first, 0, done)
    await task.write("t", 0, b"b")
    second = await Broker.open(engine, LoopClock())
    assert [stage.key for stage in second.stages.open()] == [task.key]
    task.broker = second
    await task.send("t", 0, staged_batch(0, [b"b"]))
    await task.write("t", 0, b"c")
    assert (await publish(second, 0)).is_repeated
    assert len(second.stages.open()) == 1
    await publish(second, 1, task)
    third = await Broker.open(engine, LoopClock())
    assert await values_in(third, "t") == [b"a", b"b", b"c"]
    assert (await publish(third, 1)).is_repeated
    assert not third.stages.open()


class Clock(LoopClock):
    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


@with_engine
async def test_what_nobody_publishes_expires(engine: MemoryEngine) -> None:
    clock = Clock()
    broker = await Broker.open(engine, clock)
    broker.stages.govern(StageRules(expiry_ms=1_000))
    await broker.topics.ensure(NewTopic("t", 1))
    old, young = Task(broker, 0), Task(broker, 0, task=1)
    await old.write("t", 0, b"a")
    clock.ms += 600
    await young.write("t", 0, b"b")
    await broker.stages.publish(SinkKey("once", ""), 0, {}, lasting=False)
    await publish(broker, 0, query="for ever")
    clock.ms += 600
    await broker.stages.expire()
    assert [stage.key for stage in broker.stages.open()] == [young.key]
    clock.ms += 1_000
    await broker.stages.expire()
    assert not broker.stages.open()
    assert set(broker.stages.sinks()) == {SinkKey("for ever", "")}
    with pytest.raises(UnknownStage):
        await publish(broker, 0, old)


@with_broker
async def test_dropped_stages_are_gone_and_may_be_dropped_twice(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    await task.write("t", 0, b"a")
    assert [await broker.stages.abort([task.key]) for _ in range(2)] == [1, 0]
    with pytest.raises(UnknownStage):
        await publish(broker, 0, task)


@with_broker
async def test_nothing_is_taken_from_a_query_that_was_given_up(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    first, late = Task(broker, 0), Task(broker, 1)
    await first.write("t", 0, b"a")
    assert await broker.stages.abort_batch(first.key.sink_key, first.key.batch) == 1
    again = Task(broker, 0)
    await again.write("t", 0, b"a")
    assert await broker.stages.abort_batch(first.key.sink_key, first.key.batch, is_final=True) == 1
    with pytest.raises(UnknownStage, match="given up"):
        await late.write("t", 0, b"b")
    assert not broker.stages.open()


@with_broker
async def test_commits_of_one_batch_at_once_publish_it_once(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    await task.write("t", 0, b"a")
    outcomes = await asyncio.gather(*(publish(broker, 0, task) for _ in range(5)))
    assert sorted(outcome.is_repeated for outcome in outcomes) == [False, True, True, True, True]
    assert await values_in(broker, "t") == [b"a"]


@with_broker
async def test_nothing_is_written_to_a_stage_that_is_being_published(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1))
    task = Task(broker, 0)
    await task.write("t", 0, b"a")
    publishing = asyncio.ensure_future(publish(broker, 0, task))
    await asyncio.sleep(0)
    with pytest.raises(IncompleteStage):
        await task.send("t", 0, staged_batch(task.position, [b"b"]))
    await publishing
    assert await values_in(broker, "t") == [b"a"]


@given(a=st.tuples(st.text(), st.text()), b=st.tuples(st.text(), st.text()))
@example(a=("q/1", "s"), b=("q", "1/s"))
def test_each_sink_has_a_transaction_of_its_own(a: tuple[str, str], b: tuple[str, str]) -> None:
    assert (transaction_name(SinkKey(*a)) == transaction_name(SinkKey(*b))) == (a == b)
