"""Topics kept as tables: each record once, in the files or in the log, whatever happens between."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from pyspark.sql import DataFrame, SparkSession

import mainstem.spark
from mainstem.pipelines.errors import DataLost, SchemaMismatch
from mainstem.pipelines.tables.facts import GROUP, table_facts, table_topics
from mainstem.pipelines.tables.housekeeping import Times
from mainstem.pipelines.tables.reading import TableMissing
from mainstem.pipelines.tables.running import run_table
from mainstem.pipelines.tables.store import TableStore
from mainstem.pipelines.tables.writer import TableWriter, TopicMadeAnew
from mainstem.sdk.client import Client
from mainstem.wire.kafka import ApiKey
from tests.spark.topics import batch, committed
from tests.support.clients.confluent import grow, send, send_records
from tests.support.serving.kafka import PATIENCE_S, Broker


def create(broker: Broker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    wish = NewTopic(
        topic, partitions, 1, config={"table": "true", **{k.replace("_", "."): v for k, v in config.items()}}
    )
    for result in admin.create_topics([wish]).values():
        result.result(PATIENCE_S)


def configure(broker: Broker, topic: str, **config: str) -> None:
    """As kafka-configs does it."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    admin = AdminClient({"bootstrap.servers": broker.address})
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for result in admin.incremental_alter_configs([wanted]).values():
        result.result(PATIENCE_S)


def trim(broker: Broker, topic: str, before: int) -> None:
    with Client(broker.address) as client:
        wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": before}]}]
        client.anywhere().request(ApiKey.DELETE_RECORDS, {"topics": wanted, "timeout_ms": 10_000})


def table(spark: SparkSession, broker: Broker, topic: str, **options: str) -> DataFrame:
    return mainstem.spark.table(topic, session=spark, address=broker.address, **options)


def values(frame: DataFrame) -> list[bytes]:
    return [bytes(row.value) for row in frame.select("value").orderBy("partition", "offset").collect()]


def store_of(broker: Broker, topic: str) -> TableStore:
    with Client(broker.address) as client:
        return TableStore(table_facts(client, topic).location)


def test_history_is_read_as_parquet_and_the_rest_from_the_log(spark: SparkSession, broker: Broker) -> None:
    create(broker, "joined", 2)
    plain = table(spark, broker, "joined")
    assert values(plain) == []
    send_records(broker, "joined", [(b"k", b"a", [("h", b"1")]), (None, b"b", None)], 0)
    send(broker, "joined", [b"x"], 1)
    assert run_table(spark, broker.address, "joined") == 3
    send(broker, "joined", [b"c"], 0)
    grow(broker, "joined", 3)
    send(broker, "joined", [b"new"], 2)
    frame = table(spark, broker, "joined")
    assert values(frame) == [b"a", b"b", b"c", b"x", b"new"]
    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "day",
    ]  # fmt: skip
    first = frame.orderBy("partition", "offset").first()
    assert first is not None
    assert (first.key, first.topic, [(one.key, one.value) for one in first.headers]) == (b"k", "joined", [("h", b"1")])
    assert first.day == first.timestamp.date()
    assert frame.where("day IS NULL").count() == 0
    told = batch(spark, broker, topic="joined", history="table", includeHeaders="true")
    assert told.columns == frame.columns[:-1]
    assert sorted(map(str, told.collect())) == sorted(map(str, frame.drop("day").collect()))
    assert values(
        batch(spark, broker, topics="joined", history="table").select("value", "partition", "offset")
    ) == values(frame)
    with pytest.raises(Exception, match="does not go with history `table`"):
        batch(spark, broker, topic="joined", history="table", endingOffsets="latest").count()
    # the frame is the topic as of then, whatever comes or is taken over later
    send(broker, "joined", [b"later"], 1)
    assert run_table(spark, broker.address, "joined") == 3
    assert len(values(frame)) == 5
    whole = table(spark, broker, "joined")
    assert len(values(whole)) == 6
    plan = whole.where("day = DATE '2030-01-31' AND offset > 5").select("partition")._jdf.queryExecution().toString()
    assert "BatchScan mainstem" not in plan, "all is in the files"
    assert "PartitionFilters: [isnotnull(day" in plan
    assert "GreaterThan(offset,5)" in plan
    assert "ReadSchema: struct<partition:int,offset:bigint>" in plan
    assert committed(broker, GROUP + "joined", "joined", 3) == [3, 2, 1]
    with Client(broker.address) as client:
        assert "joined" in table_topics(client)


def test_rounds_that_fail_anywhere_double_and_lose_nothing(
    spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "killed")
    wanted = []
    commit = TableStore.commit
    for number in range(4):
        some = [b"%d" % index for index in range(100 * number, 100 * number + 100)]
        wanted += some
        send(broker, "killed", some)
        writer = TableWriter(spark, broker.address, "killed", records_max=70)

        def fail(*_: object) -> None:
            raise OSError("the machine has gone")

        monkeypatch.setattr(TableStore, "commit", fail)
        with pytest.raises(OSError, match="gone"):
            writer.take_over()
        monkeypatch.setattr(TableStore, "commit", commit)
        assert values(table(spark, broker, "killed")) == wanted
        done = writer.take_over()
        assert (done.records, done.is_behind) == (70, True)
        assert values(table(spark, broker, "killed")) == wanted
    assert run_table(spark, broker.address, "killed") == 120
    assert values(table(spark, broker, "killed")) == wanted
    store = store_of(broker, "killed")
    writer = TableWriter(spark, broker.address, "killed", Times(grace_ms=0, orphan_ms=-60_000, settled_ms=0))
    assert writer.collect_orphans() == 4
    merged = writer.tidy_table()
    assert merged is not None
    assert merged.file_count == 1
    writer.tidy_table()
    assert [file.path for file in store.list_data()] == [merged.files[0].path]
    assert values(table(spark, broker, "killed")) == wanted


