"""Configurations of brokers, loggers and clients' measurements, and where those of topics come from."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clients.broker_configs import BROKER_FACTS
from mainstem.broker.clock import LoopClock
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Client, Connect, Operations, batch, with_adapter
from tests.support.worlds.brokers import with_engine

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_NODE, OF_CLUSTER, OF_START, DEFAULT = range(1, 6)


async def describe(client: Client, kind: int, name: str, *keys: str, **options: bool) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    (result,) = (await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], **options)).results
    return result.error_code or {config.name: config for config in result.configs}


async def alter(client: Client, kind: int, name: str, *changes: tuple[str, int, str | None], dry: bool = False) -> int:
    configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=dry)
    code: int = answer.responses[0].error_code
    return code


@with_adapter(partitions_default=3)
async def test_the_broker_tells_its_settings(connect: Connect) -> None:
    told = await describe(connect(), BROKER, "1", include_synonyms=True, include_documentation=True)
    assert told["advertised.listeners"].value == "PLAINTEXT://broker.example:9092"
    assert (told["advertised.listeners"].config_source, told["advertised.listeners"].read_only) == (OF_START, True)
    assert told["log.dirs"].value == "/"
    partitions = told["num.partitions"]
    assert (partitions.value, partitions.config_source, partitions.config_type) == ("3", OF_START, 3)
    assert [(s.value, s.source) for s in partitions.synonyms] == [("3", OF_START), ("1", DEFAULT)]
    assert partitions.documentation
    assert (told["fetch.max.bytes"].config_source, told["fetch.max.bytes"].read_only) == (DEFAULT, True)
    assert (told["log.retention.ms"].config_source, told["log.retention.ms"].read_only) == (DEFAULT, False)
    assert told["min.insync.replicas"].config_source == OF_CLUSTER
    (only,) = (await describe(connect(), BROKER, "1", "broker.id")).values()
    assert (only.value, only.synonyms, only.documentation) == ("1", [], None)
    assert list(await describe(connect(), BROKER, "")) == ["min.insync.replicas"]
    assert await describe(connect(), BROKER, "2") == ErrorCode.INVALID_REQUEST
    assert await describe(connect(), 99, "x") == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_what_holds_for_all_topics_can_be_set(connect: Connect) -> None:
    client = connect()
    await client.create("a")
    await client.create("b", retention_ms="5000")

    async def retention(topic: str) -> tuple[str, int, list[tuple[str, str, int]]]:
        told = (await describe(client, TOPIC, topic, "retention.ms", include_synonyms=True))["retention.ms"]
        return told.value, told.config_source, [(s.name, s.value, s.source) for s in told.synonyms]

    usual = ("log.retention.hours", "168", DEFAULT)
    assert await retention("a") == ("604800000", DEFAULT, [usual])
    assert await alter(client, BROKER, "", ("log.retention.ms", SET, "7000")) == 0
    cluster = ("log.retention.ms", "7000", OF_CLUSTER)
    assert await retention("a") == ("7000", OF_CLUSTER, [cluster, usual])
    assert await retention("b") == ("5000", OF_TOPIC, [("retention.ms", "5000", OF_TOPIC), cluster, usual])
    assert await alter(client, BROKER, "1", ("log.retention.ms", SET, "8000")) == 0
    node = ("log.retention.ms", "8000", OF_NODE)
    assert await retention("a") == ("8000", OF_NODE, [node, cluster, usual])
    assert (await describe(client, BROKER, "1"))["log.retention.ms"].value == "8000"
    assert (await describe(client, BROKER, ""))["log.retention.ms"].value == "7000"
    assert await alter(client, BROKER, "1", ("log.retention.ms", DELETE, None)) == 0
    assert (await retention("a"))[:2] == ("7000", OF_CLUSTER)
    for name, value in (
        ("log.dirs", "/x"),
        ("num.partitions", "2"),
        ("log.retention.ms", "soon"),
        ("min.insync.replicas", "0"),
        ("num.io.threads", "0"),
        ("num.io.threads", "many"),
        ("log.cleaner.io.buffer.load.factor", "much"),
        ("log.preallocate", "maybe"),
        ("max.connections", "2147483648"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("ssl.keystore.password", "secret"),
        ("unheard.of", "1"),
    ):
        assert await alter(client, BROKER, "1", (name, SET, value)) == ErrorCode.INVALID_REQUEST
    assert await alter(client, BROKER, "2", ("log.retention.ms", SET, "1")) == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_every_setting_of_kafkas_brokers_is_told(connect: Connect) -> None:
    told = await describe(connect(), BROKER, "1", include_synonyms=True, include_documentation=True)
    assert set(BROKER_FACTS) <= set(told)
    assert len(BROKER_FACTS) == 340
    threads = told["num.io.threads"]
    assert (threads.value, threads.config_source, threads.read_only, threads.config_type) == ("8", DEFAULT, False, 3)
    assert [(s.name, s.value, s.source) for s in threads.synonyms] == [("num.io.threads", "8", DEFAULT)]
    assert threads.documentation is None, "without effect, without a word"
    handlers = told["replica.fetch.max.bytes"]
    assert (handlers.value, handlers.config_source, handlers.read_only) == ("1048576", DEFAULT, True)
    secret = told["ssl.keystore.password"]
    assert (secret.value, secret.is_sensitive, secret.read_only, secret.config_type) == (None, True, True, 9)
    assert told["log.dir"].config_type == 7
    assert "leader.replication.throttled.rate" not in told


@with_adapter
async def test_what_has_no_effect_is_stored_and_told(connect: Connect) -> None:
    client = connect()
    rate = "leader.replication.throttled.rate"
    for name, usual, value in (("num.io.threads", "8", "12"), (rate, str(2**63 - 1), "1000000")):
        assert await alter(client, BROKER, "", (name, SET, value)) == 0
        assert (await describe(client, BROKER, "", name))[name].value == value
        told = (await describe(client, BROKER, "1", name, include_synonyms=True))[name]
        assert (told.value, told.config_source, told.read_only) == (value, OF_CLUSTER, False)
        assert [(s.value, s.source) for s in told.synonyms] == [(value, OF_CLUSTER), (usual, DEFAULT)]
        assert await alter(client, BROKER, "1", (name, SET, "9")) == 0
        assert (await describe(client, BROKER, "1", name))[name].config_source == OF_NODE
        for place in ("", "1"):
            assert await alter(client, BROKER, place, (name, DELETE, None)) == 0
    assert list(await describe(client, BROKER, "")) == ["min.insync.replicas"]
    assert await alter(client, BROKER, "", ("metric.reporters", APPEND, "mine")) == 0
    assert (await describe(client, BROKER, "", "metric.reporters"))["metric.reporters"].value.endswith(",mine")
    lags = [("log.cleaner.min.compaction.lag.ms", SET, "6"), ("log.cleaner.max.compaction.lag.ms", SET, "5")]
    assert await alter(client, BROKER, "", *lags) == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_and_is_kept(connect: Connect) -> None:
    client = connect()
    await client.create("a")
    await client.create("own", max_message_bytes="2000")
    large = batch(b"x" * 1_000)
    assert await alter(client, BROKER, "", ("message.max.bytes", SET, "500"), dry=True) == 0
    assert (await client.produce("a", bytearray(large))).error_code == 0
    assert await alter(client, BROKER, "", ("message.max.bytes", SET, "500")) == 0
    await client.create("new")
    assert (await client.produce("a", bytearray(large))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await client.produce("new", bytearray(large))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await client.produce("own", bytearray(large))).error_code == 0
    old = batch(b"x", time_ms=5)
    assert await alter(client, BROKER, "", ("log.message.timestamp.before.max.ms", SET, "1000")) == 0
    assert (await client.produce("a", bytearray(old))).error_code == ErrorCode.INVALID_TIMESTAMP
    assert await alter(client, BROKER, "", ("log.message.timestamp.before.max.ms", DELETE, None)) == 0
    assert (await client.produce("a", bytearray(old))).error_code == 0
    assert await alter(client, BROKER, "", ("log.message.timestamp.type", SET, "LogAppendTime")) == 0
    assert (await client.produce("a", batch(b"x"))).log_append_time_ms > 0
    assert await alter(client, BROKER, "", ("message.max.bytes", DELETE, None)) == 0
    assert (await client.produce("a", bytearray(large))).error_code == 0


def test_and_survives() -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        for expected in ("604800000", "7000"):
            adapter = KafkaAdapter(KafkaSettings(), await Broker.open(engine, LoopClock()), Operations())
            client = Client(adapter)
            if expected == "604800000":
                await client.create("a")
            assert (await describe(client, TOPIC, "a"))["retention.ms"].value == expected
            await alter(client, BROKER, "", ("log.retention.ms", SET, "7000"))
            await alter(client, METRICS, "m", ("interval.ms", SET, "1000"))
        assert (await describe(client, METRICS, "m"))["interval.ms"].value == "1000"

    run()


@with_adapter
async def test_a_policy_can_be_empty(connect: Connect) -> None:
    client = connect()
    await client.create("a")
    assert await alter(client, TOPIC, "a", ("cleanup.policy", APPEND, "compact")) == 0
    assert (await describe(client, TOPIC, "a"))["cleanup.policy"].value == "delete,compact"
    assert await alter(client, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete,compact")) == 0
    policy = (await describe(client, TOPIC, "a"))["cleanup.policy"]
    assert (policy.value, policy.config_source) == ("", OF_TOPIC)
    assert await alter(client, TOPIC, "a", ("retention.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG
    twice = (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert await alter(client, TOPIC, "a", *twice) == ErrorCode.INVALID_REQUEST
    assert await alter(client, TOPIC, "a", ("file.delete.delay.ms", SET, "12345")) == 0


@pytest.fixture
def level() -> Iterator[logging.Logger]:
    logger = logging.getLogger("mainstem.protocols.kafka")
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_loggers(level: logging.Logger) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        name = level.name
        assert name in await describe(client, LOGGER, "1")
        assert await alter(client, LOGGER, "1", (name, SET, "DEBUG"), dry=True) == 0
        assert level.level != logging.DEBUG
        assert await alter(client, LOGGER, "1", (name, SET, "DEBUG")) == 0
        assert level.level == logging.DEBUG
        assert (await describe(client, LOGGER, "1", name))[name].value == "DEBUG"
        assert await alter(client, LOGGER, "1", (name, DELETE, None)) == 0
        assert level.level == logging.NOTSET
        invalid = ErrorCode.INVALID_CONFIG
        for wrong in ((name, SET, "LOUD"), (name, APPEND, "INFO"), ("unheard.of", SET, "INFO"), ("root", DELETE, None)):
            assert await alter(client, LOGGER, "1", wrong) == invalid
        assert await alter(client, LOGGER, "", (name, SET, "INFO")) == ErrorCode.INVALID_REQUEST
        assert await describe(client, LOGGER, "") == ErrorCode.INVALID_REQUEST
        resource = {"resource_type": LOGGER, "resource_name": "1", "configs": [{"name": name, "value": "INFO"}]}
        (whole,) = (await client.ask(ApiKey.ALTER_CONFIGS, 2, resources=[resource])).responses
        assert whole.error_code == ErrorCode.INVALID_REQUEST

    run()


@with_adapter
async def test_measurements_of_clients(connect: Connect) -> None:
    client = connect()
    assert (await describe(client, METRICS, "m"))["interval.ms"].config_source == DEFAULT
    changes = (
        ("interval.ms", SET, "1000"),
        ("match", SET, "client_id=app-.*"),
        ("metrics", APPEND, "org.apache.kafka."),
    )
    assert await alter(client, METRICS, "m", *changes) == 0
    told = await describe(client, METRICS, "m")
    assert [told[name].value for name in ("interval.ms", "match", "metrics")] == [
        "1000",
        "client_id=app-.*",
        "org.apache.kafka.",
    ]
    invalid = ErrorCode.INVALID_CONFIG
    for wrong in (("interval.ms", "99"), ("match", "color=red"), ("match", "client_id=("), ("unheard.of", "1")):
        assert await alter(client, METRICS, "m", (wrong[0], SET, wrong[1])) == invalid
    assert await alter(client, METRICS, "") == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_everything_that_has_configurations_is_listed(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await alter(client, METRICS, "m", ("interval.ms", SET, "1000"))
    await alter(client, GROUP, "g", ("share.isolation.level", SET, "read_committed"))

    async def listed(version: int, *kinds: int) -> Any:
        answer = await client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=list(kinds))
        return answer.error_code or sorted((r.resource_type, r.resource_name) for r in answer.config_resources)

    assert await listed(0) == [(METRICS, "m")]
    assert await listed(1) == [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")]
    assert await listed(1, TOPIC, GROUP) == [(TOPIC, "t"), (GROUP, "g")]
    assert await listed(1, 99) == ErrorCode.UNSUPPORTED_VERSION
    await alter(client, METRICS, "m", ("interval.ms", DELETE, None))
    assert await listed(0) == []


@with_adapter
async def test_a_resource_is_altered_once_in_a_request(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": []}
    for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        answer = await client.ask(key, 1, resources=[resource, resource])
        assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
