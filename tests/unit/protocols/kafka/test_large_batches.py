"""Batches that are small as sent and large once opened hold nobody up."""

import asyncio
import functools
import time

import pytest

from mainstem.wire.compression import Compression
from mainstem.wire.kafka import ApiKey, ErrorCode, decode_response
from mainstem.wire.record_batch import Record, decode_records, encode_batch, read_header
from mainstem.wire.record_batch.encoding import seal_batch
from mainstem.wire.record_batch.survey import APART, AT_ONCE
from tests.support.clients.kafka_client import Client, Connect, batch, with_adapter
from tests.unit.loop_turns import TURN_S_MAX, turns_measured

LARGE_BYTES = 100 << 20
RECORDS = AT_ONCE.records_max * 20


@functools.cache
def large(value_bytes: int = LARGE_BYTES, *, has_key: bool = True) -> bytes:
    return bytes(batch(bytes(value_bytes), key=b"k" if has_key else None, time_ms=now_ms(), compression=4))


@functools.cache
def many() -> bytes:
    return bytes(batch(*[b""] * RECORDS, time_ms=now_ms(), compression=4))


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("content", [large, many])
@pytest.mark.parametrize(
    "configs",
    [{"cleanup_policy": "compact"}, {"message_timestamp_before_max_ms": "3600000"}, {"compression_type": "lz4"}],
)
def test_a_large_batch_is_opened_beside_the_loop(
    configs: dict[str, str], content: "functools._lru_cache_wrapper[bytes]"
) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client, other = connect(), connect()
        await client.create("t", max_message_bytes="4000000", **configs)
        await other.create("u")
        sent = content()
        with turns_measured() as turns:
            stored = asyncio.create_task(client.produce("t", sent))
            await asyncio.sleep(0)
            assert (await other.produce("u", batch(b"meanwhile"))).error_code == 0
            assert not stored.done(), "the other client is served first"
            answer = await stored
        assert (answer.error_code, answer.base_offset) == (0, 0), answer.error_message
        assert turns.longest_s < TURN_S_MAX
        fetched = (await client.fetch("t", 0, partition_max=64 << 20)).records
        assert read_header(fetched).record_count == read_header(sent).record_count

    run()


@with_adapter
async def test_what_a_connection_sends_is_stored_in_its_order(connect: Connect) -> None:
    client = connect()
    await client.create("t", cleanup_policy="compact")
    sent = [batch(b"first"), large(8 << 20), batch(b"behind"), large(4 << 20), batch(b"last")]
    for records in sent:
        data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
        client.send(ApiKey.PRODUCE, 9, acks=-1, topic_data=data)
    client.send(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": "t", "partitions": [{"timestamp": -1}]}])
    answers = [decode_response(ApiKey.PRODUCE, 9, await client.receive())[1] for _ in sent]
    assert [answer.responses[0].partition_responses[0].base_offset for answer in answers] == [0, 1, 2, 3, 4]
    end = decode_response(ApiKey.LIST_OFFSETS, 5, await client.receive())[1]
    assert end.topics[0].partitions[0].offset == 5, "and what follows sees all of it"


@with_adapter
async def test_what_is_wrong_with_a_large_batch_is_said(connect: Connect) -> None:
    client = connect()
    await client.create("compacted", cleanup_policy="compact")
    await client.create("aged", message_timestamp_before_max_ms="1000")
    await client.create("plain", compression_type="uncompressed")
    unkeyed = await client.produce("compacted", large(4 << 20, has_key=False))
    assert unkeyed.error_code == ErrorCode.INVALID_RECORD
    old = batch(bytes(4 << 20), time_ms=now_ms() - 60_000, compression=Compression.ZSTD)
    assert (await client.produce("aged", old)).error_code == ErrorCode.INVALID_TIMESTAMP
    too_many = batch(b"", compression=Compression.ZSTD, last_offset_delta=APART.records_max)
    too_many = with_count(too_many, APART.records_max + 1)
    too_large, bomb = large(), large(APART.bytes_max)
    with turns_measured() as turns:
        assert (await client.produce("plain", too_large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await client.produce("compacted", too_many)).error_code == ErrorCode.INVALID_RECORD
        assert (await client.produce("compacted", bomb)).error_code == ErrorCode.INVALID_RECORD
    assert turns.longest_s < TURN_S_MAX
    assert (await client.produce("compacted", batch(b"goes on"))).base_offset == 0


def with_count(sent: bytearray, count: int) -> bytearray:
    sent[57:61] = count.to_bytes(4, "big")
    seal_batch(sent)
    return sent


@with_adapter
async def test_many_batches_of_one_request_do_not_add_up_on_the_loop(connect: Connect) -> None:
    client = connect()
    await client.create("t", 40, cleanup_policy="compact")
    small = batch(bytes(AT_ONCE.bytes_max - 100), time_ms=now_ms(), compression=Compression.ZSTD)
    partitions = [{"index": index, "records": small} for index in range(40)]
    client.send(ApiKey.PRODUCE, 9, acks=-1, topic_data=[{"name": "t", "partition_data": partitions}])
    assert client.session.input_wanted is None, "a thread has them, and nothing behind them begins"
    answer = decode_response(ApiKey.PRODUCE, 9, await client.receive())[1]
    assert [stored.error_code for stored in answer.responses[0].partition_responses] == [0] * 40


@with_adapter
async def test_a_connection_that_ends_meanwhile_harms_nobody(connect: Connect) -> None:
    client, other = connect(), connect()
    await client.create("t", cleanup_policy="compact")
    data = [{"name": "t", "partition_data": [{"index": 0, "records": large(8 << 20)}]}]
    client.send(ApiKey.PRODUCE, 9, acks=-1, topic_data=data)
    client.session.closed()
    assert (await other.produce("t", large(4 << 20))).error_code == 0


@with_adapter
async def test_records_that_want_no_answer_are_stored_too(connect: Connect) -> None:
    client = connect()
    await client.create("t", cleanup_policy="compact", compression_type="zstd")
    sent = encode_batch([Record(0, now_ms(), b"k", bytes(2 << 20))], compression=Compression.GZIP)
    client.send(
        ApiKey.PRODUCE, 9, acks=0, topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": sent}]}]
    )
    fetched = await wait_for_record(client)
    assert read_header(fetched).compression == Compression.ZSTD
    assert [len(record.value or b"") for record in decode_records(fetched)] == [2 << 20]


async def wait_for_record(client: Client) -> bytes:
    answer = await client.fetch("t", 0, max_wait_ms=60_000)
    return bytes(answer.records)
