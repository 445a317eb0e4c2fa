"""The query: numbers, ROWS_PER_BATCH in each batch, to a topic, every third of them a little later.

Run as a process of its own, which is killed.

python -m tests.spark.crash.job ADDRESS DIRECTORY LAST_BATCH
"""

import sys
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

from tests.support.crashing.spark.killing import KillingSource
from tests.support.crashing.spark.session import TIMEOUT, TOPIC, killable_session

ROWS_PER_BATCH = 60
DELIVER_AT = "IF(value % 3 = 0, timestampadd(MILLISECOND, value * 37 % 3000, current_timestamp()), NULL)"


def main(address: str, directory: Path, last_batch: int) -> None:
    spark = killable_session(directory)
    spark.dataSource.register(KillingSource)
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .option("numPartitions", 3)
        .load()
    )
    text = F.col("value").cast("string")
    query = (
        numbers.select(text.alias("key"), text.alias("value"), F.expr(DELIVER_AT).alias("deliverAt"))
        .writeStream.format("mainstem-killed")
        .option("address", address)
        .option("topic", TOPIC)
        .option("timeout", TIMEOUT)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    while not query.awaitTermination(0.1):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] >= last_batch:
            break
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
