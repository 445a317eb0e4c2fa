"""Limits of clients: set, shown, kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock, Timer
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Client, Connect, Operations, batch, with_adapter
from tests.support.worlds.brokers import with_engine


class HandClock(LoopClock):
    """Goes on only when told."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1_000.0
        self.seconds_per_look = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        self.seconds += self.seconds_per_look
        return self.seconds

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        self._due.append((self.seconds + seconds, function))
        return super().call_later(1_000_000, function)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        now, self._due = self._due, []
        for at, function in now:
            if at <= self.seconds:
                function()
            else:
                self._due.append((at, function))


Scene = Callable[[Callable[..., Client], HandClock], Awaitable[None]]


def with_clock(test: Scene) -> Callable[[], None]:
    """A test that is given something to connect with, and the time."""

    async def run(engine: MemoryEngine) -> None:
        clock = HandClock()
        adapter = KafkaAdapter(KafkaSettings(), await Broker.open(engine, clock), Operations())
        await test(lambda **options: Client(adapter, **options), clock)

    run.__name__ = test.__name__
    return with_engine(run)


def entity(**names: str | None) -> list[dict[str, str | None]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]


async def limit(
    client: Client, of: list[dict[str, str | None]], *, dry_run: bool = False, **values: float | None
) -> int:
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    entries = [{"entity": of, "ops": ops}]
    answer = await client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=dry_run)
    code: int = answer.entries[0].error_code
    return code


async def shown(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
    answer = await client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=asked, strict=strict)
    if answer.error_code:
        return answer.error_code
    return [
        (
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries
    ]


@with_adapter
async def test_limits_are_set_and_shown(connect: Connect) -> None:
    client = connect()
    assert await shown(client) == []
    assert await limit(client, entity(user="u"), producer_byte_rate=1024.0, request_percentage=50.5) == 0
    assert await limit(client, entity(user="u", client_id="c"), consumer_byte_rate=2048.0) == 0
    assert await limit(client, entity(user=None), producer_byte_rate=1.0) == 0
    assert await limit(client, entity(ip="10.0.0.1"), connection_creation_rate=5.0) == 0
    assert await limit(client, entity(client_id="dry"), dry_run=True, producer_byte_rate=1.0) == 0
    user = ((("user", "u"),), {"producer_byte_rate": 1024.0, "request_percentage": 50.5})
    both = ((("client-id", "c"), ("user", "u")), {"consumer_byte_rate": 2048.0})
    default = ((("user", None),), {"producer_byte_rate": 1.0})
    address = ((("ip", "10.0.0.1"),), {"connection_creation_rate": 5.0})
    assert await shown(client) == [user, both, default, address]
    assert await shown(client, ("user", 0, "u")) == [user, both]
    assert await shown(client, ("user", 0, "u"), strict=True) == [user]
    assert await shown(client, ("user", 1, None)) == [default]
    assert await shown(client, ("user", 2, None)) == [user, both, default]
    assert await shown(client, ("user", 0, "u"), ("client-id", 2, None)) == [both]
    assert await shown(client, ("ip", 2, None)) == [address]
    assert await limit(client, entity(user="u"), producer_byte_rate=None, request_percentage=None) == 0
    assert await shown(client, ("user", 0, "u"), strict=True) == []


@with_adapter
async def test_what_cannot_be_is_refused(connect: Connect) -> None:
    client = connect()
    invalid = ErrorCode.INVALID_REQUEST
    assert await limit(client, entity(team="u"), producer_byte_rate=1.0) == invalid
    assert await limit(client, entity(user="u"), producer_byte_rate=-1.0) == invalid
    assert await limit(client, entity(user="u"), unheard_of=1.0) == invalid
    assert await shown(client) == []
    assert await shown(client, ("team", 0, "x")) == ErrorCode.UNSUPPORTED_VERSION
    for wrong in (("", 0, "x"), ("user", 3, None), ("user", 0, None), ("user", 1, "x")):
        assert await shown(client, wrong) == invalid
    assert await shown(client, ("user", 1, None), ("user", 2, None)) == invalid
    assert await shown(client, ("user", 1, None), ("ip", 1, None)) == invalid


def test_limits_survive() -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        for expected in ([], [((("user", None),), {"producer_byte_rate": 7.0})]):
            adapter = KafkaAdapter(KafkaSettings(), await Broker.open(engine, LoopClock()), Operations())
            client = Client(adapter)
            assert await shown(client) == expected
            await limit(client, entity(user=None), producer_byte_rate=7.0)

    run()


@with_clock
async def test_a_producer_over_its_limit_is_told_and_not_read(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await client.create("t")
    await limit(client, entity(client_id="unit"), producer_byte_rate=100.0)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"x" * 1_900)}]}]
    first = await client.ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=data)
    # About 2,000 bytes in ten seconds, at 100 in each: ten seconds more.
    assert first.responses[0].partition_responses[0].error_code == 0
    assert 9_000 < first.throttle_time_ms < 11_000
    client.send(ApiKey.API_VERSIONS, 0)
    await asyncio.sleep(0)
    assert client.session.input_wanted is None
    assert not client.output
    clock.pass_time(first.throttle_time_ms / 1000 - 0.1)
    client.pump()
    assert not client.output
    clock.pass_time(0.2)
    client.pump()
    assert client.output
    await client.receive()
    other = connect(client_id="other")
    assert (await other.ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=data)).throttle_time_ms == 0


@with_clock
async def test_the_longest_wait_fits_its_field(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await client.create("t", max_message_bytes="10000000")
    await limit(client, entity(client_id="unit"), producer_byte_rate=1.0)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"x" * 3_000_000)}]}]
    answer = await client.ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=data)
    assert answer.throttle_time_ms == 2**31 - 1


