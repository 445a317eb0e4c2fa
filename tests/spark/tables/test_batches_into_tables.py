"""Micro-batches into tables and into Delta: each once, however often Spark runs it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import mainstem.spark
from mainstem.pipelines.errors import SchemaMismatch
from mainstem.pipelines.tables.sink import StaleBatch
from tests.spark.topics import stream
from tests.support.clients.confluent import create, send
from tests.support.serving.kafka import PATIENCE_S, Broker

Append = Callable[..., bool]
Read = Callable[..., DataFrame]

KINDS = [
    pytest.param(mainstem.spark.append_to_table, mainstem.spark.read_table, id="table"),
    pytest.param(mainstem.spark.append_to_delta, mainstem.spark.read_delta, id="delta"),
]


@pytest.mark.parametrize(("append", "read"), KINDS)
def test_a_query_that_loses_its_memory_writes_each_batch_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, append: Append, read: Read
) -> None:
    topic, place = f"into-{append.__name__}", str(tmp_path / "rows")
    create(broker, topic, 2)
    answers: list[tuple[int, bool]] = []

    def write(frame: DataFrame, number: int) -> None:
        rows = frame.selectExpr("CAST(value AS STRING) AS value", "offset", "timestamp")
        answers.append((number, append(rows, place, number)))

    def run() -> None:
        source = stream(spark, broker, topic=topic, startingOffsets="earliest")
        query = source.writeStream.foreachBatch(write).trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.start().awaitTermination(PATIENCE_S)

    send(broker, topic, [b"a", b"b"])
    run()
    send(broker, topic, [b"c"], 1)
    run()
    # as if killed before Spark noted that the batch was done
    for path in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        path.unlink()
    run()
    assert answers == [(0, True), (1, True), (1, False)]
    found = read(place, session=spark)
    assert sorted(row.value for row in found.collect()) == ["a", "b", "c"]
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    with pytest.raises(StaleBatch, match="checkpoint was set back"):
        append(found.select("value", "offset", "timestamp"), place, 0, query=query)


def test_rows_with_more_columns_widen_a_table(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "rows")
    append = mainstem.spark.append_to_table
    assert append(spark.sql("SELECT 1 AS id, TIMESTAMP '2030-01-31 23:00:00' AS timestamp"), place, 0, query="q")
    assert append(
        spark.sql("SELECT 'x' AS name, 2 AS id, TIMESTAMP '2030-02-01 00:00:00' AS timestamp"), place, 1, query="q"
    )
    assert append(spark.sql("SELECT 3 AS id"), place, 0, query="another")
    frame = mainstem.spark.read_table(place, session=spark)
    found = frame.selectExpr("id", "name", "CAST(day AS STRING) AS day").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, None, "2030-01-31"), (2, "x", "2030-02-01"), (3, None, None)]
    with pytest.raises(SchemaMismatch, match="has int in `id`, not string"):
        append(spark.sql("SELECT 'one' AS id"), place, 2, query="q")


def test_delta_is_divided_and_checked(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "delta")
    append = mainstem.spark.append_to_delta
    rows = spark.range(100).selectExpr(
        "id", "CAST(id % 3 AS INT) AS part", "IF(id = 5, NULL, DATE '2030-01-31') AS day"
    )
    assert append(rows, place, 0, query="q", partition_by=["part", "day"])
    assert append(rows.where("id < 10"), place, 1, query="q")
    found = mainstem.spark.read_delta(place, session=spark)
    assert found.count() == 110
    assert {(row.part, str(row.day)) for row in found.where("id = 5").collect()} == {(2, "None")}
    other = DeltaTable(place)
    assert other.count() == 110
    assert other.transaction_version("q") == 1
    with pytest.raises(SchemaMismatch, match="no column `more`"):
        append(rows.selectExpr("*", "1 AS more"), place, 2, query="q")
    assert append(rows.where("false"), place, 2, query="q")
    assert DeltaTable(place).count() == 110
