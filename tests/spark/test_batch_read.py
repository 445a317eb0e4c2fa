"""Topics as tables."""

import datetime
import json
import time
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import mainstem.spark
from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition, produce
from mainstem.wire.kafka import ApiKey
from mainstem.wire.record_batch import encode_batch
from tests.spark.topics import batch, values_of
from tests.support.clients.confluent import create, send, send_records
from tests.support.clients.transactional import producer
from tests.support.clients.transactional import send as send_within
from tests.support.serving.kafka import Broker, serving

KAFKA_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}


def test_columns_are_those_of_sparks_kafka_source(spark: SparkSession, broker: Broker) -> None:
    create(broker, "columns", 2)
    headers = [("trace", b"1"), ("none", None), ("trace", b"2")]
    send_records(broker, "columns", [(b"k", b"v", headers), (None, b"", None), (b"", None, None)], partition=1)
    plain = batch(spark, broker, topic="columns")
    assert dict(plain.dtypes) == KAFKA_COLUMNS
    rows = batch(spark, broker, topic="columns", includeHeaders="true").orderBy("offset").collect()
    assert [(row.key, row.value, row.topic, row.partition, row.offset) for row in rows] == [
        (b"k", b"v", "columns", 1, 0),
        (None, b"", "columns", 1, 1),
        (b"", None, "columns", 1, 2),
    ]
    assert [(one.key, one.value) for one in rows[0].headers] == headers
    assert rows[1].headers is None
    assert rows[0].timestampType == 0
    age = datetime.datetime.now() - rows[0].timestamp.replace(tzinfo=None)  # noqa: DTZ005 as Spark gives it
    assert abs(age.total_seconds()) < 86_400


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression(spark: SparkSession, broker: Broker, codec: str) -> None:
    topic = f"packed-{codec}"
    create(broker, topic)
    wanted = [b"value %d " % number * 20 for number in range(2_000)]
    send(broker, topic, wanted, **{"compression.type": codec})
    assert values_of(batch(spark, broker, topic=topic)) == wanted


@pytest.mark.parametrize("decoder", ["numpy", "numba"])
def test_splits_go_through_batches(spark: SparkSession, broker: Broker, decoder: str) -> None:
    topic = f"split-{decoder}"
    create(broker, topic)
    wanted = [b"%d" % number for number in range(5_000)]
    send(broker, topic, wanted, **{"linger.ms": 100})
    frame = batch(spark, broker, topic=topic, minPartitions=7, decoder=decoder)
    assert frame.rdd.getNumPartitions() == 7
    assert values_of(frame) == wanted


def test_offsets_and_times(spark: SparkSession, broker: Broker) -> None:
    create(broker, "times", 2)
    now_ms = int(time.time()) * 1_000
    with Client(broker.address) as client:
        for partition in range(2):
            at = TopicPartition("times", partition)
            records = [(index, now_ms + 1_000 * index, None, b"%d" % index, ()) for index in range(10)]
            produce(client.leader(at), at, encode_batch(records))
    between = datetime.datetime.fromtimestamp(now_ms / 1_000 + 4.5, datetime.UTC)
    ranges = {
        ("startingOffsets", '{"times": {"0": 3, "1": -2}}'): 17,
        ("endingOffsets", '{"times": {"0": 3, "1": -1}}'): 13,
        ("startingTimestamp", str(now_ms + 4_500)): 10,
        ("endingTimestamp", str(now_ms + 4_500)): 10,
        ("startingOffsets", between.isoformat()): 10,
        ("startingOffsetsByTimestamp", f'{{"times": {{"0": {now_ms + 9_000}, "1": {now_ms + 1_000}}}}}'): 10,
    }
    for (name, value), count in ranges.items():
        assert batch(spark, broker, topic="times", **{name: value}).count() == count, (name, value)
    late = {"topic": "times", "startingTimestamp": now_ms + 60_000}
    with pytest.raises(AnalysisException, match="as young as the starting time"):
        batch(spark, broker, **late).count()
    assert batch(spark, broker, **late, startingOffsetsByTimestampStrategy="latest").count() == 0


