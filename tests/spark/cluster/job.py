"""A driver: copies a topic, with tasks that fail and tasks that dawdle on the way, and says what came out.

    python -m tests.spark.cluster.job MASTER ADDRESS DIRECTORY

Prints one line of JSON.
"""

import json
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

import mainstem.spark

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.2",
    "spark.speculation.minTaskRuntime": "500ms",
}
TOO_LONG_S = 3_600


def troubled(frame: DataFrame, is_cluster: bool) -> DataFrame:
    """The same rows; on a cluster one task fails at first, and one takes too long unless it is run once more."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0
        yield from batches
        if is_cluster and first and context.partitionId() == 0:
            raise RuntimeError("this attempt fails on purpose")
        if is_cluster and first and context.partitionId() == 1:
            time.sleep(TOO_LONG_S)

    return frame.mapInArrow(work, frame.schema)


def main() -> None:
    master, address, directory = sys.argv[1:]
    is_cluster = not master.startswith("local")
    spark = mainstem.spark.session("job", master=master, data_dir=directory, settings=SETTINGS)
    options = {"address": address, "topic": "source", "minPartitions": "6", "includeHeaders": "true"}
    frame = spark.read.format("mainstem").options(**options).load()
    target = f"target-{'cluster' if is_cluster else 'local'}"
    written = troubled(frame, is_cluster).drop("partition")
    written.write.format("mainstem").mode("append").options(address=address, topic=target).save()
    copied = spark.read.format("mainstem").options(**{**options, "topic": target}).load()
    rows = copied.selectExpr("key", "value", "hash(headers) AS headers").collect()
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    settings = dict(spark.sparkContext.getConf().getAll())
    print(
        json.dumps(
            {
                "rows": sorted((row.key.decode(), row.value.decode(), row.headers) for row in rows),
                "executors": executors,
                "plan": frame._jdf.queryExecution().toString(),
                "password": settings.get("spark.executorEnv.MAINSTEM_CLIENT_PASSWORD"),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main()
