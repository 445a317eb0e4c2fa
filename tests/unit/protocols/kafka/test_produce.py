"""Produce: every version, and Kafka's code for what cannot be."""

import time

import pytest

from mainstem.broker.broker import Broker
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.compression import Compression
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.record_batch import Record, decode_records, encode_batch, encode_marker, read_header
from tests.support.clients.kafka_client import Client, Connect, Operations, batch, with_adapter
from tests.support.worlds.brokers import with_broker


async def values(client: Client, topic: str) -> list[bytes | None]:
    answer = await client.fetch(topic, 0)
    return [record.value for record in decode_records(answer.records)] if answer.records else []


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_stores_and_answers(version: int) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t", 2)
        topic = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics[0]
        data = {
            "name": "t",
            "topic_id": topic.topic_id,
            "partition_data": [{"index": 1, "records": batch(b"a", b"b")}, {"index": 7, "records": batch(b"c")}],
        }
        for base in (0, 2):
            response = await client.ask(ApiKey.PRODUCE, version, acks=1, topic_data=[data])
            stored, unknown = response.responses[0].partition_responses
            assert (stored.index, stored.error_code, stored.base_offset) == (1, 0, base)
            assert stored.log_append_time_ms == -1
            expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (unknown.index, unknown.error_code) == (7, expected)

    run()


