"""Clusters, topics, configurations and positions, as administrators ask for them."""

import pytest

from mainstem.wire.kafka import APIS, ApiKey, ErrorCode
from tests.support.clients.kafka_client import Connect, batch, with_adapter


@with_adapter
async def test_every_announced_version_is_known_and_answered_with_defaults(connect: Connect) -> None:
    """A request of nothing but defaults gets a response in every version of every API."""
    client = connect()
    announced = (await client.ask(ApiKey.API_VERSIONS, 4)).api_keys
    assert [entry.api_key for entry in announced] == sorted(entry.api_key for entry in announced)
    for entry in announced:
        api = APIS[entry.api_key]
        for version in range(max(entry.min_version, api.versions.first), entry.max_version + 1):
            assert version in api.versions
            body = {"acks": 1} if entry.api_key == ApiKey.PRODUCE else {}
            await client.ask(ApiKey(entry.api_key), version, **body)
            if client.session.finished:  # a handshake without a mechanism is answered, and is the last
                client = connect()


NOT_SERVED = {
    # Announced by a Kafka only where somebody receives what clients push.
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}


@with_adapter
async def test_what_kafka_announces_is_announced(connect: Connect) -> None:
    announced = {entry.api_key: entry for entry in (await connect().ask(ApiKey.API_VERSIONS, 4)).api_keys}
    assert APIS.keys() - announced.keys() == NOT_SERVED
    for key, entry in announced.items():
        assert (key, entry.min_version, entry.max_version) == (key, *APIS[key].announced)


@with_adapter
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(connect: Connect) -> None:
    client = connect()
    client.send_bytes(bytes.fromhex("00000012 0012 7fff 00000009 0004 74657374 00 0000 00".replace(" ", "")))
    response = await client.receive()
    assert response[:6].hex() == "000000090023"
    assert len(response) == 10 + 6 * int.from_bytes(response[6:10], "big")


@pytest.mark.parametrize("start", ["0000 0002", "0001 0003", "0003 0063", "03e7 0000"])
def test_other_unknown_versions_and_apis_close_the_connection(start: str) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        client.send_bytes(bytes.fromhex("0000000a" + start.replace(" ", "") + "00000001ffff"))
        await client.wait_closed()
        assert not client.output

    run()


@with_adapter
async def test_metadata(connect: Connect) -> None:
    client = connect()
    await client.create("a", 2)
    for version in range(14):
        response = await client.ask(ApiKey.METADATA, version, topics=[{"name": "a"}], allow_auto_topic_creation=False)
        assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "broker.example", 9092)]
        (topic,) = response.topics
        assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 1), (1, 1)]
    everything = await client.ask(ApiKey.METADATA, 12, topics=None)
    assert [topic.name for topic in everything.topics] == ["a"]
    by_id = await client.ask(ApiKey.METADATA, 12, topics=[{"topic_id": everything.topics[0].topic_id, "name": None}])
    assert by_id.topics[0].name == "a"
    unknown = await client.ask(ApiKey.METADATA, 12, topics=[{"name": "b"}], allow_auto_topic_creation=False)
    assert unknown.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_adapter(partitions_default=3)
async def test_topics_are_created_when_asked_for(connect: Connect) -> None:
    client = connect()
    (topic,) = (await client.ask(ApiKey.METADATA, 9, topics=[{"name": "new"}])).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    (topic,) = (await client.ask(ApiKey.METADATA, 9, topics=[{"name": "no good"}])).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@with_adapter(auto_create_topics=False)
async def test_unless_that_is_switched_off(connect: Connect) -> None:
    (topic,) = (await connect().ask(ApiKey.METADATA, 9, topics=[{"name": "new"}])).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_adapter
