"""Consumers of one channel: the limit that they share, and how they hear of the end of their queue."""

from collections import Counter
from collections.abc import Sequence

import pytest

from mainstem.broker.broker import Broker
from tests.support.clients.amqp_client import Client, Connect, with_adapter

NAMES = ("a", "b", "c")


async def filled(client: Client, count: int, *names: str) -> None:
    for name in names:
        await client.ask("queue.declare", queue=name)
        for number in range(count):
            client.publish(name, b"%d" % number)
        await client.ask("queue.declare", queue=name, passive=True)  # answered when they are there


async def consumers(client: Client, *names: str, no_ack: bool = False) -> None:
    for name in names:
        client.send("basic.consume", queue=name.rstrip("12"), consumer_tag=name, no_ack=no_ack, nowait=True)
    await client.turns()


def deliveries(client: Client) -> list[tuple[str, int]]:
    """Which consumer got each, under which tag; they are taken."""
    frames, client.frames = client.frames, []
    assert {frame.name for frame in frames} <= {"basic.deliver"}
    return [(frame["consumer_tag"], frame["delivery_tag"]) for frame in frames]


def spread(got: Counter[str], names: Sequence[str]) -> int:
    """How far apart the best and the worst served are."""
    counts = [got[name] for name in names]
    return max(counts) - min(counts)


@pytest.mark.parametrize("limit", [1, 2, 7, 30])
def test_a_limit_for_all_is_shared_by_the_queues(limit: int) -> None:
    @with_adapter
    async def scenario(connect: Connect, broker: Broker) -> None:
        client = await connect().open()
        await filled(client, 100, *NAMES)
        await client.ask("basic.qos", prefetch_count=limit, **{"global": True})
        await consumers(client, *NAMES)
        got: Counter[str] = Counter()
        waiting: list[int] = []
        while got.total() < 90:
            for name, tag in deliveries(client):
                got[name] += 1
                waiting.append(tag)
            assert len(waiting) <= limit
            client.send("basic.ack", delivery_tag=waiting.pop(0))
            await client.turns()
        assert spread(got, NAMES) <= max(2, limit // 2)

    scenario()


@with_adapter
async def test_consumers_of_one_queue_share_a_limit_for_all(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await filled(client, 100, "a")
    await client.ask("basic.qos", prefetch_count=2, **{"global": True})
    await consumers(client, "a", "a1", "a2")
    got: Counter[str] = Counter()
    while got.total() < 60:
        found = deliveries(client)
        got.update(name for name, _ in found)
        assert 0 < len(found) <= 2
        client.send("basic.ack", delivery_tag=found[-1][1], multiple=True)
        await client.turns()
    assert spread(got, ("a", "a1", "a2")) <= 2


@with_adapter
async def test_a_limit_for_all_is_used_up_by_the_one_queue_that_has_messages(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await filled(client, 100, "b")
    for name in ("a", "c"):
        await client.ask("queue.declare", queue=name)
    await client.ask("basic.qos", prefetch_count=10, **{"global": True})
    await consumers(client, *NAMES)
    await client.turns()
    assert [name for name, _ in deliveries(client)] == ["b"] * 10
    client.publish("a", b"late")
    await client.turns()
    assert not deliveries(client)
    client.send("basic.ack", delivery_tag=1)
    await client.turns()
    assert [name for name, _ in deliveries(client)] == ["a"], "who has waited longest comes first"


@with_adapter
async def test_who_does_not_acknowledge_waits_while_the_limit_for_all_is_reached(
    connect: Connect, broker: Broker
) -> None:
    client = await connect().open()
    await filled(client, 5, "a", "b")
    await client.ask("basic.qos", prefetch_count=5, **{"global": True})
    await consumers(client, "a")
    assert len(deliveries(client)) == 5
    await consumers(client, "b", no_ack=True)
    assert not deliveries(client)
    client.send("basic.ack", delivery_tag=1)
    await client.turns()
    assert [name for name, _ in deliveries(client)] == ["b"] * 5, "it takes nothing from the limit"


@with_adapter
async def test_a_limit_for_all_ends_with_the_next_that_is_not(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await filled(client, 20, *NAMES)
    await client.ask("basic.qos", prefetch_count=1, **{"global": True})
    await consumers(client, *NAMES)
    assert len(deliveries(client)) == 1
    client.send("basic.cancel", consumer_tag="a", nowait=True)
    await client.ask("basic.qos", prefetch_count=0)
    await client.turns()
    assert {name for name, _ in deliveries(client)} == {"b", "c"}


@pytest.mark.parametrize("number", [1, 2])
def test_the_deletion_of_a_queue_is_answered_before_its_own_consumers_are_told(number: int) -> None:
    @with_adapter
    async def scenario(connect: Connect, broker: Broker) -> None:
        client = await connect().open()
        await client.ask("channel.open", 2)
        await client.ask("queue.declare", queue="a")
        for channel, tag in ((1, "one"), (1, "two"), (2, "three")):
            await client.ask("basic.consume", channel, queue="a", consumer_tag=tag)
        client.send("queue.delete", number, queue="a")
        await client.turns()
        own = [frame.name for frame in client.frames if frame.channel == number]
        others = [frame.name for frame in client.frames if frame.channel != number]
        assert own == ["queue.delete-ok", *["basic.cancel"] * (3 - number)]
        assert others == ["basic.cancel"] * number

    scenario()


@with_adapter
async def test_without_an_answer_consumers_are_told_all_the_same(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="a")
    await client.ask("basic.consume", queue="a", consumer_tag="one")
    client.send("queue.delete", queue="a", nowait=True)
    await client.wait("basic.cancel")


@with_adapter
async def test_a_passive_declaration_is_a_use(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="a", arguments={"x-expires": ("long", 60_000)})
    queue = broker.queues.find("default", "a")
    assert queue is not None
    queue.used_ms -= 59_000
    before = queue.used_ms
    await client.ask("queue.declare", queue="a", passive=True)
    assert queue.used_ms >= before + 59_000
