"""Spark's own Kafka connector against our Kafka port. `make test-java` runs this module.

The connector is not on PyPI. Where Maven Central has it for the installed Spark, that one is used; else the newest one there is,
with a Spark of its version in an environment of its own. Real-time mode came with Spark 4.1.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pyspark
import pytest

from tests.clients.kafka.serving import Broker
from tests.java.distribution import ROOT, NotReachable, fetch_jars
from tests.spark.topics import create, send

pytestmark = [pytest.mark.java, pytest.mark.conformance, pytest.mark.slow]

FALLBACKS = ("4.2.0", "4.1.0", "4.0.0")
REAL_TIME_SINCE = (4, 1)
PATIENCE_S = 300
RECORDS = 1_000


class Connector:
    """The jars of one version, and a Python with that Spark."""

    def __init__(self) -> None:
        reasons = []
        for version in (pyspark.__version__, *FALLBACKS):
            try:
                self.jars = fetch_jars(
                    f"spark-kafka-{version}",
                    [("org.apache.spark", "spark-sql-kafka-0-10_2.13", version)],
                    kept=("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2"),
                )
            except NotReachable as reason:
                reasons.append(str(reason))
                continue
            self.version = version
            self.python = sys.executable if version == pyspark.__version__ else _python_with(version)
            return
        raise NotReachable(reasons[0])

    def run(self, mode: str, broker: Broker, directory: Path) -> dict[str, object]:
        """One job, in a driver of its own."""
        script = Path(__file__).with_name("spark_connector_job.py")
        jars = ",".join(str(jar) for jar in self.jars)
        ran = subprocess.run(
            [self.python, str(script), mode, broker.address, str(directory), jars],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, "PYSPARK_PYTHON": self.python},
        )
        assert ran.returncode == 0, ran.stderr[-3_000:]
        found: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
        return found


def _python_with(version: str) -> str:
    home = ROOT / "build" / "java" / f"pyspark-{version}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, clear=True, symlinks=True, with_pip=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={version}"], capture_output=True, text=True
        )
        if done.returncode:
            raise NotReachable(f"pyspark {version} cannot be installed: {done.stderr[-300:]}")
        (home / "complete").touch()
    return str(python)


@pytest.fixture(scope="module")
def connector() -> Connector:
    try:
        return Connector()
    except NotReachable as reason:
        pytest.skip(f"Spark's Kafka connector is not to be had: {reason}")


def test_batch(connector: Connector, broker: Broker, tmp_path: Path) -> None:
    create(broker, "spark-batch", 2)
    send(broker, "spark-batch", [b"%d" % number for number in range(RECORDS)], 1)
    found = connector.run("batch", broker, tmp_path)
    assert found == {"read": RECORDS, "distinct": RECORDS, "copied": RECORDS}


def test_streaming(connector: Connector, broker: Broker, tmp_path: Path) -> None:
    create(broker, "spark-streaming", 2)
    send(broker, "spark-streaming", [b"%d" % number for number in range(RECORDS)], 0)
    found = connector.run("streaming", broker, tmp_path)
    assert found == {"copied": RECORDS, "distinct": RECORDS}


def test_real_time(connector: Connector, broker: Broker, tmp_path: Path) -> None:
    if tuple(int(part) for part in connector.version.split(".")[:2]) < REAL_TIME_SINCE:
        pytest.skip(
            f"Maven Central has the connector of Spark {connector.version} at most, which has no real-time mode"
        )
    create(broker, "spark-real-time", 2)
    send(broker, "spark-real-time", [b"%d" % number for number in range(RECORDS)], 0)
    found = connector.run("real-time", broker, tmp_path)
    assert found == {"copied": RECORDS, "distinct": RECORDS}
