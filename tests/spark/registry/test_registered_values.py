"""Values that name their schemas: several versions of a schema in one frame, by each record's writer."""

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from mainstem.pipelines.definition.pipeline import Sink
from mainstem.pipelines.running.sinks import record_rows
from mainstem.pipelines.sql.views import TopicViews
from mainstem.sdk.http_api import ask
from tests.spark.topics import batch
from tests.support.clients.confluent import create, send
from tests.support.serving.lasting_broker import closing
from tests.support.serving.served import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with closing(AddressedServed(tmp_path_factory.mktemp("registry") / "data")) as running:
        yield running


class AddressedServed(Served):
    @property
    def address(self) -> str:
        return self.kafka


def register(served: Served, subject: str, text: str, kind: str = "AVRO", **more: Any) -> int:
    path = f"/registry/subjects/{subject}/versions"
    return int(ask(served.http, "POST", path, {"schema": text, "schemaType": kind, **more})["id"])


def framed(number: int, content: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


def avro(text: str, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), datum)
    return out.getvalue()


def record(*fields: str) -> str:
    return f'{{"type": "record", "name": "Order", "fields": [{", ".join(fields)}]}}'


ID = '{"name": "id", "type": "int"}'
LONG_ID = '{"name": "id", "type": "long"}'
NOTE = '{"name": "note", "type": ["null", "string"], "default": null}'
PRICE = '{"name": "price", "type": "double", "default": 1.5}'


def test_three_versions_of_an_avro_schema_in_one_frame(spark: SparkSession, served: AddressedServed) -> None:
    topic = "orders"
    create(served, topic)
    versions = [record(ID), record(ID, NOTE), record(LONG_ID, PRICE)]
    data = [{"id": 1}, {"id": 2, "note": "two"}, {"id": 2**40, "price": 3.0}]
    sent = [
        framed(register(served, "orders-value", text), avro(text, datum))
        for text, datum in zip(versions, data, strict=True)
    ]
    send(served, topic, [sent[2], sent[0], sent[1], b"no schema", framed(999, b"x"), sent[0] + b"more"])
    frame = batch(spark, served, topic=topic, value_format="registry")
    assert dict(frame.dtypes)["value"] == "struct<id:bigint,price:double>"
    rows = frame.orderBy("offset").collect()
    assert [None if row.value is None else tuple(row.value) for row in rows] == [
        (2**40, 3.0), (1, 1.5), (2, 1.5), None, None, None,
    ]  # fmt: skip
    assert [row._corrupt for row in rows[3:]] == [b"no schema", framed(999, b"x"), sent[0] + b"more"]
    assert all(row._corrupt is None for row in rows[:3])
    streamed = spark.readStream.format("mainstem").options(
        **{"address": served.address, "topic": topic, "value.format": "registry", "startingOffsets": "earliest"}
    )
    query = streamed.load().writeStream.format("memory").queryName("registered").trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert spark.sql("select sum(value.id) as total from registered").first().total == 2**40 + 3  # type: ignore[union-attr]


def test_json_by_its_schema(spark: SparkSession, served: AddressedServed) -> None:
    create(served, "people")
    older = '{"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": false}'
    newer = older.replace('"string"}}', '"string"}, "tags": {"type": "array", "items": {"type": "integer"}}}')
    ids = [register(served, "people-value", text, "JSON") for text in (older, newer)]
    send(served, "people", [framed(ids[0], b'{"name": "ann"}'), framed(ids[1], b'{"name": "bob", "tags": [1, 2]}')])
    frame = batch(spark, served, topic="people", value_format="registry")
    assert [tuple(row.value) for row in frame.orderBy("offset").collect()] == [("ann", None), ("bob", [1, 2])]


