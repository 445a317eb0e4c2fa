"""Whether one Protobuf schema reads what another wrote: what the wire format lets change.

Fields are compared by their numbers, messages by their names without the package. What is added is left over or absent; what is
incompatible is a number whose bytes mean something else, a message that is no more, and what oneofs and required fields exclude.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2 as pb

from mainstem.wire.schemas.schema import Difference, InvalidSchema

STEPS_MAX = 200_000
"""Fields that one comparison looks at."""
_F = pb.FieldDescriptorProto
_GROUPS = {
    "general number": (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM),
    "signed number": (_F.TYPE_SINT32, _F.TYPE_SINT64),
    "string or bytes": (_F.TYPE_STRING, _F.TYPE_BYTES),
    "32 fixed bits": (_F.TYPE_FIXED32, _F.TYPE_SFIXED32),
    "64 fixed bits": (_F.TYPE_FIXED64, _F.TYPE_SFIXED64),
    "float": (_F.TYPE_FLOAT,),
    "double": (_F.TYPE_DOUBLE,),
}
GROUP_OF = {number: name for name, numbers in _GROUPS.items() for number in numbers}
"""Types of one group have the same bytes."""


class NamedMessage(NamedTuple):
    """A message and where it is from."""

    local_name: str
    """Without the package."""
    message: Any
    is_own: bool
    """Whether the schema itself defines it."""


class FileTypes:
    """The messages of a schema and of all that it imports, by their full names."""

    def __init__(self, own: Any, files: Mapping[str, Any]) -> None:
        self.own = own
        self.messages: dict[str, NamedMessage] = {}
        for file in files.values():
            prefix = f".{file.package}." if file.package else "."
            for message in file.message_type:
                self._collect(prefix, message.name, message, is_own=file is own)

    def _collect(self, prefix: str, local_name: str, message: Any, *, is_own: bool) -> None:
        self.messages[prefix + local_name] = NamedMessage(local_name, message, is_own)
        for inner in message.nested_type:
            self._collect(prefix, f"{local_name}.{inner.name}", inner, is_own=is_own)


def compare_proto(reader: FileTypes, writer: FileTypes) -> list[Difference]:
    """Why `reader` cannot read what `writer` wrote."""
    return _Comparison(reader, writer).compare()


class _Comparison:
    def __init__(self, reader: FileTypes, writer: FileTypes) -> None:
        self._reader = reader
        self._writer = writer
        self._found: list[Difference] = []
        self._seen: set[tuple[str, str]] = set()
        self._steps = 0

    def compare(self) -> list[Difference]:
        self._types(self._reader.own.message_type, self._writer.own.message_type, "#")
        return self._found

    def _note(self, kind: str, path: str, sentence: str) -> None:
        self._found.append(Difference(kind, f"{path}/", sentence))

    def _types(self, reading: Any, written: Any, path: str) -> None:
        read = {message.name: message for message in reading}
        for message in written:
            if message.options.map_entry:
                continue
            if message.name not in read:
                self._note("MESSAGE_REMOVED", f"{path}/{message.name}", f"the message {message.name} is removed")
            else:
                self._message(read[message.name], message, f"{path}/{message.name}")

    def _message(self, reading: Any, written: Any, path: str) -> None:
        before = {field.number: field for field in written.field}
        after = {field.number: field for field in reading.field}
        self._oneofs(reading, written, before, path)
        for number in sorted(before.keys() | after.keys()):
            self._steps += 1
            if self._steps > STEPS_MAX:
                raise InvalidSchema("the schemas are too large to compare")
            old, new = before.get(number), after.get(number)
            place = f"{path}/{number}"
            if old is not None and new is not None:
                self._field(new, old, place)
            elif new is None and old is not None:
                if old.label == _F.LABEL_REQUIRED:
                    self._note("REQUIRED_FIELD_REMOVED", place, f"the required field {old.name!r} is removed")
            elif new is not None and new.label == _F.LABEL_REQUIRED:
                self._note("REQUIRED_FIELD_ADDED", place, f"the required field {new.name!r} is added")
        self._types(reading.nested_type, written.nested_type, path)

    def _oneofs(self, reading: Any, written: Any, before: Mapping[int, Any], path: str) -> None:
        kept = {field.number for field in reading.field}
        remaining = {one.name for one in reading.oneof_decl}
        for field in written.field:
            name = _oneof_of(written, field)
            if name and name in remaining and field.number not in kept:
                sentence = f"the field {field.name!r} of the oneof {name!r} is removed"
                self._note("ONEOF_FIELD_REMOVED", f"{path}/{name}/{field.number}", sentence)
        for index, oneof in enumerate(reading.oneof_decl):
            members = [one for one in reading.field if one.HasField("oneof_index") and one.oneof_index == index]
            if any(one.proto3_optional for one in members):
                continue
            old = [before[one.number] for one in members if one.number in before]
            moved = [one for one in old if not _oneof_of(written, one)]
            if len(moved) > 1:
                sentence = f"several fields are moved into the oneof {oneof.name!r}"
                self._note("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof.name}", sentence)
            elif moved and len(old) > 1:
                sentence = f"the field {moved[0].name!r} is moved into the oneof {oneof.name!r}, which is not new"
                self._note("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof.name}", sentence)

    def _field(self, new: Any, old: Any, path: str) -> None:
        new_entry, old_entry = self._entry(self._reader, new), self._entry(self._writer, old)
        kinds = _kind(new, new_entry), _kind(old, old_entry)
        if kinds[0] != kinds[1]:
            sentence = f"the field {old.name!r} is of another kind: {kinds[1]} becomes {kinds[0]}"
            self._note("FIELD_KIND_CHANGED", path, sentence)
        elif new_entry is not None and old_entry is not None:
            for one, other in zip(new_entry.field, old_entry.field, strict=True):
                self._field(one, other, path)
        elif kinds[0] in ("message", "group"):
            self._named(new, old, path)
        elif GROUP_OF[new.type] != GROUP_OF[old.type]:
            sentence = f"the field {old.name!r} becomes a {GROUP_OF[new.type]} from a {GROUP_OF[old.type]}"
            self._note("FIELD_SCALAR_KIND_CHANGED", path, sentence)
        elif GROUP_OF[new.type] != "string or bytes" and _is_list(new) != _is_list(old):
            sentence = f"the field {old.name!r} is repeated in one schema and not in the other"
            self._note("FIELD_NUMERIC_LABEL_CHANGED", path, sentence)

    def _entry(self, types: FileTypes, field: Any) -> Any:
        """The pair that a map consists of."""
        if field.label != _F.LABEL_REPEATED or field.type != _F.TYPE_MESSAGE:
            return None
        message = types.messages[field.type_name].message
        return message if message.options.map_entry else None

    def _named(self, new: Any, old: Any, path: str) -> None:
        reading, written = self._reader.messages[new.type_name], self._writer.messages[old.type_name]
        if reading.local_name != written.local_name:
            sentence = f"the field {old.name!r} becomes a {reading.local_name} from a {written.local_name}"
            self._note("FIELD_NAMED_TYPE_CHANGED", path, sentence)
        elif not (reading.is_own and written.is_own) and (new.type_name, old.type_name) not in self._seen:
            self._seen.add((new.type_name, old.type_name))
            before = len(self._found)
            self._message(reading.message, written.message, path)
            if len(self._found) > before:
                sentence = f"the type {reading.local_name} of the field {old.name!r} is not compatible"
                self._note("FIELD_NAMED_TYPE_CHANGED", path, sentence)


def _kind(field: Any, entry: Any) -> str:
    if entry is not None:
        return "map"
    if field.type == _F.TYPE_GROUP:
        return "group"
    return "message" if field.type == _F.TYPE_MESSAGE else "scalar"


def _is_list(field: Any) -> bool:
    return bool(field.label == _F.LABEL_REPEATED)


def _oneof_of(message: Any, field: Any) -> str:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)
