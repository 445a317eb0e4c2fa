"""Writing rows to a topic, beside a sink that discards them."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Figure
from benchmarks.spark.discarding import DiscardingSource

RUNS = 7
WANTED = 0.5
PARTITIONS = 4


def measure_sink(spark: SparkSession, address: str, directory: Path, records: int) -> list[Figure]:
    """Rows of 8 + 100 bytes out of Parquet; the median of a few runs, taken in turns."""
    parquet = str(directory / "sink.parquet")
    row = (
        "lpad(CAST(id AS STRING), 8, '0') AS key",
        "rpad(concat('order ', id), 100, sha2(CAST(id AS STRING), 256)) AS value",
    )
    spark.range(records, numPartitions=PARTITIONS).selectExpr(*row).write.parquet(parquet)
    rows = spark.read.parquet(parquet)
    spark.dataSource.register(DiscardingSource)
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic("sink", PARTITIONS, 1)]).values():
        done.result(30)
    taken: dict[str, list[float]] = {"discarding": [], "mainstem": []}
    for run in range(RUNS + 1):
        for sink, found in taken.items():
            seconds = _seconds(rows, sink, {"address": address, "topic": "sink"} if sink == "mainstem" else {})
            if run:  # the first one warms up
                found.append(seconds)
    rates = {sink: records / statistics.median(found) for sink, found in taken.items()}
    return [Figure("sink, rows/s, to one that discards", rates["mainstem"], rates["discarding"], at_least=WANTED)]


def _seconds(rows: DataFrame, sink: str, options: dict[str, str]) -> float:
    begun = time.perf_counter()
    rows.write.format(sink).mode("append").options(**options).save()
    return time.perf_counter() - begun
