"""What a micro-batch costs, beside one of Spark's rate source.

One a second of each, because that source has rows once a second.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Figure

TURNS = 3
MICRO_BATCHES = 6
WARM_UP = 4
PATIENCE_S = 120
WANTED = 1.7


def _durations_ms(frame: DataFrame, checkpoint: Path) -> list[float]:
    """Those of one turn; the next goes on from the same checkpoint."""
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
    return [durations[number] for number in sorted(durations)][WARM_UP:]


def measure_micro_batches(spark: SparkSession, address: str, directory: Path) -> list[Figure]:
    """The median duration of a micro-batch with about a thousand rows, of both in turns, while the topic is being fed."""
    with _fed(address):
        frames = {
            "rate": spark.readStream.format("rate").options(rowsPerSecond=1_000, numPartitions=1).load(),
            "mainstem": spark.readStream.format("mainstem")
            .options(address=address, topic="micro", group="micro")
            .load(),
        }
        taken: dict[str, list[float]] = {name: [] for name in frames}
        for _ in range(TURNS):
            for name, frame in frames.items():
                taken[name] += _durations_ms(frame, directory / name)
    ours, rate = statistics.median(taken["mainstem"]), statistics.median(taken["rate"])
    return [Figure("micro-batch, ms, to Spark's rate source", ours, rate, ratio_at_most=WANTED)]


@contextlib.contextmanager
def _fed(address: str) -> Iterator[None]:
    """A thousand records a second into the topic."""
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
        yield
    finally:
        ended.set()
        feeder.join()
        producer.flush(30)
