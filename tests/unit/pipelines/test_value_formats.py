"""Bytes to typed columns, with what does not fit kept."""

import datetime
import decimal
import io
import json
import pickle
import uuid
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mainstem.pipelines.errors import InvalidOption, SchemaMismatch
from mainstem.pipelines.source.json_columns import merged_type, type_of
from mainstem.pipelines.value_formats import StringFormat, ValueFormat
from mainstem.pipelines.value_formats.avro_format import AvroFormat
from mainstem.pipelines.value_formats.json_format import JsonFormat
from mainstem.pipelines.value_formats.protobuf_format import ProtobufFormat, _parser

ORDER = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("at", TimestampType()),
        StructField("day", DateType()),
        StructField("price", DecimalType(10, 2)),
        StructField("lines", ArrayType(StructType([StructField("weight", DoubleType())]))),
        StructField("paid", BooleanType()),
    ]
)


def decode(value_format: ValueFormat, *values: bytes | None) -> tuple[list[Any], list[Any]]:
    # as an executor gets it
    column, corrupt = pickle.loads(pickle.dumps(value_format)).decode(pa.array(values, pa.binary()))
    column.validate(full=True)
    return column.to_pylist(), [None] * len(values) if corrupt is None else corrupt.to_pylist()


def test_json_types() -> None:
    text = (
        b'{"id": 1, "name": "x", "at": "2024-01-01T02:00:00+02:00", "day": "2024-01-02", "price": 1.25, '
        b'"lines": [{"weight": 1}, {"weight": 2.5}], "paid": true, "unknown": {"x": []}}'
    )
    (row,), corrupt = decode(JsonFormat(ORDER), text)
    assert corrupt == [None]
    assert row == {
        "id": 1,
        "name": "x",
        "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        "day": datetime.date(2024, 1, 2),
        "price": decimal.Decimal("1.25"),
        "lines": [{"weight": 1.0}, {"weight": 2.5}],
        "paid": True,
    }


MISFITS = [
    b"",
    b" ",
    b"5",
    b"{",
    b"nonsense",
    b'{"id": "x"}',
    b'{"id": 1.5}',
    b'{"id":1}{"id":2}',
    b'{"name":"\xff"}',
    b"null",
]
HALVES = [b'{"id":', b"1}", b'{"name":"}', b'{"}', b'{"id":1},"x":{}', b'{"id":1}}\n{"v":{"id":2}']
"""Nothing each, an object together."""


@given(st.lists(st.none() | st.integers(0, 99).map(str) | st.sampled_from(MISFITS + HALVES), max_size=40))
@example([b"", b'{"id":1}{"id":2}'])
@example([b'{"id":', b"1}", b'{"id":1}{"id":2}'])
@example([b'{"name":"}', b'{"}', b'{"id":1}{"id":2}'])
def test_json_misfits_stand_alone(drawn: list[Any]) -> None:
    values = [b'{"id":\n %s}' % one.encode() if isinstance(one, str) else one for one in drawn]
    rows, corrupt = decode(JsonFormat(StructType([*ORDER.fields[:2]])), *values)
    assert [row and row["id"] for row in rows] == [int(one) if isinstance(one, str) else None for one in drawn]
    assert corrupt == [one if isinstance(one, bytes) else None for one in drawn]


def test_json_of_no_struct() -> None:
    with pytest.raises(SchemaMismatch, match="is a struct, not bigint"):
        JsonFormat(LongType())
    with pytest.raises(SchemaMismatch, match=r"`value\.m` is a map"):
        JsonFormat(StructType([StructField("m", MapType(StringType(), LongType()))]))


def test_types_are_merged() -> None:
    first = type_of({"a": 1, "b": None, "c": [1], "d": {"x": "1"}})
    second = type_of({"a": 1.5, "b": "x", "c": [None, 2.5], "d": {"y": True}, "e": 1 << 70})
    assert merged_type(first, second).simpleString() == (
        "struct<a:double,b:string,c:array<double>,d:struct<x:string,y:boolean>,e:double>"
    )
    assert merged_type(type_of("x"), type_of(1)) == StringType()


