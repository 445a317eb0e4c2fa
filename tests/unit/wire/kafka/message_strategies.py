"""Values of any message in any version, drawn from its table."""

import functools
from typing import Any

from hypothesis import strategies as st

from mainstem.wire.kafka import APIS, Message
from mainstem.wire.kafka.consumer_protocol import ASSIGNMENT, SUBSCRIPTION
from mainstem.wire.kafka.schema import Field, StructSchema

MESSAGES: list[Message] = [
    *(message for api in APIS.values() for message in (api.request, api.response)),
    SUBSCRIPTION,
    ASSIGNMENT,
]


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": st.integers(0, 65535),
    "int32": _integers(32),
    "int64": _integers(64),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
}


def _field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = PRIMITIVES[field.kind] if field.struct is None else struct_values(field.struct, version)
    if field.is_array:
        values = st.lists(values, max_size=2)
    if field.nullable is not None and version in field.nullable:
        values = st.none() | values
    return values


@functools.cache
def struct_values(schema: StructSchema, version: int) -> st.SearchStrategy[Any]:
    fields = {field.name: _field_values(field, version) for field in schema.fields if version in field.versions}
    return st.builds(schema.type, **fields)


def message_values(message: Message, version: int) -> st.SearchStrategy[Any]:
    return struct_values(message.schema, version)


@st.composite
def versioned_values(draw: st.DrawFn, message: Message) -> tuple[int, Any]:
    version = draw(st.integers(*message.versions))
    return version, draw(message_values(message, version))