@with_adapter
async def test_bytes_are_stored_as_sent(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    for codec in Compression:
        sent = batch(b"x" * 300, compression=codec)
        answer = await client.produce("t", sent)
        fetched = await client.fetch("t", answer.base_offset)
        assert bytes(fetched.records)[8:12] == bytes(sent)[8:12]
        assert bytes(fetched.records)[16:] == bytes(sent)[16:]


@with_adapter
async def test_refusals_have_kafkas_codes(connect: Connect) -> None:
    client = connect()
    await client.create("t", max_message_bytes="200")
    await client.create("compacted", cleanup_policy="compact")
    good = batch(b"v")
    broken = bytearray(good)
    broken[-1] ^= 1
    old = bytearray(good)
    old[16] = 1
    cases = [
        ("t", broken, ErrorCode.CORRUPT_MESSAGE),
        ("t", batch(b"v" * 300), ErrorCode.MESSAGE_TOO_LARGE),
        ("t", good + good, ErrorCode.INVALID_RECORD),
        ("t", good[:-1], ErrorCode.INVALID_RECORD),
        ("t", old, ErrorCode.INVALID_RECORD),
        ("t", b"", ErrorCode.INVALID_RECORD),
        ("t", None, ErrorCode.INVALID_RECORD),
        ("t", encode_marker(1, 0, commit=True, timestamp_ms=0), ErrorCode.INVALID_RECORD),
        ("compacted", batch(b"v", key=None), ErrorCode.INVALID_RECORD),
        ("nowhere", good, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    for topic, records, code in cases:
        answer = await client.produce(topic, records)
        assert (answer.error_code, answer.base_offset) == (code, -1)
    assert (await client.produce("t", good, acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    zstd = batch(b"v", compression=Compression.ZSTD)
    assert (await client.produce("t", zstd, version=5)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await client.produce("t", good)).base_offset == 0, "something refused took an offset"


@with_adapter
async def test_idempotence(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    producer = (await client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)).producer_id

    def numbered(sequence: int, epoch: int = 0) -> bytearray:
        return batch(b"v%d" % sequence, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)

    for sequence in (0, 1, 1, 0):
        assert (await client.produce("t", numbered(sequence))).base_offset == sequence
    assert (await client.produce("t", numbered(5))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(2, 10):
        await client.produce("t", numbered(sequence))
    assert (await client.produce("t", numbered(0))).error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert (await client.produce("t", numbered(0, epoch=1))).base_offset == 10
    assert (await client.produce("t", numbered(10))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@with_adapter
async def test_arrival_can_be_the_time_of_records(connect: Connect) -> None:
    client = connect()
    await client.create("t", message_timestamp_type="LogAppendTime")
    answer = await client.produce("t", batch(b"v", time_ms=5))
    assert answer.log_append_time_ms > 1_600_000_000_000
    header = read_header((await client.fetch("t", 0)).records)
    assert (header.is_log_append_time, header.max_timestamp) == (True, answer.log_append_time_ms)
    broken = batch(b"v")
    broken[-1] ^= 1
    assert (await client.produce("t", broken)).error_code == ErrorCode.CORRUPT_MESSAGE


@with_adapter
async def test_times_far_from_ours_are_refused(connect: Connect) -> None:
    client = connect()
    now_ms = time.time_ns() // 1_000_000
    hour_ms = 3_600_000
    await client.create("t")
    await client.create("strict", message_timestamp_after_max_ms="1000", message_timestamp_before_max_ms=str(hour_ms))
    await client.create("stamped", message_timestamp_after_max_ms="0", message_timestamp_type="LogAppendTime")
    refused, taken = ErrorCode.INVALID_TIMESTAMP, ErrorCode.NONE
    cases = [
        ("t", batch(b"v", time_ms=now_ms + 2 * hour_ms), refused),
        ("t", batch(b"v", time_ms=now_ms + hour_ms // 2), taken),
        ("t", batch(b"v", time_ms=0), taken),
        ("strict", batch(b"v", time_ms=now_ms + 60_000), refused),
        ("strict", batch(b"v", time_ms=now_ms), taken),
        ("strict", batch(b"v", time_ms=now_ms - 2 * hour_ms), refused),
        ("strict", encode_batch([Record(0, now_ms, b"k", b"v"), Record(1, 5, b"k", b"v")]), refused),
        ("stamped", batch(b"v", time_ms=now_ms + 2 * hour_ms), taken),
    ]
    for topic, records, code in cases:
        assert (await client.produce(topic, records)).error_code == code
    broken = batch(b"v", time_ms=now_ms + 2 * hour_ms)
    broken[-1] ^= 1
    assert (await client.produce("t", broken)).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("version", range(3, 14))
def test_records_that_cannot_be_taken_are_named(version: int) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        now_ms = time.time_ns() // 1_000_000
        await client.create("t", cleanup_policy="compact")
        topic_id = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics[0].topic_id
        keyless = range(7, 100, 10)
        mixed = encode_batch([Record(n, now_ms, None if n in keyless else b"k", b"v") for n in range(100)])
        late = encode_batch([Record(n, now_ms + n % 2 * 10_000_000, b"k", b"v") for n in range(4)])
        for records, code, places in (
            (mixed, ErrorCode.INVALID_RECORD, list(keyless)),
            (late, ErrorCode.INVALID_TIMESTAMP, [1, 3]),
            (batch(b"v"), ErrorCode.NONE, []),
        ):
            data = [{"name": "t", "topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]
            response = await client.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=data)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == code
            if version >= 8:
                assert [error.batch_index for error in answer.record_errors] == places
                assert all(error.batch_index_error_message for error in answer.record_errors)
                assert (answer.error_message is None) == (code == ErrorCode.NONE)
        assert await values(client, "t") == [b"v"], "of a batch with such records, none is taken"

    run()


@with_adapter
async def test_no_more_are_named_than_an_answer_holds(connect: Connect) -> None:
    client = connect()
    await client.create("t", cleanup_policy="compact")
    answer = await client.produce("t", batch(*[b""] * 3_000, key=None))
    assert [error.batch_index for error in answer.record_errors] == list(range(1_000))


@with_adapter
async def test_without_acknowledgement_nothing_is_answered_and_a_refusal_closes(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"silent")}]}]
    client.send(ApiKey.PRODUCE, 9, acks=0, topic_data=data)
    assert await values(client, "t") == [b"silent"]
    broken = batch(b"v")
    broken[-1] ^= 1
    data[0]["partition_data"] = [{"index": 0, "records": broken}]
    client.send(ApiKey.PRODUCE, 9, acks=0, topic_data=data)
    await client.wait_closed()
    assert not client.output


@with_adapter
async def test_pipelined_requests_are_answered_in_order(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    for _ in range(50):
        client.send(
            ApiKey.PRODUCE,
            7,
            acks=1,
            topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": batch(b"v")}]}],
        )
    client.send(ApiKey.API_VERSIONS, 0)
    numbers = [int.from_bytes((await client.receive())[:4], "big") for _ in range(51)]
    assert numbers == sorted(numbers)


def test_requests_are_counted_and_some_are_timed() -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        operations = Operations()
        client = Client(KafkaAdapter(KafkaSettings(), broker, operations))
        await client.create("t")
        for _ in range(32):
            await client.produce("t", batch(b"x"))
        produce, create = (operations.meters.meter("kafka", name) for name in ("Produce", "CreateTopics"))
        assert (produce.requests, sum(produce.answers)) == (32, 2)
        assert (create.requests, sum(create.answers)) == (1, 1)

    run()


@pytest.mark.parametrize("acks", [0, 1])
def test_a_producer_that_is_faster_than_the_disk_is_not_read(acks: int) -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        client = Client(KafkaAdapter(KafkaSettings(), broker, Operations()))
        await client.create("t")
        broker.intake.bytes_max = 10_000
        data = {"name": "t", "partition_data": [{"index": 0, "records": batch(bytes(1_000))}]}
        for _ in range(50):
            client.send(ApiKey.PRODUCE, 7, acks=acks, topic_data=[data])
        assert client.session.input_wanted is None
        assert not broker.intake._engine.is_above(12_000), "a little more than the bound, and no more"
        for _ in range(50 if acks else 0):
            await client.receive()
        await client.ask(ApiKey.API_VERSIONS, 4)
        assert (await client.fetch("t", 0)).high_watermark == 50

    run()