@with_clock
async def test_without_acknowledgements_too(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await client.create("t")
    await limit(client, entity(user="ANONYMOUS"), producer_byte_rate=1.0)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"x" * 1_900)}]}]
    client.send(ApiKey.PRODUCE, 9, acks=0, topic_data=data)
    client.send(ApiKey.API_VERSIONS, 0)
    assert client.session.input_wanted is None
    clock.pass_time(100_000)
    client.pump()
    assert await client.receive()


@with_clock
async def test_a_consumer_over_its_limit_is_given_nothing_until_later(
    connect: Callable[..., Client], clock: HandClock
) -> None:
    client = connect()
    await client.create("t")
    assert (await client.produce("t", batch(b"x" * 2_000))).error_code == 0
    assert (await client.produce("t", batch(b"y" * 2_000))).error_code == 0
    await limit(client, entity(client_id=None), consumer_byte_rate=150.0)

    async def fetch(offset: int) -> Any:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100}
        topics = [{"topic": "t", "partitions": [partition]}]
        return await client.ask(ApiKey.FETCH, 12, max_wait_ms=0, min_bytes=1, topics=topics)

    # The first is larger than the limit allows in all, and is given nevertheless: it would never come.
    first = await fetch(0)
    assert len(first.responses[0].partitions[0].records) > 2_000
    assert first.throttle_time_ms > 0
    clock.pass_time(first.throttle_time_ms / 1000 + 0.01)
    second = await fetch(1)
    assert (second.responses, second.throttle_time_ms > 0) == ([], True)
    clock.pass_time(second.throttle_time_ms / 1000 + 0.01)
    third = await fetch(1)
    assert len(third.responses[0].partitions[0].records) > 2_000


@with_clock
async def test_a_session_goes_on_over_an_empty_answer(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await client.create("t")
    for _ in range(2):
        await client.produce("t", batch(b"x" * 900))
    await limit(client, entity(client_id=None), consumer_byte_rate=100.0)
    wanted = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}]}]
    ask = {"max_wait_ms": 0, "min_bytes": 1}
    first = await client.ask(ApiKey.FETCH, 12, topics=wanted, session_epoch=0, **ask)
    assert first.session_id
    wanted[0]["partitions"][0]["fetch_offset"] = 1  # type: ignore[index]
    over = await client.ask(ApiKey.FETCH, 12, topics=wanted, session_id=first.session_id, session_epoch=1, **ask)
    assert (over.session_id, over.responses, over.throttle_time_ms > 0) == (first.session_id, [], True)
    clock.pass_time(20)
    client.pump()
    again = await client.ask(ApiKey.FETCH, 12, session_id=first.session_id, session_epoch=2, **ask)
    assert len(again.responses[0].partitions[0].records) > 900


@with_clock
async def test_time_is_limited_too(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await limit(client, entity(client_id="unit"), request_percentage=1.0)
    assert (await client.ask(ApiKey.API_VERSIONS, 4)).throttle_time_ms == 0
    # As if the last request had kept the broker busy for half a second of the last ten: five percent.
    clock.seconds_per_look = 0.5
    await client.ask(ApiKey.API_VERSIONS, 4)
    clock.seconds_per_look = 0.0
    assert (await client.ask(ApiKey.API_VERSIONS, 4)).throttle_time_ms == 1_000
    assert client.session.input_wanted is None


@with_clock
async def test_changes_of_topics_are_limited(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await limit(client, entity(user="ANONYMOUS"), controller_mutation_rate=1.0)

    async def create(name: str, version: int = 7) -> tuple[int, int]:
        wish = {"name": name, "num_partitions": 8, "replication_factor": 1}
        answer = await client.ask(ApiKey.CREATE_TOPICS, version, topics=[wish])
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert await create("a") == (0, 0)
    assert await create("b") == (0, 5_000)
    clock.pass_time(1)
    client.pump()
    assert client.session.input_wanted is None
    other = client = connect()
    assert await create("c") == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 4_000)
    client = connect()
    assert await create("c", 5) == (0, 12_000)
    client = connect()
    deleted = await client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "a"}])
    assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    client = connect()
    grown = await client.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "a", "count": 9, "assignments": None}])
    assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.pass_time(13)
    other.pump()
    assert await create("d") == (0, 7_000)


@with_clock
async def test_connections_of_an_address_are_limited(connect: Callable[..., Client], clock: HandClock) -> None:
    client = connect()
    await limit(client, entity(ip="10.0.0.1"), connection_creation_rate=1.0)
    welcome = [connect(peer="10.0.0.1") for _ in range(10)]
    for one in (*welcome, connect(peer="10.0.0.2")):
        assert (await one.ask(ApiKey.API_VERSIONS, 0)).error_code == 0
    strange = connect(peer="10.0.0.1")
    strange.send(ApiKey.API_VERSIONS, 0)
    assert (strange.output, strange.session.finished) == (b"", False)
    clock.pass_time(1.1)
    assert strange.session.finished
    clock.pass_time(20)
    assert (await connect(peer="10.0.0.1").ask(ApiKey.API_VERSIONS, 0)).error_code == 0


@pytest.mark.parametrize("ended", [False, True])
def test_whoever_leaves_while_it_is_muted(ended: bool) -> None:
    @with_clock
    async def run(connect: Callable[..., Client], clock: HandClock) -> None:
        client = connect()
        await client.create("t")
        await limit(client, entity(client_id="unit"), producer_byte_rate=1.0)
        await client.produce("t", batch(b"x"))
        if ended:
            client.session.input_ended()
        else:
            client.session.closed()
        clock.pass_time(1_000)
        client.pump()
        assert client.session.finished

    run()
