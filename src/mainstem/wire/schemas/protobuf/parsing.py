"""A .proto text as a file descriptor. Names of types stay as they are written; `schema` has them resolved.

Services are read over: nothing of them is in a message.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb

from mainstem.wire.schemas.protobuf.options import read_option, read_options, skip_braces
from mainstem.wire.schemas.protobuf.tokens import Words
from mainstem.wire.schemas.schema import InvalidSchema

DEPTH_MAX = 50
FIELD_MAX = (1 << 29) - 1
ENUM_MAX = (1 << 31) - 1
SCALARS: dict[str, int] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in pb.FieldDescriptorProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
LABELS = {
    "optional": pb.FieldDescriptorProto.LABEL_OPTIONAL,
    "required": pb.FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": pb.FieldDescriptorProto.LABEL_REPEATED,
}


def parse_proto(text: str, name: str) -> Any:
    """A file descriptor. Raises InvalidSchema."""
    return _File(Words(text), name).read()


class _File:
    def __init__(self, words: Words, name: str) -> None:
        self._words = words
        self._file = pb.FileDescriptorProto(name=name)
        self._is_proto3 = False

    def read(self) -> Any:
        words, file = self._words, self._file
        self._syntax()
        while not words.is_done:
            if words.has("package"):
                file.package = words.full_name()
                words.expect(";")
            elif words.has("import"):
                self._import()
            elif words.has("option"):
                read_option(words, file.options)
                words.expect(";")
            elif words.has("message"):
                self._message(file.message_type.add(), 0)
            elif words.has("enum"):
                self._enum(file.enum_type.add())
            elif words.has("extend"):
                self._extend(file.extension, file.message_type, 0)
            elif words.has("service"):
                words.name()
                skip_braces(words)
            elif not words.has(";"):
                raise words.wrong("a message, an enum, an import, an option or a package")
        return file

    def _syntax(self) -> None:
        words = self._words
        if words.has("syntax"):
            words.expect("=")
            syntax = words.string()
            words.expect(";")
            if syntax not in ("proto2", "proto3"):
                raise InvalidSchema(f"the syntax {syntax!r} is not known: proto2 and proto3 are")
            self._is_proto3 = syntax == "proto3"
        elif words.next.text == "edition":
            raise InvalidSchema("editions are not read: proto2 and proto3 are")
        self._file.syntax = "proto3" if self._is_proto3 else "proto2"

    def _import(self) -> None:
        kind = next((kind for kind in ("public", "weak") if self._words.has(kind)), "")
        path = self._words.string()
        if path in self._file.dependency:
            raise InvalidSchema(f"{path!r} is imported twice")
        if kind == "public":
            self._file.public_dependency.append(len(self._file.dependency))
        elif kind == "weak":
            self._file.weak_dependency.append(len(self._file.dependency))
        self._file.dependency.append(path)
        self._words.expect(";")

    # Messages

    def _message(self, message: Any, depth: int) -> None:
        message.name = self._words.name()
        self._body(message, depth)

    def _body(self, message: Any, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"messages are nested more than {DEPTH_MAX} deep")
        words = self._words
        words.expect("{")
        while not words.has("}"):
            if not self._part(message, depth) and not words.has(";"):
                self._field(message, message.field, message.nested_type, depth)
        for field in message.field:
            if field.proto3_optional:  # its own oneof comes after those that are written
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=_unused(f"_{field.name}", message))

    def _part(self, message: Any, depth: int) -> bool:
        """What is no field. A field's type may have the name of a keyword, so the word after it decides."""
        words = self._words
        word = words.next.text
        if word == "message":
            words.take()
            self._message(message.nested_type.add(), depth + 1)
        elif word == "enum":
            words.take()
            self._enum(message.enum_type.add())
        elif word == "extend":
            words.take()
            self._extend(message.extension, message.nested_type, depth)
        elif word == "option":
            words.take()
            read_option(words, message.options)
            words.expect(";")
        elif word == "oneof":
            words.take()
            self._oneof(message, depth)
        elif word == "reserved":
            words.take()
            self._reserved(message, 1, FIELD_MAX)
        elif word == "extensions":
            words.take()
            for start, end in self._ranges(FIELD_MAX):
                message.extension_range.add(start=start, end=end + 1)
            read_options(words, pb.ExtensionRangeOptions())
            words.expect(";")
        else:
            return False
        return True

    def _oneof(self, message: Any, depth: int) -> None:
        words = self._words
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=words.name())
        words.expect("{")
        while not words.has("}"):
            if words.has("option"):
                read_option(words, oneof.options)
                words.expect(";")
            elif not words.has(";"):
                if words.next.text in LABELS or words.next.text == "map":
                    raise words.wrong("a field without a label")
                field = self._field(message, message.field, message.nested_type, depth, in_oneof=True)
                field.oneof_index = index

    def _extend(self, extensions: Any, nested: Any, depth: int) -> None:
        extended = self._words.full_name()
        self._words.expect("{")
        while not self._words.has("}"):
            if not self._words.has(";"):
                self._field(None, extensions, nested, depth).extendee = extended

    def _field(self, message: Any, fields: Any, nested: Any, depth: int, *, in_oneof: bool = False) -> Any:
        words = self._words
        label = words.take().text if words.next.text in LABELS else ""
        if not label and not in_oneof and not self._is_proto3 and words.next.text != "map":
            raise words.wrong("optional, required or repeated")
        if label == "required" and self._is_proto3:
            raise InvalidSchema("proto3 has no required fields")
        field = fields.add(label=LABELS[label or "optional"])
        if label == "optional" and self._is_proto3 and message is not None:
            field.proto3_optional = True
        if words.has("group"):
            self._group(field, nested, depth)
            return field
        kind = words.full_name()
        if kind == "map" and words.next.text == "<":
            if label or message is None:
                raise words.wrong("a map without a label, in a message")
            self._map(field, nested)
        else:
            _set_type(field, kind)
            field.name = words.name()
            self._number(field)
        read_options(words, field.options, field)
        words.expect(";")
        return field

    def _number(self, field: Any) -> None:
        self._words.expect("=")
        number = self._words.number()
        if not 0 < number <= FIELD_MAX:
            raise InvalidSchema(f"the field {field.name!r} has the number {number}: 1 to {FIELD_MAX} can be")
        field.number = number

    def _group(self, field: Any, nested: Any, depth: int) -> None:
        name = self._words.name()
        field.type, field.type_name, field.name = pb.FieldDescriptorProto.TYPE_GROUP, name, name.lower()
        self._number(field)
        read_options(self._words, field.options, field)
        message = nested.add(name=name)
        self._body(message, depth + 1)

    def _map(self, field: Any, nested: Any) -> None:
        words = self._words
        words.expect("<")
        key = words.full_name()
        if SCALARS.get(key) is None or key in ("float", "double", "bytes"):
            raise InvalidSchema(f"the key of a map cannot be {key!r}")
        words.expect(",")
        value = words.full_name()
        words.expect(">")
        field.name = words.name()
        self._number(field)
        name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        entry = nested.add(name=name)
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            inner = entry.field.add(name=part, number=number, label=LABELS["optional"])
            _set_type(inner, kind)
        field.label, field.type_name = LABELS["repeated"], name

    # Enums and ranges

    def _enum(self, enum: Any) -> None:
        words = self._words
        enum.name = words.name()
        words.expect("{")
        while not words.has("}"):
            if words.has("option"):
                read_option(words, enum.options)
                words.expect(";")
            elif words.has("reserved"):
                self._reserved(enum, 0, ENUM_MAX)
            elif not words.has(";"):
                value = enum.value.add(name=words.name())
                words.expect("=")
                number = words.number()
                if not -ENUM_MAX - 1 <= number <= ENUM_MAX:
                    raise InvalidSchema(f"the value {value.name!r} of {enum.name!r} has a number that cannot be")
                value.number = number
                read_options(words, value.options)
                words.expect(";")

    def _reserved(self, owner: Any, beyond: int, most: int) -> None:
        """Of a message, ranges end before their end (`beyond` is 1)."""
        words = self._words
        if words.next.kind in ("text", "name"):
            owner.reserved_name.append(self._reserved_name())
            while words.has(","):
                owner.reserved_name.append(self._reserved_name())
        else:
            for start, end in self._ranges(most):
                owner.reserved_range.add(start=start, end=end + beyond)
        words.expect(";")

    def _reserved_name(self) -> str:
        return self._words.string() if self._words.next.kind == "text" else self._words.name()

    def _ranges(self, most: int) -> list[tuple[int, int]]:
        words = self._words
        found = []
        while True:
            start = words.number()
            end = start
            if words.has("to"):
                end = most if words.has("max") else words.number()
            if not -most - 1 <= start <= end <= most:
                raise InvalidSchema(f"the range {start} to {end} cannot be")
            found.append((start, end))
            if not words.has(","):
                return found


def _set_type(field: Any, kind: str) -> None:
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type_name = kind


def _unused(name: str, message: Any) -> str:
    names = {oneof.name for oneof in message.oneof_decl} | {field.name for field in message.field}
    while name in names:
        name = "X" + name
    return name
