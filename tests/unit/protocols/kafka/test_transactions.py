"""Transactions by their bytes: both versions of the protocol, and Kafka's codes for what cannot be."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.record_batch import batches_in, decode_records, read_header
from tests.support.clients.kafka_client import Client, Connect, batch, with_adapter
from tests.unit.protocols.kafka.transactional_producer import Producer

COMMITTED_ONLY = 1


async def seen(client: Client, topic: str = "t") -> list[bytes | None]:
    """What a careful reader makes of a partition: nothing beyond the stable offset, nothing aborted, no markers."""
    answer = await client.fetch(topic, 0, isolation_level=COMMITTED_ONLY)
    aborted = sorted((a.first_offset, a.producer_id) for a in answer.aborted_transactions or ())
    found: list[bytes | None] = []
    ignored: set[int] = set()
    data = bytes(answer.records or b"")
    for position, size in batches_in(data):
        header = read_header(data, position)
        while aborted and aborted[0][0] <= header.base_offset:
            ignored.add(aborted.pop(0)[1])
        if header.is_control:
            ignored.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ignored):
            found += [record.value for record in decode_records(data[position : position + size])]
    return found


async def described(client: Client, name: str = "tx") -> Any:
    (state,) = (await client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[name])).transaction_states
    return state


async def committed(client: Client, group: str) -> tuple[int, str]:
    asked = [{"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}]
    answer = await client.ask(ApiKey.OFFSET_FETCH, 8, groups=asked)
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.committed_offset, partition.metadata


versions = pytest.mark.parametrize("second", [False, True], ids=["first", "second"])


@versions
def test_commit_and_abort(second: bool) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t")
        await client.create("u")
        producer = Producer(client, second=second)
        assert await producer.begin() == 0
        expected: list[bytes] = []
        for number in range(6):
            epoch = producer.epoch
            values = [b"%d-a" % number, b"%d-b" % number]
            for value in values:
                assert await producer.write("t", value) == 0
            assert await producer.write("u", b"u%d" % number) == 0
            assert await seen(client) == expected
            state = await described(client)
            assert (state.transaction_state, state.producer_epoch) == ("Ongoing", epoch)
            assert {t.topic: t.partitions for t in state.topics} == {"t": [0], "u": [0]}
            assert await producer.end(commit=number % 2 == 0) == 0
            assert producer.epoch == epoch + second
            expected += values if number % 2 == 0 else []
            assert await seen(client) == expected
        assert await seen(client, "u") == [b"u0", b"u2", b"u4"]
        state = await described(client)
        assert (state.transaction_state, state.topics, state.transaction_start_time_ms) == ("CompleteAbort", [], -1)

    run()


@versions
def test_another_producer_of_the_name_fences_and_aborts(second: bool) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t")
        old, new = Producer(client, second=second), Producer(client, second=second)
        await old.begin()
        assert await old.write("t", b"lost") == 0
        assert await new.begin() == 0
        assert (new.id, new.epoch) == (old.id, old.epoch + 1)
        answer = await client.fetch("t", 0, isolation_level=COMMITTED_ONLY)
        assert (answer.last_stable_offset, answer.high_watermark) == (2, 2), "still open"
        assert await old.write("t", b"late", add=False) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await old.add("t") == ErrorCode.PRODUCER_FENCED
        assert await old.add("t", version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await old.end(commit=True) == ErrorCode.PRODUCER_FENCED
        assert await old.end(commit=True, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await old.add_offset("g", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await new.write("t", b"kept") == 0
        assert await new.end(commit=True) == 0
        assert await seen(client) == [b"kept"]

    run()


@with_adapter
async def test_the_end_asked_for_twice(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    producer = Producer(client, second=False)
    await producer.begin()
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    await producer.write("t", b"a")
    assert await producer.end(commit=True) == 0
    assert await producer.end(commit=True) == 0
    assert await producer.end(commit=False) == ErrorCode.INVALID_TXN_STATE
    assert (await client.fetch("t", 0)).high_watermark == 2, "a second marker"


@with_adapter
async def test_the_end_asked_for_twice_in_the_second_version(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    producer = Producer(client, second=True)
    await producer.begin()
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    await producer.write("t", b"a")
    assert await producer.end(commit=True) == 0
    assert producer.epoch == 1
    producer.epoch = 0
    assert await producer.end(commit=False) == ErrorCode.INVALID_TXN_STATE
    assert await producer.end(commit=True) == 0
    assert producer.epoch == 1, "learns what it had missed"
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    assert await producer.end(commit=False) == 0
    assert producer.epoch == 2, "there was nothing to abort, but an epoch to leave"
    assert (await client.fetch("t", 0)).high_watermark == 2, "a second marker"


@with_adapter
async def test_refusals_have_kafkas_codes(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    producer = Producer(client, second=False)
    assert await producer.begin(timeout_ms=900_001) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await producer.begin(timeout_ms=0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await Producer(client, "", second=False).begin() == ErrorCode.INVALID_REQUEST
    assert await producer.add("t") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await described(client)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    await producer.begin()
    assert await producer.write("t", b"a", version=9, add=False) == ErrorCode.INVALID_TXN_STATE
    assert await producer.write("t", b"a", version=11, add=False) == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.add("nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.add_offset("g", 1) == ErrorCode.INVALID_TXN_STATE
    stranger = Producer(client, second=False)
    stranger.id, stranger.epoch = producer.id + 1, 0
    assert await stranger.write("t", b"a", add=False) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    records = batch(b"a", producer_id=producer.id, producer_epoch=0, base_sequence=0, transactional=True)
    nameless = await client.produce("t", records)
    assert nameless.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (await client.fetch("t", 0)).high_watermark == 0


@with_adapter
async def test_going_on_after_an_error(connect: Connect) -> None:
    """KIP-360."""
    client = connect()
    producer = Producer(client, second=False)
    await producer.begin()
    who = {"producer_id": producer.id, "producer_epoch": 0}
    assert await producer.begin(**who) == 0
    assert producer.epoch == 1
    assert await producer.begin(**who) == 0
    assert producer.epoch == 1, "asked again, as the answer was lost"
    assert await Producer(client, second=False).begin() == 0
    assert await producer.begin(producer_id=producer.id, producer_epoch=1) == ErrorCode.PRODUCER_FENCED
    assert await producer.begin(producer_id=producer.id + 5, producer_epoch=2) == ErrorCode.PRODUCER_FENCED
    assert await producer.begin(producer_id=producer.id) == ErrorCode.INVALID_REQUEST


@versions
def test_too_long_is_aborted_and_fenced(second: bool) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t")
        producer = Producer(client, second=second)
        await producer.begin(timeout_ms=30)
        assert await producer.write("t", b"lost") == 0
        waited = await client.fetch("t", 0, isolation_level=COMMITTED_ONLY, max_wait_ms=10_000)
        assert (waited.last_stable_offset, len(waited.aborted_transactions)) == (2, 1)
        while (code := await producer.write("t", b"late", add=False)) == ErrorCode.NOT_ENOUGH_REPLICAS:  # noqa: ASYNC110
            await asyncio.sleep(0)  # the abort is seen before it is answered
        assert code == ErrorCode.INVALID_PRODUCER_EPOCH
        fenced = ErrorCode.INVALID_TXN_STATE if second else ErrorCode.PRODUCER_FENCED
        assert await producer.end(commit=True) == fenced
        if second:
            assert await producer.end(commit=False) == 0, "learns the epoch in which it may go on"
        else:
            assert await producer.begin() == 0
        assert await producer.write("t", b"kept") == 0
        assert await producer.end(commit=True) == 0
        assert await seen(client) == [b"kept"]

    run()


@versions
def test_offsets_count_with_the_commit(second: bool) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t")
        producer = Producer(client, second=second)
        await producer.begin()
        for number, (commit, expected) in enumerate([(True, 10), (False, 10), (True, 12)]):
            before = await committed(client, "g")
            if not second:
                body = {"producer_id": producer.id, "producer_epoch": producer.epoch, "group_id": "g"}
                added = await client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, transactional_id="tx", **body)
                assert added.error_code == 0
            assert await producer.add_offset("g", 10 + number) == 0
            assert await committed(client, "g") == before
            for index in ([0], None):
                topics = None if index is None else [{"name": "t", "partition_indexes": index}]
                asked = [{"group_id": "g", "topics": topics}]
                answer = await client.ask(ApiKey.OFFSET_FETCH, 8, groups=asked, require_stable=True)
                assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await producer.end(commit=commit) == 0
            assert await committed(client, "g") == (expected, "note")
        assert await producer.add_offset("g", 1, generation_id=3, member_id="m") != 0

    run()


@with_adapter
async def test_a_topic_deleted_within_a_transaction(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await client.create("gone")
    producer = Producer(client, second=True)
    await producer.begin()
    assert [await producer.write(topic, b"a") for topic in ("t", "gone")] == [0, 0]
    await client.ask(ApiKey.DELETE_TOPICS, 4, topic_names=["gone"])
    assert await producer.end(commit=True) == 0
    assert await seen(client) == [b"a"]


@with_adapter
async def test_a_new_producer_begins_with_sequence_0_in_the_second_version(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    producer = Producer(client, second=True)
    await producer.begin()
    producer.sequences["t"] = 3
    assert await producer.write("t", b"a") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences["t"] = 0
    assert await producer.write("t", b"a") == 0
    assert await producer.end(commit=True) == 0
    assert await seen(client) == [b"a"]


@with_adapter
async def test_listing(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    one, two = Producer(client, "one", second=True), Producer(client, "two", second=True)
    await one.begin()
    await two.begin()
    await two.write("t", b"a")

    async def listed(**filters: Any) -> dict[str, str]:
        answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 1, **filters)
        return {t.transactional_id: t.transaction_state for t in answer.transaction_states}

    assert await listed() == {"one": "Empty", "two": "Ongoing"}
    assert await listed(state_filters=["Ongoing"]) == {"two": "Ongoing"}
    assert await listed(producer_id_filters=[one.id]) == {"one": "Empty"}
    assert "two" not in await listed(duration_filter=60_000)
    answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 0, state_filters=["Dead", "Sleepy"])
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Sleepy"], [])


@with_adapter
async def test_producers_of_a_partition(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    plain = (await client.ask(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None)).producer_id
    began = int(time.time() * 1000)
    for sequence in (0, 2):
        await client.produce("t", batch(b"a", b"b", producer_id=plain, producer_epoch=0, base_sequence=sequence))
    producer = Producer(client, second=True)
    await producer.begin()
    await producer.write("t", b"a")

    async def described() -> dict[int, tuple[int, int, int, int]]:
        asked = [{"name": "t", "partition_indexes": [0, 4]}, {"name": "none", "partition_indexes": [0]}]
        known, unknown = (await client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)).topics
        assert [p.error_code for p in (*known.partitions, *unknown.partitions)] == [0, 3, 3]
        active = known.partitions[0].active_producers
        assert all(began <= p.last_timestamp <= int(time.time() * 1000) for p in active)
        return {
            p.producer_id: (p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
            for p in active
        }

    epoch = producer.epoch
    assert await described() == {plain: (0, 3, -1, -1), producer.id: (epoch, 0, 0, 4)}
    assert await producer.end(commit=True) == 0
    assert await described() == {plain: (0, 3, -1, -1), producer.id: (epoch + 1, -1, 0, -1)}


@with_adapter
async def test_many_transactions_in_one_request(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    producer = Producer(client, second=True)
    await producer.begin()

    async def ask(verify_only: bool) -> int:
        wish = {
            "transactional_id": "tx",
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "verify_only": verify_only,
            "topics": [{"name": "t", "partitions": [0]}],
        }
        answer = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[wish])
        result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
        return int(result.partition_error_code)

    assert await ask(verify_only=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert await ask(verify_only=False) == 0
    assert await ask(verify_only=True) == 0


@with_adapter
async def test_clients_learn_of_the_second_version(connect: Connect) -> None:
    answer = await connect().ask(ApiKey.API_VERSIONS, 4)
    assert {f.name: f.max_version for f in answer.supported_features}["transaction.version"] == 2
    assert {f.name: f.max_version_level for f in answer.finalized_features}["transaction.version"] == 2


@with_adapter
async def test_transactions_are_listed_by_pattern(connect: Connect) -> None:
    client = connect()
    for name in ("orders-1", "orders-2", "bills-1"):
        await client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=1_000)

    async def listed(pattern: str | None) -> list[str]:
        answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern)
        assert answer.error_code == 0
        return sorted(state.transactional_id for state in answer.transaction_states)

    assert await listed(None) == await listed("") == ["bills-1", "orders-1", "orders-2"]
    assert await listed("orders-.*") == ["orders-1", "orders-2"]
    assert await listed("orders") == []
    refused = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, transactional_id_pattern="a(")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
