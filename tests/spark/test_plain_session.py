"""A session that the user makes, in a virtual environment that is not activated: the `python3` of the path is another one."""

import os
import subprocess
import sys

import pytest

from tests.support.clients.confluent import create, send
from tests.support.serving.kafka import Broker

pytestmark = [pytest.mark.system, pytest.mark.slow]

PATIENCE_S = 120
JOB = """
import sys
import mainstem.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("rows", spark.read.format("mainstem").option("address", sys.argv[1]).load("plain").count())
"""


def test_it_finds_the_data_source(broker: Broker) -> None:
    create(broker, "plain", 1)
    send(broker, "plain", [b"1", b"2", b"3"])
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    }
    own = os.path.dirname(sys.executable)
    environment["PATH"] = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != own)
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    done = subprocess.run(
        [sys.executable, "-c", JOB, broker.address],
        env=environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "rows 3" in done.stdout.decode(), done.stderr.decode()[-2_000:]
