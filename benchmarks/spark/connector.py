"""A full scan of a topic by our source, beside Spark's own Kafka connector over the same port, where that can be had."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from benchmarks.report import Figure
from benchmarks.spark.loading import fill
from benchmarks.spark.scan import seconds_of
from tests.java.connector import Connector
from tests.java.distribution import NotReachable

RUNS = 3
TOPIC = "scan-by-both"


def measure_connector(spark: SparkSession, address: str, records: int) -> list[Figure]:
    """The median of a few runs of each, uncompressed; no ratio is asked for."""
    try:
        connector = Connector()
    except NotReachable as reason:
        print(f"Spark's Kafka connector is not to be had: {reason}", file=sys.stderr)
        return []
    fill(address, TOPIC, records)
    frame = spark.read.format("mainstem").options(address=address, topic=TOPIC).load()
    ours = [seconds_of(frame) for _ in range(RUNS + 1)][1:]  # the first one warms up
    found = connector.run(Path(__file__).with_name("connector_scan.py"), TOPIC, address, str(RUNS + 1))
    theirs = cast("list[float]", found["seconds"])[1:]
    rates = [records / statistics.median(seconds) for seconds in (ours, theirs)]
    return [Figure(f"scan, uncompressed, rows/s, to Spark {connector.version}'s Kafka connector", *rates)]
