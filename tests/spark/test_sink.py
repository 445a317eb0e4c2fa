"""Tables and streams written to topics: whole or not at all, once, and with a sentence where it cannot be."""

import json
import math
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from mainstem.pipelines.codec.partitioner import partitions_by_key
from mainstem.sdk.client import Client
from mainstem.wire.kafka import ApiKey
from tests.support.clients.committed import committed_records, committed_values
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    broker = Served(tmp_path_factory.mktemp("sink") / "data")
    yield broker
    broker.kill()


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.kafka) as client:
        yield client


def create(client: Client, name: str, partitions: int, **configs: str) -> None:
    wish = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    (answer,) = client.anywhere().request(ApiKey.CREATE_TOPICS, {"topics": [wish], "timeout_ms": 1_000}).topics
    assert answer.error_code == 0, answer.error_message


def write(frame: DataFrame, served: Served, **options: Any) -> None:
    frame.write.format("mainstem").options(address=served.kafka, **options).mode("append").save()


def stages(served: Served) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{served.http}/v1/stages?limit=1000") as response:
        return json.load(response)


def numbers(spark: SparkSession, count: int, parts: int = 2) -> DataFrame:
    text = F.col("id").cast("string")
    return spark.range(0, count, 1, parts).select(text.alias("key"), F.concat(F.lit("v"), text).alias("value"))


# Tables


def test_rows_become_records(spark: SparkSession, served: Served, client: Client) -> None:
    create(client, "records", 3)
    rows = [
        ("k1", b"v1", 2, "2024-01-02T03:04:05.678Z", [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]),
        ("k2", b"", None, "2024-01-02T03:04:05Z", []),
        ("k2", None, None, None, None),
        (None, b"v3", 0, None, None),
    ]
    schema = "key string, value binary, partition int, time string, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(rows, schema).withColumn("timestamp", F.to_timestamp("time")).drop("time")
    frame = frame.withColumn("deliverAt", F.lit(None).cast("timestamp")).coalesce(1)
    write(frame, served, topic="records", compression="zstd")
    found = committed_records(client, "records")
    by_key = int(partitions_by_key(pa.array([b"k2"]), 3)[0])
    assert sorted(
        (partition, record.key or b"", record.value) for partition, record in found if record.value
    ) == sorted([(2, b"k1", b"v1"), (0, b"", b"v3")])
    assert [(partition, record.value) for partition, record in found if record.key == b"k2"] == [
        (by_key, b""),
        (by_key, None),
    ]
    (first,) = [record for _, record in found if record.key == b"k1"]
    assert list(first.headers) == [("a", b"1"), ("a", None)]
    assert first.timestamp_ms == 1_704_164_645_678
    assert stages(served)["stage_count"] == 0


def test_a_table_goes_to_the_partitions_of_its_keys(spark: SparkSession, served: Served, client: Client) -> None:
    create(client, "many", 5)
    create(client, "two", 2)
    frame = numbers(spark, 20_000, 4).withColumn("topic", F.when(F.col("key") < "5", "many").otherwise("two"))
    write(frame, served, compression="lz4")
    expected = [str(number).encode() for number in range(20_000)]
    found = {topic: committed_records(client, topic) for topic in ("many", "two")}
    assert sorted(record.key for records in found.values() for _, record in records) == sorted(expected)
    for topic, count in (("many", 5), ("two", 2)):
        keys = [record.key for _, record in found[topic]]
        assert [partition for partition, _ in found[topic]] == partitions_by_key(pa.array(keys), count).tolist()
        assert all((key < b"5") == (topic == "many") for key in keys)


