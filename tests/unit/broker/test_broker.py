"""Administration through the broker: what is answered is durable, and a new broker on the same log knows it."""

import asyncio
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic, Topic
from mainstem.broker.clock import LoopClock
from mainstem.broker.errors import InvalidPartitionCount, InvalidTopicConfig, TopicExists, UnknownTopic
from mainstem.broker.log import Append, Commit, Committed, Edge
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.worlds.brokers import with_broker, with_engine


def batch(value: bytes) -> bytearray:
    return encode_batch([Record(0, 1, None, value)])


async def published(broker: Broker, topic: Topic, value: bytes) -> int:
    (result,) = await broker.publish([Commit((Append(topic.logs[0], batch(value)),))])
    assert isinstance(result, Committed)
    return result.bases[0]


@with_engine
async def test_another_broker_on_the_same_log_knows_what_was_created(engine: MemoryEngine) -> None:
    first = await Broker.open(engine, LoopClock())
    (topic,) = await first.topics.create([NewTopic("a", 2, {"retention.ms": "77"})])
    assert isinstance(topic, Topic)
    assert await published(first, topic, b"x") == 0
    producer = await first.producers.new_id()
    second = await Broker.open(engine, LoopClock())
    assert second.cluster_id == first.cluster_id
    assert second.topics.get("a").logs == topic.logs
    assert second.topics.by_id[topic.id].configs == {"retention.ms": "77"}
    assert (await second.find(topic.logs[0], Edge.END)).offset == 1
    assert await second.producers.new_id() > producer


@with_broker
async def test_topics_of_one_request_succeed_and_fail_singly(broker: Broker) -> None:
    outcomes = await broker.topics.create(
        [NewTopic("a", 1), NewTopic("b", 0), NewTopic("a", 1), NewTopic("c", 1, {"no": "1"}), NewTopic("d", 2)]
    )
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "Topic",
        "InvalidPartitionCount",
        "TopicExists",
        "InvalidTopicConfig",
        "Topic",
    ]
    assert set(broker.topics.named()) == {"a", "d"}


@with_broker
async def test_who_asks_for_one_topic_at_once_gets_one_topic(broker: Broker) -> None:
    topics = await asyncio.gather(*(broker.topics.ensure(NewTopic("a", 1)) for _ in range(10)))
    assert len({topic.id for topic in topics}) == 1


@with_broker
async def test_a_deleted_topic_takes_its_records_along(broker: Broker) -> None:
    old = await broker.topics.ensure(NewTopic("a", 1))
    await published(broker, old, b"x")
    await broker.topics.delete(old)
    assert not broker.topics.named()
    with pytest.raises(UnknownTopic):
        await broker.topics.delete(old)
    new = await broker.topics.ensure(NewTopic("a", 1))
    assert new.id != old.id
    assert await published(broker, new, b"y") == 0


@with_broker
async def test_expanding_and_configuring(broker: Broker) -> None:
    await broker.topics.ensure(NewTopic("a", 1))
    await broker.topics.expand("a", 3, dry_run=True)
    assert len(broker.topics.get("a").logs) == 1
    await broker.topics.expand("a", 3)
    assert len(broker.topics.get("a").logs) == 3
    with pytest.raises(InvalidPartitionCount):
        await broker.topics.expand("a", 3)
    await broker.topics.configure("a", lambda configs: configs | {"max.message.bytes": "100"})
    (refusal,) = await broker.publish([Commit((Append(broker.topics.get("a").logs[2], batch(b"x" * 100)),))])
    assert type(refusal).__name__ == "BatchTooLarge"
    (outcome,) = await broker.topics.create([NewTopic("a", 1)])
    assert isinstance(outcome, TopicExists)


@with_engine
async def test_partitions_and_configuration_change_by_one_commit(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.topics.create([NewTopic("t", 1, {"retention.ms": "1000"})])
    changes: list[int] = []
    alter = engine.alter

    def counted(logs: Any, state: Any = ()) -> Any:
        changes.append(len(logs))
        return alter(logs, state)

    engine.alter = counted  # type: ignore[method-assign]
    await broker.topics.alter("t", 3, lambda config: config | {"max.message.bytes": "5000"})
    assert changes == [3], "one log configured, two created"
    await broker.topics.alter("t", 3, lambda config: config)
    assert len(changes) == 1, "nothing changed, nothing written"
    with pytest.raises(InvalidPartitionCount):
        await broker.topics.alter("t", 2, lambda config: config | {"max.message.bytes": "6000"})
    with pytest.raises(InvalidTopicConfig):
        await broker.topics.alter("t", 5, lambda config: config | {"unheard.of": "1"})
    again = (await Broker.open(engine, LoopClock())).topics.get("t")
    assert (len(again.logs), again.configs) == (3, {"retention.ms": "1000", "max.message.bytes": "5000"})
