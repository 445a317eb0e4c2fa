"""Values that name their schema in the broker's registry: each is read by its writer's schema, and becomes what the newest
schema of the subject says.

Spark needs one type for all values. It is that of the newest schema when the query is planned; a value that was written with
another one is brought to it by the rules of its format: Avro's resolution, the field numbers of Protobuf, the names of JSON.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.value_formats.avro_format import AvroFormat, plain_value
from mainstem.pipelines.value_formats.contract import Decoded, ValueFormat
from mainstem.pipelines.value_formats.json_format import JsonFormat
from mainstem.pipelines.value_formats.misfits import corrupt_column
from mainstem.pipelines.value_formats.protobuf_format import ProtobufFormat
from mainstem.pipelines.value_formats.registered_schemas import RegisteredSchema, newest_schemas, schema_by_id
from mainstem.wire.schemas.framing import FRAME_BYTES, message_path_of, schema_id_of
from mainstem.wire.schemas.protobuf.schema import ProtobufSchema
from mainstem.wire.schemas.schema import AVRO, JSON, PROTOBUF, InvalidSchema


class RegistryFormat:
    """Avro, JSON Schema or Protobuf, as the subject has it."""

    has_corrupt = True

    def __init__(self, address: str, newest: RegisteredSchema, message: str | None = None) -> None:
        self._address = address
        self._newest = newest
        self._message = message
        self._inner = _format_of(newest, message)
        self.type: DataType = self._inner.type

    def decode(self, values: pa.Array) -> Decoded:
        """All values of one schema at once."""
        by_id: dict[int, list[int]] = {}
        misfits: list[int] = []
        given = values.to_pylist()
        for index, value in enumerate(given):
            number = schema_id_of(value)
            if number is not None:
                by_id.setdefault(number, []).append(index)
            elif value is not None:
                misfits.append(index)
        places: list[int] = []
        columns: list[pa.Array] = []
        for number, indexes in by_id.items():
            writer = schema_by_id(self._address, number)
            if writer is None or writer.format != self._newest.format:
                misfits += indexes
                continue
            column, missed = self._decode_alike(writer, [given[index] for index in indexes])
            misfits += [indexes[place] for place in missed]
            places += indexes
            columns.append(column)
        misfits.sort()
        return self._in_order(len(values), places, columns), corrupt_column(values, misfits)

    def _in_order(self, count: int, places: list[int], columns: list[pa.Array]) -> pa.Array:
        kind = to_arrow_type(self.type, timezone="UTC")
        if not columns:
            return pa.nulls(count, kind)
        sources: list[int | None] = [None] * count
        for source, place in enumerate(places):
            sources[place] = source
        return pa.concat_arrays(columns).take(pa.array(sources, pa.int64()))

    def _decode_alike(self, writer: RegisteredSchema, values: list[bytes]) -> tuple[pa.Array, list[int]]:
        """The column, and the places of what does not fit."""
        if writer.format == AVRO:
            rows, misfits = _read_avro(writer.text, self._newest.text, values)
            return pa.array(rows, to_arrow_type(self.type, timezone="UTC")), misfits
        if writer.format == PROTOBUF:
            bodies = _bodies(writer, _message_name(self._newest, self._message), values)
        else:
            bodies = [value[FRAME_BYTES:] for value in values]
        column, corrupt = self._inner.decode(pa.array(bodies, pa.binary()))
        misfits = [] if corrupt is None else [place for place, one in enumerate(corrupt.is_valid().to_pylist()) if one]
        return column, misfits + [place for place, body in enumerate(bodies) if body is None]


def registry_format(address: str, subject: str, message: str | None, wanted: DataType | None) -> RegistryFormat:
    """The format of a subject; of a query that is planned already, the one whose type it has. Raises InvalidOption."""
    known = newest_schemas(address, subject)
    for one in known if wanted is not None else ():
        made = RegistryFormat(address, one, message)
        if made.type.simpleString() == wanted.simpleString():  # type: ignore[union-attr]
            return made
    return RegistryFormat(address, known[0], message)


def _format_of(schema: RegisteredSchema, message: str | None) -> ValueFormat:
    try:
        if schema.format == AVRO:
            return AvroFormat(schema.text)
        if schema.format == JSON:
            # Only who plans needs the libraries of JSON Schema.
            from mainstem.pipelines.value_formats.json_schema_types import json_schema_type
            from mainstem.wire.schemas.json_schema.schema import JsonSchema

            return JsonFormat(json_schema_type(JsonSchema(schema.text, dict(schema.references)).root.node()))
        if schema.format == PROTOBUF:
            files = _protobuf(schema).files
            descriptors = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
            return ProtobufFormat(descriptors, message or _message_name(schema, None))
    except InvalidSchema as error:
        raise InvalidOption(f"The registered schema cannot be read: {error}.") from None
    raise InvalidOption(f"Spark does not read values of the format {schema.format}.")


def _read_avro(writer_text: str, reader_text: str, values: Sequence[bytes]) -> tuple[list[Any], list[int]]:
    writer, reader = _avro(writer_text), _avro(reader_text)
    rows: list[Any] = []
    misfits: list[int] = []
    for place, value in enumerate(values):
        stream = io.BytesIO(value)
        stream.seek(FRAME_BYTES)
        try:
            row = plain_value(fastavro.schemaless_reader(stream, writer, reader))
            is_whole = stream.tell() == len(value)
        except Exception:  # noqa: BLE001 fastavro raises whatever its reading of wrong bytes meets
            row, is_whole = None, False
        rows.append(row if is_whole else None)
        if not is_whole:
            misfits.append(place)
    return rows, misfits


@functools.lru_cache(maxsize=1_000)
def _avro(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


@functools.lru_cache(maxsize=1_000)
def _protobuf(schema: RegisteredSchema) -> ProtobufSchema:
    return ProtobufSchema(schema.text, dict(schema.references))


def _message_name(schema: RegisteredSchema, message: str | None) -> str:
    if message:
        return message
    name = _protobuf(schema).message_at((0,))
    if name is None:
        raise InvalidOption("The registered Protobuf schema has no message.")
    return name


def _bodies(writer: RegisteredSchema, wanted: str, values: Sequence[bytes]) -> list[bytes | None]:
    """The messages without what stands before them; None for one of another type."""
    schema = _protobuf(writer)
    found: list[bytes | None] = []
    for value in values:
        said = message_path_of(value)
        is_it = said is not None and schema.message_at(said[0]) == wanted
        found.append(value[said[1] :] if said is not None and is_it else None)
    return found
