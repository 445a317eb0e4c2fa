"""The formats that schemas have."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.wire.schemas.avro.schema import AvroSchema
from mainstem.wire.schemas.json_schema.schema import JsonSchema
from mainstem.wire.schemas.opaque import OpaqueSchema
from mainstem.wire.schemas.protobuf.schema import ProtobufSchema
from mainstem.wire.schemas.schema import AVRO, JSON, PROTOBUF, SCHEMA_BYTES_MAX, InvalidSchema, Parsed, Texts

PULSAR_JSON = "PULSAR_JSON"
"""Pulsar's JSON: the schema is Avro's, the data are JSON."""
PULSAR_KINDS = frozenset(
    f"PULSAR_{kind}"
    for kind in (
        "NONE", "STRING", "BYTES", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIME",
        "TIMESTAMP", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "KEY_VALUE", "PROTOBUF_NATIVE",
    )
)  # fmt: skip
"""Pulsar's schemas whose text is not looked into: two are compatible when they are the same."""
CONFLUENT_FORMATS = (JSON, PROTOBUF, AVRO)

_FORMATS: dict[str, Callable[[str, Texts], Parsed]] = {
    AVRO: AvroSchema,
    JSON: JsonSchema,
    PROTOBUF: ProtobufSchema,
    PULSAR_JSON: AvroSchema,
    **dict.fromkeys(PULSAR_KINDS, OpaqueSchema),
}


def parse_schema(format: str, text: str, texts: Texts) -> Parsed:
    """Read a text; `texts` are those of its references. Raises InvalidSchema."""
    read = _FORMATS.get(format)
    if read is None:
        raise InvalidSchema(f"the format {format!r} is not known")
    if len(text) > SCHEMA_BYTES_MAX:
        raise InvalidSchema(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
    try:
        parsed = read(text, texts)
        parsed.canonical.encode()
    except RecursionError:
        raise InvalidSchema("the schema is nested too deep") from None
    except UnicodeEncodeError:
        raise InvalidSchema("the schema has half of a character") from None
    return parsed
