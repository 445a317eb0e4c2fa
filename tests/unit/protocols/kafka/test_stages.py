"""Produce into stages: hidden from every Kafka client, checked as the topic behind would, stored once."""

from mainstem.broker.broker import Broker
from mainstem.broker.staging.stages import StageKey
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.compression import Compression
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.record_batch import read_header
from tests.support.clients.kafka_client import Client, Connect, Operations, batch, with_adapter
from tests.support.worlds.brokers import with_broker
from tests.support.worlds.staging import QUERY, staged_batch

KEY = StageKey(QUERY, "", 0, 0, "0-ab")
NAME = KEY.topic_name("t")


@with_adapter
async def test_a_stage_takes_batches_and_nobody_sees_them(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    for position, partition in ((0, 0), (2, 1)):
        answer = await client.produce(NAME, staged_batch(position, [b"v"]), partition=partition)
        assert (answer.error_code, answer.base_offset) == (0, position)
    again = await client.produce(NAME, staged_batch(2, [b"v"]), partition=1)
    assert (again.error_code, again.base_offset) == (0, -1)
    assert [topic.name for topic in (await client.ask(ApiKey.METADATA, 12, topics=None)).topics] == ["t"]
    (asked,) = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": NAME}])).topics
    assert asked.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await client.fetch(NAME, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await client.fetch("t", 0)).high_watermark == 0
    described = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    assert [topic.name for directory in described.results for topic in directory.topics] == ["t"]


@with_adapter
async def test_a_stage_that_is_gone_is_told_from_a_topic_that_is(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    answer = await client.produce(NAME, staged_batch(5, [b"v"]))
    assert answer.error_code == ErrorCode.UNKNOWN_PRODUCER_ID
    assert "run the batch again" in answer.error_message


@with_adapter
async def test_what_cannot_be_staged_is_refused_in_its_place(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    await client.create("compacted", cleanup_policy="compact")
    data = [
        {"index": 0, "records": staged_batch(0, [b"v"])},
        {"index": 7, "records": staged_batch(2, [b"v"])},
        {"index": 1, "records": None},
        {"index": 1, "records": staged_batch(9, [b"v"])},
        {"index": 1, "records": batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, base_offset=0)},
    ]
    topics = [{"name": NAME, "partition_data": data}]
    topics += [
        {"name": name, "partition_data": [{"index": 0, "records": staged_batch(0, [b"v"])}]}
        for name in ("stage:/x", KEY.topic_name("nobody"), KEY.topic_name("compacted"))
    ]
    response = await client.ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=topics)
    codes = [p.error_code for topic in response.responses for p in topic.partition_responses]
    assert codes == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
    ]
    assert "is compacted by key" in response.responses[3].partition_responses[0].error_message


def test_a_staged_batch_is_compressed_as_its_topic_wants() -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        client = Client(KafkaAdapter(KafkaSettings(), broker, Operations()))
        await client.create("t", compression_type="zstd")
        assert (await client.produce(NAME, staged_batch(0, [b"v"] * 9))).error_code == 0
        await broker.stages.publish(KEY.sink_key, 0, {KEY: 10}, lasting=True)
        header = read_header((await client.fetch("t", 0)).records)
        assert (header.compression, header.record_count) == (Compression.ZSTD, 9)

    run()
