"""Values that name their schema, decoded for people: a thread does it, a page of records at a time.

What cannot be decoded is shown without: bytes that are not what they say, an id that nobody knows.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import fastavro
import msgspec
from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.schemas.errors import SchemaError
from mainstem.broker.schemas.parsing import ParsedSchemas, Source
from mainstem.broker.schemas.schemas import Schemas, subject_of_topic
from mainstem.wire.schemas.avro.parsing import Node
from mainstem.wire.schemas.avro.schema import AvroSchema
from mainstem.wire.schemas.framing import FRAME_BYTES, message_path_of, schema_id_of
from mainstem.wire.schemas.json_schema.schema import JsonSchema
from mainstem.wire.schemas.protobuf.schema import ProtobufSchema
from mainstem.wire.schemas.schema import InvalidSchema, Parsed

VALUE_BYTES_MAX = 1 << 20
"""A larger value is not decoded."""
READERS_MAX = 200

Read: TypeAlias = Callable[[bytes], Any]
"""From a framed value to what JSON can say. Raises whatever reading of wrong bytes meets."""


class Decoded(NamedTuple):
    """A value, as JSON."""

    schema_id: int
    json: bytes


class Decoding:
    """Of records of topics."""

    def __init__(self, schemas: Schemas, heavy_work: HeavyWork) -> None:
        self._schemas = schemas
        self._heavy_work = heavy_work
        self._parsed = ParsedSchemas()
        self._readers: OrderedDict[Source, Read | None] = OrderedDict()

    async def decode(self, namespace: str, topic: str, values: Sequence[bytes | None]) -> list[Decoded | None]:
        """Of each value, what it says; None where that is not known."""
        context = subject_of_topic(namespace, topic).context
        ids = {schema_id_of(value) for value in values} - {None}
        sources: dict[int, Source] = {}
        for number in ids:
            assert number is not None
            try:
                sources[number] = self._schemas.source_of(context, number)
            except (SchemaError, InvalidSchema):
                pass  # a value that only begins with a zero
        if not sources:
            return [None] * len(values)
        return await self._heavy_work.run(lambda: [self._decode(value, sources) for value in values])

    def _decode(self, value: bytes | None, sources: dict[int, Source]) -> Decoded | None:
        number = schema_id_of(value)
        source = None if number is None else sources.get(number)
        if value is None or number is None or source is None or len(value) > VALUE_BYTES_MAX:
            return None
        read = self._reader(source)
        if read is None:
            return None
        try:
            return Decoded(number, msgspec.json.encode(read(bytes(value))))
        except Exception:  # noqa: BLE001 libraries raise whatever their reading of wrong bytes meets
            return None

    def _reader(self, source: Source) -> Read | None:
        if source not in self._readers:
            try:
                self._readers[source] = reader_of(self._parsed.get(source))
            except InvalidSchema:
                self._readers[source] = None
            if len(self._readers) > READERS_MAX:
                self._readers.popitem(last=False)
        return self._readers[source]


def reader_of(parsed: Parsed) -> Read | None:
    """How values of a schema are read; None where nobody can tell what they would cost."""
    if isinstance(parsed, AvroSchema):
        return _avro_reader(parsed)
    if isinstance(parsed, ProtobufSchema):
        return _protobuf_reader(parsed)
    if isinstance(parsed, JsonSchema):
        return lambda value: msgspec.json.decode(value[FRAME_BYTES:])
    return None


def _avro_reader(parsed: AvroSchema) -> Read | None:
    if _has_items_of_no_size(parsed.node, set()):
        return None
    schema: Any = fastavro.parse_schema(json.loads(parsed.text_in("resolved")))

    def read(value: bytes) -> Any:
        stream = io.BytesIO(value)
        stream.seek(FRAME_BYTES)
        found = fastavro.schemaless_reader(stream, schema, None)
        if stream.tell() != len(value):
            raise ValueError("bytes are left over")
        return found

    return read


def _protobuf_reader(parsed: ProtobufSchema) -> Read:
    def read(value: bytes) -> Any:
        said = message_path_of(value)
        name = None if said is None else parsed.message_at(said[0])
        if said is None or name is None:
            raise DecodeError("no message of the file")
        new = message_factory.GetMessageClass(parsed.pool.FindMessageTypeByName(name))
        return json_format.MessageToDict(new.FromString(value[said[1] :]), preserving_proto_field_name=True)

    return read


def _has_items_of_no_size(node: Node, seen: set[int]) -> bool:
    """Whether an array of the schema has items of no bytes: a few bytes would claim any number of them."""
    if id(node) in seen:
        return False
    seen.add(id(node))
    if node.kind == "array" and not _size_min(node.inner[0], set()):
        return True
    inner = [*node.inner, *(field.node for field in node.fields)]
    return any(_has_items_of_no_size(one, seen) for one in inner)


def _size_min(node: Node, within: set[int]) -> int:
    if node.kind == "null" or id(node) in within:
        return 0
    if node.kind == "fixed":
        return node.size
    if node.kind == "record":
        return int(any(_size_min(field.node, within | {id(node)}) for field in node.fields))
    return 1
