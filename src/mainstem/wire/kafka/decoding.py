"""Functions that read a struct in one version, put together from its table."""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from mainstem.wire.errors import InvalidLength
from mainstem.wire.kafka.layout import FIXED, element_bytes_min, is_nullable_in, runs, tagged_fields
from mainstem.wire.kafka.reader import INT8, Reader, unexpected_null
from mainstem.wire.kafka.schema import Field, StructSchema

Read: TypeAlias = Callable[[Reader], Any]
ReadStep: TypeAlias = Callable[[Reader, dict[str, Any]], None]


def struct_reader(schema: StructSchema, version: int, is_flexible: bool) -> Read:
    """Reads one struct of this version."""
    steps = [_read_step(run, version, is_flexible) for run in runs(schema, version)]
    if is_flexible:
        steps.append(_tag_section_reader(schema, version))
    new = schema.type

    def read(reader: Reader) -> Any:
        values: dict[str, Any] = {}
        for step in steps:
            step(reader, values)
        return new(**values)

    return read


def _read_step(run: list[Field], version: int, is_flexible: bool) -> ReadStep:
    first = run[0]
    if first.kind in FIXED and not first.is_array:
        names = tuple(field.name for field in run)
        layout = struct.Struct(">" + "".join(FIXED[field.kind] for field in run))

        def read_fixed(reader: Reader, values: dict[str, Any]) -> None:
            values.update(zip(names, reader.unpack(layout), strict=True))

        return read_fixed

    name, read = first.name, _field_reader(first, version, is_flexible)

    def read_one(reader: Reader, values: dict[str, Any]) -> None:
        values[name] = read(reader)

    return read_one


def _field_reader(field: Field, version: int, is_flexible: bool) -> Read:
    is_nullable = is_nullable_in(field, version)
    if field.is_array:
        return _array_reader(field, version, is_flexible, is_nullable)
    if field.struct is not None:
        read_struct = struct_reader(field.struct, version, is_flexible)
        return _nullable_struct_reader(read_struct) if is_nullable else read_struct
    return _primitive_reader(field, is_flexible, is_nullable)


def _array_reader(field: Field, version: int, is_flexible: bool, is_nullable: bool) -> Read:
    name, size_min = field.name, element_bytes_min(field, version, is_flexible)
    if field.kind in FIXED:
        code = FIXED[field.kind]

        def read_fixed(reader: Reader) -> list[Any] | None:
            count = reader.count(is_flexible, size_min)
            if count < 0:
                if is_nullable:
                    return None
                raise unexpected_null(name)
            return list(struct.unpack(f">{count}{code}", reader.take(count * size_min)))

        return read_fixed

    if field.struct is not None:
        read_element = struct_reader(field.struct, version, is_flexible)
    else:
        # no array of the protocol has elements that may be null
        read_element = _primitive_reader(field, is_flexible, is_nullable=False)

    def read(reader: Reader) -> list[Any] | None:
        count = reader.count(is_flexible, size_min)
        if count < 0:
            if is_nullable:
                return None
            raise unexpected_null(name)
        return [read_element(reader) for _ in range(count)]

    return read


def _nullable_struct_reader(read_struct: Read) -> Read:
    def read(reader: Reader) -> Any:
        return None if reader.unpack(INT8)[0] < 0 else read_struct(reader)

    return read


def _primitive_reader(field: Field, is_flexible: bool, is_nullable: bool) -> Read:
    if field.kind in FIXED:
        layout = struct.Struct(">" + FIXED[field.kind])
        return lambda reader: reader.unpack(layout)[0]
    if field.kind == "uuid":
        return Reader.uuid
    name = field.name
    old_length = Reader.length16 if field.kind == "string" else Reader.length32
    length_of = Reader.compact_length if is_flexible else old_length
    content: Callable[[Reader, int], Any]
    match field.kind:
        case "string":
            content = Reader.text
        case "bytes":
            content = _copied
        case _:
            content = Reader.take

    def read(reader: Reader) -> Any:
        length = length_of(reader)
        if length >= 0:
            return content(reader, length)
        if is_nullable:
            return None
        raise unexpected_null(name)

    return read


def _copied(reader: Reader, length: int) -> bytes:
    return bytes(reader.take(length))


def _tag_section_reader(schema: StructSchema, version: int) -> ReadStep:
    readers = {
        tag: (field.name, _field_reader(field, version, is_flexible=True))
        for tag, field in tagged_fields(schema, version).items()
    }

    def read(reader: Reader, values: dict[str, Any]) -> None:
        for _ in range(reader.unsigned_varint()):
            known = readers.get(reader.unsigned_varint())
            size = reader.unsigned_varint()
            outer, stop = reader.end, reader.position + size
            if stop > outer:
                raise InvalidLength(f"a tagged field of {size} bytes, where {outer - reader.position} are left")
            if known is None:
                # a newer peer may send what we have not heard of
                reader.position = stop
                continue
            name, read_field = known
            reader.end = stop
            values[name] = read_field(reader)
            reader.end = outer
            if reader.position != stop:
                raise InvalidLength(f"{name} has {stop - reader.position} bytes too many")

    return read
