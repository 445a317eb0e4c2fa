"""Fetch: every version, waiting, limits, and what careful readers do not see."""

import asyncio
import uuid
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.log import Answer, ReadHint, ReadResult
from mainstem.protocols.kafka.codec.fetch import FetchRequest, PartitionFetch
from mainstem.protocols.kafka.handlers.records.fetch import Fetch, FetchedPartition
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.record_batch import batches_in, decode_records
from tests.support.clients.kafka_client import Client, Connect, batch, with_adapter


def values(records: Any) -> list[bytes | None]:
    view = memoryview(bytes(records))
    return [r.value for at, size in batches_in(view) for r in decode_records(view[at : at + size])]


@pytest.mark.parametrize("version", range(4, 18))
def test_every_version(version: int) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t", 2)
        topic = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics[0]
        await client.produce("t", batch(b"a", b"b"))
        await client.produce("t", batch(b"c"))
        wanted = [
            {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1000},
            {"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1000},
            {"partition": 2, "fetch_offset": 0, "partition_max_bytes": 1000},
            {"partition": 0, "fetch_offset": 4, "partition_max_bytes": 1000},
        ]
        topics = [{"topic": "t", "topic_id": topic.topic_id, "partitions": wanted}]
        response = await client.ask(ApiKey.FETCH, version, max_wait_ms=10, min_bytes=1, topics=topics)
        full, empty, unknown, beyond = response.responses[0].partitions
        assert values(full.records) == [b"a", b"b", b"c"], "the batch that holds the offset, and all behind it"
        assert (full.high_watermark, full.last_stable_offset) == (3, 3)
        assert (empty.error_code, bytes(empty.records or b"")) == (0, b"")
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run()


@with_adapter
async def test_a_reader_of_history_is_read_ahead_for_until_it_is_at_the_end(connect: Connect, broker: Broker) -> None:
    hints: list[ReadHint] = []
    read = broker.read

    def watched(log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        hints.append(hint)
        return read(log, offset, max_bytes, hint)

    broker.read = watched  # type: ignore[method-assign]
    client = connect()
    await client.create("t")
    for _ in range(3):
        await client.produce("t", batch(b"x" * 100))
    for offset in range(3):
        found = await client.fetch("t", offset, max_bytes=1, max_wait_ms=0)
        assert len(values(found.records)) == 1
    assert hints == [ReadHint.TAIL, ReadHint.CATCH_UP, ReadHint.CATCH_UP]
    await client.produce("t", batch(b"y"))
    await client.fetch("t", 3, max_wait_ms=0)
    assert hints[-1] is ReadHint.TAIL


@with_adapter
async def test_a_reader_at_the_end_waits_for_the_next_record(connect: Connect) -> None:
    reader, writer = connect(), connect()
    await reader.create("t")
    waiting = asyncio.create_task(reader.fetch("t", 0, max_wait_ms=60_000))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    await writer.produce("t", batch(b"x"))
    assert values((await waiting).records) == [b"x"]


@with_adapter
async def test_a_reader_waits_for_as_much_as_it_asked_for(connect: Connect) -> None:
    reader, writer = connect(), connect()
    await reader.create("t")
    waiting = asyncio.create_task(reader.fetch("t", 0, max_wait_ms=60_000, min_bytes=1_000))
    for _ in range(3):
        await writer.produce("t", batch(b"x" * 100))
        assert not waiting.done()
    await writer.produce("t", batch(b"x" * 1_000))
    assert len(values((await waiting).records)) == 4


@with_adapter
async def test_a_wait_ends_with_its_time(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    answer = await client.fetch("t", 0, max_wait_ms=5)
    assert (answer.error_code, answer.high_watermark, bytes(answer.records or b"")) == (0, 0, b"")


@with_adapter
async def test_deleting_the_topic_ends_the_wait(connect: Connect) -> None:
    reader, admin = connect(), connect()
    await reader.create("t")
    waiting = asyncio.create_task(reader.fetch("t", 0, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await admin.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["t"])
    assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_adapter
async def test_draining_answers_who_waits(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    client.send(ApiKey.FETCH, 4, max_wait_ms=60_000, min_bytes=1, topics=[])
    client.send(
        ApiKey.FETCH,
        4,
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1}]}],
    )
    await client.receive()
    assert client.session.busy
    client.session.drain()
    client.pump()
    assert client.session.finished
    assert client.output


@with_adapter
async def test_limits_bound_an_answer_but_one_batch_always_comes(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    for _ in range(5):
        await client.produce("t", batch(b"x" * 100))
    assert len(values((await client.fetch("t", 0, partition_max=1)).records)) == 1
    assert len(values((await client.fetch("t", 0, max_bytes=1)).records)) == 1
    assert len(values((await client.fetch("t", 0, partition_max=400)).records)) == 2


class SessionReader:
    """A consumer that keeps a session: says what changed, and learns what changed."""

    def __init__(self, client: Client, version: int) -> None:
        self.client = client
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self.topic_id = uuid.UUID(int=0)

    async def ask(self, *partitions: tuple[int, int], forgets: tuple[int, ...] = (), **options: Any) -> Any:
        """Answers the whole response."""
        self.topic_id = (await self.client.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics[0].topic_id
        key = {"topic_id": self.topic_id} if self.version >= 13 else {"topic": "t"}
        wanted = [{"partition": p, "fetch_offset": o, "partition_max_bytes": 1000} for p, o in partitions]
        body = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [key | {"partitions": wanted}] if wanted else [],
            "forgotten_topics_data": [key | {"partitions": forgets}] if forgets else [],
        }
        response = await self.client.ask(ApiKey.FETCH, self.version, **(body | options))
        if response.error_code == 0:
            self.session_id = response.session_id
            self.epoch += 1
        return response

    async def told(self, *partitions: tuple[int, int], forgets: tuple[int, ...] = ()) -> dict[int, list[bytes | None]]:
        """What is said about each partition."""
        response = await self.ask(*partitions, forgets=forgets)
        assert response.error_code == 0
        return {p.partition_index: values(p.records or b"") for t in response.responses for p in t.partitions}


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17, 18])
def test_in_a_session_only_what_changes_is_said(version: int) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client, writer = connect(), connect()
        await client.create("t", 3)
        reader = SessionReader(client, version)
        assert await reader.told((0, 0), (1, 0), (2, 0)) == {0: [], 1: [], 2: []}
        assert reader.session_id != 0
        assert await reader.told() == {}
        await writer.produce("t", batch(b"x"), partition=1)
        assert await reader.told() == {1: [b"x"]}
        assert await reader.told() == {1: [b"x"]}, "where to go on was not said"
        assert await reader.told((1, 1)) == {}
        await writer.produce("t", batch(b"y"), partition=2)
        assert await reader.told(forgets=(2,)) == {}
        assert await reader.told((2, 0)) == {2: [b"y"]}
        assert await reader.told((2, 9)) == {2: []}, "an error is always said"

    run()


