"""Classes of protobuf messages, out of tables of ours.

A line is a message: its name, then its fields as `name number type`. A star in front of the type says: any number of them.
Enumerations are numbers here. Every field that is set is written, and whether one is set can be asked.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "double": _FIELD.TYPE_DOUBLE,
    "float": _FIELD.TYPE_FLOAT,
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "int32": _FIELD.TYPE_INT32,
    "uint32": _FIELD.TYPE_UINT32,
    "bool": _FIELD.TYPE_BOOL,
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
}


def message_classes(package: str, table: str) -> dict[str, type[Any]]:
    """By name. They are known to us alone: a client in the same process has its own."""
    described = descriptor_pb2.FileDescriptorProto(name=package, package=package, syntax="proto2")
    for line in table.strip().splitlines():
        name, _, fields = line.partition(":")
        message = described.message_type.add(name=name)
        for field in filter(None, fields.strip().split(", ")):
            label, number, kind = field.split()
            added = message.field.add(name=label, number=int(number))
            added.label = added.LABEL_REPEATED if kind.startswith("*") else added.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            if kind in _KINDS:
                added.type = _KINDS[kind]
            else:
                added.type = added.TYPE_MESSAGE
                added.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    names = [message.name for message in described.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in names}
