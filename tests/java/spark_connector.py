"""Spark's own Kafka connector against our Kafka port. `make test-java` runs this module.

Real-time mode came with Spark 4.1.
"""

from pathlib import Path

import pytest

from tests.java.connector import Connector
from tests.java.distribution import NotReachable
from tests.support.clients.confluent import create, send
from tests.support.serving.kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]

JOB = Path(__file__).with_name("spark_connector_job.py")
REAL_TIME_SINCE = (4, 1)
RECORDS = 1_000


@pytest.fixture(scope="module")
def connector() -> Connector:
    try:
        return Connector()
    except NotReachable as reason:
        pytest.skip(f"Spark's Kafka connector is not to be had: {reason}")


def test_batch(connector: Connector, broker: Broker, tmp_path: Path) -> None:
    create(broker, "spark-batch", 2)
    send(broker, "spark-batch", [b"%d" % number for number in range(RECORDS)], 1)
    found = connector.run(JOB, "batch", broker.address, str(tmp_path))
    assert found == {"read": RECORDS, "distinct": RECORDS, "copied": RECORDS}


def test_streaming(connector: Connector, broker: Broker, tmp_path: Path) -> None:
    create(broker, "spark-streaming", 2)
    send(broker, "spark-streaming", [b"%d" % number for number in range(RECORDS)], 0)
    found = connector.run(JOB, "streaming", broker.address, str(tmp_path))
    assert found == {"copied": RECORDS, "distinct": RECORDS}


def test_real_time(connector: Connector, broker: Broker, tmp_path: Path) -> None:
    if tuple(int(part) for part in connector.version.split(".")[:2]) < REAL_TIME_SINCE:
        pytest.skip(
            f"Maven Central has the connector of Spark {connector.version} at most, which has no real-time mode"
        )
    create(broker, "spark-real-time", 2)
    send(broker, "spark-real-time", [b"%d" % number for number in range(RECORDS)], 0)
    found = connector.run(JOB, "real-time", broker.address, str(tmp_path))
    assert found == {"copied": RECORDS, "distinct": RECORDS}
