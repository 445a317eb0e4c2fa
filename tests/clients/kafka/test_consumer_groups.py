"""The newer group protocol (KIP-848), as librdkafka speaks it."""

import itertools
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.clients.kafka.collecting import partitions, poll_until
from tests.support.clients.confluent import admin, create, produce
from tests.support.serving.kafka import QUICK_GROUPS, QUICK_RETURN, Broker, serving

pytestmark = pytest.mark.conformance

QUICK_BEATS = ("--set", "kafka.consumer_group_heartbeat_interval_ms=100")


def consumer(broker: Broker, group: str, **config: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUICK_RETURN,
            **config,
        }
    )


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_share_and_go(tmp_path: Path, assignor: str) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "directed", 6)
        config = {"group.remote.assignor": assignor}
        one = consumer(broker, "g", **config)
        one.subscribe(["directed"])
        poll_until(lambda: partitions(one) == set(range(6)), one)
        two, three = consumer(broker, "g", **config), consumer(broker, "g", **config)
        two.subscribe(["directed"])
        poll_until(lambda: len(partitions(one)) == len(partitions(two)) == 3, one, two)
        three.subscribe(["directed"])
        everybody = (one, two, three)
        poll_until(lambda: [len(partitions(each)) for each in everybody] == [2, 2, 2], *everybody)
        assert set().union(*map(partitions, everybody)) == set(range(6))
        produce(broker, "directed", [{"value": b"%d" % i, "partition": i % 6} for i in range(600)])
        received: list[bytes] = []
        while len(received) < 600:
            received += poll_until(lambda: True, *everybody)
        assert sorted(map(int, received)) == list(range(600))
        one.commit(asynchronous=False)
        client = admin(broker)
        described = client.describe_consumer_groups(["g"])["g"].result(10)
        assert (described.type.name, described.state.name, len(described.members)) == ("CONSUMER", "STABLE", 3)
        assert [g.group_id for g in client.list_consumer_groups().result(10).valid] == ["g"]
        two.close()
        three.close()
        poll_until(lambda: partitions(one) == set(range(6)), one)
        one.close()


def test_members_and_offsets_survive_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "directed", 2)
        produce(broker, "directed", [{"value": b"%d" % i, "partition": i % 2} for i in range(100)])
        reader = consumer(broker, "g")
        reader.subscribe(["directed"])
        received: list[bytes] = []
        while len(received) < 100:
            received += poll_until(lambda: True, reader)
        reader.commit(asynchronous=False)
        broker.kill()
        broker.start()
        produce(broker, "directed", [{"value": b"%d" % i, "partition": i % 2} for i in range(100, 200)])
        while len(received) < 200:
            received += poll_until(lambda: True, reader)
        assert sorted(map(int, received)) == list(range(200)), "joined anew, and read again"
        reader.commit(asynchronous=False)
        reader.close()
        client = admin(broker)
        listed = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"].result(10)
        assert {(p.partition, p.offset) for p in listed.topic_partitions} == {(0, 100), (1, 100)}
        assert TopicPartition("directed", 0) in listed.topic_partitions
        client.delete_consumer_groups(["g"])["g"].result(10)
        assert client.list_consumer_groups().result(10).valid == []


def test_a_static_member_comes_back_to_its_place(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "directed", 4)
        first, other = consumer(broker, "g", **{"group.instance.id": "a"}), consumer(broker, "g")
        first.subscribe(["directed"])
        other.subscribe(["directed"])
        poll_until(lambda: len(partitions(first)) == len(partitions(other)) == 2, first, other)
        held = partitions(first)
        first.close()
        poll_until(lambda: True, other)
        assert len(partitions(other)) == 2, "kept for the one that only went for a while"
        second = consumer(broker, "g", **{"group.instance.id": "a"})
        second.subscribe(["directed"])
        poll_until(lambda: partitions(second) == held, second, other)
        second.close()
        other.close()


def test_topics_by_regular_expression(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "orders-1", 2)
        create(broker, "bills", 1)
        reader = consumer(broker, "g", **{"topic.metadata.refresh.interval.ms": 500})
        reader.subscribe(["^orders-[0-9]+"])

        def held() -> set[tuple[str, int]]:
            return {(place.topic, place.partition) for place in reader.assignment()}

        poll_until(lambda: held() == {("orders-1", 0), ("orders-1", 1)}, reader)
        create(broker, "orders-2", 1)
        produce(broker, "orders-2", [{"value": b"late"}])
        received = poll_until(lambda: ("orders-2", 0) in held(), reader)
        while not received:
            received += poll_until(lambda: True, reader)
        assert received == [b"late"]
        assert len(held()) == 3
        client = admin(broker)
        client.delete_topics(["orders-1"])["orders-1"].result(10)
        poll_until(lambda: held() == {("orders-2", 0)}, reader)
        reader.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_is_rolled_member_by_member(tmp_path: Path, strategy: str) -> None:
    """From the classic protocol to the newer one and back, under load: no record is lost, all is shared out each time."""
    with serving(tmp_path / "data", *QUICK_BEATS, *QUICK_GROUPS) as broker:
        create(broker, "rolled", 6)
        quick = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
        configs: dict[str, dict[str, object]] = {
            "classic": {"group.protocol": "classic", "partition.assignment.strategy": strategy, **quick},
            "consumer": {"group.protocol": "consumer"},
        }
        numbers = itertools.count()
        sent: list[int] = []
        received: list[bytes] = []
        kinds = ["classic"] * 3
        members = [consumer(broker, "g", **configs[kind]) for kind in kinds]

        def settle() -> None:
            """Everybody has two partitions and all that was sent arrives."""
            received.extend(poll_until(lambda: sorted(len(partitions(m)) for m in members) == [2, 2, 2], *members))
            assert set().union(*map(partitions, members)) == set(range(6))
            mine = list(itertools.islice(numbers, 60))
            produce(broker, "rolled", [{"value": b"%d" % n, "partition": n % 6} for n in mine])
            sent.extend(mine)
            wanted = set(mine)
            while not wanted <= set(map(int, received)):
                received.extend(poll_until(lambda: True, *members))
            for member in members:
                member.commit(asynchronous=False)

        for member in members:
            member.subscribe(["rolled"])
        settle()
        client = admin(broker)
        assert client.describe_consumer_groups(["g"])["g"].result(10).type.name == "CLASSIC"
        for to in ("consumer", "classic"):
            for index in range(3):
                members[index].close()
                members[index] = consumer(broker, "g", **configs[to])
                members[index].subscribe(["rolled"])
                settle()
            assert client.describe_consumer_groups(["g"])["g"].result(10).type.name == to.upper()
        assert set(map(int, received)) == set(sent)
        for member in members:
            member.close()