def test_several_topics(spark: SparkSession, broker: Broker) -> None:
    for name in ("many-a", "many-b", "other"):
        create(broker, name)
        send(broker, name, [name.encode()])
    assert values_of(batch(spark, broker, topics="many-a, other")) == [b"many-a", b"other"]
    assert values_of(batch(spark, broker, topicPattern="many-.*")) == [b"many-a", b"many-b"]
    assert values_of(batch(spark, broker, assign='{"many-b": [0]}')) == [b"many-b"]
    assert values_of(spark.read.format("mainstem").option("address", broker.address).load("other")) == [b"other"]
    # as a job for Spark's Kafka source says it
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": "many-a", "startingOffsets": "earliest"}
    assert values_of(spark.read.format("mainstem").options(**options).load()) == [b"many-a"]


def test_transactions_are_read_when_they_have_committed(spark: SparkSession, broker: Broker) -> None:
    create(broker, "deals")
    sender = producer(broker, "deals")
    for values, is_kept in (([b"a", b"b"], True), ([b"x", b"y"], False), ([b"c"], True), ([b"z"], False)):
        sender.begin_transaction()
        send_within(sender, "deals", values)
        if is_kept:
            sender.commit_transaction(30)
        else:
            sender.abort_transaction(30)
    # the range ends in markers and in what was aborted
    assert values_of(batch(spark, broker, topic="deals")) == [b"a", b"b", b"c"]
    assert values_of(batch(spark, broker, topic="deals", minPartitions=5)) == [b"a", b"b", b"c"]
    sender.begin_transaction()
    send_within(sender, "deals", [b"open"])
    assert values_of(batch(spark, broker, topic="deals")) == [b"a", b"b", b"c"]
    sender.commit_transaction(30)
    assert values_of(batch(spark, broker, topic="deals")) == [b"a", b"b", b"c", b"open"]


def test_what_retention_took(spark: SparkSession, broker: Broker) -> None:
    create(broker, "trimmed-log")
    for _ in range(2):
        send(broker, "trimmed-log", [b"old"] * 10)
    with Client(broker.address) as client:
        entry = {"partition_index": 0, "offset": 10}
        client.anywhere().request(
            ApiKey.DELETE_RECORDS, {"topics": [{"name": "trimmed-log", "partitions": [entry]}], "timeout_ms": 1000}
        )
    asked = {"topic": "trimmed-log", "startingOffsets": '{"trimmed-log": {"0": 2}}'}
    with pytest.raises(
        AnalysisException, match=r"Offsets 2 to 10 of trimmed-log-0 are gone\. Set failOnDataLoss to false"
    ):
        batch(spark, broker, **asked).count()
    assert batch(spark, broker, **asked, failOnDataLoss="false").count() == 10
    assert batch(spark, broker, topic="trimmed-log").count() == 10


def test_empty_topics(spark: SparkSession, broker: Broker) -> None:
    create(broker, "empty", 3)
    assert batch(spark, broker, topic="empty").collect() == []
    assert batch(spark, broker, topicPattern="no-such-.*").collect() == []


