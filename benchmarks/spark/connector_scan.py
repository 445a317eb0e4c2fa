"""A driver with Spark's Kafka connector; runs with the Spark of the connector's version, so it knows nothing of ours.

    python connector_scan.py TOPIC ADDRESS RUNS JARS

Prints one line of JSON: the seconds of each scan.
"""

import json
import sys
import time

from pyspark.sql import SparkSession


def main() -> None:
    topic, address, runs, jars = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", jars)
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.read.format("kafka").options(**options).load()
    seconds = []
    for _ in range(int(runs)):
        begun = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begun)
    print(json.dumps({"seconds": seconds}))
    spark.stop()


if __name__ == "__main__":
    main()
