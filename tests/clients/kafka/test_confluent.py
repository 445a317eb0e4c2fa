"""confluent-kafka, which is librdkafka."""

import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.kafka.collecting import collect
from tests.support.clients.confluent import admin, create, produce
from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN, Broker, serving

pytestmark = pytest.mark.conformance

INVALID_DIFFERENT_RECORD = -138
"""What librdkafka says of a record whose batch holds another that is invalid."""


def read(broker: Broker, topic: str, count: int, partitions: int = 1, **config: object) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "unused", **QUICK_RETURN, **config})
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    try:
        messages = collect(lambda: consumer.consume(1000, 0.25), count)
    finally:
        consumer.close()
    assert all(m.error() is None for m in messages)
    return messages


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_what_is_sent_is_received(broker: Broker, compression: str, acks: str) -> None:
    topic = f"sent-{compression}-{acks}"
    create(broker, topic, retention_ms="-1")
    sent = [
        {
            "key": b"k%d" % i,
            "value": b"v%d" % i * 20,
            "headers": [("n", b"%d" % i), ("none", None)],
            "timestamp": 1_000 + i,
        }
        for i in range(500)
    ]
    produce(broker, topic, sent, **{"compression.type": compression, "acks": acks})
    received = read(broker, topic, len(sent))
    assert [
        {"key": m.key(), "value": m.value(), "headers": m.headers(), "timestamp": m.timestamp()[1]} for m in received
    ] == sent
    assert [m.offset() for m in received] == list(range(len(sent)))


def test_nulls_and_empties_stay_apart(broker: Broker) -> None:
    create(broker, "nulls")
    produce(broker, "nulls", [{"key": None, "value": None}, {"key": b"", "value": b""}, {"value": b"x"}])
    assert [(m.key(), m.value()) for m in read(broker, "nulls", 3)] == [(None, None), (b"", b""), (None, b"x")]


def test_without_acknowledgement(broker: Broker) -> None:
    create(broker, "silent")
    produce(broker, "silent", [{"value": b"%d" % i} for i in range(100)], acks=0)
    assert len(read(broker, "silent", 100)) == 100


def test_an_idempotent_producer_over_many_partitions(broker: Broker) -> None:
    create(broker, "idempotent", 12)
    sent = [{"key": b"%d" % i, "value": b"%d" % i} for i in range(5_000)]
    produce(broker, "idempotent", sent, **{"enable.idempotence": True})
    received = read(broker, "idempotent", len(sent), partitions=12)
    assert sorted(int(m.value() or b"") for m in received) == list(range(5_000))


def test_topics_appear_when_written_to(broker: Broker) -> None:
    produce(broker, "appears", [{"value": b"x"}])
    assert len(read(broker, "appears", 1)) == 1


def test_large_messages_up_to_the_limit(broker: Broker) -> None:
    create(broker, "large", max_message_bytes="3000000")
    produce(broker, "large", [{"value": b"x" * 2_900_000}] * 3, **{"message.max.bytes": 5_000_000})
    assert [len(m.value() or b"") for m in read(broker, "large", 3)] == [2_900_000] * 3
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.address, "message.max.bytes": 5_000_000})
    producer.produce("large", b"x" * 3_100_000, on_delivery=lambda error, _: failed.append(error))
    producer.flush(PATIENCE_S)
    assert failed[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_answers_stay_below_what_the_client_takes(broker: Broker) -> None:
    """Records of 900 kB in three partitions: this client refuses an answer that holds two of them."""
    topic, partitions, each = "confluent-tight", 3, 3
    create(broker, topic, partitions)
    messages = [{"value": bytes(900_000), "partition": index} for index in range(partitions) for _ in range(each)]
    produce(broker, topic, messages)
    limits = {"fetch.max.bytes": 1_000_000, "message.max.bytes": 1_000_000, "receive.message.max.bytes": 1_000_512}
    assert len(read(broker, topic, partitions * each, partitions, **limits)) == partitions * each


def test_only_records_that_cannot_be_taken_are_to_blame(broker: Broker) -> None:
    """In one batch of 100 records for a compacted topic, 10 have no key."""
    topic, keyless = "confluent-keyless", range(3, 100, 10)
    create(broker, topic, cleanup_policy="compact")
    errors: dict[int, int] = {}

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is not None
        errors[int(message.value())] = error.code()

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 500, **QUICK_RETURN})
    for number in range(100):
        producer.produce(topic, b"%d" % number, None if number in keyless else b"key", on_delivery=note)
    assert producer.flush(PATIENCE_S) == 0
    assert {number for number, code in errors.items() if code == KafkaError.INVALID_RECORD} == set(keyless)
    assert {code for number, code in errors.items() if number not in keyless} == {INVALID_DIFFERENT_RECORD}


