"""Records of stages that are due later: scheduled by the commit that publishes the rest of their batch, and so once."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from mainstem.broker.acquisitions import Condition, Reading
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import InvalidStagedBatch, TooMuchScheduled
from mainstem.broker.schedules import DUE_MS_MAX, Search
from mainstem.broker.schedules.reading import records_in
from mainstem.broker.staging.limits import StageLimits
from mainstem.broker.staging.stages import SinkKey
from mainstem.coordination.schedules.schedule import LOG_BASE
from mainstem.coordination.staging.stages import FIRST_LOG
from mainstem.model.errors import StorageFull
from mainstem.model.header_names import DUE_HEADER
from mainstem.storage.contract import Commit
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.worlds.brokers import with_broker, with_engine
from tests.support.worlds.staging import QUERY, Task, publish, values_in
from tests.unit.broker.holding import acquire, put, queue

HOUR_MS = 3_600_000


def due(due_ms: int, *more: tuple[str, bytes | None]) -> list[tuple[str, bytes | None]]:
    return [(DUE_HEADER, due_ms.to_bytes(8, signed=True)), *more]


async def write_later(task: Task, topic: str, partition: int, records: Sequence[Record]) -> None:
    moved = [record._replace(offset=task.position + delta) for delta, record in enumerate(records)]
    await task.send(topic, partition, encode_batch(moved, base_offset=task.position), is_later=True)
    task.position += 1 + len(records)


def later(value: bytes, due_ms: int) -> Record:
    return Record(0, -1, None, value, due(due_ms))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def records_of(broker: Broker, topic: str, partition: int = 0) -> list[Record]:
    log = broker.topics.get(topic).logs[partition]
    return list(records_in((await broker.read(log, 0, 1 << 20)).batches))


async def scheduled(broker: Broker) -> list[bytes | None]:
    return sorted(found.letter.value for found in (await broker.schedules.pending(Search(), None, 1_000)).found)


class Commits:
    """What an engine was asked to commit."""

    def __init__(self, engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[Commit] = []
        commit = engine.commit

        def note(commits: Sequence[Commit], patient: bool = False) -> object:
            self.seen += commits
            return commit(commits, patient)

        monkeypatch.setattr(engine, "commit", note)


def test_one_commit_publishes_schedules_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock())
        topic = await broker.topics.ensure(NewTopic("t", 1))
        now_ms = broker.clock.now_ms()
        task = Task(broker, 3)
        await task.write("t", 0, b"now")
        await write_later(task, "t", 0, [later(b"%d" % hours, now_ms + hours * HOUR_MS) for hours in (1, 30, 9_000)])
        assert await scheduled(broker) == [], "a stage is not seen"
        commits = Commits(engine, monkeypatch)
        assert (await publish(broker, 3, task)).records == 4
        assert await values_in(broker, "t") == [b"now"]
        assert await scheduled(broker) == [b"1", b"30", b"9000"]
        assert not broker.stages.open()
        (whole,) = [commit for commit in commits.seen if any(entry.key.startswith(b"f") for entry in commit.state)]
        assert whole.appends[0].log == topic.logs[0]
        assert len([append for append in whole.appends if LOG_BASE <= append.log < FIRST_LOG]) == 3, "a bucket each"

    run()


@with_engine
async def test_the_same_number_schedules_once_over_restarts(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.topics.ensure(NewTopic("t", 1))
    due_ms = broker.clock.now_ms() + HOUR_MS
    for attempt in range(3):
        task = Task(broker, 7, attempt=str(attempt))
        await task.write("t", 0, b"now")
        await write_later(task, "t", 0, [later(b"later", due_ms)])
        broker.schedules.stop()
        broker = task.broker = await Broker.open(engine, LoopClock())
        assert (await publish(broker, 7, task)).is_repeated == (attempt > 0)
        assert await scheduled(broker) == [b"later"]
        assert await values_in(broker, "t") == [b"now"]
        assert not broker.stages.open()


@with_broker
async def test_what_is_due_arrives_as_it_was_written(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 3))
    now_ms = broker.clock.now_ms()
    task = Task(broker, 0)
    headers = due(now_ms + 40, ("h", b"1"), (DUE_HEADER, b"mine"), ("h", None))
    await write_later(
        task,
        "t",
        2,
        [
            Record(0, 1_234, b"key", b"dated", headers),
            Record(0, -1, None, None, due(now_ms + 40)),
            Record(0, -1, None, b"past", due(now_ms - 5)),
            Record(0, -1, None, b"long ago", due(-5)),
        ],
    )
    await publish(broker, 0, task)
    await until(lambda: broker.schedules.mover.moved_total == 4)
    found = await records_of(broker, "t", 2)
    assert [record.value for record in found] == [b"past", b"long ago", b"dated", None]
    dated, undated = found[2:]
    assert (dated.key, dated.timestamp_ms, list(dated.headers)) == (
        b"key",
        1_234,
        [("h", b"1"), (DUE_HEADER, b"mine"), ("h", None)],
    )
    assert (undated.key, list(undated.headers)) == (None, [])
    assert undated.timestamp_ms >= now_ms + 40, "dated when it was published"
    assert broker.schedules.pending_count == 0


@with_broker
async def test_a_queue_gets_what_is_due_like_anything_else(broker: Broker) -> None:
    of = await queue(broker, "q")
    task = Task(broker, 0)
    await task.write("q", 0, b"now")
    await write_later(task, "q", 0, [later(b"later", broker.clock.now_ms() + 30)])
    await publish(broker, 0, task)
    await until(lambda: of.ready_count == 1)
    await put(broker, of, b"between")
    await until(lambda: of.ready_count == 3)
    assert await values_in(broker, "q") == [b"now", b"between", b"later"]


@with_broker
async def test_a_topic_that_dates_what_arrives_does_so_when_it_is_due(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("t", 1, {"message.timestamp.type": "LogAppendTime"}))
    now_ms = broker.clock.now_ms()
    task = Task(broker, 0)
    await write_later(task, "t", 0, [Record(0, 1_234, None, b"v", due(now_ms + 30))])
    await publish(broker, 0, task)
    await until(lambda: broker.schedules.mover.moved_total == 1)
    (record,) = await records_of(broker, "t")
    assert record.timestamp_ms >= now_ms + 30


def test_a_large_batch_schedules_with_the_end_of_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        limits = StageLimits(publish_bytes_max=500, copy_bytes_max=300)
        broker = await Broker.open(engine, LoopClock(), stage_limits=limits)
        await broker.topics.ensure(NewTopic("t", 1))
        due_ms = broker.clock.now_ms() + HOUR_MS
        task = Task(broker, 0)
        for number in range(20):
            await task.write("t", 0, b"%d" % number)
            await write_later(task, "t", 0, [later(b"%d" % number, due_ms)])
        commits = Commits(engine, monkeypatch)
        assert (await publish(broker, 0, task)).records == 40
        assert len(await values_in(broker, "t")) == 20
        assert len(await scheduled(broker)) == 20
        (whole,) = [commit for commit in commits.seen if any(entry.key.startswith(b"f") for entry in commit.state)]
        assert [append.log >= LOG_BASE for append in whole.appends] == [False, True], "a marker and a bucket"
        assert (await publish(broker, 0)).is_repeated
        assert len(await scheduled(broker)) == 20

    run()


def test_a_commit_that_is_refused_schedules_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock())
        await broker.topics.ensure(NewTopic("t", 1))
        due_ms = broker.clock.now_ms() + HOUR_MS
        task = Task(broker, 0)
        await write_later(task, "t", 0, [later(b"later", due_ms)])
        commit = engine.commit

        def refuse(commits: Sequence[Commit]) -> object:
            if any(entry.key.startswith(b"f") for entry in commits[0].state):
                raise StorageFull("for a while")
            return commit(commits)

        with monkeypatch.context() as patch:
            patch.setattr(engine, "commit", refuse)
            with pytest.raises(StorageFull):
                await publish(broker, 0, task)
        assert (await scheduled(broker), len(broker.stages.open())) == ([], 1)
        await publish(broker, 0, task)
        assert await scheduled(broker) == [b"later"]

    run()


@with_engine
async def test_a_commit_that_settles_schedules_too(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.topics.ensure(NewTopic("out", 1))
    await put(broker, await queue(broker, "q"), b"a")
    one = await acquire(broker, "q")
    assert one is not None
    await broker.acquisitions.read(one.id, Reading(QUERY, 0))
    task = Task(broker, 0)
    await task.write("out", 0, b"now")
    await write_later(task, "out", 0, [later(b"later", broker.clock.now_ms() + HOUR_MS)])
    ends = {task.key: task.position}
    for is_repeated in (False, True):
        published = await broker.stages.publish(SinkKey(QUERY, ""), 0, ends, lasting=True, verdicts={})
        assert published.is_repeated == is_repeated
        broker = await Broker.open(engine, LoopClock())
        assert (await scheduled(broker), await values_in(broker, "out")) == ([b"later"], [b"now"])
        assert broker.acquisitions.get(one.id).condition is Condition.SETTLED


@pytest.mark.parametrize(
    "record",
    [
        Record(0, -1, None, b"v"),
        Record(0, -1, None, b"v", [("h", b"1"), *due(1)]),
        Record(0, -1, None, b"v", [(DUE_HEADER, b"1")]),
        Record(0, -1, None, b"v", [(DUE_HEADER, None)]),
        Record(0, -1, None, b"v", due(DUE_MS_MAX + 1)),
    ],
)
def test_a_record_without_its_time_is_refused_at_once(record: Record) -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        await broker.topics.ensure(NewTopic("t", 1))
        with pytest.raises(InvalidStagedBatch):
            await write_later(Task(broker, 0), "t", 0, [later(b"fine", 1), record])
        assert not broker.stages.open()

    run()


def test_more_than_one_commit_can_schedule_is_refused_with_what_to_do() -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock(), stage_limits=StageLimits(scheduled_bytes_max=2_000))
        await broker.topics.ensure(NewTopic("t", 1))
        task = Task(broker, 0)
        await task.write("t", 0, b"now")
        await write_later(task, "t", 0, [later(b"x" * 300, HOUR_MS)] * 5)
        with pytest.raises(TooMuchScheduled, match="write smaller batches"):
            await publish(broker, 0, task)
        assert (await values_in(broker, "t"), await scheduled(broker)) == ([], [])

    run()
