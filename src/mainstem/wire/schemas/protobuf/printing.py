"""A file descriptor as text: the same text for the same descriptor."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor

from mainstem.wire.schemas.protobuf.parsing import ENUM_MAX, FIELD_MAX

_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_TYPES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in pb.FieldDescriptorProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}


def print_proto(file: Any, *, is_sorted: bool = False, with_dots: bool = False) -> str:
    """Its text. Sorted: fields and values by number, imports by name. With dots: every name of a type is whole."""
    return _Printer(file, is_sorted=is_sorted, with_dots=with_dots).print()


class _Printer:
    def __init__(self, file: Any, *, is_sorted: bool, with_dots: bool) -> None:
        self._file = file
        self._is_sorted = is_sorted
        self._with_dots = with_dots
        self._is_proto3 = file.syntax == "proto3"
        self._lines: list[str] = []

    def print(self) -> str:
        file = self._file
        self._say(0, f'syntax = "{file.syntax or "proto2"}";')
        if file.package:
            self._say(0, f"package {file.package};")
        imports = []
        for number, name in enumerate(file.dependency):
            kind = "public " if number in file.public_dependency else "weak " if number in file.weak_dependency else ""
            imports.append(f"import {kind}{_quote(name)};")
        if imports:
            self._lines += ["", *(sorted(imports) if self._is_sorted else imports)]
        options = self._options(file.options)
        if options:
            self._lines += ["", *(f"option {option};" for option in options)]
        for message in file.message_type:
            self._lines.append("")
            self._message(message, 0)
        for enum in file.enum_type:
            self._lines.append("")
            self._enum(enum, 0)
        self._extensions(file.extension, [], 0)
        return "\n".join(self._lines) + "\n"

    def _say(self, depth: int, text: str) -> None:
        self._lines.append("  " * depth + text)

    def _message(self, message: Any, depth: int, head: str = "") -> None:
        self._say(depth, (head or f"message {message.name}") + " {")
        maps = {f".{inner.name}": inner for inner in message.nested_type if inner.options.map_entry}
        groups = self._groups(message)
        for option in self._options(message.options):
            self._say(depth + 1, f"option {option};")
        self._reserved(message, depth + 1, 1, FIELD_MAX)
        for extensions in message.extension_range:
            self._say(depth + 1, f"extensions {_range(extensions.start, extensions.end - 1, FIELD_MAX)};")
        fields = sorted(message.field, key=lambda field: field.number) if self._is_sorted else message.field
        done: set[int] = set()
        for field in fields:
            if field.HasField("oneof_index") and not field.proto3_optional:
                if field.oneof_index not in done:
                    done.add(field.oneof_index)
                    self._oneof(message, field.oneof_index, fields, maps, groups, depth + 1)
            else:
                self._field(field, maps, groups, depth + 1)
        for inner in message.nested_type:
            if not inner.options.map_entry and inner.name not in groups:
                self._message(inner, depth + 1)
        for enum in message.enum_type:
            self._enum(enum, depth + 1)
        self._extensions(message.extension, message.nested_type, depth + 1)
        self._say(depth, "}")

    def _groups(self, message: Any) -> dict[str, Any]:
        names = {
            field.type_name.rpartition(".")[2]
            for field in (*message.field, *message.extension)
            if field.type == pb.FieldDescriptorProto.TYPE_GROUP
        }
        return {inner.name: inner for inner in message.nested_type if inner.name in names}

    def _oneof(self, message: Any, index: int, fields: Any, maps: Any, groups: Any, depth: int) -> None:
        oneof = message.oneof_decl[index]
        self._say(depth, f"oneof {oneof.name} {{")
        for option in self._options(oneof.options):
            self._say(depth + 1, f"option {option};")
        for field in fields:
            if field.HasField("oneof_index") and field.oneof_index == index:
                self._field(field, maps, groups, depth + 1, is_bare=True)
        self._say(depth, "}")

    def _field(self, field: Any, maps: Any, groups: Any, depth: int, *, is_bare: bool = False) -> None:
        label = "" if is_bare else f"{_LABELS[field.label]} "
        if self._is_proto3 and field.label == 1 and not field.proto3_optional:
            label = ""
        options = self._options(field.options)
        if field.HasField("default_value"):
            options.insert(0, f"default = {self._default(field)}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options.insert(0, f"json_name = {_quote(field.json_name)}")
        tail = f" = {field.number}" + (f" [{', '.join(options)}]" if options else "")
        if field.type == pb.FieldDescriptorProto.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            if name in groups:
                self._message(groups[name], depth, f"{label}group {name}{tail}")
                return
        entry = maps.get("." + field.type_name.rpartition(".")[2]) if field.label == 3 else None
        if entry is not None:
            key, value = (self._type(part) for part in entry.field)
            self._say(depth, f"map<{key}, {value}> {field.name}{tail};")
        else:
            self._say(depth, f"{label}{self._type(field)} {field.name}{tail};")

    def _type(self, field: Any) -> str:
        if not field.type_name:
            return str(_TYPES[field.type])
        name = str(field.type_name)
        if self._with_dots:
            return name
        if self._file.package:
            name = name.removeprefix(f".{self._file.package}.")
        return name.removeprefix(".")

    def _default(self, field: Any) -> str:
        if field.type == pb.FieldDescriptorProto.TYPE_STRING:
            return _quote(field.default_value)
        if field.type == pb.FieldDescriptorProto.TYPE_BYTES:
            return f'"{field.default_value}"'
        return str(field.default_value)

    def _enum(self, enum: Any, depth: int) -> None:
        self._say(depth, f"enum {enum.name} {{")
        for option in self._options(enum.options):
            self._say(depth + 1, f"option {option};")
        self._reserved(enum, depth + 1, 0, ENUM_MAX)
        # the first value of an enum is its default: it stays the first
        values = [enum.value[0], *sorted(enum.value[1:], key=lambda one: one.number)] if self._is_sorted else enum.value
        for value in values:
            options = self._options(value.options)
            tail = f" [{', '.join(options)}]" if options else ""
            self._say(depth + 1, f"{value.name} = {value.number}{tail};")
        self._say(depth, "}")

    def _reserved(self, owner: Any, depth: int, beyond: int, most: int) -> None:
        if owner.reserved_range:
            ranges = (_range(one.start, one.end - beyond, most) for one in owner.reserved_range)
            self._say(depth, f"reserved {', '.join(ranges)};")
        if owner.reserved_name:
            self._say(depth, f"reserved {', '.join(_quote(name) for name in owner.reserved_name)};")

    def _extensions(self, extensions: Any, nested: Any, depth: int) -> None:
        groups = {inner.name: inner for inner in nested}
        for field in extensions:
            self._say(depth, f"extend {field.extendee if self._with_dots else field.extendee.removeprefix('.')} {{")
            self._field(field, {}, groups, depth + 1)
            self._say(depth, "}")

    def _options(self, options: Any) -> list[str]:
        found = []
        for known, value in options.ListFields():
            if known.name in ("uninterpreted_option", "map_entry"):
                continue
            for one in value if known.is_repeated else [value]:
                found.append(f"{known.name} = {_plain(known, one)}")
        for option in options.uninterpreted_option:
            name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)
            found.append(f"{name} = {_custom(option)}")
        return sorted(found) if self._is_sorted else found


def _plain(known: Any, value: Any) -> str:
    if known.enum_type is not None:
        return str(known.enum_type.values_by_number[value].name)
    if known.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _quote(value)
    return str(value).lower()


def _custom(option: Any) -> str:
    if option.HasField("aggregate_value"):
        return f"{{ {option.aggregate_value} }}"
    if option.HasField("string_value"):
        return _quote_bytes(option.string_value)
    if option.HasField("identifier_value"):
        return str(option.identifier_value)
    for name in ("positive_int_value", "negative_int_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    number = repr(option.double_value)
    return f"{number[:-2]}.0" if number.endswith(".0") else number


def _quote(text: str) -> str:
    return _quote_bytes(text.encode())


def _quote_bytes(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'\\"' else f"\\{byte:03o}" for byte in data)
        return f'"{text}"'
    escaped = (char if char >= " " and char not in '\\"' else f"\\{ord(char):03o}" for char in text)
    return f'"{"".join(escaped)}"'


def _range(start: int, end: int, most: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end == most else end}"


def _json_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
