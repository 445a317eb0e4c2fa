"""What administrators of clusters ask, where the cluster is one node."""

from typing import Any

import pytest

from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Connect, batch, with_adapter


@with_adapter
async def test_there_is_no_leader_to_elect(connect: Connect) -> None:
    client = connect()
    await client.create("a", 2)
    asked = [{"topic": "a", "partitions": [0, 1, 2]}, {"topic": "b", "partitions": [0]}]
    for version in range(3):
        answer = await client.ask(ApiKey.ELECT_LEADERS, version, topic_partitions=asked)
        codes = {
            (topic.topic, partition.partition_id): partition.error_code
            for topic in answer.replica_election_results
            for partition in topic.partition_result
        }
        needless, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {("a", 0): needless, ("a", 1): needless, ("a", 2): unknown, ("b", 0): unknown}
    answer = await client.ask(ApiKey.ELECT_LEADERS, 2, topic_partitions=None, election_type=1)
    assert (answer.error_code, answer.replica_election_results) == (0, [])
    assert (await client.ask(ApiKey.ELECT_LEADERS, 2, election_type=7)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code"),
    [
        ("a", 0, [1], ErrorCode.NONE),
        ("a", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("a", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 1, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_partitions_can_only_go_to_where_they_are(
    topic: str, partition: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("a")
        wish = {"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}
        answer = await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=[wish])
        assert answer.responses[0].partitions[0].error_code == code
        listed = await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
        assert (listed.error_code, listed.topics) == (0, [])

    run()


@with_adapter
async def test_there_is_one_directory(connect: Connect) -> None:
    client = connect()
    await client.create("a")
    (directory,) = (await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None)).results
    assert directory.total_bytes >= directory.usable_bytes > 0

    async def moved(path: str, topic: str, version: int = 2) -> int:
        dirs = [{"path": path, "topics": [{"name": topic, "partitions": [0]}]}]
        (result,) = (await client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)).results
        code: int = result.partitions[0].error_code
        return code

    assert await moved(directory.log_dir, "a") == ErrorCode.NONE
    assert await moved("/elsewhere", "a") == ErrorCode.LOG_DIR_NOT_FOUND
    assert await moved(directory.log_dir, "b") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await moved(directory.log_dir, "b", version=1) == ErrorCode.REPLICA_NOT_AVAILABLE


@with_adapter
async def test_a_quorum_of_one(connect: Connect) -> None:
    client = connect()
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = await client.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=asked)
    (quorum,) = answer.topics[0].partitions
    assert (quorum.error_code, quorum.leader_id, quorum.high_watermark) == (0, 1, 7)
    assert [(voter.replica_id, voter.log_end_offset) for voter in quorum.current_voters] == [(1, 7)]
    (node,) = answer.nodes
    assert [(listener.name, listener.host, listener.port) for listener in node.listeners] == [
        ("PLAINTEXT", "broker.example", 9092)
    ]
    asked = [{"topic_name": "a", "partitions": [{"partition_index": 0}]}]
    answer = await client.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=asked)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await client.ask(ApiKey.ADD_RAFT_VOTER, 0, cluster_id=None)).error_code == ErrorCode.UNSUPPORTED_VERSION
    strange = await client.ask(ApiKey.REMOVE_RAFT_VOTER, 0, cluster_id="another")
    assert strange.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    unknown = await client.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=2)
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert (await client.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=1)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("update", "is_fine"),
    [
        ({"feature": "transaction.version", "max_version_level": 2}, True),
        ({"feature": "transaction.version", "max_version_level": 3}, False),
        ({"feature": "transaction.version", "max_version_level": 0}, False),
        ({"feature": "transaction.version", "max_version_level": 0, "upgrade_type": 2}, False),
        ({"feature": "transaction.version", "max_version_level": -1}, False),
        ({"feature": "group.version", "max_version_level": 1, "upgrade_type": 9}, False),
        ({"feature": "unheard.of", "max_version_level": 1}, False),
        ({"feature": "metadata.version", "max_version_level": 30}, True),
        ({"feature": "metadata.version", "max_version_level": 31}, False),
        ({"feature": "metadata.version", "max_version_level": 29, "upgrade_type": 2}, False),
        ({"feature": "kraft.version", "max_version_level": 1}, False),
    ],
)
def test_features_stay_as_they_are(update: dict[str, Any], is_fine: bool) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        expected = ErrorCode.NONE if is_fine else ErrorCode.INVALID_UPDATE_VERSION
        client = connect()
        for version in range(3):
            older = {key: value for key, value in update.items() if version or key != "upgrade_type"}
            answer = await client.ask(ApiKey.UPDATE_FEATURES, version, feature_updates=[older])
            if version or older == update:
                assert (answer.error_code, answer.error_message is None) == (expected, is_fine)
            if version < 2:
                is_listed = answer.error_code == ErrorCode.NONE
                assert [result.feature for result in answer.results] == [update["feature"]] * is_listed

    run()


@with_adapter
async def test_features_are_announced(connect: Connect) -> None:
    client = connect()
    answer = await client.ask(ApiKey.API_VERSIONS, 4)
    supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    assert supported["metadata.version"] == (7, 30)
    assert supported["kraft.version"] == (0, 0)
    finalized = {f.name: f.max_version_level for f in answer.finalized_features}
    assert finalized["metadata.version"] == 30
    assert "kraft.version" not in finalized, "level 0 means off"
    older = await client.ask(ApiKey.API_VERSIONS, 3)
    assert [f.name for f in older.supported_features] == ["metadata.version"]


@with_adapter
async def test_no_access_rules_and_no_tokens(connect: Connect) -> None:
    client = connect()
    assert (await client.ask(ApiKey.DESCRIBE_ACLS, 3)).error_code == ErrorCode.SECURITY_DISABLED
    created = await client.ask(ApiKey.CREATE_ACLS, 3, creations=[{}, {}])
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = await client.ask(ApiKey.DELETE_ACLS, 3, filters=[{}])
    assert [result.error_code for result in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]
    for key in (ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN):
        answer = await client.ask(key, 2)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@with_adapter
async def test_an_administrator_aborts_what_hangs(connect: Connect) -> None:
    client = connect()
    await client.create("a", 2)
    begun = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="t", transaction_timeout_ms=60_000)
    identity = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    records = batch(
        b"x", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, base_sequence=0, transactional=True
    )
    written = await client.produce("a", records, version=12, transactional_id="t")
    assert written.error_code == 0
    assert (await client.fetch("a", 0)).last_stable_offset == 0

    async def marked(partition: int = 0, **marker: Any) -> int:
        topics = [{"name": "a", "partition_indexes": [partition]}]
        answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[identity | {"topics": topics} | marker])
        code: int = answer.markers[0].topics[0].partitions[0].error_code
        return code

    assert await marked(transaction_result=True) == ErrorCode.INVALID_REQUEST
    assert await marked(2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await marked(producer_epoch=-1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await marked(1) == ErrorCode.NONE
    assert (await client.fetch("a", 0)).last_stable_offset == 0
    assert await marked() == ErrorCode.NONE
    assert (await client.fetch("a", 0)).last_stable_offset == 2
    fenced = await client.ask(ApiKey.END_TXN, 3, transactional_id="t", committed=True, **identity)
    assert fenced.error_code != 0
