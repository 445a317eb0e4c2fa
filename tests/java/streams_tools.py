"""Streams groups by a Kafka Streams application and by Kafka's tool for them. `make test-java` runs this module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.java.distribution import Distribution
from tests.java.streams_application import Instances, Orders
from tests.java.tools import CONFIGS, TOOLS, TOPICS, Tools
from tests.support.serving.kafka import QUICK_GROUPS, Broker, serving

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]

STREAMS_GROUPS = f"{TOOLS}.streams.StreamsGroupCommand"
QUICK_STREAMS = (
    "--set",
    "kafka.streams_group_heartbeat_interval_ms=500",
    "--set",
    "kafka.streams_group_session_timeout_ms=6000",
    "--set",
    "kafka.streams_group_initial_delay_ms=1000",
)
EXACTLY_ONCE = "exactly_once_v2"
INTERNAL = {
    "KSTREAM-KEY-SELECT-0000000004-repartition": 3,
    "sums-repartition": 4,
    "sums-changelog": 4,
}
"""Partitions: as many as the topic that the join reads beside it, and as the sources of what writes it."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One of its own, whose streams groups are quick."""
    with serving(tmp_path / "data", *QUICK_GROUPS, *QUICK_STREAMS) as running:
        yield running


@pytest.fixture
def tools(distribution: Distribution, broker: Broker) -> Tools:
    return Tools(distribution, broker)


@pytest.fixture
def instances(distribution: Distribution, broker: Broker, tmp_path: Path) -> Iterator[Instances]:
    """Whatever happens, none is left over."""
    running = Instances(broker.address, tmp_path)
    yield running
    running.kill_all()


def prepare(tools: Tools, application: str) -> Orders:
    for topic, partitions in (("orders", 4), ("customers", 3), ("totals", 2)):
        tools.create(f"{application}.{topic}", partitions)
    orders = Orders(tools.address, application)
    orders.send_customers()
    return orders


def rows(tools: Tools, application: str, *options: str) -> list[dict[str, str]]:
    """The table that the tool prints of a group; columns by their heads."""
    lines = [
        line.split() for line in tools.run(STREAMS_GROUPS, "--describe", "--group", application, *options).splitlines()
    ]
    heads = [line for line in lines if line[:1] == ["GROUP"]]
    return [dict(zip(heads[0], line, strict=False)) for line in lines if line[:1] == [application]]


def partitions_of(tools: Tools, topic: str) -> int:
    return tools.run(TOPICS, "--describe", "--topic", topic).count("\tPartition: ")


def test_processes_come_and_are_killed(tools: Tools, instances: Instances) -> None:
    application = "sums"
    orders = prepare(tools, application)
    tools.run(
        CONFIGS,
        *("--entity-type", "groups", "--entity-name", application),
        *("--alter", "--add-config", "streams.num.standby.replicas=1"),
    )
    one, two = (instances.start(application, EXACTLY_ONCE) for _ in range(2))
    orders.send(1_000)
    for instance in (one, two):
        instance.wait_for("state RUNNING")
    for name, partitions in INTERNAL.items():
        assert partitions_of(tools, f"{application}-{name}") == partitions
    assert "cleanup.policy=compact" in tools.run(TOPICS, "--describe", "--topic", f"{application}-sums-changelog")
    three = instances.start(application, EXACTLY_ONCE)
    orders.send(1_000)
    three.wait_for("state RUNNING")
    orders.send(1_000)
    two.kill()
    orders.send(1_000)
    orders.await_totals()

    (state,) = rows(tools, application, "--state", "--verbose")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "4")
    members = tools.run(STREAMS_GROUPS, "--describe", "--group", application, "--members", "--verbose")
    assert members.count("STANDBY:") >= 4, members
    assert {row["OFFSET-LAG"] for row in rows(tools, application)} == {"0"}
    endpoint, copies = one.where_is("r1")
    assert endpoint in (one.endpoint, three.endpoint)
    assert copies == 1
    assert three.where_is("r1")[0] == endpoint
    one.end()
    three.end()


def test_the_broker_is_killed(tools: Tools, broker: Broker, instances: Instances) -> None:
    application = "durable"
    orders = prepare(tools, application)
    instance = instances.start(application, EXACTLY_ONCE)
    orders.send(500)
    instance.wait_for("state RUNNING")
    for _ in range(2):
        orders.send(500)
        broker.kill()
        broker.start()
        orders.send(500)
    orders.await_totals()
    (state,) = rows(tools, application, "--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
    instance.end()


def test_groups_are_listed_reset_and_deleted(tools: Tools, instances: Instances) -> None:
    application = "again"
    orders = prepare(tools, application)
    orders.send(500)
    instance = instances.start(application, "at_least_once")
    orders.await_totals()
    assert tools.run(STREAMS_GROUPS, "--list").split() == [application]
    assert tools.run(STREAMS_GROUPS, "--list", "--state", "Stable").split()[-2:] == [application, "Stable"]
    offsets = rows(tools, application, "--offsets", "--verbose")
    read = sum(int(row["CURRENT-OFFSET"]) for row in offsets if row["TOPIC"] == f"{application}.orders")
    assert read == 500
    instance.end()

    assert "Empty" in tools.run(STREAMS_GROUPS, "--list", "--state")
    reset = ("--reset-offsets", "--group", application, "--all-input-topics", "--to-earliest")
    assert f"{application}.orders" in tools.run(STREAMS_GROUPS, *reset, "--dry-run")
    tools.run(STREAMS_GROUPS, *reset, "--execute", "--delete-all-internal-topics")
    assert f"{application}-sums-changelog" not in tools.run(TOPICS, "--list").split()
    instance = instances.start(application, "at_least_once", "second")
    orders.await_totals(runs=2)
    instance.end()

    forgotten = tools.run(STREAMS_GROUPS, "--delete-offsets", "--group", application, "--all-input-topics")
    assert "Successful" in forgotten
    tools.run(STREAMS_GROUPS, "--delete", "--group", application, "--delete-all-internal-topics")
    assert tools.run(STREAMS_GROUPS, "--list").split() == []
    kept = {f"{application}.{topic}" for topic in ("orders", "customers", "totals")}
    assert set(tools.run(TOPICS, "--list").split()) == kept
