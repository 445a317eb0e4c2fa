"""Functions that write a struct in one version, put together from its table."""

import operator
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mainstem.wire.kafka.layout import FIXED, is_nullable_in, runs, tagged_fields
from mainstem.wire.kafka.reader import INT8, INT16, INT32
from mainstem.wire.kafka.schema import Field, StructSchema
from mainstem.wire.varint import encode_unsigned_varint

Write: TypeAlias = Callable[[bytearray, Any], None]

ABSENT, PRESENT = INT8.pack(-1), INT8.pack(1)


class Encoded(bytes):
    """An array or a struct that was written before: taken as it is where one of the same version is due."""

    __slots__ = ()


def struct_writer(schema: StructSchema, version: int, is_flexible: bool) -> Write:
    """Writes one struct, given as such or as a dict, in this version."""
    steps = [_write_step(run, version, is_flexible) for run in runs(schema, version)]
    if is_flexible:
        steps.append(_tag_section_writer(schema, version))
    new = schema.type

    def write(out: bytearray, value: Any) -> None:
        if type(value) is dict:
            value = new(**value)
        elif type(value) is Encoded:
            out += value
            return
        for step in steps:
            step(out, value)

    return write


def _write_step(run: list[Field], version: int, is_flexible: bool) -> Write:
    first = run[0]
    get: Callable[[Any], Any] = operator.attrgetter(*(field.name for field in run))
    if first.kind in FIXED and not first.is_array:
        pack = struct.Struct(">" + "".join(FIXED[field.kind] for field in run)).pack
        if len(run) == 1:

            def write_single(out: bytearray, value: Any) -> None:
                out += pack(get(value))

            return write_single

        def write_fixed(out: bytearray, value: Any) -> None:
            out += pack(*get(value))

        return write_fixed

    write = field_writer(first, version, is_flexible)

    def write_one(out: bytearray, value: Any) -> None:
        write(out, get(value))

    return write_one


def field_writer(field: Field, version: int, is_flexible: bool) -> Write:
    """Writes one field: an array with its length."""
    is_nullable = is_nullable_in(field, version)
    if field.is_array:
        return _array_writer(field, version, is_flexible, is_nullable)
    if field.struct is not None:
        write_struct = struct_writer(field.struct, version, is_flexible)
        return _nullable_struct_writer(write_struct) if is_nullable else write_struct
    return _primitive_writer(field, is_flexible, is_nullable)


def _array_writer(field: Field, version: int, is_flexible: bool, is_nullable: bool) -> Write:
    name = field.name
    if field.struct is not None:
        write_element = struct_writer(field.struct, version, is_flexible)
    else:
        write_element = _primitive_writer(field, is_flexible, is_nullable=False)

    def write(out: bytearray, value: Sequence[Any] | None) -> None:
        if type(value) is Encoded:
            out += value
            return
        assert value is not None or is_nullable, f"{name} cannot be null"
        _write_length(out, -1 if value is None else len(value), is_flexible, INT32)
        for element in value or ():
            write_element(out, element)

    return write


def _nullable_struct_writer(write_struct: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += ABSENT
        else:
            out += PRESENT
            write_struct(out, value)

    return write


def _write_length(out: bytearray, length: int, is_flexible: bool, layout: struct.Struct) -> None:
    if is_flexible:
        encode_unsigned_varint(out, length + 1)
    else:
        out += layout.pack(length)


def _primitive_writer(field: Field, is_flexible: bool, is_nullable: bool) -> Write:
    if field.kind in FIXED:
        pack = struct.Struct(">" + FIXED[field.kind]).pack

        def write_fixed(out: bytearray, value: Any) -> None:
            out += pack(value)

        return write_fixed
    if field.kind == "uuid":
        return _write_uuid
    name, is_text = field.name, field.kind == "string"
    layout = INT16 if is_text else INT32

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            assert is_nullable, f"{name} cannot be null"
            _write_length(out, -1, is_flexible, layout)
            return
        content = value.encode() if is_text else value
        _write_length(out, len(content), is_flexible, layout)
        out += content

    return write


def _write_uuid(out: bytearray, value: uuid.UUID) -> None:
    out += value.bytes


def _tag_section_writer(schema: StructSchema, version: int) -> Write:
    tagged = sorted(tagged_fields(schema, version).items())
    if not tagged:

        def write_none(out: bytearray, value: Any) -> None:
            out.append(0)

        return write_none

    defaults = schema.type()
    writers = [
        (tag, operator.attrgetter(field.name), getattr(defaults, field.name), field_writer(field, version, True))
        for tag, field in tagged
    ]

    def write(out: bytearray, value: Any) -> None:
        section, count = bytearray(), 0
        for tag, get, default, write_field in writers:
            content = get(value)
            # a tagged field is only sent when it says something
            if content == default:
                continue
            count += 1
            written = bytearray()
            write_field(written, content)
            encode_unsigned_varint(section, tag)
            encode_unsigned_varint(section, len(written))
            section += written
        encode_unsigned_varint(out, count)
        out += section

    return write