def test_administration(broker: Broker) -> None:
    client = admin(broker)
    create(broker, "administered", 2, retention_ms="86400000")
    described = client.list_topics("administered", timeout=PATIENCE_S).topics["administered"]
    assert sorted(described.partitions) == [0, 1]
    client.create_partitions([NewPartitions("administered", 5)])["administered"].result(PATIENCE_S)
    resource = ConfigResource(ResourceType.TOPIC, "administered")
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    )
    client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    asked = ConfigResource(ResourceType.TOPIC, "administered")
    configs = client.describe_configs([asked])[asked].result(PATIENCE_S)
    assert (configs["cleanup.policy"].value, configs["retention.ms"].value) == ("compact", "86400000")
    cluster = client.describe_cluster().result(PATIENCE_S)
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, broker.address)]
    client.delete_topics(["administered"])["administered"].result(PATIENCE_S)
    assert "administered" not in client.list_topics(timeout=PATIENCE_S).topics
    with pytest.raises(KafkaException) as refused:
        create(broker, "unkept", min_insync_replicas="0")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_positions_and_deletion_of_records(broker: Broker) -> None:
    client = admin(broker)
    create(broker, "positions", retention_ms="-1")
    produce(
        broker, "positions", [{"value": b"%d" % i, "timestamp": 1_000 * i + 1} for i in range(10)], **{"linger.ms": 0}
    )
    place = TopicPartition("positions", 0)

    def offset(spec: OffsetSpec) -> int:
        found: int = client.list_offsets({place: spec})[place].result(PATIENCE_S).offset
        return found

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 10
    assert offset(OffsetSpec.for_timestamp(4_000)) == 4
    assert offset(OffsetSpec.max_timestamp()) == 9
    cut = TopicPartition("positions", 0, 6)
    assert client.delete_records([cut])[cut].result(PATIENCE_S).low_watermark == 6
    assert offset(OffsetSpec.earliest()) == 6
    assert [m.offset() for m in read(broker, "positions", 4, **{"auto.offset.reset": "earliest"})] == [6, 7, 8, 9]


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kill(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        create(broker, "kept", 3)
        acknowledged: set[int] = set()

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acknowledged.add(int(message.value() or b""))

        producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                **QUICK_RETURN,
            }
        )
        number = 0
        for _ in range(3):
            before = len(acknowledged)
            while len(acknowledged) < before + 2_000:
                producer.produce("kept", b"%d" % number, on_delivery=note)
                number += 1
                producer.poll(0 if number % 100 else 0.005)
            broker.kill()
            broker.start()
        assert producer.flush(PATIENCE_S) == 0
        received = [int(m.value() or b"") for m in read(broker, "kept", number, partitions=3)]
        assert acknowledged <= set(received)
        assert len(received) == len(set(received)), "written twice in spite of idempotence"


@pytest.mark.parametrize("compression", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_has_a_compression_of_its_own(broker: Broker, compression: str) -> None:
    """What another client sent, and how much of it is stored, follows the topic's configuration."""
    topic = f"recompressed-{compression}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, config={"compression.type": compression})])[topic].result(10)
    sent = [(b"key", b"the same again and again " * 40) for _ in range(50)]
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": "lz4", "linger.ms": 50})
    for key, value in sent:
        producer.produce(topic, value, key)
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    received = [message for message in consumer.consume(len(sent), 10) if not message.error()]
    consumer.close()
    assert [(message.key(), message.value()) for message in received] == sent


def test_a_compacted_topic_keeps_the_last_value_of_each_key(tmp_path: Path) -> None:
    """With segments as short as people make them who want to see it."""
    config = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    quick = ("--set", "storage.retention_check_ms=200", "--set", "storage.proof_idle_ms=200")
    with serving(tmp_path / "data", *quick) as broker:
        create(broker, "latest", **config)
        for turn in range(20):
            produce(broker, "latest", [{"key": b"%d" % key, "value": b"%d" % turn} for key in range(10)])
        (last,) = produce(broker, "latest", [{"key": b"0", "value": None}])
        deadline = time.monotonic() + PATIENCE_S
        while len(found := _read_to(broker, "latest", last.offset())) > 20:
            assert time.monotonic() < deadline, f"{len(found)} records are left"
        values = {message.key(): message.value() for message in found}
        assert values == {b"0": None, **{b"%d" % key: b"19" for key in range(1, 10)}}


def _read_to(broker: Broker, topic: str, offset: int) -> list[Message]:
    """All of a partition, up to an offset that is there."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "unused", **QUICK_RETURN})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Message] = []
    while not found or found[-1].offset() < offset:
        found += collect(lambda: consumer.consume(1000, 0.25), 1)
    consumer.close()
    return found
