"""What tests ask of librdkafka: topics, records that are acknowledged, and all that a topic holds."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN

Headers = list[tuple[str, bytes | None]]
Sent = tuple[bytes | None, bytes | None, Headers | None]
"""Key, value and headers."""


class Addressed(Protocol):
    """A broker, known by the address of its Kafka listener."""

    @property
    def address(self) -> str:
        """Host and port."""


def admin(broker: Addressed, **login: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address, **QUICK_RETURN, **login})


def create(
    broker: Addressed, name: str, partitions: int = 1, login: Mapping[str, str] | None = None, **config: str
) -> None:
    wish = NewTopic(name, partitions, config={key.replace("_", "."): value for key, value in config.items()})
    client = admin(broker, **(login or {}))  # held: its futures fail when it goes
    client.create_topics([wish])[name].result(PATIENCE_S)


def grow(broker: Addressed, topic: str, partitions: int) -> None:
    client = admin(broker)
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE_S)


def begin_at_the_start(broker: Addressed, group: str = "g", **configs: str) -> None:
    """Let a share group begin with the first record of its topics."""
    changes = {"share.auto.offset.reset": "earliest"} | configs
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    client = admin(broker)
    client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def produce(broker: Addressed, topic: str, messages: list[dict[str, Any]], **config: object) -> list[Message]:
    """Send, and answer the delivered ones in order; fails if one is not."""
    delivered: list[Message] = []

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 1, **QUICK_RETURN, **config})
    for message in messages:
        producer.produce(topic, on_delivery=note, **message)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert len(delivered) == len(messages)
    return delivered


def send(broker: Addressed, topic: str, values: Iterable[bytes | None], partition: int = 0, **config: object) -> None:
    """Values in order, to one partition."""
    send_records(broker, topic, [(None, value, None) for value in values], partition, **config)


def send_records(broker: Addressed, topic: str, records: Sequence[Sent], partition: int = 0, **config: object) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20, **QUICK_RETURN, **config})
    for key, value, headers in records:
        producer.produce(topic, value, key, partition=partition, headers=headers)  # type: ignore[arg-type]
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def read_all(
    address: str, topic: str, partitions: int = 1, *, committed_only: bool = True
) -> dict[int, list[tuple[int, bytes]]]:
    """Offsets and values by partition, from the beginning to the end of each."""
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "enable.partition.eof": True,
            **QUICK_RETURN,
        }
    )
    reader.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic}: only partitions {ended} were read to their end"
            for message in reader.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    found[message.partition()].append((message.offset(), message.value() or b""))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, f"{topic}: {error}"
                    ended.add(message.partition())
    finally:
        reader.close()
    return found