async def test_creating_topics(connect: Connect) -> None:
    client = connect()

    async def outcome(validate_only: bool = False, **wish: object) -> int:
        topic = {"name": "x", "num_partitions": 1, "replication_factor": 1} | wish
        response = await client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], validate_only=validate_only)
        code: int = response.topics[0].error_code
        return code

    config = [{"name": "retention.ms", "value": "never"}]
    assert await outcome(replication_factor=3) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert await outcome(num_partitions=0) == ErrorCode.INVALID_PARTITIONS
    assert await outcome(name="a/b") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await outcome(configs=config) == ErrorCode.INVALID_CONFIG
    assert await outcome(configs=[{"name": "x", "value": None}]) == ErrorCode.INVALID_CONFIG
    assigned = {"num_partitions": -1, "replication_factor": -1}
    elsewhere = [{"partition_index": 0, "broker_ids": [2]}]
    assert await outcome(assignments=elsewhere) == ErrorCode.INVALID_REQUEST
    assert await outcome(assignments=elsewhere, **assigned) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await outcome(validate_only=True) == ErrorCode.NONE
    here = [{"partition_index": i, "broker_ids": [1]} for i in range(2)]
    assert await outcome(assignments=here, **assigned) == ErrorCode.NONE
    assert await outcome() == ErrorCode.TOPIC_ALREADY_EXISTS
    twice = [{"name": "y", "num_partitions": 1, "replication_factor": 1}] * 2
    (refused,) = (await client.ask(ApiKey.CREATE_TOPICS, 7, topics=twice)).topics
    assert refused.error_code == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_deleting_and_expanding_topics(connect: Connect) -> None:
    client = connect()
    await client.create("a")
    (grown,) = (
        await client.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "a", "count": 3, "assignments": None}])
    ).results
    assert grown.error_code == 0
    (refused,) = (
        await client.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "a", "count": 2, "assignments": None}])
    ).results
    assert refused.error_code == ErrorCode.INVALID_PARTITIONS
    topic = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "a"}])).topics[0]
    assert len(topic.partitions) == 3
    response = await client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"topic_id": topic.topic_id}, {"name": "b"}])
    assert [(r.name, r.error_code) for r in response.responses] == [
        ("a", 0),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@with_adapter
async def test_configurations(connect: Connect) -> None:
    client = connect()
    await client.create("a", retention_ms="5")

    async def described() -> dict[str, tuple[str, int]]:
        resources = [{"resource_type": 2, "resource_name": "a", "configuration_keys": None}]
        response = await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=True)
        return {c.name: (c.value, c.config_source) for c in response.results[0].configs}

    async def alter(*changes: tuple[str, int, str | None]) -> int:
        configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
        resources = [{"resource_type": 2, "resource_name": "a", "configs": configs}]
        response = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
        code: int = response.responses[0].error_code
        return code

    assert (await described())["retention.ms"] == ("5", 1)
    assert (await described())["cleanup.policy"] == ("delete", 5)
    assert (
        await alter(("retention.ms", 1, None), ("cleanup.policy", 2, "compact"), ("max.message.bytes", 0, "999")) == 0
    )
    assert (await described())["retention.ms"] == ("604800000", 5)
    assert (await described())["cleanup.policy"] == ("delete,compact", 1)
    assert await alter(("retention.ms", 0, "x")) == ErrorCode.INVALID_CONFIG
    assert await alter(("retention.ms", 2, "1")) == ErrorCode.INVALID_CONFIG
    assert (await client.produce("a", batch(b"v" * 1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    whole = [{"resource_type": 2, "resource_name": "a", "configs": [{"name": "retention.ms", "value": "9"}]}]
    await client.ask(ApiKey.ALTER_CONFIGS, 2, resources=whole)
    assert {name for name, (_, source) in (await described()).items() if source == 1} == {"retention.ms"}
    broker = [{"resource_type": 4, "resource_name": "1", "configuration_keys": ["num.partitions"]}]
    (answer,) = (await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=broker)).results
    assert [(c.name, c.value, c.read_only) for c in answer.configs] == [("num.partitions", "1", True)]


@with_adapter
async def test_positions(connect: Connect) -> None:
    client = connect()
    await client.create("a")
    await client.produce("a", batch(b"1", b"2", time_ms=1_000))
    await client.produce("a", batch(b"3", time_ms=5_000))
    await client.produce("a", batch(b"4", time_ms=3_000))

    async def listed(timestamp: int) -> tuple[int, int, int]:
        topics = [{"name": "a", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
        (answer,) = (await client.ask(ApiKey.LIST_OFFSETS, 11, topics=topics)).topics[0].partitions
        return answer.error_code, answer.offset, answer.timestamp

    assert await listed(-1) == (0, 4, -1)
    assert await listed(-2) == (0, 0, -1)
    assert await listed(-3) == (0, 2, 5_000)
    assert await listed(-5) == (0, -1, -1)
    assert await listed(-6) == (0, -1, -1)
    assert (await listed(-7))[0] == ErrorCode.UNSUPPORTED_VERSION
    assert await listed(1_001) == (0, 1, 1_001)
    assert await listed(4_000) == (0, 2, 5_000)
    assert await listed(9_000) == (0, -1, -1)
    topics = [{"name": "a", "partitions": [{"partition_index": 0, "offset": 2}]}]
    (cut,) = (await client.ask(ApiKey.DELETE_RECORDS, 2, topics=topics)).topics[0].partitions
    assert (cut.error_code, cut.low_watermark) == (0, 2)
    assert await listed(-2) == (0, 2, -1)
    assert (await client.fetch("a", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    topics[0]["partitions"] = [{"partition_index": 0, "offset": 9}]
    (cut,) = (await client.ask(ApiKey.DELETE_RECORDS, 2, topics=topics)).topics[0].partitions
    assert cut.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    topics = [{"topic": "a", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    (end,) = (await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)).topics[0].partitions
    assert (end.leader_epoch, end.end_offset) == (0, 4)


@with_adapter
async def test_topics_are_described_in_pages(connect: Connect) -> None:
    client = connect()
    for name, partitions in (("a", 3), ("b", 4)):
        await client.create(name, partitions)
    seen, cursor = [], None
    while True:
        page = await client.ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=2, cursor=cursor
        )
        seen += [(topic.name, p.partition_index) for topic in page.topics for p in topic.partitions]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2), ("b", 3)]


@with_adapter
async def test_sizes_of_partitions(connect: Connect) -> None:
    client = connect()
    await client.create("a", 2)
    await client.create("b")
    sent = batch(b"v" * 100)
    await client.produce("a", sent, partition=1)

    async def sizes(topics: object) -> dict[tuple[str, int], int]:
        (found,) = (await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=topics)).results
        assert found.error_code == 0
        return {(t.name, p.partition_index): p.partition_size for t in found.topics for p in t.partitions}

    assert await sizes(None) == {("a", 0): 0, ("a", 1): len(sent), ("b", 0): 0}
    some = [{"topic": "a", "partitions": [1, 7]}, {"topic": "none", "partitions": [0]}]
    assert await sizes(some) == {("a", 1): len(sent)}
