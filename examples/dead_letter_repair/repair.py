"""Dead letters: counted by reason, repaired by SQL, sent back.

python examples/dead_letter_repair/repair.py [--address HOST:PORT]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import mainstem.spark

SQL = Path(__file__).with_name("repair.sql")
HOUR_MS = 3_600_000


def repair(letters: DataFrame, address: str) -> dict[tuple[str, str], int]:
    """One batch of letters; answers how many there were, by reason and error."""
    letters = letters.persist()
    counted = letters.groupBy("origin.reason", "origin.error").count().collect()
    letters.createOrReplaceTempView("letters")
    repaired = letters.sparkSession.sql(SQL.read_text(encoding="utf-8"))
    left = letters.join(repaired.select("_receipt"), "_receipt", "left_anti").selectExpr(
        "_receipt", "'retry' AS _verdict", f"CAST({HOUR_MS} AS BIGINT) AS _retryAfterMs"
    )
    rows = repaired.unionByName(left, allowMissingColumns=True)
    # sent back, settled and set to rest by one commit
    options = {"address": address, "sinkId": "repaired", "settles": "true"}
    rows.write.format("mainstem").mode("append").options(**options).save()
    letters.unpersist()
    return {(row.reason, row.error): row["count"] for row in counted}


def run(spark: SparkSession, address: str, checkpoint: str | None = None) -> dict[tuple[str, str], int]:
    """All letters that are there now."""
    letters = (
        spark.readStream.format("mainstem")
        .options(address=address, subscription="orders.dead", includeHeaders="true")
        .load()
    )
    counts: dict[tuple[str, str], int] = {}

    def each(batch: DataFrame, _number: int) -> None:
        for reason, count in repair(batch, address).items():
            counts[reason] = counts.get(reason, 0) + count

    writer = mainstem.spark.with_origin(letters).writeStream.queryName("repair").foreachBatch(each)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="127.0.0.1:9092", help="the broker's Kafka listener")
    given = parser.parse_args()
    found = run(mainstem.spark.session("dead-letter-repair"), given.address)
    for (reason, error), count in sorted(found.items()):
        print(f"{count:>8}  {reason}: {error}")
