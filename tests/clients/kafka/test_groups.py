"""Groups of real consumers: shared partitions, rebalances, offsets that last."""

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.kafka.collecting import partitions, poll_until
from tests.clients.kafka.kafka_python import MARKS
from tests.support.clients.confluent import admin, create, produce
from tests.support.serving.kafka import PATIENCE_S, QUICK_GROUPS, QUICK_RETURN, Broker, serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, when it is imported
    from kafka import KafkaConsumer

pytestmark = MARKS


def consumer(broker: Broker, group: str, **config: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            **QUICK_RETURN,
            **config,
        }
    )


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_consumers_share_and_take_over(broker: Broker, strategy: str) -> None:
    topic = f"shared-{strategy}"
    create(broker, topic, 6)
    config = {"partition.assignment.strategy": strategy}
    one, two = consumer(broker, topic, **config), consumer(broker, topic, **config)
    one.subscribe([topic])
    poll_until(lambda: len(partitions(one)) == 6, one)
    two.subscribe([topic])
    poll_until(lambda: len(partitions(one)) == len(partitions(two)) == 3, one, two)
    assert partitions(one) | partitions(two) == set(range(6))
    produce(broker, topic, [{"key": b"%d" % i, "value": b"%d" % i} for i in range(600)])
    received: list[bytes] = []
    while len(received) < 600:
        received += poll_until(lambda: True, one, two)
    assert sorted(map(int, received)) == list(range(600))
    two.close()
    poll_until(lambda: len(partitions(one)) == 6, one)
    one.close()


def test_who_comes_back_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_GROUPS) as broker:
        create(broker, "lasting", 2)
        produce(broker, "lasting", [{"value": b"%d" % i, "partition": i % 2} for i in range(100)])
        reader = consumer(broker, "g")
        reader.subscribe(["lasting"])
        first: list[bytes] = []
        while len(first) < 100:
            first += poll_until(lambda: True, reader)
        reader.commit(
            offsets=[TopicPartition("lasting", 0, 30, "half way"), TopicPartition("lasting", 1, 40)], asynchronous=False
        )
        broker.kill()
        broker.start()
        # the member is still known: its heartbeats go on
        poll_until(
            lambda: admin_of(broker).describe_consumer_groups(["g"])["g"].result(10).state.name == "STABLE", reader
        )
        reader.close()
        again = consumer(broker, "g")
        committed = again.committed([TopicPartition("lasting", 0), TopicPartition("lasting", 1)], timeout=10)
        assert [(place.offset, place.metadata) for place in committed] == [(30, "half way"), (40, None)]
        again.subscribe(["lasting"])
        rest: list[bytes] = []
        while len(rest) < 30:
            rest += poll_until(lambda: True, again)
        assert sorted(map(int, rest)) == sorted([*range(60, 100, 2), *range(81, 100, 2)])
        again.close()
        broker.stop()
        broker.start()
        listed = admin_of(broker).list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(10)
        assert {(p.partition, p.offset) for p in listed.topic_partitions} == {(0, 30), (1, 40)}


_ADMINS: dict[str, AdminClient] = {}


def admin_of(broker: Broker) -> AdminClient:
    return _ADMINS.setdefault(broker.address, admin(broker))


def test_static_members_keep_their_place(broker: Broker) -> None:
    create(broker, "static", 4)
    rebalances: list[str] = []
    other = consumer(broker, "static", **{"group.instance.id": "b"})
    other.subscribe(["static"], on_revoke=lambda *_: rebalances.append("revoked"))
    first = consumer(broker, "static", **{"group.instance.id": "a"})
    first.subscribe(["static"])
    poll_until(lambda: len(partitions(first)) == len(partitions(other)) == 2, first, other)
    rebalances.clear()
    held = partitions(first)
    first.close()
    second = consumer(broker, "static", **{"group.instance.id": "a"})
    second.subscribe(["static"])
    poll_until(lambda: partitions(second) == held, second, other)
    assert not rebalances
    second.close()
    other.close()


def test_administration_of_groups(broker: Broker) -> None:
    client = admin_of(broker)
    create(broker, "grouped", 1)
    reader = consumer(broker, "administered-group", **{"client.id": "me"})
    reader.subscribe(["grouped"])
    poll_until(lambda: len(partitions(reader)) == 1, reader)
    assert "administered-group" in {g.group_id for g in client.list_consumer_groups().result(10).valid}
    described = client.describe_consumer_groups(["administered-group"])["administered-group"].result(10)
    assert {member.host for member in described.members} == {"/127.0.0.1"}
    assert (described.state.name, described.partition_assignor) == ("STABLE", "range")
    (member,) = described.members
    assert (member.client_id, member.assignment.topic_partitions) == ("me", [TopicPartition("grouped", 0)])
    reader.commit(offsets=[TopicPartition("grouped", 0, 5)], asynchronous=False)
    with pytest.raises(KafkaException) as refused:
        client.delete_consumer_groups(["administered-group"])["administered-group"].result(10)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    reader.close()
    wanted = ConsumerGroupTopicPartitions("administered-group", [TopicPartition("grouped", 0, 2)])
    client.alter_consumer_group_offsets([wanted])["administered-group"].result(10)
    found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("administered-group")])
    assert [p.offset for p in found["administered-group"].result(10).topic_partitions] == [2]
    client.delete_consumer_groups(["administered-group"])["administered-group"].result(10)
    assert "administered-group" not in {g.group_id for g in client.list_consumer_groups().result(10).valid}


def test_kafka_python_shares_and_commits(broker: Broker) -> None:
    create(broker, "kp-group", 2)
    produce(broker, "kp-group", [{"value": b"%d" % i, "partition": i % 2} for i in range(100)])

    def read(count: int) -> list[int]:
        reader: Any = KafkaConsumer(
            "kp-group",
            bootstrap_servers=broker.address,
            group_id="kp",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=15_000,
            max_poll_records=10,
        )
        values = []
        for record in reader:
            values.append(int(record.value))
            if len(values) == count:
                break
        reader.commit()
        reader.close()
        return values

    first = read(50)
    produce(broker, "kp-group", [{"value": b"%d" % i, "partition": i % 2} for i in range(100, 110)])
    second = read(60)
    assert sorted(first + second) == list(range(110))


def test_aiokafka_shares_and_commits(broker: Broker) -> None:
    create(broker, "aio-group", 4)
    produce(broker, "aio-group", [{"value": b"%d" % i, "partition": i % 4} for i in range(200)])

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            "aio-group",
            bootstrap_servers=broker.address,
            group_id="aio",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
        )

    async def run() -> None:
        one, two = member(), member()
        await asyncio.gather(one.start(), two.start())
        received: list[int] = []
        while len(set(received)) < 200:
            for each in (one, two):
                found = await each.getmany(timeout_ms=100)
                received += [int(r.value or b"") for records in found.values() for r in records]
        assert len(one.assignment()) == len(two.assignment()) == 2
        await one.commit()
        await two.commit()
        await asyncio.gather(one.stop(), two.stop())
        three = member()
        await three.start()
        assert {await three.committed(place) for place in three.assignment()} == {50}
        await three.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