def test_text() -> None:
    assert decode(StringFormat(), b"a", None, b"\xff", b"") == (["a", None, "\ufffd", ""], [None] * 4)


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": []}}},
        {"name": "size", "type": ["int", "long"]},
    ],
}


def test_avro() -> None:
    value_format = AvroFormat(json.dumps(AVRO))
    assert value_format.type.simpleString() == (
        "struct<id:bigint,name:string,at:timestamp,price:decimal(10,2),tags:map<string,int>,state:string,key:string,"
        "lines:array<struct<>>,size:bigint>"
    )
    order = {
        "id": 1,
        "name": None,
        "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.25"),
        "tags": {"a": 1},
        "state": "PAID",
        "key": uuid.UUID(int=1),
        "lines": [{}],
        "size": 1 << 40,
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), order)
    whole = out.getvalue()
    rows, corrupt = decode(value_format, whole, None, whole[:-1], whole + b"x", b"")
    assert rows[0] == {**order, "tags": [("a", 1)], "key": str(uuid.UUID(int=1))}
    assert rows[1:] == [None] * 4
    assert corrupt == [None, None, whole[:-1], whole + b"x", b""]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("{", "is no Avro schema"),
        ('{"type": "nonsense"}', "is no Avro schema"),
        ('["string", "int"]', "An Avro union of int and string has no Spark type"),
        ('{"type":"record","name":"T","fields":[{"name":"next","type":["null","T"]}]}', "contains itself"),
    ],
)
def test_avro_that_cannot_be(schema: str, sentence: str) -> None:
    with pytest.raises((InvalidOption, SchemaMismatch), match=sentence):
        AvroFormat(schema)


def descriptors() -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    files.file.append(descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb))
    file = files.file.add(
        name="o.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    order = file.message_type.add(name="Order")
    field = descriptor_pb2.FieldDescriptorProto
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=field.TYPE_INT32, label=1)
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    order.field.add(name="id", number=1, type=field.TYPE_INT64, label=1)
    order.field.add(name="at", number=2, type=field.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="tags", number=3, type=field.TYPE_STRING, label=3)
    order.field.add(name="big", number=4, type=field.TYPE_UINT64, label=1)
    order.field.add(name="raw", number=5, type=field.TYPE_BYTES, label=1)
    order.field.add(name="state", number=6, type=field.TYPE_ENUM, label=1, type_name=".shop.State")
    order.field.add(name="counts", number=7, type=field.TYPE_MESSAGE, label=3, type_name=".shop.Order.CountsEntry")
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="child", number=1, type=field.TYPE_MESSAGE, label=1, type_name=".shop.Tree")
    made: bytes = files.SerializeToString()
    return made


def test_protobuf() -> None:
    files = descriptors()
    value_format = ProtobufFormat(files, "shop.Order")
    assert value_format.type.simpleString() == (
        "struct<id:bigint,at:timestamp,tags:array<string>,big:decimal(20,0),raw:binary,state:string,counts:map<string,int>>"
    )
    new, _ = _parser(files, "shop.Order")
    order = new(id=5, tags=["a"], big=(1 << 64) - 1, raw=b"\xff", state=1, counts={"x": 2})
    order.at.FromMilliseconds(1_500)
    rows, corrupt = decode(value_format, order.SerializeToString(), None, b"\xff\xff", b"")
    assert rows[0] == {
        "id": 5,
        "at": datetime.datetime.fromtimestamp(1.5, datetime.UTC),
        "tags": ["a"],
        "big": (1 << 64) - 1,
        "raw": b"\xff",
        "state": "PAID",
        "counts": [("x", 2)],
    }
    assert rows[1:3] == [None, None]
    assert rows[3]["at"] is None
    assert corrupt == [None, None, b"\xff\xff", None]
    with pytest.raises(SchemaMismatch, match=r"shop\.Tree contains itself"):
        ProtobufFormat(files, "shop.Tree")
    with pytest.raises(InvalidOption, match=r"'shop\.None', which the descriptor set does not hold"):
        ProtobufFormat(files, "shop.None")
    with pytest.raises(InvalidOption, match="names no descriptor set"):
        ProtobufFormat(b"\xff\xff", "shop.Order")