def test_what_the_log_drops_stays_in_the_table(spark: SparkSession, broker: Broker) -> None:
    create(broker, "trimmed")
    send(broker, "trimmed", [b"a", b"b", b"c"])
    run_table(spark, broker.address, "trimmed")
    trim(broker, "trimmed", 3)
    send(broker, "trimmed", [b"d", b"e", b"f"])
    assert values(table(spark, broker, "trimmed")) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    trim(broker, "trimmed", 5)
    with pytest.raises(DataLost, match=r"Offsets 3 to 5 of trimmed-0 are gone .* the table did not have them"):
        table(spark, broker, "trimmed")
    assert values(table(spark, broker, "trimmed", failOnDataLoss="false")) == [b"a", b"b", b"c", b"f"]
    with pytest.raises(Exception, match="Offsets 3 to 5 of trimmed-0 are gone"):
        batch(spark, broker, topic="trimmed", history="table").count()
    run_table(spark, broker.address, "trimmed")
    assert values(table(spark, broker, "trimmed")) == [b"a", b"b", b"c", b"f"]
    manifest = store_of(broker, "trimmed").latest()
    assert manifest is not None
    assert [(gap.start, gap.end) for gap in manifest.gaps] == [(3, 5)]
    configure(broker, "trimmed", table_retention_ms="1000")
    later = Times(now_ms=lambda: manifest.written_ms + 10_000)
    emptied = TableWriter(spark, broker.address, "trimmed", later).tidy_table()
    assert emptied is not None
    assert emptied.file_count == 0
    assert values(table(spark, broker, "trimmed")) == []


def test_values_are_decoded_as_the_topic_says(spark: SparkSession, broker: Broker) -> None:
    create(broker, "typed", value_format="json")
    send(broker, "typed", [b"nothing"])
    with pytest.raises(Exception, match="No JSON object"):
        run_table(spark, broker.address, "typed")
    send(broker, "typed", [b'{"id": 1, "name": "a"}', b"{", b'{"id": 2}'])
    run_table(spark, broker.address, "typed")
    send(broker, "typed", [b'{"id": 3, "more": true}'])
    frame = table(spark, broker, "typed")
    assert [row.id for row in frame.where("_corrupt IS NULL").select("value.id").orderBy("offset").collect()] == [
        1,
        2,
        3,
    ]
    assert frame.where("_corrupt IS NOT NULL").count() == 2
    plan = frame.where("value.id = 2").select("value.id")._jdf.queryExecution().toString()
    assert "ReadSchema: struct<value:struct<id:bigint>>" in plan
    assert "EqualTo(value.id,2)" in plan
    told = batch(spark, broker, topic="typed", history="table")
    assert sorted(map(str, told.collect())) == sorted(map(str, frame.select(*told.columns).collect()))
    with pytest.raises(Exception, match=r"leave value\.format out"):
        batch(spark, broker, topic="typed", history="table", value_format="string").count()
    # a wider schema is taken up, and older files have null there
    configure(broker, "typed", value_schema="id BIGINT, name STRING, more BOOLEAN")
    run_table(spark, broker.address, "typed")
    found = table(spark, broker, "typed").where("value.id > 1").orderBy("offset").select("value.*").collect()
    assert [(row.id, row.name, row.more) for row in found] == [(2, None, None), (3, None, True)]
    send(broker, "typed", [b"{}"])
    configure(broker, "typed", value_schema="id STRING")
    with pytest.raises(SchemaMismatch, match="has bigint in `id`, not string"):
        run_table(spark, broker.address, "typed")


def test_a_topic_made_anew_has_a_new_table(
    spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = str(tmp_path / "elsewhere")
    create(broker, "anew", table_location=place)
    send(broker, "anew", [b"old"])
    run_table(spark, broker.address, "anew")
    first = store_of(broker, "anew")
    assert first.location.startswith(place)
    admin = AdminClient({"bootstrap.servers": broker.address})

    def make_anew(content: str) -> None:
        for result in admin.delete_topics(["anew"]).values():
            result.result(PATIENCE_S)
        create(broker, "anew", table_location=place)
        send(broker, "anew", [content.encode()])

    make_anew("new")
    assert values(table(spark, broker, "anew")) == [b"new"]
    write = TableWriter._write

    def slow(self: TableWriter, *given: object) -> object:
        files = write(self, *given)  # type: ignore[arg-type]
        make_anew("newest")
        return files

    monkeypatch.setattr(TableWriter, "_write", slow)
    with pytest.raises(TopicMadeAnew):
        run_table(spark, broker.address, "anew")
    monkeypatch.setattr(TableWriter, "_write", write)
    run_table(spark, broker.address, "anew")
    assert values(table(spark, broker, "anew")) == [b"newest"]
    old = first.latest()
    assert old is not None
    assert json.loads(old.schema)["fields"][0]["name"] == "key"
    assert mainstem.spark.read_table(first.location, session=spark).count() == 1
    # a reader that does not see the files is told so, and not given the rest of the log for all of it
    (tmp_path / "elsewhere").rename(tmp_path / "away")
    with pytest.raises(TableMissing, match="is not seen from here"):
        table(spark, broker, "anew")
