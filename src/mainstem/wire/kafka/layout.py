"""How the fields of a struct lie in one version: what decoding and encoding both need to know."""

import struct

from mainstem.wire.kafka.reader import UUID_BYTES
from mainstem.wire.kafka.schema import Field, StructSchema

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}
"""Primitives of fixed size, by their letter in `struct`."""


def runs(schema: StructSchema, version: int) -> list[list[Field]]:
    """The untagged fields of a version, neighbours of fixed size together."""
    found: list[list[Field]] = []
    previous_is_fixed = False
    for field in schema.fields:
        if version not in field.versions or field.tag is not None:
            continue
        is_fixed = field.kind in FIXED and not field.is_array
        if is_fixed and previous_is_fixed:
            found[-1].append(field)
        else:
            found.append([field])
        previous_is_fixed = is_fixed
    return found


def is_nullable_in(field: Field, version: int) -> bool:
    """Whether the field may be null in this version."""
    return field.nullable is not None and version in field.nullable


def tagged_fields(schema: StructSchema, version: int) -> dict[int, Field]:
    """The fields of the tag section in this version."""
    return {field.tag: field for field in schema.fields if field.tag is not None and version in field.versions}


def element_bytes_min(field: Field, version: int, is_flexible: bool) -> int:
    """The fewest bytes that one element of an array can take."""
    if field.struct is None:
        if field.kind in FIXED:
            return struct.calcsize(">" + FIXED[field.kind])
        if field.kind == "uuid":
            return UUID_BYTES
        return 1 if is_flexible else 2
    inner = field.struct
    size = 1 if is_flexible else 0
    for run in runs(inner, version):
        for member in run:
            if member.is_array:
                size += 1 if is_flexible else 4
            elif member.struct is not None and is_nullable_in(member, version):
                size += 1
            else:
                size += element_bytes_min(member, version, is_flexible)
    return size
