"""aiokafka."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.serving.kafka import PATIENCE_S, Broker

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_is_received(broker: Broker, compression: str | None) -> None:
    topic = f"aio-{compression}"

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await admin.close()
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.address, enable_idempotence=True, compression_type=compression, linger_ms=2
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, b"v%d" % i, key=b"k", headers=[("h", b"x")]) for i in range(200)]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, enable_auto_commit=False)
        await consumer.start()
        try:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            received = [await consumer.getone() for _ in range(200)]
            assert [r.value for r in received] == [b"v%d" % i for i in range(200)]
            assert all((r.key, tuple(r.headers)) == (b"k", (("h", b"x"),)) for r in received)
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