def test_a_table_is_written_whole_or_not_at_all(spark: SparkSession, served: Served, client: Client) -> None:
    create(client, "whole", 2)
    frame = numbers(spark, 1_000, 4)
    broken = F.when(F.col("key") == "999", F.raise_error(F.lit("bad row"))).otherwise(F.col("value"))
    with pytest.raises(Exception, match="bad row"):
        write(frame.withColumn("value", broken.cast("string")), served, topic="whole")
    assert committed_values(client, "whole") == []
    assert stages(served)["stage_count"] == 0, "the driver drops what the tasks have staged"
    write(frame, served, topic="whole")
    write(frame.limit(0), served, topic="whole")
    assert len(committed_values(client, "whole")) == 1_000


def test_a_topic_is_created_where_the_broker_does_so(spark: SparkSession, served: Served, client: Client) -> None:
    write(numbers(spark, 10), served, topic="made")
    assert len(committed_values(client, "made")) == 10


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ({"value": "1"}, {}, "column `value` is int|Column `value` is int"),
        ({"key": "'k'"}, {}, "needs a column `value`"),
        ({"value": "'v'", "vaule": "'v'"}, {}, "no column `vaule`"),
        ({"value": "'v'", "topic": "'t'", "partition": "7"}, {}, "asks for partition 7 of topic 't'"),
        ({"value": "'v'"}, {"topic": None}, "Where to write is not said"),
        ({"value": "'v'"}, {"compression": "rar"}, "it can be none, gzip, snappy, lz4, zstd"),
        ({"value": "'v'"}, {"sinkid": "s", "sinkld": "s"}, "did you mean `sinkId`"),
        ({"value": "'v'"}, {"topic": "not a name"}, "not a name"),
        ({"value": "'v'", "deliverAt": "'tomorrow'"}, {}, "Column `deliverAt` is string; the sink takes timestamp or"),
        ({"value": "'v'", "deliverAt": "9223372036854775807"}, {}, "no time that can be kept: give a timestamp"),
        ({"value": "repeat('x', 2000000)"}, {}, "MESSAGE_TOO_LARGE"),
    ],
)
def test_what_cannot_be_written_is_told_in_a_sentence(
    spark: SparkSession, served: Served, columns: dict[str, str], options: dict[str, Any], sentence: str
) -> None:
    frame = spark.range(1).selectExpr(*(f"{text} AS {name}" for name, text in columns.items()))
    given = {"topic": "t", **options}
    if "topic" in columns:
        del given["topic"]
    with pytest.raises(Exception, match=sentence):
        write(frame, served, **{name: value for name, value in given.items() if value is not None})


def test_a_topic_is_not_overwritten(spark: SparkSession, served: Served) -> None:
    writer = numbers(spark, 1).write.format("mainstem").options(address=served.kafka, topic="t")
    with pytest.raises(Exception, match="cannot be overwritten"):
        writer.mode("overwrite").save()


# Streams


