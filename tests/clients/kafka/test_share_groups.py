"""Share groups (KIP-932), as librdkafka's share consumer speaks them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from tests.support.clients.confluent import admin, begin_at_the_start, create, produce
from tests.support.serving.kafka import QUICK_BEATS, QUICK_RETURN, Broker, serving

pytestmark = pytest.mark.conformance


def member(broker: Broker, group: str = "g", **config: object) -> ShareConsumer:
    return ShareConsumer({"bootstrap.servers": broker.address, "group.id": group, **QUICK_RETURN, **config})


def gather(enough: Callable[[list[int]], bool], *members: ShareConsumer, attempts: int = 300) -> list[int]:
    """Poll in turn until it is enough."""
    values: list[int] = []
    for _ in range(attempts):
        for each in members:
            for message in each.poll(0.2):
                assert message.error() is None, message.error()
                values.append(int(message.value()))
        if enough(values):
            return values
    raise AssertionError(f"{len(values)} came")


def test_members_share_partitions(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "shared", 1)
        begin_at_the_start(broker)
        one, two = member(broker), member(broker)
        one.subscribe(["shared"])
        two.subscribe(["shared"])
        produce(broker, "shared", [{"value": b"%d" % i} for i in range(1_000)])
        values = gather(lambda got: len(got) >= 1_000, one, two)
        assert sorted(values) == list(range(1_000))
        one.close()
        two.close()


def test_nothing_acknowledged_comes_again_after_kills(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "shared", 2)
        begin_at_the_start(broker)
        reader = member(broker)
        reader.subscribe(["shared"])
        settled: set[int] = set()
        for cycle in range(3):
            mine = range(cycle * 100, cycle * 100 + 100)
            produce(broker, "shared", [{"value": b"%d" % i, "partition": i % 2} for i in mine])
            for _ in range(300):
                values = [int(message.value()) for message in reader.poll(0.2) if message.error() is None]
                assert not settled.intersection(values)
                refusals = reader.commit_sync()
                assert not any(refusals.values()), refusals
                settled.update(values)
                if settled.issuperset(mine):
                    break
            broker.kill()
            broker.start()
        assert settled == set(range(300))
        later = member(broker)
        later.subscribe(["shared"])
        produce(broker, "shared", [{"value": b"300", "partition": 0}])
        assert gather(lambda got: bool(got), reader, later) == [300]
        later.close()
        reader.close()


def test_verdicts_and_dead_letters(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_BEATS) as broker:
        create(broker, "shared", 1)
        create(broker, "dlq.shared", 1, errors_deadletterqueue_group_enable="true")
        letters = {
            "errors.deadletterqueue.topic.name": "dlq.shared",
            "errors.deadletterqueue.copy.record.enable": "true",
            "share.delivery.count.limit": "2",
        }
        begin_at_the_start(broker, **letters)
        begin_at_the_start(broker, "undertaker")
        produce(broker, "shared", [{"value": b"%d" % i} for i in range(10)])
        reader = member(broker, **{"share.acknowledgement.mode": "explicit"})
        reader.subscribe(["shared"])
        seen: dict[int, int] = {}
        for _ in range(300):
            for message in reader.poll(0.2):
                value = int(message.value())
                seen[value] = seen.get(value, 0) + 1
                verdict = {3: AcknowledgeType.REJECT, 5: AcknowledgeType.RELEASE}.get(value, AcknowledgeType.ACCEPT)
                reader.acknowledge(message, verdict)
            reader.commit_sync()
            if len(seen) == 10 and seen[5] == 2:
                break
        assert seen == {value: 2 if value == 5 else 1 for value in range(10)}
        undertaker = member(broker, "undertaker")
        undertaker.subscribe(["dlq.shared"])
        assert sorted(gather(lambda got: len(got) >= 2, undertaker)) == [3, 5]
        undertaker.close()
        reader.close()
        client = admin(broker)
        for group, deleted in client.delete_consumer_groups(["g", "undertaker"]).items():
            assert deleted.result(10) is None, group
