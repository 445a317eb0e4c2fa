"""From table and version to a pair of functions.

A decoder or encoder of a struct is a list of steps, put together once per message and version and kept: what a version
does not have costs nothing. Neighbouring fields of fixed size become one step with one `struct` call.
"""

import functools
from typing import Any

from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka.decoding import Read, struct_reader
from mainstem.wire.kafka.encoding import Write, field_writer, struct_writer
from mainstem.wire.kafka.reader import ELEMENTS_MAX, Buffer, Reader
from mainstem.wire.kafka.schema import Field, Message


def decode_message(
    message: Message, version: int, buffer: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX
) -> tuple[Any, int]:
    """The value and where it ends. Fields of type records are views of the buffer, everything else is copied."""
    reader = Reader(buffer, position, elements_max)
    return decoder(message, version)(reader), reader.position


def encode_message(out: bytearray, message: Message, version: int, value: Any) -> None:
    """Appends the value: a struct of the message's type, or a dict of its fields; the same at every level below."""
    encoder(message, version)(out, value)


@functools.cache
def decoder(message: Message, version: int) -> Read:
    """Reads one message of this version."""
    _check_version(message, version)
    return struct_reader(message.schema, version, message.is_flexible(version))


@functools.cache
def encoder(message: Message, version: int) -> Write:
    """Writes one message in this version."""
    _check_version(message, version)
    return struct_writer(message.schema, version, message.is_flexible(version))


@functools.cache
def element_encoder(message: Message, path: str, version: int, *, whole: bool = False) -> Write:
    """Writes one element of an array within the message, or the whole array; `path` has its name behind those around it."""
    _check_version(message, version)
    schema, is_flexible = message.schema, message.is_flexible(version)
    field: Field | None = None
    for name in path.split("."):
        (field,) = (field for field in schema.fields if field.name == name)
        assert field.is_array and field.struct is not None, f"{path} is not an array of structs"  # noqa: PT018
        schema = field.struct
    assert field is not None
    return field_writer(field, version, is_flexible) if whole else struct_writer(schema, version, is_flexible)


def _check_version(message: Message, version: int) -> None:
    if version not in message.versions:
        raise UnknownMessage(f"{message.name} has no version {version}")
