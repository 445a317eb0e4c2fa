"""What tests of Spark send, and how they ask."""

import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession

from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition
from mainstem.wire.kafka import ApiKey
from tests.clients.kafka.serving import PATIENCE_S, QUICK_RETURN


class Served(Protocol):
    """What is asked of a broker here."""

    @property
    def address(self) -> str:
        """Of its Kafka listener."""


Headers = list[tuple[str, bytes | None]]
Sent = tuple[bytes | None, bytes | None, Headers | None]


def create(broker: Served, topic: str, partitions: int = 1, login: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, **QUICK_RETURN, **(login or {})})
    for result in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        result.result(PATIENCE_S)


def grow(broker: Served, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, **QUICK_RETURN})
    for result in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        result.result(PATIENCE_S)


def send(broker: Served, topic: str, values: Iterable[bytes | None], partition: int = 0, **config: object) -> None:
    """Values in order, to one partition."""
    send_records(broker, topic, [(None, value, None) for value in values], partition, **config)


def send_records(broker: Served, topic: str, records: Sequence[Sent], partition: int = 0, **config: object) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20, **QUICK_RETURN, **config})
    for key, value, headers in records:
        producer.produce(topic, value, key, partition=partition, headers=headers)  # type: ignore[arg-type]
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def batch(spark: SparkSession, broker: Served, **options: object) -> DataFrame:
    return spark.read.format("mainstem").options(address=broker.address, **dotted(options)).load()


def stream(spark: SparkSession, broker: Served, **options: object) -> DataFrame:
    return spark.readStream.format("mainstem").options(address=broker.address, **dotted(options)).load()


def dotted(options: Mapping[str, object]) -> dict[str, str]:
    """Python has no dots in names: value_format is value.format."""
    return {name.replace("_", "."): str(value) for name, value in options.items()}


def values_of(frame: DataFrame) -> list[bytes | None]:
    """In the order of the log."""
    return [
        None if row.value is None else bytes(row.value)
        for row in frame.select("value").orderBy("topic", "partition", "offset").collect()
    ]


def committed(broker: Served, group: str, topic: str, partitions: int = 1) -> list[int]:
    """The offsets of a group, as any Kafka tool would ask for them."""
    with Client(broker.address) as client:
        wanted = [{"name": topic, "partition_indexes": list(range(partitions))}]
        answer = client.anywhere().request(ApiKey.OFFSET_FETCH, {"groups": [{"group_id": group, "topics": wanted}]})
        return [part.committed_offset for part in answer.groups[0].topics[0].partitions]


def ends(broker: Served, topic: str, partitions: int = 1) -> list[int]:
    with Client(broker.address) as client:
        found = client.offsets({TopicPartition(topic, index): -1 for index in range(partitions)})
        return [found[TopicPartition(topic, index)] for index in range(partitions)]


def get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
        return text
