"""Real administration clients: users, limits, configurations, and what a cluster of one answers."""

import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from mainstem.wire.kafka import ApiKey
from tests.clients.kafka.kafka_python import MARKS
from tests.clients.kafka.wire_client import ask
from tests.support.clients.confluent import admin, create, produce
from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN, Broker, serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, when it is imported
    from kafka.admin import KafkaAdminClient

pytestmark = MARKS


@pytest.fixture
def python_admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.address)
    yield client
    client.close()


def test_a_cluster_of_one(broker: Broker, python_admin: KafkaAdminClient) -> None:
    create(broker, "one-node")
    quorum = python_admin.describe_metadata_quorum()
    assert quorum["topics"][0]["partitions"][0]["leader_id"] == 1
    assert python_admin.list_partition_reassignments() == {}
    assert python_admin.describe_features()["transaction.version"]["finalized"] == (2, 2)
    assert "one-node" in str(python_admin.list_config_resources())


def test_no_access_rules(broker: Broker) -> None:
    rule = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    client = admin(broker)
    with pytest.raises(KafkaException) as refused:
        client.create_acls([rule])[rule].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED


def test_settings_tell_where_they_come_from(broker: Broker) -> None:
    client = admin(broker)
    node = ConfigResource(ResourceType.BROKER, "1")
    told = client.describe_configs([node])[node].result(PATIENCE_S)
    assert told["advertised.listeners"].value == f"PLAINTEXT://{broker.address}"
    assert told["min.insync.replicas"].source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
    create(broker, "follows-the-broker")
    topic = ConfigResource(ResourceType.TOPIC, "follows-the-broker")

    def alter(how: AlterConfigOpType) -> None:
        change = ConfigEntry("log.cleaner.delete.retention.ms", "12345", incremental_operation=how)
        wish = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
        client.incremental_alter_configs([wish])[wish].result(PATIENCE_S)

    def retention() -> tuple[str, int]:
        entry = client.describe_configs([topic])[topic].result(PATIENCE_S)["delete.retention.ms"]
        return entry.value, entry.source

    alter(AlterConfigOpType.SET)
    assert retention() == ("12345", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    alter(AlterConfigOpType.DELETE)
    assert retention() == ("86400000", ConfigSource.DEFAULT_CONFIG.value)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Broker]:
    (tmp_path / "password").write_text("secret\n")
    options = ("--set", "kafka.user=me", "--set", f"kafka.password_file={tmp_path / 'password'}")
    with serving(tmp_path / "data", *options) as running:
        yield running


def test_users_are_made_and_admitted_over_restarts(guarded: Broker) -> None:
    def config(user: str, password: str) -> dict[str, object]:
        return {
            "bootstrap.servers": guarded.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            **QUICK_RETURN,
            "log_level": 0,
        }

    client = AdminClient(config("me", "secret"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8_192)
    wish = UserScramCredentialUpsertion("ann", info, b"her password", b"salt and pepper")
    client.alter_user_scram_credentials([wish])["ann"].result(PATIENCE_S)
    guarded.stop()
    guarded.start()
    ann = AdminClient(config("ann", "her password"))
    assert ann.list_topics(timeout=PATIENCE_S).brokers
    described = ann.describe_user_scram_credentials(["ann"])["ann"].result(PATIENCE_S)
    assert [found.iterations for found in described.scram_credential_infos] == [8_192]
    with pytest.raises(KafkaException):
        AdminClient(config("ann", "a guess")).list_topics(timeout=1)
    gone = UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_512)
    ann.alter_user_scram_credentials([gone])["ann"].result(PATIENCE_S)
    with pytest.raises(KafkaException):
        AdminClient(config("ann", "her password")).list_topics(timeout=1)


def limit(broker: Broker, client_id: str, **limits: float) -> None:
    """librdkafka and kafka-python know no quotas: asked for by hand."""
    entity = [{"entity_type": "client-id", "entity_name": client_id}]
    ops = [{"key": key, "value": value, "remove": False} for key, value in limits.items()]
    answer = ask(broker.address, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}])
    assert [entry.error_code for entry in answer.entries] == [0]


@pytest.mark.slow
def test_a_producer_keeps_to_its_limit(broker: Broker) -> None:
    """Three times what a burst may be takes the time that the rest needs."""
    rate = 100_000
    limit(broker, "slow-producer", producer_byte_rate=rate)
    create(broker, "throttled-in")
    waits: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "client.id": "slow-producer",
            "linger.ms": 0,
            "batch.size": 100_000,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
            **QUICK_RETURN,
        }
    )
    begun = time.monotonic()
    for _ in range(13):
        producer.produce("throttled-in", b"x" * 99_000)
    assert producer.flush(PATIENCE_S) == 0
    took = time.monotonic() - begun
    assert 1.5 < took < 15, "1.3 MB, of which 1.0 MB may come at once"
    assert waits
    assert max(waits) > 0


@pytest.mark.slow
def test_a_consumer_keeps_to_its_limit(broker: Broker) -> None:
    rate = 100_000
    create(broker, "throttled-out")
    produce(broker, "throttled-out", [{"value": b"x" * 99_000} for _ in range(14)])
    limit(broker, "slow-consumer", consumer_byte_rate=rate)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "client.id": "slow-consumer",
            "group.id": "unused",
            "fetch.message.max.bytes": 100_000,
            **QUICK_RETURN,
        }
    )
    consumer.assign([TopicPartition("throttled-out", 0, 0)])
    begun, received = time.monotonic(), 0
    while received < 14:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        received += 1
    took = time.monotonic() - begun
    consumer.close()
    assert 1.0 < took < 20
