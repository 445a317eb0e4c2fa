"""A full scan of a topic, beside the same rows as Parquet read by Spark."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Figure
from benchmarks.spark.loading import fill
from mainstem.wire.compression import Compression

RUNS = 3
WANTED = {"numpy": 0.3, "numba": 0.4}


def seconds_of(frame: DataFrame) -> float:
    """Every row and column, read and thrown away."""
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def measure_scans(spark: SparkSession, address: str, directory: Path, records: int) -> list[Figure]:
    """Ratios of rows per second; the median of a few runs, taken in turns."""
    parquet = str(directory / "rows.parquet")
    frames: dict[str, DataFrame] = {}
    for codec in (Compression.NONE, Compression.LZ4):
        topic = f"scan-{codec.name.lower()}"
        fill(address, topic, records, compression=codec)
        for decoder in WANTED:
            options = {"address": address, "topic": topic, "decoder": decoder}
            frames[f"{codec.name.lower()}, {decoder}"] = spark.read.format("mainstem").options(**options).load()
    next(iter(frames.values())).write.parquet(parquet)
    frames["Parquet"] = spark.read.parquet(parquet)
    taken: dict[str, list[float]] = {name: [] for name in frames}
    for run in range(RUNS + 1):
        for name, frame in frames.items():
            seconds = seconds_of(frame)
            if run:  # the first one warms up
                taken[name].append(seconds)
    rows_per_s = {name: records / statistics.median(found) for name, found in taken.items()}
    base = rows_per_s.pop("Parquet")
    return [
        Figure(f"scan, {name}, rows/s, to Parquet", rate, base, at_least=WANTED[name.split(", ")[1]])
        for name, rate in rows_per_s.items()
    ]
