"""Transactions of confluent-kafka, which is librdkafka."""

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.support.clients.confluent import admin, create
from tests.support.clients.transactional import producer, read, send
from tests.support.serving.kafka import PATIENCE_S, Broker

pytestmark = pytest.mark.conformance


def test_committed_is_read_and_aborted_is_not(broker: Broker) -> None:
    create(broker, "tx-both", 3)
    sender = producer(broker, "both")
    kept: list[bytes] = []
    for number in range(12):
        sender.begin_transaction()
        values = [b"%d-%d" % (number, i) for i in range(50)]
        for partition in range(3):
            send(sender, "tx-both", values, partition)
        if number % 3:
            sender.commit_transaction(PATIENCE_S)
            kept += values * 3
        else:
            sender.abort_transaction(PATIENCE_S)
    assert sorted(read(broker, "tx-both", 3)) == sorted(kept)
    assert len(read(broker, "tx-both", 3, committed_only=False)) == 12 * 150


def test_what_is_open_is_not_read(broker: Broker) -> None:
    create(broker, "tx-open")
    first, second = producer(broker, "open-1"), producer(broker, "open-2")
    for sender, value in ((first, b"first"), (second, b"second")):
        sender.begin_transaction()
        send(sender, "tx-open", [value])
    second.commit_transaction(PATIENCE_S)
    assert read(broker, "tx-open") == []
    place = TopicPartition("tx-open", 0)
    client = admin(broker)

    def end(level: IsolationLevel) -> int:
        asked = client.list_offsets({place: OffsetSpec.latest()}, isolation_level=level)
        return int(asked[place].result(PATIENCE_S).offset)

    assert (end(IsolationLevel.READ_COMMITTED), end(IsolationLevel.READ_UNCOMMITTED)) == (0, 3)
    assert read(broker, "tx-open", committed_only=False) == [b"first", b"second"]
    first.commit_transaction(PATIENCE_S)
    assert read(broker, "tx-open") == [b"first", b"second"]
    assert end(IsolationLevel.READ_COMMITTED) == 4


def test_a_second_producer_of_the_name_fences_the_first(broker: Broker) -> None:
    create(broker, "tx-fenced")
    first = producer(broker, "fenced")
    first.begin_transaction()
    send(first, "tx-fenced", [b"lost"])
    second = producer(broker, "fenced")
    second.begin_transaction()
    send(second, "tx-fenced", [b"kept"])
    second.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(PATIENCE_S)
    error = refused.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert read(broker, "tx-fenced") == [b"kept"]


def test_a_transaction_that_lasts_too_long_is_aborted(broker: Broker) -> None:
    create(broker, "tx-late")
    sender = producer(broker, "late", **{"transaction.timeout.ms": 1_000, "message.timeout.ms": 1_000})
    sender.begin_transaction()
    send(sender, "tx-late", [b"lost"])
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "unused", "isolation.level": "read_committed"})
    reader.assign([TopicPartition("tx-late", 0, 0)])
    other = producer(broker, "in-time")
    other.begin_transaction()
    send(other, "tx-late", [b"kept"])
    other.commit_transaction(PATIENCE_S)
    message = reader.poll(PATIENCE_S)  # which comes when the other one is out of the way
    assert message is not None
    assert message.value() == b"kept"
    reader.close()
    with pytest.raises(KafkaException) as refused:
        sender.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError._FENCED
    assert read(broker, "tx-late") == [b"kept"]


def test_a_timeout_that_is_too_long_is_refused(broker: Broker) -> None:
    with pytest.raises(KafkaException) as refused:
        producer(broker, "too-long", **{"transaction.timeout.ms": 900_001})
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_consume_transform_produce(broker: Broker) -> None:
    """Each input is in the output once, though every other attempt is aborted."""
    create(broker, "tx-in")
    create(broker, "tx-out")
    source = producer(broker, "source")
    source.begin_transaction()
    send(source, "tx-in", [b"%d" % i for i in range(100)])
    source.commit_transaction(PATIENCE_S)
    sender = producer(broker, "transform")
    config = {
        "bootstrap.servers": broker.address,
        "group.id": "transform",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    place = TopicPartition("tx-in", 0)
    done = 0
    attempt = 0
    while done < 100:
        reader = Consumer(config)
        reader.subscribe(["tx-in"])
        try:
            messages = []
            while not messages:
                messages = [m for m in reader.consume(10, 1.0) if m.error() is None]
            assert messages[0].value() == b"%d" % done, "goes on where the last commit left off"
            sender.begin_transaction()
            for message in messages:
                sender.produce("tx-out", b"out-" + (message.value() or b""))
            sender.send_offsets_to_transaction(
                reader.position(reader.assignment()), reader.consumer_group_metadata(), PATIENCE_S
            )
            attempt += 1
            if attempt % 2:
                sender.abort_transaction(PATIENCE_S)
            else:
                sender.commit_transaction(PATIENCE_S)
                done = int(messages[-1].value() or b"") + 1
            (committed,) = reader.committed([place], PATIENCE_S)
            assert committed.offset == (done or -1001)
        finally:
            reader.close()
    assert read(broker, "tx-out") == [b"out-%d" % i for i in range(100)]
