"""Topics as streams, and queries as groups with lag."""

import json
import time
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import mainstem.spark
from mainstem.sdk.client import Client
from mainstem.wire.kafka import ApiKey
from tests.spark.topics import committed, ends, stream
from tests.support.clients.confluent import create, grow, send
from tests.support.clients.transactional import producer
from tests.support.clients.transactional import send as send_within
from tests.support.serving.kafka import PATIENCE_S, Broker


def drain(frame: DataFrame, directory: Path, **options: str) -> Any:
    """One AvailableNow run into Parquet; the progress of each micro-batch that read anything."""
    query = (
        frame.writeStream.format("parquet")
        .options(path=str(directory / "out"), checkpointLocation=str(directory / "checkpoint"), **options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S * 2)
    return [one for one in query.recentProgress if one.numInputRows]


def written(spark: SparkSession, directory: Path) -> list[bytes]:
    rows = spark.read.parquet(str(directory / "out")).orderBy("partition", "offset").collect()
    return [bytes(row.value) for row in rows]


def wait_until_committed(broker: Broker, group: str, topic: str, wanted: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := committed(broker, group, topic, len(wanted))) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_available_now_then_restart(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "orders", 2)
    for partition in range(2):
        send(broker, "orders", [b"%d-%d" % (partition, number) for number in range(100)], partition)
    frame = stream(spark, broker, topic="orders", startingOffsets="earliest", group="billing", maxRowsPerTrigger=80)
    progress = drain(frame, tmp_path)
    assert [one.numInputRows for one in progress] == [80, 80, 40]
    # the last micro-batch too is a group without lag, though Spark never told the source of it
    wait_until_committed(broker, "billing", "orders", [100, 100])
    send(broker, "orders", [b"1-100"], 1)
    assert [one.numInputRows for one in drain(frame, tmp_path)] == [1]
    assert written(spark, tmp_path) == [b"%d-%d" % (p, n) for p in range(2) for n in range(100 + p)]
    wait_until_committed(broker, "billing", "orders", ends(broker, "orders", 2))


def test_bytes_per_trigger(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "large")
    for number in range(6):
        send(broker, "large", [bytes([65 + number]) * 10_000])
    frame = stream(spark, broker, topic="large", startingOffsets="earliest", maxBytesPerTrigger=25_000)
    assert [one.numInputRows for one in drain(frame, tmp_path)] == [2, 2, 2]
    create(broker, "larger")
    send(broker, "larger", [b"x" * 50_000, b"y" * 50_000], **{"batch.num.messages": 1})
    frame = stream(spark, broker, topic="larger", startingOffsets="earliest", maxBytesPerTrigger=1_000)
    # a record above the limit does not stop the stream
    assert [one.numInputRows for one in drain(frame, tmp_path / "larger")] == [1, 1]


def test_a_query_that_runs_on(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "growing")
    frame = stream(spark, broker, topic="growing", startingOffsets="earliest", group="follower")
    query = (
        frame.writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        send(broker, "growing", [b"a", b"b"])
        wait_until_committed(broker, "follower", "growing", [2])
        grow(broker, "growing", 3)
        send(broker, "growing", [b"c"], 2)
        wait_until_committed(broker, "follower", "growing", [2, 0, 1])
    finally:
        query.stop()
    assert written(spark, tmp_path) == [b"a", b"b", b"c"]


def test_ranges_of_markers_and_aborted_records_end(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "undone")
    sender = producer(broker, "undone")
    for value in (b"a", b"b"):
        sender.begin_transaction()
        send_within(sender, "undone", [value])
        sender.abort_transaction(30)
    frame = stream(spark, broker, topic="undone", startingOffsets="earliest", group="nothing", maxRowsPerTrigger=1)
    assert drain(frame, tmp_path) == []
    wait_until_committed(broker, "nothing", "undone", ends(broker, "undone"))


def test_topics_that_appear(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    frame = stream(spark, broker, topicPattern="appearing-.*", startingOffsets="earliest")
    create(broker, "appearing-1")
    send(broker, "appearing-1", [b"1"])
    assert len(drain(frame, tmp_path)) == 1
    create(broker, "appearing-2")
    send(broker, "appearing-2", [b"2"])
    assert len(drain(frame, tmp_path)) == 1
    assert sorted(written(spark, tmp_path)) == [b"1", b"2"]


def test_data_that_is_gone(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "lost")
    send(broker, "lost", [b"1", b"2"])
    asked = {"topic": "lost", "startingOffsets": "earliest"}
    drain(stream(spark, broker, **asked), tmp_path)
    for value in (b"3", b"4"):
        send(broker, "lost", [value])
    with Client(broker.address) as client:
        entry = {"partition_index": 0, "offset": 3}
        client.anywhere().request(
            ApiKey.DELETE_RECORDS, {"topics": [{"name": "lost", "partitions": [entry]}], "timeout_ms": 1000}
        )
    with pytest.raises(StreamingQueryException) as caught:
        drain(stream(spark, broker, **asked), tmp_path)
    assert mainstem.spark.reason(caught.value).startswith("Offsets 2 to 3 of lost-0 are gone. Set failOnDataLoss to")
    drain(stream(spark, broker, **asked, failOnDataLoss="false"), tmp_path)
    assert written(spark, tmp_path) == [b"1", b"2", b"4"]


def test_a_group_is_named_for_who_names_none(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "unnamed")
    send(broker, "unnamed", [b"1"])
    progress = drain(stream(spark, broker, topic="unnamed", startingOffsets="earliest"), tmp_path)
    group = json.loads(progress[-1].sources[0].endOffset)["@group"]
    assert group.startswith("spark-unnamed-")
    send(broker, "unnamed", [b"2"])
    progress = drain(stream(spark, broker, topic="unnamed", startingOffsets="earliest"), tmp_path)
    # the checkpoint keeps the name
    assert json.loads(progress[-1].sources[0].endOffset)["@group"] == group
    wait_until_committed(broker, urllib.parse.unquote(group), "unnamed", [2])


def test_mistakes(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "strict")
    with pytest.raises(StreamingQueryException) as caught:
        drain(stream(spark, broker, topic="strict-no"), tmp_path)
    assert mainstem.spark.reason(caught.value).startswith("Topic 'strict-no' does not exist")
    with pytest.raises(StreamingQueryException) as caught:
        drain(stream(spark, broker, topic="strict", endingOffsets="latest"), tmp_path)
    assert mainstem.spark.reason(caught.value).startswith("Option `endingOffsets` has no meaning for a stream")