def test_a_schema_may_leave_columns_out(spark: SparkSession, broker: Broker) -> None:
    create(broker, "narrow")
    send(broker, "narrow", [b"1", b"2"])
    reader = spark.read.format("mainstem").options(address=broker.address, topic="narrow")
    assert [tuple(row) for row in reader.schema("offset BIGINT, value BINARY").load().collect()] == [
        (0, b"1"),
        (1, b"2"),
    ]
    with pytest.raises(AnalysisException, match="The source has no column `price`; its columns are key, value"):
        reader.schema("price DOUBLE").load().collect()
    with pytest.raises(AnalysisException, match="Column `offset` is bigint, not int"):
        reader.schema("offset INT").load().collect()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topik": "a"}, "Option `topik` is not known; did you mean `topic`?"),
        ({}, "One of the options `topic`, `topics`, `topicPattern`, `assign` is needed; none of them is given."),
        ({"topic": "nobody"}, "Topic 'nobody' does not exist: create it, or correct the options"),
        ({"topic": "a", "password": "x"}, "Option `password` is refused: options are shown in plans"),
        ({"topic": "a", "minPartitions": "0"}, "Option `minPartitions` is 0; it must be 1 at least."),
        ({"topic": "a", "value.format": "xml"}, "Option `value.format` is 'xml'; it can be raw, string, json, avro"),
        ({"topic": "a", "startingOffsets": "soon"}, "Option `startingOffsets` is 'soon'; it can be earliest, latest"),
        ({"topic": "a", "startingOffsets": "latest"}, "A batch read cannot start at latest"),
        ({"topic": "a", "maxRowsPerTrigger": "5"}, "Option `maxRowsPerTrigger` has no meaning for a batch read"),
        ({"topic": "a", "value.format": "avro"}, "Option `value.schema` is needed with value.format avro."),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    spark: SparkSession, broker: Broker, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("mainstem").options(address=broker.address, **options).load().collect()
    assert mainstem.spark.reason(caught.value).startswith(sentence)
    assert "Traceback" not in str(caught.value)
    assert "at org.apache" not in str(caught.value)


def test_nobody_at_the_address(spark: SparkSession) -> None:
    reader = spark.read.format("mainstem").options(address="127.0.0.1:1", topic="a", timeout="0.2")
    with pytest.raises(AnalysisException) as caught:
        reader.load().collect()
    assert mainstem.spark.reason(caught.value) == (
        "No broker answers at 127.0.0.1:1 (Connection refused): start it, or correct the option `address`."
    )


def test_a_broker_that_goes_away_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        create(broker, "gone")
        send(broker, "gone", [b"x"] * 10)
        frame = batch(spark, broker, topic="gone", timeout="0.5")
        planned = frame.rdd  # fixes the ranges
        broker.kill()
        with pytest.raises(Exception, match="No broker answers at") as caught:
            planned.collect()
    assert mainstem.spark.reason(caught.value).startswith("No broker answers at 127.0.0.1:")


def test_json_with_a_schema(spark: SparkSession, broker: Broker) -> None:
    create(broker, "json")
    send(broker, "json", [b'{"id": 1, "tags": ["a"], "more": 1}', b"{", None, b'{"id": "x"}', b'{"id": 2}'])
    frame = batch(spark, broker, topic="json", value_format="json", value_schema="id BIGINT, tags ARRAY<STRING>")
    assert dict(frame.dtypes)["value"] == "struct<id:bigint,tags:array<string>>"
    rows = frame.orderBy("offset").selectExpr("value.id", "value.tags", "_corrupt").collect()
    assert [tuple(row) for row in rows] == [
        (1, ["a"], None),
        (None, None, b"{"),
        (None, None, None),
        (None, None, b'{"id": "x"}'),
        (2, None, None),
    ]


def test_json_sampled(spark: SparkSession, broker: Broker) -> None:
    create(broker, "sampled")
    wanted = [{"id": 1, "price": 1, "who": {"name": "a"}}, {"id": 2, "price": 2.5, "who": {"age": 3}, "ok": True}]
    send(broker, "sampled", [json.dumps(one).encode() for one in wanted])
    frame = batch(spark, broker, topic="sampled", value_format="json")
    assert dict(frame.dtypes)["value"] == "struct<id:bigint,price:double,who:struct<name:string,age:bigint>,ok:boolean>"
    send(broker, "sampled", [b'{"id": 3, "late": 1}'])
    assert [row.id for row in frame.selectExpr("value.id").collect()] == [1, 2, 3]
    create(broker, "sampled-nothing")
    with pytest.raises(AnalysisException, match="No JSON object was found to take a schema from"):
        batch(spark, broker, topic="sampled-nothing", value_format="json")


def test_strings(spark: SparkSession, broker: Broker) -> None:
    create(broker, "texts")
    send(broker, "texts", ["grüße".encode(), b"\xff", None])
    frame = batch(spark, broker, topic="texts", value_format="string")
    assert [row.value for row in frame.orderBy("offset").collect()] == ["grüße", "\ufffd", None]
