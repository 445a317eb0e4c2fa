"""A scan of a topic that is kept as a table, beside the same rows as plain Parquet, both by Spark's own reader.

All columns, and two of them: files of ours must be no worse than Spark's own at either. What is not in the table yet is a small
tail in the log, as there always is.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from pyspark.sql import DataFrame, SparkSession

import mainstem.spark
from benchmarks.report import Figure
from benchmarks.spark.loading import RECORDS_PER_BATCH, fill
from benchmarks.spark.scan import seconds_of
from mainstem.pipelines.tables.running import run_table

RUNS = 3
WANTED = 0.8
TOPIC = "tabled"
FEW = ("offset", "timestamp")


def measure_tables(spark: SparkSession, address: str, directory: Path, records: int) -> list[Figure]:
    """Ratios of rows per second; the median of a few runs, taken in turns."""
    fill(address, TOPIC, records)
    entries = [ConfigEntry("table", "true", incremental_operation=AlterConfigOpType.SET)]
    wanted = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(30)
    begun = time.perf_counter()
    taken_over = run_table(spark, address, TOPIC)
    took_s = time.perf_counter() - begun
    table = mainstem.spark.table(TOPIC, session=spark, address=address)
    plain = str(directory / "plain.parquet")
    table.drop("topic", "day").write.option("compression", "zstd").parquet(plain)
    frames: dict[str, DataFrame] = {"table": table, "Parquet": spark.read.parquet(plain)}
    taken: dict[tuple[str, str], list[float]] = {}
    for run in range(RUNS + 1):
        for name, frame in frames.items():
            for what, part in (("all columns", frame), ("two columns", frame.select(*FEW))):
                seconds = seconds_of(part)
                if run:  # the first one warms up
                    taken.setdefault((what, name), []).append(seconds)
    rates = {key: records / statistics.median(found) for key, found in taken.items()}
    figures = [
        Figure(f"table, {what}, rows/s, to Parquet", rates[what, "table"], rates[what, "Parquet"], at_least=WANTED)
        for what in ("all columns", "two columns")
    ]
    assert taken_over >= records - RECORDS_PER_BATCH
    return [*figures, Figure("table, taken over, rows/s", taken_over / took_s)]
