"""RocketMQ's Java client over the remoting protocol. `make test-java` runs this module; its name keeps it out of `make test`."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.java.distribution import Distribution, NotReachable
from tests.support.serving.rocketmq import RocketmqBroker, serving

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]

VERSION = "5.5.0"
ARTIFACTS = (
    ("org.apache.rocketmq", "rocketmq-client", VERSION),
    ("org.apache.rocketmq", "rocketmq-tools", VERSION),
)
PROGRAM = Path(__file__).parent / "programs" / "RocketmqRemoting.java"
ADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


@pytest.fixture(scope="module")
def jars() -> Distribution:
    try:
        return Distribution(f"rocketmq-{VERSION}", ARTIFACTS)
    except NotReachable as reason:
        pytest.skip(f"RocketMQ's Java client is not to be had: {reason}")


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketmqBroker]:
    with serving(tmp_path_factory.mktemp("rocketmq") / "data") as running:
        yield running


@pytest.mark.parametrize(
    "case", ["sending", "retry", "orderly", "delay", "lite", "broadcast", "balance", "reply", "recall"]
)
def test_client(jars: Distribution, rocketmq: RocketmqBroker, case: str) -> None:
    out = jars.run_source(PROGRAM, rocketmq.names, case, uuid.uuid4().hex[:8])
    assert out.splitlines()[-1] == f"ok {case}"


def test_mqadmin(jars: Distribution, rocketmq: RocketmqBroker) -> None:
    where = ("-n", rocketmq.names)
    made = jars.run(ADMIN, "updateTopic", *where, "-c", "DefaultCluster", "-t", "administered", "-r", "3", "-w", "3")
    assert "success" in made
    assert "administered" in jars.run(ADMIN, "topicList", *where).split()
    assert "mainstem" in jars.run(ADMIN, "topicRoute", *where, "-t", "administered")
    status = jars.run(ADMIN, "topicStatus", *where, "-t", "administered")
    assert len([line for line in status.splitlines() if line.startswith("mainstem")]) == 3
    jars.run(ADMIN, "deleteTopic", *where, "-c", "DefaultCluster", "-t", "administered")
    assert "administered" not in jars.run(ADMIN, "topicList", *where).split()


def test_mqadmin_moves_a_group(jars: Distribution, rocketmq: RocketmqBroker) -> None:
    where = ("-n", rocketmq.names)
    jars.run(ADMIN, "updateTopic", *where, "-c", "DefaultCluster", "-t", "moved", "-r", "2", "-w", "2")
    jars.run(ADMIN, "updateSubGroup", *where, "-c", "DefaultCluster", "-g", "movers")
    out = jars.run(ADMIN, "resetOffsetByTime", *where, "-g", "movers", "-t", "moved", "-s", "now", "-f", "true")
    rows = [line.split() for line in out.splitlines() if line.startswith("mainstem")]
    assert sorted(rows) == [["mainstem", "0", "0"], ["mainstem", "1", "0"]], out
