"""Protocol buffers, each value one message of a given type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mainstem.pipelines.errors import InvalidOption, SchemaMismatch
from mainstem.pipelines.value_formats.contract import Decoded
from mainstem.pipelines.value_formats.misfits import corrupt_column

UINT64_DIGITS = 20
TIMESTAMP = "google.protobuf.Timestamp"

SCALARS: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    # Spark has no unsigned numbers: the next larger type holds them all
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(UINT64_DIGITS, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
}

Convert = Callable[[Any], Any]


class ProtobufFormat:
    """Messages as structs; an unset field that can tell is null, an enum is its name."""

    has_corrupt = True

    def __init__(self, descriptors: bytes, name: str) -> None:
        self._descriptors = descriptors
        self._name = name
        self.type: DataType = _struct(_descriptor(descriptors, name), ())

    def decode(self, values: pa.Array) -> Decoded:
        """The library parses one message at a time."""
        new, convert = _parser(self._descriptors, self._name)
        rows: list[Any] = []
        misfits: list[int] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                rows.append(None if value is None else convert(new.FromString(value)))
            except message.DecodeError:
                rows.append(None)
                misfits.append(index)
        return pa.array(rows, to_arrow_type(self.type, timezone="UTC")), corrupt_column(values, misfits)


@functools.cache
def _descriptor(descriptors: bytes, name: str) -> Descriptor:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except message.DecodeError:
        raise InvalidOption(
            "Option `value.schema` names no descriptor set: make it with "
            "`protoc --include_imports --descriptor_set_out=FILE`."
        ) from None
    except (KeyError, TypeError):
        raise InvalidOption(
            f"Option `value.message` is {name!r}, which the descriptor set does not hold with all that it imports: "
            "give its full name, and make the set with `protoc --include_imports`."
        ) from None


@functools.cache
def _parser(descriptors: bytes, name: str) -> tuple[Any, Convert]:
    descriptor = _descriptor(descriptors, name)
    return message_factory.GetMessageClass(descriptor), _converter(descriptor)


def _struct(descriptor: Descriptor, within: tuple[str, ...]) -> DataType:
    if descriptor.full_name == TIMESTAMP:
        return TimestampType()
    if descriptor.full_name in within:
        raise SchemaMismatch(f"The message {descriptor.full_name} contains itself, which no Spark type can.")
    inner = (*within, descriptor.full_name)
    return StructType([StructField(field.name, _field_type(field, inner)) for field in descriptor.fields])


def _field_type(field: FieldDescriptor, within: tuple[str, ...]) -> DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_single_type(entry["key"], within), _single_type(entry["value"], within))
    kind = _single_type(field, within)
    return ArrayType(kind) if field.is_repeated else kind


def _single_type(field: FieldDescriptor, within: tuple[str, ...]) -> DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _struct(field.message_type, within)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return BinaryType() if field.type == FieldDescriptor.TYPE_BYTES else StringType()
    return SCALARS[field.cpp_type]


def _converter(descriptor: Descriptor) -> Convert:
    if descriptor.full_name == TIMESTAMP:
        return lambda given: given.seconds * 1_000_000 + given.nanos // 1_000
    fields = [(field.name, field.has_presence, _field_converter(field)) for field in descriptor.fields]

    def convert(given: Any) -> dict[str, Any]:
        return {
            name: None if has_presence and not given.HasField(name) else convert_field(getattr(given, name))
            for name, has_presence, convert_field in fields
        }

    return convert


def _field_converter(field: FieldDescriptor) -> Convert:
    if _is_map(field):
        convert_value = _single_converter(field.message_type.fields_by_name["value"])
        return lambda given: [(key, convert_value(item)) for key, item in given.items()]
    convert = _single_converter(field)
    return (lambda given: [convert(item) for item in given]) if field.is_repeated else convert


def _single_converter(field: FieldDescriptor) -> Convert:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _converter(field.message_type)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    return lambda given: given


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
