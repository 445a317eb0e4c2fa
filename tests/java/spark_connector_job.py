"""A driver with Spark's Kafka connector; runs with the Spark of the connector's version, so it knows nothing of ours.

    python spark_connector_job.py batch|streaming|real-time ADDRESS DIRECTORY JARS

Prints one line of JSON.
"""

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 60


def main() -> None:
    mode, address, directory, jars = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", jars)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    where = {"kafka.bootstrap.servers": address}
    source = {**where, "subscribe": f"spark-{mode}", "startingOffsets": "earliest"}
    target = {**where, "topic": f"spark-{mode}-copy"}

    def copied() -> DataFrame:
        options = {**where, "subscribe": f"spark-{mode}-copy", "startingOffsets": "earliest"}
        return spark.read.format("kafka").options(**options).load()

    if mode == "batch":
        frame = spark.read.format("kafka").options(**source).load()
        frame.select("key", "value").write.format("kafka").options(**target).save()
        found = {"read": frame.count(), "distinct": frame.select("value").distinct().count()}
        print(json.dumps({**found, "copied": copied().count()}))
    else:
        writer = (
            spark.readStream.format("kafka")
            .options(**source)
            .load()
            .select("key", "value")
            .writeStream.format("kafka")
            .options(**target, checkpointLocation=f"{directory}/checkpoint")
        )
        if mode == "streaming":
            writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
        else:
            query = writer.outputMode("update").trigger(realTime="5 seconds").start()
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and not query.exception() and copied().count() < 1_000:
                time.sleep(1)
            query.stop()
        rows = copied()
        print(json.dumps({"copied": rows.count(), "distinct": rows.select("value").distinct().count()}))
    spark.stop()


if __name__ == "__main__":
    main()
