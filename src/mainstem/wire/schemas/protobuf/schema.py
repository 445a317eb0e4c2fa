"""A Protobuf schema that was read: its own file, and those that it imports."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError

from mainstem.wire.schemas.protobuf.comparison import FileTypes, compare_proto
from mainstem.wire.schemas.protobuf.parsing import parse_proto
from mainstem.wire.schemas.protobuf.printing import print_proto
from mainstem.wire.schemas.protobuf.well_known import well_known_file
from mainstem.wire.schemas.schema import Difference, InvalidSchema, Texts, unknown_form

OWN_NAME = "default.proto"
_BASE64 = re.compile(r"\s*[A-Za-z0-9+/\s]{4,}={0,2}\s*")


class ProtobufSchema:
    """See `schema.Parsed`."""

    def __init__(self, text: str, texts: Texts) -> None:
        self._texts = texts
        self.pool: Any = descriptor_pool.DescriptorPool()
        self._files: dict[str, Any] = {}
        """All files with their names resolved, by their names in imports."""
        self._under_way: set[str] = set()
        file = _read(text, OWN_NAME)
        file.name = _own_name(texts, file)
        self.file = self._add(file)
        self.canonical = self._print(is_sorted=False)
        self.normal = self._print(is_sorted=True)
        self.types = FileTypes(self.file, self._files)

    @property
    def descriptor(self) -> Any:
        """Of the file, for messages of its types."""
        return self.pool.FindFileByName(self.file.name)

    @property
    def files(self) -> list[Any]:
        """Descriptors of all files, each after what it imports."""
        return list(self._files.values())

    def message_at(self, path: Sequence[int]) -> str | None:
        """The full name of a message by its place in the file, then in the message around it."""
        messages, names = self.file.message_type, [self.file.package] if self.file.package else []
        for index in path:
            if not 0 <= index < len(messages):
                return None
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return ".".join(names)

    def text_in(self, form: str) -> str:
        """`serialized`: the file's descriptor in base64."""
        if form != "serialized":
            raise unknown_form(form)
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()

    def differences(self, written: ProtobufSchema) -> list[Difference]:
        """By what the wire format lets change."""
        return compare_proto(self.types, written.types)

    def _add(self, file: Any) -> Any:
        """Into the pool, after what it imports; answers it with its names resolved."""
        self._under_way.add(file.name)
        for name in file.dependency:
            if name in self._files:
                continue
            if name in self._under_way:
                raise InvalidSchema(f"the imports of {name!r} lead back to it")
            self._add(self._imported(name))
        self._under_way.discard(file.name)
        try:
            self.pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise InvalidSchema(_reason(error)) from None
        resolved = pb.FileDescriptorProto()
        self.pool.FindFileByName(file.name).CopyToProto(resolved)
        self._files[file.name] = resolved
        return resolved

    def _imported(self, name: str) -> Any:
        text = self._texts.get(name)
        if text is not None:
            try:
                file = _read(text, name)
            except InvalidSchema as error:
                raise InvalidSchema(f"in the reference {name!r}: {error}") from None
            file.name = name
            return file
        file = well_known_file(name)
        if file is None:
            raise InvalidSchema(f"{name!r} is imported, and no reference has this name")
        return file

    def _print(self, *, is_sorted: bool) -> str:
        text = print_proto(self.file, is_sorted=is_sorted)
        # A short name may mean another type where a nested one has it too: then names are written whole.
        if not is_sorted and not self._means_the_same(text):
            return print_proto(self.file, with_dots=True)
        if is_sorted and self.canonical.count(" .") and not self._means_the_same(text):
            return print_proto(self.file, is_sorted=True, with_dots=True)
        return text

    def _means_the_same(self, text: str) -> bool:
        again = _read(text, self.file.name)
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in self._files.values():
                if file.name != self.file.name:
                    pool.AddSerializedFile(file.SerializeToString())
            pool.AddSerializedFile(again.SerializeToString())
        except TypeError:
            return False
        resolved = pb.FileDescriptorProto()
        pool.FindFileByName(self.file.name).CopyToProto(resolved)
        return _type_names(resolved) == _type_names(self.file)


def _read(text: str, name: str) -> Any:
    if _BASE64.fullmatch(text):
        try:
            file = pb.FileDescriptorProto.FromString(base64.b64decode("".join(text.split()), validate=True))
        except (binascii.Error, ValueError, DecodeError):
            raise InvalidSchema("neither a .proto text nor a file descriptor in base64") from None
        if file.syntax not in ("", "proto2", "proto3"):
            raise InvalidSchema("editions are not read: proto2 and proto3 are")
        file.ClearField("service")
        file.ClearField("source_code_info")
        return file
    return parse_proto(text, name)


def _own_name(texts: Texts, file: Any) -> str:
    name = OWN_NAME
    while name in texts or name in file.dependency:
        name = "_" + name
    return name


def _type_names(file: Any) -> list[str]:
    found: list[str] = []
    waiting = list(file.message_type)
    found += [one.type_name for one in file.extension]
    while waiting:
        message = waiting.pop()
        found += [field.type_name for field in (*message.field, *message.extension)]
        waiting += message.nested_type
    return sorted(found)


def _reason(error: TypeError) -> str:
    return "the types do not fit together: " + str(error).partition("descriptor pool: ")[2] or str(error)
