"""What a micro-batch costs, beside one of Spark's rate source.

One a second of each, because that source has rows once a second.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Figure

MICRO_BATCHES = 12
WARM_UP = 6
PATIENCE_S = 120
WANTED = 1.7


def _duration_ms(frame: DataFrame, checkpoint: Path) -> float:
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="1 second")
        .start()
    )
    deadline = time.monotonic() + PATIENCE_S
    durations: dict[int, float] = {}
    while len(durations) < MICRO_BATCHES + WARM_UP and time.monotonic() < deadline:
        for progress in query.recentProgress:
            if progress.numInputRows:
                durations[progress.batchId] = progress.batchDuration
        time.sleep(0.1)
    query.stop()
    return statistics.median([durations[number] for number in sorted(durations)][WARM_UP:])


def measure_micro_batches(spark: SparkSession, address: str, directory: Path) -> list[Figure]:
    """The median duration of a micro-batch with a few hundred rows."""
    rate = _duration_ms(
        spark.readStream.format("rate").options(rowsPerSecond=1_000, numPartitions=1).load(), directory / "rate"
    )
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    ended = threading.Event()

    def feed() -> None:
        while not ended.wait(0.01):
            for _ in range(10):
                producer.produce("micro", b"x" * 100)
            producer.poll(0)

    producer.produce("micro", b"first")
    producer.flush(30)
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        options = {"address": address, "topic": "micro", "group": "micro"}
        ours = _duration_ms(spark.readStream.format("mainstem").options(**options).load(), directory / "micro")
    finally:
        ended.set()
        feeder.join()
        producer.flush(30)
    return [Figure("micro-batch, ms, to Spark's rate source", ours, rate, ratio_at_most=WANTED)]
