"""What tests of transactions share: a transactional producer of librdkafka, and a careful reader."""

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.clients.kafka.serving import PATIENCE_S, QUICK_RETURN, Broker


def producer(broker: Broker, name: str, **config: object) -> Producer:
    made = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": name, "linger.ms": 1, **QUICK_RETURN, **config}
    )
    made.init_transactions(PATIENCE_S)
    return made


def send(sender: Producer, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    """Within a transaction, until all is acknowledged."""
    for value in values:
        sender.produce(topic, value, partition=partition)
    assert sender.flush(PATIENCE_S) == 0


def read(broker: Broker, topic: str, partitions: int = 1, *, committed_only: bool = True) -> list[bytes]:
    """All that a reader is given from the beginning to the end, markers and all behind it."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "unused",
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "enable.partition.eof": True,
            **QUICK_RETURN,
        }
    )
    reader.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    values: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            assert time.monotonic() < end, f"{len(values)} came, and no end"
            for message in reader.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
                if len(ended) == partitions:
                    break
    finally:
        reader.close()
    return values
