"""The query: numbers from a queue, or from topics under a subscription, to a topic. Run as a process of its own, which is killed.

python -m tests.spark.queue_mode.crash.job ADDRESS DIRECTORY SOURCE

Every seventh number is rejected, every eleventh tried once more. It reads what is there, and ends.
"""

import sys
from pathlib import Path

from tests.spark.queue_mode.crash.killing import FORMAT, KillingQueueSource
from tests.support.crashing.spark.session import TIMEOUT, TOPIC, killable_session

ROWS_PER_BATCH = 40
LEASE_MS = 3_000
NAME = "work"
SOURCES = {"queue": {}, "topic": {"topics": f"{NAME}.in", "startingOffsets": "earliest"}}


def main(address: str, directory: Path, source: str) -> None:
    spark = killable_session(directory)
    spark.dataSource.register(KillingQueueSource)
    numbers = (
        spark.readStream.format(FORMAT)
        .options(address=address, subscription=NAME, timeout=TIMEOUT, **SOURCES[source])
        .options(maxRowsPerTrigger=ROWS_PER_BATCH, leaseMs=LEASE_MS, minPartitions=2)
        .load()
    )
    number = "CAST(CAST(value AS STRING) AS INT)"
    ruled = numbers.selectExpr(
        "value",
        "_receipt",
        f"CASE WHEN {number} % 7 = 0 THEN 'reject' WHEN {number} % 11 = 0 AND _deliveries = 1 THEN 'retry' END AS _verdict",
        "'by seven' AS _reason",
    )
    writer = ruled.writeStream.format(FORMAT).options(address=address, topic=TOPIC, timeout=TIMEOUT)
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
