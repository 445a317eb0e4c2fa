"""Every message in every version as an independent implementation writes it (tests/vectors/README.md)."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from mainstem.wire.kafka import Message
from mainstem.wire.kafka.codec import decode_message, encode_message
from mainstem.wire.kafka.schema import StructSchema
from tests.unit.wire.kafka.message_strategies import MESSAGES

BY_NAME = {message.name: message for message in MESSAGES}
VECTORS: dict[str, list[tuple[int, list[Any], str]]] = {}
for _name, *_rest in json.loads(
    (Path(__file__).parents[3] / "vectors" / "kafka_messages.json").read_text(encoding="utf-8")
)["messages"]:
    VECTORS.setdefault(_name, []).append(tuple(_rest))


def scalar_of(value: Any) -> Any:
    if isinstance(value, str):
        if value.startswith("hex:"):
            return bytes.fromhex(value[4:])
        if value.startswith("uuid:"):
            return uuid.UUID(value[5:])
    return value


def struct_of(schema: StructSchema, version: int, values: list[Any]) -> Any:
    fields = [field for field in schema.fields if version in field.versions]
    members: dict[str, Any] = {}
    for field, value in zip(fields, values, strict=True):
        if value is None:
            members[field.name] = None
        elif field.struct is None:
            members[field.name] = [scalar_of(item) for item in value] if field.is_array else scalar_of(value)
        elif field.is_array:
            members[field.name] = [struct_of(field.struct, version, item) for item in value]
        else:
            members[field.name] = struct_of(field.struct, version, value)
    return schema.type(**members)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_message_of_another_implementation(message: Message) -> None:
    versions = set()
    for version, values, text in VECTORS[message.name]:
        raw = bytes.fromhex(text)
        expected = struct_of(message.schema, version, values)
        decoded, end = decode_message(message, version, raw)
        assert decoded == expected, version
        assert end == len(raw)
        out = bytearray()
        encode_message(out, message, version, expected)
        assert out.hex() == text, version
        versions.add(version)
    assert versions == set(range(message.versions.first, message.versions.last + 1))


def test_no_vector_is_left_unused() -> None:
    assert set(VECTORS) == set(BY_NAME)
