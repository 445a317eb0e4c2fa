"""Transactions of aiokafka and of kafka-python."""

import asyncio
import warnings

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.clients.kafka.kafka_python import MARKS
from tests.support.clients.confluent import create
from tests.support.clients.transactional import read
from tests.support.serving.kafka import PATIENCE_S, Broker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, when it is imported
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PlainPartition
    from kafka.structs import OffsetAndMetadata

pytestmark = MARKS


def test_aiokafka(broker: Broker) -> None:
    create(broker, "tx-aio", 2)

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id="aio")
        await producer.start()
        try:
            async with producer.transaction():
                for i in range(100):
                    await producer.send("tx-aio", b"kept-%d" % i, partition=i % 2)
                place = TopicPartition("tx-aio", 0)
                await producer.send_offsets_to_transaction({place: 17}, "aio-group")
            await producer.begin_transaction()
            await producer.send_and_wait("tx-aio", b"aborted", partition=0)
            await producer.send_offsets_to_transaction({place: 99}, "aio-group")
            await producer.abort_transaction()
            successor = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id="aio")
            await producer.begin_transaction()
            await producer.send_and_wait("tx-aio", b"fenced", partition=0)
            await successor.start()
            await successor.stop()
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.address,
            group_id="aio-group",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            consumer.assign([place, TopicPartition("tx-aio", 1)])
            assert await consumer.committed(place) == 17
            await consumer.seek_to_beginning()
            received = [(await consumer.getone()).value for _ in range(100)]
            assert sorted(received) == sorted(b"kept-%d" % i for i in range(100))
            assert await consumer.getmany(timeout_ms=100) == {}
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert len(read(broker, "tx-aio", 2)) == 100


def test_kafka_python(broker: Broker) -> None:
    create(broker, "tx-kp")
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id="kp", linger_ms=1)
    producer.init_transactions()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        group_id="kp-group",
        enable_auto_commit=False,
        isolation_level="read_committed",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    place = PlainPartition("tx-kp", 0)
    consumer.assign([place])
    kept = []
    for number in range(6):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, i) for i in range(20)]
        for value in values:
            producer.send("tx-kp", value)
        offsets = {place: OffsetAndMetadata(number, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if number % 2:
            producer.commit_transaction()
            kept += values
        else:
            producer.abort_transaction()
    producer.close()
    consumer.seek_to_beginning(place)
    received = [next(consumer).value for _ in kept]
    assert received == kept
    assert consumer.committed(place) == 5
    consumer.close()
    assert read(broker, "tx-kp") == kept