class Stream:
    """Files of text, one more in each batch, as a stream."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.checkpoint = directory / "checkpoint"
        self._input = directory / "input"
        self._input.mkdir()
        self._spark = spark
        self._files = 0

    def add(self, *values: str) -> None:
        self._files += 1
        (self._input / f"{self._files:04}.txt").write_text("\n".join(values))

    def read(self) -> DataFrame:
        return self._spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self._input))

    def run(
        self, served: Served, change: Callable[[DataFrame], DataFrame] = lambda frame: frame, **options: Any
    ) -> None:
        """All there is, to its end."""
        writer = change(self.read()).writeStream.format("mainstem").options(address=served.kafka, **options)
        self.finish(writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start())

    def run_each(self, write_batch: Any) -> None:
        writer = self.read().writeStream.foreachBatch(write_batch).option("checkpointLocation", str(self.checkpoint))
        self.finish(writer.trigger(availableNow=True).start())

    @staticmethod
    def finish(query: StreamingQuery) -> None:
        query.awaitTermination(60)

    def forget_commit(self, *batches: int) -> None:
        """As if Spark had been killed before it could note that these batches are done."""
        for batch in batches:
            for path in ((self.checkpoint / "commits").glob(name) for name in (f"{batch}", f".{batch}.crc")):
                for file in path:
                    file.unlink()


def test_a_stream_is_written_once_also_if_spark_forgets(
    spark: SparkSession, served: Served, client: Client, tmp_path: Path
) -> None:
    create(client, "once", 2)
    stream = Stream(spark, tmp_path)
    stream.add("a", "b")
    stream.add("c")
    stream.run(served, topic="once")
    assert sorted(committed_values(client, "once")) == [b"a", b"b", b"c"]
    stream.forget_commit(1)
    stream.run(served, topic="once")
    stream.add("d")
    stream.run(served, topic="once")
    assert sorted(committed_values(client, "once")) == [b"a", b"b", b"c", b"d"]
    assert stages(served)["stage_count"] == 0


def test_rows_become_visible_when_they_are_due_and_once(
    spark: SparkSession, served: Served, client: Client, tmp_path: Path
) -> None:
    create(client, "due", 2)
    stream = Stream(spark, tmp_path)
    stream.add("now", "past", "soon", "tomorrow")
    moment = time.time()
    due = {"past": moment - 5, "soon": moment + 6, "tomorrow": moment + 86_400}

    def rows(frame: DataFrame) -> DataFrame:
        at = F.create_map(*(F.lit(part) for item in due.items() for part in item))[F.col("value")]
        return frame.withColumn("deliverAt", F.timestamp_seconds(at))

    stream.run(served, rows, topic="due")
    if time.time() < due["soon"]:
        assert sorted(committed_values(client, "due")) == [b"now", b"past"]
    served.restart()
    stream.forget_commit(0)
    stream.run(served, rows, topic="due")
    deadline = time.monotonic() + 60
    while len(found := committed_records(client, "due")) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert sorted(record.value for _, record in found) == [b"now", b"past", b"soon"]
    (soon,) = [record for _, record in found if record.value == b"soon"]
    assert soon.timestamp_ms >= due["soon"] * 1000
    with urllib.request.urlopen(f"http://{served.http}/v1/schedules?topic=due") as response:
        (waiting,) = json.load(response)["schedules"]
    assert waiting["due_ms"] == math.ceil(due["tomorrow"] * 1000)


def test_a_rewound_checkpoint_is_refused_with_the_remedy(
    spark: SparkSession, served: Served, client: Client, tmp_path: Path
) -> None:
    create(client, "rewound", 1)
    stream = Stream(spark, tmp_path)
    for value in "abc":
        stream.add(value)
    stream.run(served, topic="rewound")
    stream.forget_commit(1, 2)
    for name in ("2", ".2.crc"):
        (stream.checkpoint / "offsets" / name).unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"(?s)The checkpoint .*checkpoint was rewound: batch 1 is older than batch 2"):
        stream.run(served, topic="rewound")
    assert sorted(committed_values(client, "rewound")) == [b"a", b"b", b"c"]
    shutil.rmtree(stream.checkpoint)
    stream.run(served, topic="rewound")
    assert sorted(committed_values(client, "rewound")) == [b"a", b"a", b"b", b"b", b"c", b"c"], "a new query"


def test_writes_inside_foreach_batch_need_a_name_and_are_exact(
    spark: SparkSession, served: Served, client: Client, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    stream.add("a", "b")
    with pytest.raises(Exception, match="inside foreachBatch needs the option `sinkId`"):
        stream.run_each(lambda frame, batch: write(frame, served, topic="each-left"))

    def both(frame: DataFrame, batch: int) -> None:
        write(frame, served, topic="each-left", sinkId="left")
        write(frame, served, topic="each-right", sinkId="right")

    stream.run_each(both)
    stream.forget_commit(0)
    stream.run_each(both)
    for topic in ("each-left", "each-right"):
        assert sorted(committed_values(client, topic)) == [b"a", b"b"]


def test_a_broker_that_is_away_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"No broker answers at 127\.0\.0\.1:1 "):
        numbers(spark, 1).write.format("mainstem").options(address="127.0.0.1:1", topic="t", timeout="0.3").mode(
            "append"
        ).save()