def test_protobuf_by_its_file(spark: SparkSession, served: AddressedServed) -> None:
    create(served, "proto")
    register(served, "place.proto", 'syntax = "proto3"; package shop; message Place { string city = 1; }', "PROTOBUF")
    head = 'syntax = "proto3"; package shop; import "place.proto"; message Person { Place home = 1; '
    reference = [{"name": "place.proto", "subject": "place.proto", "version": 1}]
    texts = [head + "} message Other { int32 x = 1; }", head + "sint32 age = 2; } message Other { int32 x = 1; }"]
    ids = [register(served, "proto-value", text, "PROTOBUF", references=reference) for text in texts]
    send(served, "proto", [
        framed(ids[0], b"\x00" + b"\x0a\x04\x0a\x02ab"),
        framed(ids[1], b"\x00" + b"\x0a\x04\x0a\x02cd\x10\x06"),
        framed(ids[1], b"\x02\x02" + b"\x08\x01"),
    ])  # fmt: skip
    rows = batch(spark, served, topic="proto", value_format="registry").orderBy("offset").collect()
    assert [None if row.value is None else (row.value.home.city, row.value.age) for row in rows] == [
        ("ab", 0), ("cd", 3), None,
    ]  # fmt: skip
    others = batch(spark, served, topic="proto", value_format="registry", value_message="shop.Other")
    assert [row.value and row.value.x for row in others.orderBy("offset").collect()] == [None, None, 1]


def test_a_topic_without_a_subject_is_refused_with_a_sentence(spark: SparkSession, served: AddressedServed) -> None:
    create(served, "unregistered")
    with pytest.raises(Exception, match="unregistered-value"):
        batch(spark, served, topic="unregistered", value_format="registry").collect()


def test_sql_sees_columns(spark: SparkSession, served: AddressedServed) -> None:
    create(served, "seen")
    number = register(served, "seen-value", record(ID))
    send(served, "seen", [framed(number, avro(record(ID), {"id": 5}))])
    frame = TopicViews(spark, {"address": served.address}, {}).frame("seen")
    assert [row.id for row in frame.select("value.id").collect()] == [5]


def test_a_topic_says_that_its_values_name_schemas(spark: SparkSession, served: AddressedServed) -> None:
    create(served, "told", value_format="registry")
    number = register(served, "told-value", record(ID))
    send(served, "told", [framed(number, avro(record(ID), {"id": 6}))])
    frame = TopicViews(spark, {"address": served.address}, {}).frame("told")
    assert [row.id for row in frame.select("value.id").collect()] == [6]


def test_structs_are_written_with_a_subject(spark: SparkSession, served: AddressedServed) -> None:
    create(served, "written", confluent_value_schema_validation="true")
    text = record(LONG_ID, NOTE, PRICE)
    number = register(served, "written-value", text)
    frame = spark.sql("select struct(id, note) as value from values (1L, 'a'), (2L, null) as t(id, note)")
    options = {"address": served.address, "topic": "written", "value.format": "registry"}
    frame.write.format("mainstem").options(**options).mode("append").save()
    rows = batch(spark, served, topic="written", value_format="registry").select("value.*").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, "a", 1.5), (2, None, 1.5)]
    raw = batch(spark, served, topic="written").select("value").collect()
    assert all(bytes(row.value[:5]) == framed(number, b"") for row in raw)
    wrong = spark.sql("select struct('x' as other) as value")
    with pytest.raises(Exception, match="does not fit the registered schema"):
        wrong.write.format("mainstem").options(**options).mode("append").save()
    with pytest.raises(Exception, match="nowhere-value"):
        frame.write.format("mainstem").options(**{**options, "topic": "nowhere"}).mode("append").save()


def test_a_pipeline_writes_rows_with_a_subject(spark: SparkSession) -> None:
    options = {"value.format": "registry"}
    sink = Sink(
        "out",
        "topic",
        "t",
        place=1,
        origin="",
        output="append",
        columns={},
        partition_by=(),
        mode="error",
        options=options,
    )
    rows = record_rows(spark.sql("select 1L as id, 'a' as note"), sink)
    assert dict(rows.dtypes) == {"value": "struct<id:bigint,note:string>"}
