"""MirrorMaker 2 between Mainstem and a real Kafka, both ways. `make test-java` runs this module."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from tests.java.distribution import KAFKA_VERSION, MIRROR, Distribution, NotReachable
from tests.java.kafka_broker import running_kafka
from tests.support.serving.kafka import PATIENCE_S, QUICK_GROUPS, serving

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]

MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"
MIRROR_SECONDS_MAX = 240
PARTITIONS, RECORDS = 3, 300
COMPACTED = {
    "cleanup.policy": "compact",
    "max.compaction.lag.ms": "3600000",
    "min.compaction.lag.ms": "1000",
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": "60000",
    "segment.ms": "600000",
    "compression.type": "zstd",
    "compression.zstd.level": "7",
}
TUNED = {
    "compression.type": "gzip",
    "compression.gzip.level": "4",
    "compression.lz4.level": "12",
    "file.delete.delay.ms": "1000",
    "flush.messages": "1000",
    "flush.ms": "2000",
    "index.interval.bytes": "8192",
    "local.retention.bytes": "1000000",
    "local.retention.ms": "1000",
    "max.message.bytes": "2000000",
    "message.timestamp.after.max.ms": "7200000",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "retention.bytes": "100000000",
    "retention.ms": "86400000",
    "segment.bytes": "10485760",
    "segment.index.bytes": "1048576",
    "segment.jitter.ms": "100",
}
TOPICS = {"compacted": COMPACTED, "tuned": TUNED}
ONLY_HERE = {"min.insync.replicas": "2", "leader.replication.throttled.replicas": "0:1"}
"""Kafka with one node has these, takes no write with acks=all, and MirrorMaker writes so: they go one way only."""
PROPERTIES = """\
clusters=mainstem,kafka
mainstem.bootstrap.servers={mainstem}
kafka.bootstrap.servers={kafka}
mainstem->kafka.enabled=true
mainstem->kafka.topics=compacted,tuned
kafka->mainstem.enabled=true
kafka->mainstem.topics=compacted,tuned
kafka->mainstem.config.properties.exclude=none
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
refresh.topics.interval.seconds=2
sync.topic.configs.interval.seconds=2
emit.checkpoints.enabled=false
emit.heartbeats.enabled=false
"""


class Record(NamedTuple):
    key: bytes
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes], ...]


class Cluster:
    """One side, as an ordinary client sees it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def create(self, name: str, configs: dict[str, str]) -> None:
        wish = NewTopic(name, PARTITIONS, 1, config=configs)
        self.admin.create_topics([wish])[name].result(PATIENCE_S)

    def fill(self, name: str) -> None:
        # One synced copy, or one of the two that Kafka does not have.
        producer = Producer({"bootstrap.servers": self.address, "acks": 1, "linger.ms": 5})
        now_ms = int(time.time() * 1000)
        for number in range(RECORDS):
            value = None if number % 50 == 0 else b"%s %d" % (name.encode(), number)
            place = {"partition": number % PARTITIONS, "timestamp": now_ms - 10_000 + number}
            producer.produce(name, value, b"key-%d" % number, headers=[("number", b"%d" % number)], **place)
        assert producer.flush(PATIENCE_S) == 0

    def records(self, name: str) -> list[list[Record]]:
        """By partition, as far as they are there."""
        found: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        with contextlib.closing(Consumer({"bootstrap.servers": self.address, "group.id": "unused"})) as consumer:
            consumer.assign([TopicPartition(name, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
            while messages := consumer.consume(RECORDS, 3):
                for message in messages:
                    assert message.error() is None, message.error()
                    headers = tuple(message.headers() or ())
                    record = Record(message.key(), message.value(), message.timestamp()[1], headers)
                    found[message.partition()].append(record)
        return found

    def partitions(self, name: str) -> int:
        return len(self.admin.list_topics(timeout=PATIENCE_S).topics[name].partitions)

    def configs(self, name: str) -> dict[str, str]:
        """What was set for the topic."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries: dict[str, Any] = self.admin.describe_configs([resource])[resource].result(PATIENCE_S)
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {entry.name: entry.value for entry in entries.values() if entry.source == own}

    def configure(self, name: str, **configs: str) -> None:
        changes = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        self.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


@pytest.fixture(scope="module")
def mirror() -> Distribution:
    try:
        return Distribution(f"mirror-{KAFKA_VERSION}", MIRROR)
    except NotReachable as reason:
        pytest.skip(f"MirrorMaker cannot be fetched: {reason}")


@contextlib.contextmanager
def mirroring(mirror: Distribution, home: Path, mainstem: str, kafka: str) -> Iterator[None]:
    properties = home / "mirror.properties"
    properties.write_text(PROPERTIES.format(mainstem=mainstem, kafka=kafka))
    with (home / "mirror.out").open("w") as out:
        process = mirror.start(MIRROR_MAKER, str(properties), out=out)
        try:
            yield
            assert process.poll() is None, "MirrorMaker has ended"
        finally:
            process.kill()
            process.wait()


def wait_equal(measure: Callable[[], Any], expected: Any) -> None:
    """Look again and again; the last look tells the difference."""
    deadline = time.monotonic() + MIRROR_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(KeyError):
            if measure() == expected:
                return
        time.sleep(0.5)
    assert measure() == expected


def test_both_ways_come_out_equal(distribution: Distribution, mirror: Distribution, tmp_path: Path) -> None:
    with (
        serving(tmp_path / "mainstem", *QUICK_GROUPS, "--set", "kafka.partitions_default=4") as broker,
        running_kafka(distribution, tmp_path / "kafka") as kafka_address,
    ):
        mainstem, kafka = Cluster(broker.address), Cluster(kafka_address)
        for cluster in (mainstem, kafka):
            for name, configs in TOPICS.items():
                cluster.create(name, configs | (ONLY_HERE if cluster is kafka else {}))
                cluster.fill(name)
        with mirroring(mirror, tmp_path, mainstem.address, kafka.address):
            check_mirrored(mainstem, kafka, "mainstem", {})
            check_mirrored(kafka, mainstem, "kafka", ONLY_HERE)
            for source, target, alias in ((mainstem, kafka, "mainstem"), (kafka, mainstem, "kafka")):
                source.configure("tuned", retention_ms="172800000", cleanup_policy="compact,delete")
                wait_equal(lambda t=target, a=alias: t.configs(f"{a}.tuned"), source.configs("tuned"))


def check_mirrored(source: Cluster, target: Cluster, alias: str, more: dict[str, str]) -> None:
    for name, configs in TOPICS.items():
        copy = f"{alias}.{name}"
        expected = source.records(name)
        assert sum(map(len, expected)) == RECORDS
        wait_equal(lambda copy=copy: target.partitions(copy), PARTITIONS)
        wait_equal(lambda copy=copy: target.configs(copy), configs | more)
        wait_equal(lambda copy=copy: target.records(copy), expected)
