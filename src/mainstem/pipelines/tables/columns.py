"""The columns of a table: those of the source but for the topic, which is one, and the day, which is a directory."""

from __future__ import annotations

import json
from typing import NoReturn

from pyspark.sql.types import ArrayType, DataType, DateType, StructField, StructType

from mainstem.pipelines.errors import SchemaMismatch
from mainstem.pipelines.source.source import source_schema

DAY, TOPIC = "day", "topic"


def topic_columns(options: dict[str, str]) -> StructType:
    """What the source gives with these options, headers included. Asks the broker where JSON has to be sampled."""
    found = source_schema({**options, "includeHeaders": "true"})
    if not isinstance(found, str):
        return found
    parsed = StructType.fromDDL(found)
    assert isinstance(parsed, StructType)
    return parsed


def stored_columns(source: StructType) -> StructType:
    """What is in the files."""
    return StructType([field for field in source if field.name != TOPIC])


def table_columns(stored: StructType) -> StructType:
    """With the day."""
    return StructType([*stored.fields, StructField(DAY, DateType())])


def without_day(schema: StructType) -> StructType:
    """What is in the files of a table with these columns."""
    return StructType([field for field in schema if field.name != DAY])


def schema_text(schema: StructType) -> str:
    """For the manifest."""
    return json.dumps(schema.jsonValue(), separators=(",", ":"))


def parse_schema(text: str) -> StructType:
    """From the manifest."""
    return StructType.fromJson(json.loads(text))


def widened(old: StructType, new: StructType, topic: str) -> StructType:
    """What holds rows of both: fields may have come, inside of values too. Raises SchemaMismatch for any other change."""
    known = {field.name: field for field in new}
    fields = []
    for field in old:
        other = known.pop(field.name, None)
        fields.append(field if other is None else StructField(field.name, _widened(field, other, topic), True))
    return StructType([*fields, *(StructField(field.name, field.dataType, True) for field in known.values())])


def _widened(old: StructField, new: StructField, topic: str) -> DataType:
    return _widened_type(old.dataType, new.dataType, old.name, topic)


def _widened_type(old: DataType, new: DataType, name: str, topic: str) -> DataType:
    match old, new:
        case (StructType(), StructType()):
            return widened(old, new, topic)
        case (ArrayType(), ArrayType()):
            return ArrayType(_widened_type(old.elementType, new.elementType, name, topic))
        case _:
            if old.simpleString() != new.simpleString():
                _refuse(old, new, name, topic)
            return old


def refuse_change(old: StructType, new: StructType, topic: str) -> NoReturn:
    """For a change that rows of both kinds cannot be stored after. Raises SchemaMismatch."""
    _refuse(old["value"].dataType, new["value"].dataType, "value", topic)


def _refuse(old: DataType, new: DataType, name: str, topic: str) -> NoReturn:
    raise SchemaMismatch(
        f"The table of {topic!r} has {old.simpleString()} in `{name}`, not {new.simpleString()}: set value.format and "
        "value.schema of the topic as they were, or give it another table.location for a new table."
    )
