"""Kafka's command-line tools. `make test-java` runs this module; its name keeps it out of `make test`."""

import json

import pytest

from tests.java.tools import CONFIGS, CONSUMER_GROUPS, NUMBERS, TOOLS, TOPICS, Tools
from tests.support.clients.transactional import producer, send
from tests.support.serving.kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]


def test_topics(tools: Tools, topic: str) -> None:
    tools.create(topic, 3, "--config", "retention.ms=7200000")
    assert topic in tools.run(TOPICS, "--list").splitlines()
    described = tools.run(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=7200000" in described
    assert described.count("Leader: 1") == 3
    tools.run(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tools.run(TOPICS, "--describe", "--topic", topic)
    tools.run(TOPICS, "--delete", "--topic", topic)
    assert topic not in tools.run(TOPICS, "--list").splitlines()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console(tools: Tools, topic: str, compression: str) -> None:
    tools.create(topic)
    options = ("--compression-codec", compression, "--reader-property", "parse.key=true")
    lines = [f"key\t{number}" for number in NUMBERS]
    tools.run(f"{TOOLS}.ConsoleProducer", "--topic", topic, *options, lines="\n".join(lines) + "\n")
    assert tools.consume(topic, "--formatter-property", "print.key=true") == lines


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_groups(tools: Tools, topic: str, protocol: str) -> None:
    tools.fill(topic)
    group = f"{topic}-group"
    options = ("--group", group, "--command-property", f"group.protocol={protocol}")
    assert tools.consume(topic, *options) == NUMBERS
    assert group in tools.run(CONSUMER_GROUPS, "--list").splitlines()
    assert row(tools, group, topic)[:6] == [group, topic, "0", "20", "20", "0"]
    assert "Empty" in tools.run(CONSUMER_GROUPS, "--describe", "--group", group, "--state")
    tools.run(CONSUMER_GROUPS, "--group", group, "--topic", topic, "--reset-offsets", "--to-offset", "15", "--execute")
    assert row(tools, group, topic)[:6] == [group, topic, "0", "15", "20", "5"]
    tools.run(CONSUMER_GROUPS, "--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    assert tools.consume(topic, *options, count=5) == NUMBERS[:5]
    tools.run(CONSUMER_GROUPS, "--delete", "--group", group)
    assert group not in tools.run(CONSUMER_GROUPS, "--list").splitlines()


def row(tools: Tools, group: str, topic: str) -> list[str]:
    """GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG, in the order that the tool's head line has."""
    lines = [line.split() for line in tools.run(CONSUMER_GROUPS, "--describe", "--group", group).splitlines()]
    head = next(line for line in lines if line[:1] == ["GROUP"])
    (found,) = (dict(zip(head, line, strict=False)) for line in lines if topic in line)
    return [found[name] for name in ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]


def test_verifiable_clients(tools: Tools, topic: str) -> None:
    count = 500
    tools.create(topic, 2)
    said = tools.run(f"{TOOLS}.VerifiableProducer", "--topic", topic, "--max-messages", str(count), "--acks", "-1")
    sent = [event for event in map(json.loads, said.splitlines()) if event["name"] == "producer_send_success"]
    assert sorted(int(event["value"]) for event in sent) == list(range(count))
    options = ("--group-id", topic, "--max-messages", str(count), "--reset-policy", "earliest", "--verbose")
    said = tools.run(f"{TOOLS}.VerifiableConsumer", "--topic", topic, *options)
    events = list(map(json.loads, said.splitlines()))
    read = [event for event in events if event["name"] == "record_data"]
    assert sorted(int(event["value"]) for event in read) == list(range(count))
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert committed
    assert all(event["success"] for event in committed)


def test_configs(tools: Tools, topic: str) -> None:
    tools.create(topic)
    place = ("--entity-type", "topics", "--entity-name", topic)
    tools.run(CONFIGS, *place, "--alter", "--add-config", "retention.ms=3600000,cleanup.policy=compact")
    described = tools.run(CONFIGS, *place, "--describe")
    assert "retention.ms=3600000" in described
    assert "cleanup.policy=compact" in described
    tools.run(CONFIGS, *place, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=3600000" not in tools.run(CONFIGS, *place, "--describe")
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    assert "num.partitions=1" in tools.run(CONFIGS, *broker, "--describe", "--all")


def test_broker_api_versions(tools: Tools) -> None:
    said = tools.run(f"{TOOLS}.BrokerApiVersionsCommand")
    assert "(id: 1 " in said
    assert "Produce(0): 0 to 13 [usable: 13]" in said
    assert "UNKNOWN" not in said


def test_transactions(tools: Tools, topic: str, broker: Broker) -> None:
    tools.create(topic)
    sender = producer(broker, topic)
    sender.begin_transaction()
    send(sender, topic, [b"value"])
    transactions = f"{TOOLS}.TransactionsCommand"
    (listed,) = (line for line in tools.run(transactions, "list").splitlines() if topic in line)
    assert "Ongoing" in listed
    described = tools.run(transactions, "describe", "--transactional-id", topic)
    assert f"{topic}-0" in described
    producers = tools.run(transactions, "describe-producers", "--topic", topic, "--partition", "0")
    assert len(producers.strip().splitlines()) == 2
    sender.commit_transaction(30)
    assert tools.consume(topic, "--isolation-level", "read_committed", count=1) == ["value"]


def test_offsets(tools: Tools, topic: str) -> None:
    tools.fill(topic)
    offsets = f"{TOOLS}.GetOffsetShell"
    assert tools.run(offsets, "--topic", topic).split() == [f"{topic}:0:20"]
    assert tools.run(offsets, "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:0"]


def test_performance(tools: Tools, topic: str) -> None:
    count = 5_000
    options = ("--topic", topic, "--num-records", str(count), "--record-size", "100", "--throughput", "-1")
    place = ("--command-property", f"bootstrap.servers={tools.address}")
    for properties in (place, (*place, f"transactional.id={topic}")):
        said = tools.run_bare(f"{TOOLS}.ProducerPerformance", *options, *properties)
        assert f"{count} records sent" in said
    assert len(tools.consume(topic, "--isolation-level", "read_committed", count=2 * count)) == 2 * count


def test_quotas(tools: Tools, topic: str) -> None:
    client = f"{topic}-client"
    place = ("--entity-type", "clients", "--entity-name", client)
    tools.run(CONFIGS, *place, "--alter", "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
    described = tools.run(CONFIGS, *place, "--describe")
    assert "producer_byte_rate=1024" in described
    assert "consumer_byte_rate=2048" in described
    tools.run(CONFIGS, *place, "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert "producer_byte_rate" not in tools.run(CONFIGS, *place, "--describe")
    address = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
    tools.run(CONFIGS, *address, "--alter", "--add-config", "connection_creation_rate=100")
    assert "connection_creation_rate=100" in tools.run(CONFIGS, *address, "--describe")


def test_users(tools: Tools, topic: str) -> None:
    place = ("--entity-type", "users", "--entity-name", topic)
    tools.run(CONFIGS, *place, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=secret]")
    assert "SCRAM-SHA-512=iterations=8192" in tools.run(CONFIGS, *place, "--describe")
    tools.run(CONFIGS, *place, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM-SHA-512" not in tools.run(CONFIGS, *place, "--describe")


def test_settings_of_the_broker(tools: Tools) -> None:
    default = ("--entity-type", "brokers", "--entity-default")
    tools.run(CONFIGS, *default, "--alter", "--add-config", "log.cleaner.delete.retention.ms=54321")
    described = tools.run(CONFIGS, *default, "--describe")
    assert "log.cleaner.delete.retention.ms=54321" in described
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG" in described
    tools.run(CONFIGS, *default, "--alter", "--delete-config", "log.cleaner.delete.retention.ms")
    node = ("--entity-type", "brokers", "--entity-name", "1")
    assert "advertised.listeners=PLAINTEXT://" in tools.run(CONFIGS, *node, "--describe", "--all")
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tools.run(CONFIGS, *loggers, "--alter", "--add-config", "mainstem.protocols.kafka=DEBUG")
    assert "mainstem.protocols.kafka=DEBUG" in tools.run(CONFIGS, *loggers, "--describe")
    tools.run(CONFIGS, *loggers, "--alter", "--delete-config", "mainstem.protocols.kafka")


def test_measurements_of_clients(tools: Tools, topic: str) -> None:
    place = ("--entity-type", "client-metrics", "--entity-name", topic)
    tools.run(CONFIGS, *place, "--alter", "--add-config", "interval.ms=1000")
    assert "interval.ms=1000" in tools.run(CONFIGS, *place, "--describe")
    metrics = f"{TOOLS}.ClientMetricsCommand"
    assert topic in tools.run(metrics, "--list").split()
    tools.run(metrics, "--delete", "--name", topic)
    assert topic not in tools.run(metrics, "--list").split()


def test_a_cluster_of_one(tools: Tools, topic: str) -> None:
    tools.create(topic)
    place = ("--topic", topic, "--partition", "0", "--election-type", "preferred")
    assert "Valid replica already elected" in tools.run(f"{TOOLS}.LeaderElectionCommand", *place)
    features = tools.run(f"{TOOLS}.FeatureCommand", "describe")
    assert "transaction.version" in features
    quorum = tools.run(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    assert "LeaderId:               1" in quorum
    directories = tools.run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)
    assert f'"partition":"{topic}-0"' in directories
    assert "No partition reassignments found." in tools.run(f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list")


def test_an_administrator_aborts_what_hangs(tools: Tools, topic: str, broker: Broker) -> None:
    tools.create(topic)
    sender = producer(broker, topic)
    sender.begin_transaction()
    send(sender, topic, [b"value"])
    transactions = f"{TOOLS}.TransactionsCommand"
    tools.run(transactions, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    (listed,) = (line for line in tools.run(transactions, "list").splitlines() if topic in line)
    assert "CompleteAbort" in listed
    pattern = ("--transactional-id-pattern", f"{topic[:-2]}.*")
    assert topic in tools.run(transactions, "list", *pattern)