@with_adapter
async def test_sessions_that_are_not_known_or_elsewhere_are_refused(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    reader = SessionReader(client, 12)
    await reader.told((0, 0))
    refused = await reader.ask(session_epoch=9)
    assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    refused = await reader.ask(session_id=reader.session_id + 1)
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    elsewhere = SessionReader(connect(), 12)
    elsewhere.session_id, elsewhere.epoch = reader.session_id, reader.epoch
    assert (await elsewhere.ask()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    reader.version = 13
    assert (await reader.ask((1, 0))).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    reader.version = 12
    assert await reader.told() == {}, "a refused request changes nothing"
    assert (await reader.ask((0, 0), session_epoch=-1)).session_id == 0
    reader.epoch = 2
    assert (await reader.ask()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@with_adapter
async def test_epochs_of_the_future_are_refused(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    wanted = {"partition": 0, "current_leader_epoch": 5, "partition_max_bytes": 10}
    topics = [{"topic": "t", "partitions": [wanted]}]
    response = await client.ask(ApiKey.FETCH, 12, topics=topics)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_reads_under_way_share_the_limit_of_the_answer() -> None:
    """Reads from disk begin together: what each may bring is taken from the others before it has come."""
    wanted = [PartitionFetch(index, 0, 1_000, -1) for index in range(6)]
    request = FetchRequest(
        -1, 0, 1, 2_500, committed_only=False, session_id=0, session_epoch=-1, topics=[("t", wanted)]
    )
    fetch = Fetch(request, 2_500, request.topics, [FetchedPartition(each) for each in wanted])
    assert [fetch.reserve(place) for place in fetch.places] == [1_000, 1_000, 500, 0, 0, 0]
    fetch.take(fetch.places[0], Answer.of(ReadResult([b"x" * 300], 0, 9, 9, 3)))
    assert fetch.gathered_bytes == 300
    assert fetch.reserve(fetch.places[3]) == 700
    fetch.take(fetch.places[1], Answer.of(ReadResult([b"x" * 5_000], 0, 9, 9, 3)))
    fetch.take(fetch.places[2], Answer.of(ReadResult([], 0, 9, 9, 3)))
    assert fetch.gathered_bytes == 300, "a batch above the limit comes only alone"
    assert fetch.reserve(fetch.places[4]) == 1_000
    assert fetch.reserve(fetch.places[5]) == 500


def test_who_was_left_out_is_read_when_others_bring_nothing() -> None:
    """The first partition has only records of an open transaction: a careful reader gets none of them."""
    wanted = [PartitionFetch(index, 0, 1_000, -1) for index in range(2)]
    request = FetchRequest(
        -1, 500, 1, 1_000, committed_only=True, session_id=0, session_epoch=-1, topics=[("t", wanted)]
    )
    fetch = Fetch(request, 1_000, request.topics, [FetchedPartition(each) for each in wanted])
    assert [fetch.reserve(place) for place in fetch.places] == [1_000, 0]
    open_records = bytes(batch(b"x" * 800))
    fetch.take(fetch.places[0], Answer.of(ReadResult([open_records], 0, 1, 0, 1)))
    fetch.take(fetch.places[1], Answer.of(ReadResult([], 0, 5, 5, 0)))
    assert not fetch.is_enough
    assert fetch.unread_places() == [fetch.places[1]]
    assert fetch.reserve(fetch.places[1]) == 1_000
    fetch.take(fetch.places[1], Answer.of(ReadResult([bytes(batch(b"y" * 2_000))], 0, 1, 1, 1)))
    assert fetch.is_enough
    assert fetch.gathered_bytes > 2_000, "the first batch comes whatever its size"


@pytest.mark.parametrize(
    ("max_bytes", "partition_max", "expected"),
    [(1_000, 1 << 20, [1, 0, 0]), (2_000, 1 << 20, [2, 0, 0]), (2_000, 950, [1, 1, 0]), (1, 1 << 20, [1, 0, 0]),
     (4_000, 10, [1, 0, 0]), (1 << 20, 1 << 20, [3, 3, 3])],
)  # fmt: skip
def test_an_answer_keeps_to_its_limit(max_bytes: int, partition_max: int, expected: list[int]) -> None:
    """Batches of about 900 bytes: a batch above a limit comes only where the answer holds no other."""

    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t", 3)
        for partition in range(3):
            for _ in range(3):
                await client.produce("t", batch(b"x" * 820), partition=partition)
        wanted = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": partition_max} for p in range(3)]
        topics = [{"topic": "t", "partitions": wanted}]
        limits = {"max_wait_ms": 60_000, "min_bytes": 6_000, "max_bytes": max_bytes}
        response = await client.ask(ApiKey.FETCH, 12, topics=topics, **limits)
        given = [len(values(p.records or b"")) for p in response.responses[0].partitions]
        assert given == expected

    run()
