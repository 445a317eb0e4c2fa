"""A transactional producer of librdkafka."""

from collections.abc import Iterable

from confluent_kafka import Producer

from tests.support.clients.confluent import Addressed, read_all
from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN


def producer(broker: Addressed, name: str, **config: object) -> Producer:
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


def read(broker: Addressed, topic: str, partitions: int = 1, *, committed_only: bool = True) -> list[bytes]:
    """All values of a topic, partition by partition."""
    found = read_all(broker.address, topic, partitions, committed_only=committed_only)
    return [value for entries in found.values() for _, value in entries]
