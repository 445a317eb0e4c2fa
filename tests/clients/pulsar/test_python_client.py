"""pulsar-client, unmodified, against the real program."""

import time
from collections.abc import Iterable
from pathlib import Path

import pulsar
import pytest
from pulsar import CompressionType, ConsumerType, InitialPosition, MessageId

from tests.support.serving.pulsar import PulsarServer, serving

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_MS = 30_000
EMPTY_MS = 300


def publish(client: pulsar.Client, topic: str, payloads: Iterable[bytes], **options: object) -> list[MessageId]:
    """In batches; answers the identities of the messages."""
    options = {"batching_enabled": True, "batching_max_publish_delay_ms": 20, **options}
    producer = client.create_producer(topic, **options)
    found: list[MessageId] = []
    for number, payload in enumerate(payloads):
        producer.send_async(payload, lambda _, one: found.append(one), properties={"n": str(number)})
    producer.flush()
    producer.close()
    return found


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(PATIENCE_MS) for _ in range(count)]


def is_empty(consumer: pulsar.Consumer) -> bool:
    try:
        consumer.receive(EMPTY_MS)
    except pulsar.Timeout:
        return True
    return False


def subscribe(client: pulsar.Client, topic: str, subscription: str = "s", **options: object) -> pulsar.Consumer:
    return client.subscribe(topic, subscription, **{"initial_position": InitialPosition.Earliest, **options})


def test_a_batch_is_consumed_once(client: pulsar.Client, name: str) -> None:
    consumer = subscribe(client, name, consumer_type=ConsumerType.Shared)
    sent = publish(client, name, (b"%d" % number for number in range(300)))
    found = receive(consumer, 300)
    assert [one.data() for one in found] == [b"%d" % number for number in range(300)]
    assert [one.message_id() for one in found] == sent
    assert found[7].properties() == {"n": "7"}
    for one in found:
        consumer.acknowledge(one)
    consumer.close()
    again = subscribe(client, name, consumer_type=ConsumerType.Shared)
    assert is_empty(again)


@pytest.mark.parametrize(
    "codec", [CompressionType.LZ4, CompressionType.ZLib, CompressionType.ZSTD, CompressionType.SNAPPY]
)
def test_codecs(client: pulsar.Client, name: str, codec: CompressionType) -> None:
    consumer = subscribe(client, name)
    publish(client, name, [b"x" * 5_000] * 3, compression_type=codec)
    assert [one.data() for one in receive(consumer, 3)] == [b"x" * 5_000] * 3


def test_cumulative_acknowledgement_in_the_middle_of_a_batch(client: pulsar.Client, name: str) -> None:
    consumer = subscribe(client, name)
    publish(client, name, (b"%d" % number for number in range(20)))
    found = receive(consumer, 20)
    consumer.acknowledge_cumulative(found[19])
    publish(client, name, [b"more"])
    consumer.close()
    assert subscribe(client, name).receive(PATIENCE_MS).data() == b"more"


def test_what_is_given_back_comes_again_with_its_count(client: pulsar.Client, name: str) -> None:
    consumer = subscribe(client, name, consumer_type=ConsumerType.Shared, negative_ack_redelivery_delay_ms=50)
    publish(client, name, [b"one"], batching_enabled=False)
    for count in range(3):
        one = consumer.receive(PATIENCE_MS)
        assert one.redelivery_count() == count
        consumer.negative_acknowledge(one)


def test_one_consumer_takes_over_from_another(client: pulsar.Client, name: str) -> None:
    first = subscribe(client, name, consumer_type=ConsumerType.Failover, consumer_name="a")
    second = subscribe(client, name, consumer_type=ConsumerType.Failover, consumer_name="b")
    publish(client, name, [b"one", b"two"], batching_enabled=False)
    found = receive(first, 2)
    first.acknowledge(found[0])
    assert is_empty(second)
    first.close()
    assert second.receive(PATIENCE_MS).data() == b"two"


def test_an_exclusive_subscription_is_busy(client: pulsar.Client, name: str) -> None:
    subscribe(client, name)
    with pytest.raises(pulsar.ConsumerBusy):
        subscribe(client, name)


def test_a_delayed_message_waits(client: pulsar.Client, name: str) -> None:
    consumer = subscribe(client, name, consumer_type=ConsumerType.Shared)
    reader = client.create_reader(name, MessageId.earliest)
    producer = client.create_producer(name)
    begun = time.monotonic()
    producer.send(b"later", deliver_at=int(time.time() * 1_000) + 1_500)
    assert reader.read_next(PATIENCE_MS).data() == b"later"
    assert consumer.receive(PATIENCE_MS).data() == b"later"
    assert time.monotonic() - begun > 1.4


def test_readers_begin_where_they_are_told(client: pulsar.Client, name: str) -> None:
    sent = publish(client, name, (b"%d" % number for number in range(10)))
    reader = client.create_reader(name, sent[4])
    assert reader.has_message_available()
    assert reader.read_next(PATIENCE_MS).data() == b"5"
    reader.seek(MessageId.earliest)
    assert [reader.read_next(PATIENCE_MS).data() for _ in range(10)] == [b"%d" % number for number in range(10)]
    assert not reader.has_message_available()


def test_seek(client: pulsar.Client, name: str) -> None:
    consumer = subscribe(client, name)
    publish(client, name, (b"%d" % number for number in range(5)), batching_enabled=False)
    for one in receive(consumer, 5):
        consumer.acknowledge(one)
    consumer.seek(MessageId.earliest)
    assert receive(consumer, 5)[0].data() == b"0"
    consumer.seek(MessageId.latest)
    assert is_empty(consumer)


def test_what_is_acknowledged_stays_so_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(broker.url, logger=quiet)
        consumer = client.subscribe(
            "t", "s", initial_position=InitialPosition.Earliest, consumer_type=ConsumerType.Shared
        )
        publish(client, "t", (b"%d" % number for number in range(50)), batching_enabled=False)
        for one in receive(consumer, 50)[:25]:
            consumer.acknowledge(one)
        consumer.close()  # It is answered once what was acknowledged is durable.
        client.create_producer("t").send(b"last")
        broker.restart()
        again = client.subscribe("t", "s", consumer_type=ConsumerType.Shared)
        found = {one.data() for one in receive(again, 26)}
        assert found == {b"last", *(b"%d" % number for number in range(25, 50))}
        client.close()


def test_a_large_message_in_chunks(client: pulsar.Client, name: str, broker: PulsarServer) -> None:
    consumer = subscribe(client, name)
    producer = client.create_producer(name, chunking_enabled=True, batching_enabled=False)
    body = bytes(range(256)) * (12 << 12)
    producer.send(body)
    one = consumer.receive(PATIENCE_MS)
    assert one.data() == body
    consumer.acknowledge(one)
    assert broker.program.process.poll() is None
